"""Golden cases of bfp_pe_array: tiles of every mode and shape [harmonia §IV-C, Fig. 14a]. Also operands from tensors.

This module describes stimuli only; the descriptor, and with it every answer, is in bfp_pe_array.py.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from refemu.arith.checks import Refused
from refemu.formats.bfp_dot import rows, weight_rows
from refemu.formats.bfp_tensor import BfpTensor
from refemu.formats.groupint_tensor import GroupIntTensor
from refemu.units import bfp_accumulator_cases, bfp_pe_cases
from refemu.units.unit import Cases, Config, Port
from refemu.units.unit_cases import random_inputs

W4, M4, M8 = range(3)  # modes
ROWS, COLUMNS, LANES = 8, 16, 32


def cases(config: Config, ports: tuple[Port, ...], kind: str, seed: int) -> Iterator[Cases]:
    """Golden cases of one kind for one configuration, whose input ports are `ports`."""
    groups = config["groups"]
    drawn = legal(groups, _near(random_inputs("bfp_pe_array", ports, (9,), seed)))
    if kind == "paper":
        inputs = {port: array[:3] for port, array in drawn.items()}
        yield Cases(kind, "[harmonia §IV-C] one full tile in each mode: columns valid one after the other",
                    legal(groups, inputs | _shape(3, groups, range(3))))
    if kind == "edge":
        inputs = {port: array[3:6] for port, array in drawn.items()}
        yield Cases(kind, "a tile of 1 row, of 1 column, of 5 rows by 11 columns",
                    legal(groups, inputs | _shape(3, groups, (W4, M8, M4), ((1, 16), (8, 1), (5, 11)))))
        mixed = np.where(np.arange(groups) % 2 == np.arange(2)[:, None], M8, M4)
        inputs = {port: array[6:8] for port, array in drawn.items()} | _shape(2, groups, (M4, M8))
        yield Cases(kind, "modes mixed in a reduction, as for values of both precisions",
                    legal(groups, inputs | {"mode": mixed if groups > 1 else mixed[:, 0]}), "D-harmonia-36")
        top = {port: array[:2] * 0 + 255 for port, array in drawn.items() if port in ("a_mag", "b")}
        ends = {port: drawn[port][:2] * 0 + value for port, value in
                (("a_sign", 0), ("a_exp", 30), ("b_sign", 0), ("b_exp", 30), ("w_scale", 0x3C00))}
        yield Cases(kind, "the largest sums at the largest exponents: beyond FP16",
                    legal(groups, drawn | top | ends | _shape(2, groups, (W4, M8))), "D-harmonia-7")
    if kind == "random":
        yield Cases(kind, "exponents and factors as real tensors have them", drawn)


def _shape(tiles: int, groups: int, modes: Any, sizes: Any = None) -> dict[str, np.ndarray]:
    """Modes and masks of `tiles` tiles, full ones without `sizes`."""
    height, width = np.array(sizes if sizes else [(ROWS, COLUMNS)] * tiles).T[..., None]
    mode = np.array(modes)[:, None] + np.zeros((tiles, groups), np.int64)
    return {"mode": mode if groups > 1 else mode[:, 0], "row_valid": (np.arange(ROWS) < height).astype(np.int64),
            "col_valid": (np.arange(COLUMNS) < width).astype(np.int64)}


def _near(drawn: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Draws with modes, exponents and factors that are common."""
    return {**drawn, "mode": drawn["mode"] % 3, "a_exp": 12 + (drawn["a_exp"] & 7), "b_exp": 10 + (drawn["b_exp"] & 7),
            "w_scale": 0x2000 + (drawn["w_scale"] & 0xFFF)}


def legal(groups: int, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """`inputs` with 0 where the mode has no field and with finite weight factors."""
    tiles = np.shape(inputs["row_valid"])[:-1]
    mode = np.broadcast_to(np.reshape(inputs["mode"], (*tiles, 1, groups)), (*tiles, COLUMNS, groups))
    split = {port: np.reshape(inputs[port], mode.shape + ((LANES,) if port in ("b", "b_sign") else ()))
             for port in ("b", "b_sign", "b_exp", "w_scale")}
    fitted = bfp_pe_cases.legal({"mode": mode, **split})
    return {**inputs, **{port: fitted[port].reshape(np.shape(inputs[port])) for port in split}}


def tile(a: BfpTensor, b: BfpTensor | GroupIntTensor) -> dict[str, np.ndarray]:
    """The port values of a x b: rows of `a` (tokens, reduction) by rows of `b`, whose reduction may be either axis.

    a: 8-bit mantissas, at most 8 rows. b: INT4 weights, or 8- or 4-bit mantissas, at most 16 rows. Groups of 32.
    Refused: more rows, other widths.
    """
    left, bits = rows(a, "bfp_pe_array"), getattr(b.format, "mantissa_bits", 0)
    right = weight_rows(b, LANES) if isinstance(b, GroupIntTensor) else rows(b, "bfp_pe_array")
    for thing, side, most in (("rows", left, ROWS), ("columns", right, COLUMNS)):
        if len(side.values) > most:
            raise Refused(f"bfp_pe_array: at most {most} {thing} are needed, got {len(side.values)}")
    if (left.length, left.group) != (right.length, LANES) or a.format.mantissa_bits != 8 or bits not in (0, 4, 8):
        raise Refused(f"bfp_pe_array: 8-bit mantissas by INT4, 4 or 8 bits in groups of {LANES} and one length are "
                      f"needed, got {a} and {b}")
    groups, mode = left.power.shape[1], {0: W4, 4: M4, 8: M8}[bits]
    codes = right.values & 15 if mode == W4 else abs(right.values)
    signs = 0 * codes if mode == W4 else right.values < 0
    exponents = 0 * right.power if mode == W4 else _stored(right.power, bits)
    scale = 0 * right.power if right.scale is None else right.scale.view(np.uint16)
    return {"mode": np.full(groups, mode) if groups > 1 else np.array(mode),
            "row_valid": (np.arange(ROWS) < len(left.values)).astype(np.int64),
            "col_valid": (np.arange(COLUMNS) < len(right.values)).astype(np.int64),
            "a_sign": _padded(left.values < 0, ROWS), "a_mag": _padded(abs(left.values), ROWS),
            "a_exp": _padded(_stored(left.power, 8), ROWS), "b": _padded(codes, COLUMNS),
            "b_sign": _padded(signs, COLUMNS), "b_exp": _padded(exponents, COLUMNS), "w_scale": _padded(scale, COLUMNS)}


def _stored(power: np.ndarray, bits: int) -> np.ndarray:
    """Exponent fields, at least 1, of powers of two: fields 0 and 1 mean the same."""
    return power + 14 + bits


def _padded(values: np.ndarray, count: int) -> np.ndarray:
    """`count` rows, the missing ones 0, laid end to end."""
    whole = np.zeros((count, values.shape[1]), np.int64)
    whole[:len(values)] = values
    return whole.reshape(-1)


def mark(config: Mapping[str, Any], inputs: Mapping[str, np.ndarray], result: Any) -> dict[str, np.ndarray]:
    """Which tiles carry which flag, in some valid element."""
    flags = bfp_accumulator_cases.mark(config, inputs, result)
    return {name: np.asarray((flag & result.valid).any(axis=-1)) for name, flag in flags.items()}
