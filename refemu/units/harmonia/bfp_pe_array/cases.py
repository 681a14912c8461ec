"""Golden cases of bfp_pe_array: tiles of every mode and shape [harmonia §IV-C, Fig. 14a]."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from refemu.units import Config, find
from refemu.units.harmonia.bfp_accumulator import cases as bfp_accumulator_cases
from refemu.units.harmonia.bfp_pe import cases as bfp_pe_cases
from refemu.units.stimuli import Block, Blocks, Inputs, Seeds, filled, first_of_each, uniform

W4, M4, M8 = range(3)  # modes
ROWS, COLUMNS, LANES = 8, 16, 32


def paper(config: Config, seed: Seeds) -> Blocks:
    why = "[harmonia §IV-C] one full tile in each mode: columns valid one after the other"
    yield why, _tiles(config, _drawn(config, seed, 0, 3), range(3))


def edge(config: Config, seed: Seeds) -> Blocks:
    """Tiles of every shape, flags of every PE, sums at which variants of decisions differ."""
    groups = config["groups"]
    why = "a tile of 1 row, of 1 column, of 5 rows by 11 columns"
    yield why, _tiles(config, _drawn(config, seed, 3, 6), (W4, M8, M4), ((1, 16), (8, 1), (5, 11)))
    mixed = np.where(np.arange(groups) % 2 == np.arange(2)[:, None], M8, M4)
    why = "modes mixed in a reduction, as for values of both precisions"
    yield why, legal(config, _drawn(config, seed, 6, 8) | _shape(groups, (M4, M8)) | {"mode": mixed}), "D-harmonia-36"
    top = filled("bfp_pe_array", config, 2, a_mag=255, b=255, a_exp=30, b_exp=30, w_scale=0x3C00)
    yield "the largest sums at the largest exponents: beyond FP16", _tiles(config, top, (W4, M8)), "D-harmonia-7"
    sizes = ((2, 3), (7, 15), (3, 8), (8, 16), (4, 1), (1, 2))
    yield "tiles of other shapes", _tiles(config, _drawn(config, seed, 9, 15), (M8, W4, M4, W4, M8, M4), sizes)
    rows = np.vstack([np.arange(ROWS) >> np.arange(3)[:, None] & 1, np.ones(ROWS, np.int64)])
    masks = {"row_valid": rows, "col_valid": np.arange(COLUMNS) >> np.array([[1], [2], [3], [0]]) & 1}
    yield "masks with gaps", _tiles(config, _drawn(config, seed, 15, 19), (M4, M8, W4, M8)) | masks
    if config["partial"] == "fp16":  # others have no flags
        yield _flags(config)
    why = "weights, every PE with the same operands: words whose last bits are used, in each of them"
    yield why, _tiles(config, _repeated(config, _drawn(config, seed, 0, 8)), [W4] * 8)
    uneven = np.full((4, ROWS, groups, LANES), 255)
    uneven[..., -1] = 252 + np.arange(ROWS)[:, None] % 4
    factors = np.array([0x3FFF, 0x35AB, 0x37FF, 0x2C67])[:, None] + np.arange(COLUMNS * groups) // groups
    negative = np.arange(ROWS * groups * LANES) // LANES % groups % 2
    opposite = {"a_mag": uneven.reshape(4, -1), "a_sign": negative, "b": 7, "w_scale": factors}
    why = "a sum and its negative cancel exactly, since each product is rounded before it is added"
    yield why, _tiles(config, _uniform(config, 4, **opposite), [W4] * 4), "D-harmonia-10"
    first = np.arange(ROWS * groups * LANES) % LANES == 0
    least = filled("bfp_pe_array", config, 4, a_mag=first, a_sign=1, b=1)
    why = "values of -0 in every PE: an accumulator starts from +0"
    yield why, _tiles(config, least, (W4, M4, M8, M4)), "D-arith-5"


def random(config: Config, seed: Seeds) -> Blocks:
    drawn = _near(config, uniform("bfp_pe_array", config, (24,), seed))
    count = 6 if config["partial"] == "fp16" else 2
    yield "exponents and factors as in real tensors", legal(config, first_of_each(drawn, 24, count))
    wide = legal(config, uniform("bfp_pe_array", config, (24,), seed) | {"mode": drawn["mode"]})
    yield "uniform exponents and factors: flags and infinities", legal(config, first_of_each(wide, 24, 2))


def _drawn(config: Config, seed: Seeds, first: int, last: int) -> dict[str, np.ndarray]:
    """Some of the 24 drawn tiles."""
    drawn = _near(config, uniform("bfp_pe_array", config, (24,), seed))
    return {port: array[first:last] for port, array in drawn.items()}


def _tiles(config: Config, inputs: Inputs, modes: Sequence[int], sizes: Any = None) -> dict[str, np.ndarray]:
    """Tiles of one mode each, full without `sizes`."""
    return legal(config, {**inputs, **_shape(config["groups"], modes, sizes)})


def _uniform(config: Config, tiles: int, **words: Any) -> dict[str, np.ndarray]:
    """Tiles of 1 in every element of a and b, exponents 15, but for some words."""
    ones = {"a_mag": 1, "b": 1, "a_exp": 15, "b_exp": 15, "w_scale": 0x3C00}
    return filled("bfp_pe_array", config, tiles, **ones | words)


def _repeated(config: Config, drawn: Inputs) -> dict[str, np.ndarray]:
    """Drawn tiles with the operands of the first row and column in all of them."""
    tiles = {}
    for port in find("bfp_pe_array").ports(config).inputs:
        if port.name != "mode":
            times = ROWS if port.name.startswith(("a_", "row_")) else COLUMNS
            tiles[port.name] = np.tile(drawn[port.name][:, : port.count // times], times)
    return tiles | {"w_scale": tiles["w_scale"] | 1}


def _flags(config: Config) -> Block:
    """Overflow in the PEs whose row or column has a bit of its number set, or cleared, and underflow in the others."""
    groups, bits = config["groups"], [*range(3), *range(4)]
    tiles = 2 * len(bits)
    by_row = np.arange(tiles) < 2 * 3
    place = np.arange(COLUMNS) >> np.array(bits).repeat(2)[:, None] & 1  # a row's number is below that of a column
    chosen = place == np.arange(tiles)[:, None] % 2
    operands = _side("a", chosen[:, :ROWS], by_row, groups) | _side("b", chosen, ~by_row, groups)
    turn = np.arange(groups) % 2 == 1
    signs = {"a_sign": np.tile(turn.repeat(LANES), (tiles, ROWS)).astype(np.int64)}
    why = "infinity minus infinity" if groups > 1 else "infinity"
    why += " in some rows and columns, numbers with a bit set or cleared, and sums too small for FP16 in the others"
    return why, _tiles(config, _uniform(config, tiles) | operands | signs, [M8] * tiles), "D-harmonia-7"


def _side(name: str, chosen: np.ndarray, varied: np.ndarray, groups: int) -> dict[str, np.ndarray]:
    """One operand of M8 tiles: where `varied` the largest if `chosen`, else the least; 1 at exponent 18 in the others.

    chosen: bool (tiles, rows or columns); varied: bool (tiles,).
    """
    ends = np.where(chosen[..., None], 255, np.arange(LANES) == 0)
    magnitudes = np.where(varied[:, None, None], ends, 1).repeat(groups, axis=1)
    exponents = np.where(varied[:, None], np.where(chosen, 30, 0), 18).repeat(groups, axis=1)
    return {f"{name}_exp": exponents, ("a_mag" if name == "a" else "b"): magnitudes.reshape(len(chosen), -1)}


def _shape(groups: int, modes: Sequence[int], sizes: Any = None) -> dict[str, np.ndarray]:
    """Modes and masks of tiles, full tiles without `sizes`."""
    height, width = np.array(sizes if sizes else [(ROWS, COLUMNS)] * len(modes)).T[..., None]
    masks = {"row_valid": np.arange(ROWS) < height, "col_valid": np.arange(COLUMNS) < width}
    return {"mode": np.repeat(modes, groups).reshape(-1, groups)} | {name: mask * 1 for name, mask in masks.items()}


def _near(config: Config, drawn: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Draws with common modes, exponents and factors."""
    exponents = {"a_exp": 12 + (drawn["a_exp"] & 7), "b_exp": 10 + (drawn["b_exp"] & 7)}
    near = {"mode": drawn["mode"] % 3, **exponents, "w_scale": 0x2000 + (drawn["w_scale"] & 0xFFF)}
    return legal(config, drawn | near)


def legal(config: Config, inputs: Inputs) -> dict[str, np.ndarray]:
    """`inputs` with 0 where the mode has no field and with finite weight factors."""
    tiles, groups = np.shape(inputs["row_valid"])[:-1], config["groups"]
    mode = np.broadcast_to(np.reshape(inputs["mode"], (*tiles, 1, groups)), (*tiles, COLUMNS, groups))
    split = {
        port: np.reshape(inputs[port], mode.shape + ((LANES,) if port in ("b", "b_sign") else ()))
        for port in ("b", "b_sign", "b_exp", "w_scale")
    }
    fitted = bfp_pe_cases.legal(config, {"mode": mode, **split})
    return {**inputs, **{port: fitted[port].reshape(np.shape(inputs[port])) for port in split}}


def mark(config: Config, inputs: Inputs, result: Any) -> dict[str, np.ndarray]:
    """Tiles of each flag, in some valid element."""
    flags = bfp_accumulator_cases.mark(config, inputs, result)
    return {name: np.asarray((flag & result.valid).any(axis=-1)) for name, flag in flags.items()}
