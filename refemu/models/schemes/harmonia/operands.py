"""Operands of a PE from tensors: groups of 32 lanes with the ports that belong to them [harmonia §IV-B, Fig. 13]."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from refemu.arith import fp16
from refemu.formats.groupint import GroupIntTensor
from refemu.formats.groups import split
from refemu.formats.harmonia.bfp import BfpTensor
from refemu.units.harmonia.bfp_accumulator import M8M4, M8M8, M8W4
from refemu.units.harmonia.sub_pe import LANES

Right = tuple[np.ndarray, dict[str, np.ndarray]]  #: modes of the groups, ports of the second operand


class Operand(NamedTuple):
    """One reduction in groups of 32 lanes, padded with zeros."""

    sign: np.ndarray  #: (groups, 32)
    mantissa: np.ndarray  #: (groups, 32)
    exponent: np.ndarray  #: (groups,)


def operand(sign: np.ndarray, mantissa: np.ndarray, exponent: np.ndarray) -> Operand:
    """Codes (length,) of one row, exponents by group."""
    return Operand(
        split(sign, LANES, -1).astype(np.int64), split(mantissa, LANES, -1).astype(np.int64), exponent.astype(np.int64)
    )


def along(t: BfpTensor, row: int) -> Operand:
    """A row of a matrix whose groups run along it."""
    return operand(t.sign[row], t.mantissa[row], t.exponent[row])


def left(side: Operand) -> dict[str, np.ndarray]:
    """The ports of the first operand."""
    return {"a_sign": side.sign, "a_mag": side.mantissa, "a_exp": side.exponent}


def codes(side: Operand, bits: np.ndarray, high: int) -> Right:
    """Keys or values with groups of `bits` and mantissas of `high` bits, as the second operand."""
    wide = bits == 8
    narrow = side.mantissa if high == 4 else side.mantissa >> 4
    return np.where(wide, M8M8, M8M4), {
        "b": np.where(wide[:, None], side.mantissa, narrow),
        "b_sign": side.sign,
        "b_exp": side.exponent,
        "w_scale": np.zeros(len(bits), np.int64),
    }


def weight(tensor: GroupIntTensor, output: int) -> Right:
    """The weights of an output as the second operand."""
    fields = split(tensor.code[output], LANES, -1).astype(np.int64) & 15
    none = np.zeros(len(fields), np.int64)
    return none + M8W4, {
        "b": fields,
        "b_sign": np.zeros_like(fields),
        "b_exp": none,
        "w_scale": fp16.bits(tensor.scales_of(LANES)[output]).astype(np.int64),
    }


def stacked(parts: Sequence[Mapping[str, np.ndarray]], some: slice, size: int) -> dict[str, np.ndarray]:
    """Concatenated groups `some` of operands, padded to `size` operands."""
    ports = {}
    for port in parts[0]:
        rows = np.stack([part[port][some] for part in parts])
        ports[port] = np.concatenate([rows, np.zeros((size - len(rows), *rows.shape[1:]), np.int64)])
    return ports


def signed(sign: np.ndarray, mantissa: np.ndarray) -> np.ndarray:
    """Mantissas with their signs."""
    return np.where(sign == 1, -mantissa, mantissa)
