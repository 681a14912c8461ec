"""Right factor of a grouped matmul, prepared once for the compiled form: panels of columns of narrow integers."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith import integers
from refemu.arith.checks import Refused
from refemu.arith.operands import Grouped, require_grouped

WIDTH = 1024  #: most columns of a panel
GRAIN = 32  #: a panel's width is a multiple of it, a vector of 16-bit lanes
NIBBLE, ZERO = np.uint8(15), np.int8(8)  #: 4 bits of ones; the code of 0
EXPONENT = 60  #: largest magnitude of an exponent: float32 then holds every scaled sum of a group exactly


@dataclass(frozen=True, eq=False)
class GroupPanels:
    """b (K, N) as (P, K, W): column n is column n % W of panel n // W; the rest is 0."""

    nibbles: np.ndarray  #: (P, K / 2, W) uint8: values of 4 bits plus 8, those of even k low; empty if beyond 4 bits
    narrow: np.ndarray  #: (P, K, W) int8; empty where `nibbles` is not, or where that does not hold the values
    wide: np.ndarray  #: (P, K, W) float32; empty where one of the others is not
    powers: np.ndarray  #: float32 (P, G, W), 2**b_exp; (P, G, 0) where all are 1
    scales: np.ndarray  #: float32 (P, G, W), fp16 values, 1 without
    scaled: bool  #: whether there are scales
    shape: tuple[int, int]  #: (K, N)
    group: int
    peak: int  #: largest magnitude

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.nibbles.nbytes + self.narrow.nbytes + self.wide.nbytes + self.powers.nbytes + self.scales.nbytes

    def arrays(self) -> dict[str, Any]:
        """The arguments b, b_exp and b_scale of `dot.grouped_matmul`."""
        powers = np.frexp(_matrix(self.powers, self.shape[1]))[1] - 1 if self.powers.size else None
        return {
            "b": _matrix(self.values(), self.shape[1]),
            "b_exp": powers,
            "b_scale": _matrix(self.scales, self.shape[1]) if self.scaled else None,
        }

    def values(self) -> np.ndarray:
        """The integers (P, K, W)."""
        if self.nibbles.size:
            codes = np.stack([self.nibbles & NIBBLE, self.nibbles >> 4], axis=2).view(np.int8) - ZERO
            return codes.reshape(len(codes), -1, codes.shape[3])
        return self.narrow if self.narrow.size else integers.from_float(self.wide)

    def __repr__(self) -> str:
        return f"<GroupPanels {self.shape} in {self.group} {self.nbytes} bytes>"


def group_panels(
    b: ArrayLike, *, group: int, b_exp: ArrayLike | None = None, b_scale: ArrayLike | None = None
) -> GroupPanels:
    """b (K, N), b_exp and b_scale (G, N), as for `dot.grouped_matmul`, packed and frozen.

    Raises Refused like `grouped_matmul`, and for |b| from 2**24 on and exponents beyond 60 in magnitude.
    """
    none = np.zeros((0, np.shape(b)[0] if np.ndim(b) else 0), np.int64)
    operands = require_grouped(none, b, group, np.zeros((0, none.shape[1] // max(group, 1)), np.int64), b_exp, b_scale)
    if not fits(operands):
        raise Refused(
            f"group_panels: |b| below 2**24 and |b_exp| up to {EXPONENT} are needed, got "
            f"{integers.peak(operands.b)} and {integers.peak(operands.exponents[1])}"
        )
    return pack(operands)


def fits(operands: Grouped) -> bool:
    """Whether float32 holds the integers of b, and every group's sum times its powers of two, exactly."""
    return integers.peak(operands.b) < 1 << 24 and max(map(integers.peak, operands.exponents)) <= EXPONENT


def pack(operands: Grouped) -> GroupPanels:
    """The right side of checked operands that fit."""
    peak, power = integers.peak(operands.b), operands.exponents[1]
    scales = np.ones(power.shape, np.float32) if operands.scale is None else operands.scale
    powers = np.ldexp(np.float32(1), power.astype(np.int32))[:, : power.shape[1] * bool(power.any())]
    terms, outputs = operands.b.shape
    arrays = *_codes(operands.b, peak, operands.group), powers, scales
    nibbles, narrow, wide, powers, scales = (_panels(array, outputs) for array in arrays)
    sizes = operands.scale is not None, (terms, outputs), operands.group, peak
    return GroupPanels(nibbles, narrow, wide, powers, scales, *sizes)


def _codes(b: np.ndarray, peak: int, group: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`b` in the narrowest of three forms, the others without rows."""
    nibbles, narrow, wide = (np.empty((0, b.shape[1]), dtype) for dtype in (np.uint8, np.int8, np.float32))
    if peak <= ZERO and b.max(initial=0) < ZERO and group % 2 == 0:
        codes = (b + ZERO).astype(np.uint8)
        nibbles = codes[::2] | codes[1::2] << 4
    elif peak < 128:
        narrow = b.astype(np.int8)
    else:
        wide = b.astype(np.float32)
    return nibbles, narrow, wide


def _panels(rows: np.ndarray, outputs: int) -> np.ndarray:
    """(R, N) as (P, R, W) with equal widths; without columns or rows nothing."""
    count = max(-(-outputs // WIDTH), 1)
    width = max(-(-outputs // (count * GRAIN)) * GRAIN, GRAIN)
    values = np.zeros((count, rows.shape[0], width * bool(rows.shape[1])), rows.dtype)
    for number in range(count if rows.shape[1] else 0):
        part = rows[:, number * width : (number + 1) * width]
        values[number, :, : part.shape[1]] = part
    values.flags.writeable = False
    return values


def _matrix(panels: np.ndarray, outputs: int) -> np.ndarray:
    count, rows, width = panels.shape
    return panels.transpose(1, 0, 2).reshape(rows, count * width)[:, :outputs]
