"""Golden cases of bfp_pe_array: tiles of every mode and shape [harmonia §IV-C, Fig. 14a]."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from refemu.units import Config, find
from refemu.units.harmonia.bfp_accumulator import cases as bfp_accumulator_cases
from refemu.units.harmonia.bfp_pe import cases as bfp_pe_cases
from refemu.units.stimuli import Block, Blocks, Inputs, Seeds, filled, first_of_each, uniform

W4, M4, M8 = range(3)  # modes
ROWS, COLUMNS, LANES = 8, 16, 32


def paper(config: Config, seed: Seeds) -> Blocks:
    groups = config["groups"]
    drawn = legal(config, _near(uniform("bfp_pe_array", config, (24,), seed)))
    inputs = {port: array[:3] for port, array in drawn.items()}
    why = "[harmonia §IV-C] one full tile in each mode: columns valid one after the other"
    yield why, legal(config, inputs | _shape(3, groups, range(3)))


def edge(config: Config, seed: Seeds) -> Blocks:
    groups = config["groups"]
    drawn = legal(config, _near(uniform("bfp_pe_array", config, (24,), seed)))
    inputs = {port: array[3:6] for port, array in drawn.items()}
    why = "a tile of 1 row, of 1 column, of 5 rows by 11 columns"
    yield why, legal(config, inputs | _shape(3, groups, (W4, M8, M4), ((1, 16), (8, 1), (5, 11))))
    mixed = np.where(np.arange(groups) % 2 == np.arange(2)[:, None], M8, M4)
    inputs = {port: array[6:8] for port, array in drawn.items()} | _shape(2, groups, (M4, M8))
    why = "modes mixed in a reduction, as for values of both precisions"
    yield why, legal(config, inputs | {"mode": mixed}), "D-harmonia-36"
    top = {port: array[:2] * 0 + 255 for port, array in drawn.items() if port in ("a_mag", "b")}
    ends = {
        port: drawn[port][:2] * 0 + value
        for port, value in (("a_sign", 0), ("a_exp", 30), ("b_sign", 0), ("b_exp", 30), ("w_scale", 0x3C00))
    }
    why = "the largest sums at the largest exponents: beyond FP16"
    few = {port: array[:2] for port, array in drawn.items()}
    yield why, legal(config, few | top | ends | _shape(2, groups, (W4, M8))), "D-harmonia-7"
    yield from _edge(config, drawn)


def random(config: Config, seed: Seeds) -> Blocks:
    drawn = legal(config, _near(uniform("bfp_pe_array", config, (24,), seed)))
    count = 6 if config["partial"] == "fp16" else 2
    yield "exponents and factors as in real tensors", legal(config, first_of_each(drawn, 24, count))
    wide = legal(config, uniform("bfp_pe_array", config, (24,), seed) | {"mode": drawn["mode"]})
    some = first_of_each(wide, 24, 2)
    yield "uniform exponents and factors: flags and infinities", legal(config, some)


def _edge(config: Config, drawn: Mapping[str, np.ndarray]) -> Blocks:
    """Tiles of every shape, flags of every PE, sums at which variants of decisions differ."""
    groups = config["groups"]
    inputs = {port: array[9:15] for port, array in drawn.items()}
    sizes = ((2, 3), (7, 15), (3, 8), (8, 16), (4, 1), (1, 2))
    shape = _shape(6, groups, (M8, W4, M4, W4, M8, M4), sizes)
    yield "tiles of other shapes", legal(config, inputs | shape)
    masks = {
        "row_valid": np.vstack([np.arange(ROWS) >> np.arange(3)[:, None] & 1, np.ones(ROWS, np.int64)]),
        "col_valid": np.arange(COLUMNS) >> np.array([[1], [2], [3], [0]]) & 1,
    }
    inputs = {port: array[15:19] for port, array in drawn.items()}
    yield "masks with gaps", legal(config, inputs | _shape(4, groups, (M4, M8, W4, M8)) | masks)
    if config["partial"] == "fp16":  # others have no flags
        yield _flags(config)
    why = "weights, every PE with the same operands: words whose last bits are used, in each of them"
    yield why, legal(config, _repeated(config, drawn, 8) | _shape(8, groups, [W4] * 8))
    count = 4
    base = _uniform(config, count)
    uneven = np.full((count, ROWS, groups, LANES), 255)
    uneven[..., -1] = 252 + np.arange(ROWS)[:, None] % 4
    factors = np.array([0x3FFF, 0x35AB, 0x37FF, 0x2C67])[:, None] + np.arange(COLUMNS * groups) // groups
    negative = np.broadcast_to(np.arange(groups)[:, None] % 2, (*uneven.shape[1:3], LANES))
    opposite = {
        "a_mag": uneven.reshape(count, -1),
        "a_sign": np.broadcast_to(negative, uneven.shape).reshape(count, -1),
        "b": 0 * base["b"] + 7,
        "w_scale": factors,
    }
    why = "a sum and its negative cancel exactly, since each product is rounded before it is added"
    yield why, legal(config, base | opposite | _shape(count, groups, [W4] * count)), "D-harmonia-10"
    zero = {
        "a_mag": 0 * base["a_mag"] + (np.arange(base["a_mag"].shape[-1]) % LANES == 0),
        "a_sign": 0 * base["a_sign"] + 1,
    }
    least = zero | {"a_exp": 0 * base["a_exp"], "b_exp": 0 * base["b_exp"], "b": 0 * base["b"] + 1}
    least |= {"w_scale": 0 * base["w_scale"]}
    why = "values of -0 in every PE: an accumulator starts from +0"
    yield why, legal(config, base | least | _shape(count, groups, (W4, M4, M8, M4))), "D-arith-5"


def _uniform(config: Config, tiles: int) -> dict[str, np.ndarray]:
    """Tiles of 1 in every element of a and b, exponents 15."""
    return filled("bfp_pe_array", config, tiles, a_mag=1, b=1, a_exp=15, b_exp=15, w_scale=0x3C00)


def _repeated(config: Config, drawn: Mapping[str, np.ndarray], count: int) -> dict[str, np.ndarray]:
    """The first `count` drawn tiles with the operands of the first row and column in all of them."""
    tiles = {}
    for port in find("bfp_pe_array").ports(config).inputs:
        if port.name != "mode":
            times = ROWS if port.name.startswith(("a_", "row_")) else COLUMNS
            tiles[port.name] = np.tile(drawn[port.name][:count, : port.count // times], times)
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
    inputs = _uniform(config, tiles) | operands | signs | _shape(tiles, groups, [M8] * tiles)
    return why, legal(config, inputs), "D-harmonia-7"


def _side(name: str, chosen: np.ndarray, varied: np.ndarray, groups: int) -> dict[str, np.ndarray]:
    """One operand of M8 tiles: where `varied` the largest if `chosen`, else the least; 1 at exponent 18 in the others.

    chosen: bool (tiles, rows or columns); varied: bool (tiles,).
    """
    ends = np.where(chosen[..., None], 255, np.arange(LANES) == 0)
    magnitudes = np.where(varied[:, None, None], ends, 1).repeat(groups, axis=1)
    exponents = np.where(varied[:, None], np.where(chosen, 30, 0), 18).repeat(groups, axis=1)
    return {f"{name}_exp": exponents, ("a_mag" if name == "a" else "b"): magnitudes.reshape(len(chosen), -1)}


def _shape(tiles: int, groups: int, modes: Any, sizes: Any = None) -> dict[str, np.ndarray]:
    """Modes and masks of `tiles` tiles, full tiles without `sizes`."""
    height, width = np.array(sizes if sizes else [(ROWS, COLUMNS)] * tiles).T[..., None]
    return {
        "mode": np.array(modes)[:, None] + np.zeros((tiles, groups), np.int64),
        "row_valid": (np.arange(ROWS) < height).astype(np.int64),
        "col_valid": (np.arange(COLUMNS) < width).astype(np.int64),
    }


def _near(drawn: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Draws with common modes, exponents and factors."""
    return {
        **drawn,
        "mode": drawn["mode"] % 3,
        "a_exp": 12 + (drawn["a_exp"] & 7),
        "b_exp": 10 + (drawn["b_exp"] & 7),
        "w_scale": 0x2000 + (drawn["w_scale"] & 0xFFF),
    }


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
