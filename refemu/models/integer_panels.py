"""Exact integer products in the float32 kernel: rows split into pieces, left factors into digits.

Sums of integers are exact in float32, in any order, while all of them stay below 2**24. A weight row whose magnitudes
sum to more than `WIDEST` is split along the inputs into pieces that sum to less. A left factor too large for the rows
is split into signed digits. The sums of pieces and digits are added in float64.
"""

from collections.abc import Callable, Mapping

import numpy as np

from refemu.arith import fp16, integers
from refemu.arith.panels import Panels

EXACT = 1 << 24  #: integers and sums below it are exact in float32
WIDEST = 1 << 20  #: largest sum of magnitudes of a piece; leaves 4 bits for digits of the left factor


class IntegerPanels:
    """A matrix of integers as panels of fp16 values; further pieces of long rows are rows at its end."""

    owners: list[int]  #: the row of each further piece

    def __init__(self, rows: np.ndarray, panels: Callable[[np.ndarray], Panels], largest: int | None = None) -> None:
        """Split the rows and pack the panels.

        rows: (outputs, inputs) integers, all fp16 values; int64 or float16. panels: function that packs them for the
        kernel, `dot_compiled.panels`. largest: largest sum of magnitudes of a row, if known.
        """
        self.outputs: int = len(rows)
        if rows.dtype == np.float16 and largest is not None and largest <= WIDEST:
            matrix, self.owners = rows, []
            self.row_sum: int = max(1, largest)  #: largest sum of magnitudes of a piece
        else:
            matrix, self.owners = pieces(_integers(rows), WIDEST)
            self.row_sum = max(1, int(_sums(matrix).max()))
        self.panels: Panels = panels(matrix if matrix.dtype == np.float16 else fp16.to_f16(matrix))

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays from which `of_arrays` rebuilds the panels, for a file."""
        owners = np.array(self.owners, np.int64)
        numbers = np.array([self.outputs, self.row_sum], np.int64)
        return {**self.panels.arrays(), "owners": owners, "numbers": numbers}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, np.ndarray]) -> "IntegerPanels":
        """The panels with these `arrays`."""
        panels = object.__new__(cls)
        panels.outputs, panels.row_sum = arrays["numbers"].tolist()
        panels.owners = arrays["owners"].tolist()
        panels.panels = Panels.of_arrays(arrays)
        return panels

    def __repr__(self) -> str:
        return f"<IntegerPanels of {self.outputs} rows and {len(self.owners)} pieces, row_sum={self.row_sum}>"

    def digit_bits(self, largest: int) -> int:
        """Width of the digits of a left factor with magnitudes up to `largest`; 0 if it needs none."""
        safe = (EXACT - 1) // self.row_sum  # largest magnitude with all partial sums below 2**24
        return 0 if largest <= safe else safe.bit_length()

    def join(self, sums: np.ndarray) -> np.ndarray:
        """Sums of the rows (tokens, outputs) from the sums of all pieces."""
        if not self.owners:
            return sums
        joined = sums[:, : self.outputs].astype(np.float64)
        for piece, row in enumerate(self.owners, self.outputs):
            joined[:, row] += sums[:, piece]  # integers below 2**53: exact
        return joined


def pieces(rows: np.ndarray, most: int) -> tuple[np.ndarray, list[int]]:
    """Split integer rows so that no sum of magnitudes is above `most`; also returns the row of each added piece.

    A longer row is replaced by its first piece, padded with zeros; its other pieces are appended. No single magnitude
    may be above `most`.
    """
    cut, more, owners = rows, [], []
    for row in np.flatnonzero(_sums(rows) > most).tolist():
        magnitudes = np.abs(rows[row])
        before = np.cumsum(magnitudes) - magnitudes
        number = before // (most - int(magnitudes.max()) + 1)  # a piece ends with the value that exceeds this sum
        cut = rows.copy() if cut is rows else cut
        cut[row] = np.where(number == 0, rows[row], 0)
        more += [np.where(number == piece, rows[row], 0) for piece in range(1, int(number[-1]) + 1)]
        owners += [row] * int(number[-1])
    return (np.concatenate([cut, more]) if more else cut), owners


def _integers(rows: np.ndarray) -> np.ndarray:
    return integers.from_float(rows.astype(np.float32)) if rows.dtype == np.float16 else rows


def _sums(rows: np.ndarray) -> np.ndarray:
    return integers.total(np.abs(rows), axis=1)


def digits(x: np.ndarray, bits: int) -> list[np.ndarray]:
    """Signed digits of integers held in float32, lowest first: x = sum of digit * 2**(bits * place).

    Every digit is in [-2**(bits - 1), 2**(bits - 1)]: halves, rounded to even, are exact at every step.
    """
    parts, base = [], np.float32(1 << bits)
    while x.any():
        rest = np.rint(x / base)
        parts.append(x - rest * base)
        x = rest
    return parts
