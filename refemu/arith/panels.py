"""Weights of a linear layer, prepared once for the compiled matmul: panels of columns, read in sequence."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith import fp16
from refemu.arith.checks import RefusedType

WIDTH = 4096  #: most columns of a panel: long rows suit a single vector, whose sums a first-level cache still holds
COMPILED = 1 << 18  #: elements from which on compiled code transposes
GRAIN = 16  #: a panel's width is a multiple of it, a vector of float32


@dataclass(frozen=True, eq=False)
class Panels:
    """w (N, K) as (P, K, W): column n of the right factor `w.T` is column n % W of panel n // W; the rest is 0."""

    values: np.ndarray  #: (P, K, W) float32, or the uint16 words of float16
    shape: tuple[int, int]  #: (N, K), as stored by a linear layer
    holds_fp16: bool  #: every value is an fp16 value
    peak: float  #: largest magnitude; NaN if there is one

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.values.nbytes

    @property
    def half(self) -> bool:
        """Whether the values are stored as fp16 words."""
        return self.values.dtype == np.uint16

    def matrix(self) -> np.ndarray:
        """The right factor `w.T`, (K, N) float32."""
        count, terms, width = self.values.shape
        columns = self.values.transpose(1, 0, 2).reshape(terms, count * width)[:, : self.shape[0]]
        return columns.view(np.float16).astype(np.float32) if self.half else np.ascontiguousarray(columns)

    def arrays(self) -> dict[str, np.ndarray]:
        """What `of_arrays` makes them of again, for a file."""
        shape = np.array(self.shape, np.int64)
        return {
            "values": self.values,
            "shape": shape,
            "holds_fp16": np.array(self.holds_fp16),
            "peak": np.array(self.peak),
        }

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, np.ndarray]) -> "Panels":
        """The panels whose `arrays` these are."""
        shape = arrays["shape"].tolist()
        return cls(arrays["values"], (shape[0], shape[1]), bool(arrays["holds_fp16"]), float(arrays["peak"]))

    def __repr__(self) -> str:
        return f"<Panels {self.shape} {'float16' if self.half else 'float32'} {self.nbytes} bytes>"


def panels(w: ArrayLike) -> Panels:
    """`w` (N, K), float16 or float32, one row per output, packed and frozen in its own width.

    `dot_compiled.matmul(a, panels(w), ...)` is a (M, K) times w.T.
    """
    rows = np.asarray(w)
    if rows.ndim != 2 or rows.dtype not in (np.float16, np.float32):
        raise RefusedType(f"panels: float16 or float32 (N, K) is needed, got {rows.dtype} of shape {rows.shape}")
    outputs, terms = rows.shape
    words = rows.view(np.uint16) if rows.dtype == np.float16 else rows
    count = max(-(-outputs // WIDTH), 1)
    width = max(-(-outputs // (count * GRAIN)) * GRAIN, GRAIN)
    values = np.zeros((count, terms, width), words.dtype)
    for number in range(count):
        _transpose(words[number * width : (number + 1) * width], values[number])
    values.flags.writeable = False
    return Panels(values, (outputs, terms), bool(rows.dtype == np.float16 or fp16.is_fp16(rows).all()), peak(rows))


def _transpose(rows: np.ndarray, out: np.ndarray) -> None:
    """out (K, W), W a multiple of 4 <- rows (N, K), compiled for many words of 16 bits."""
    if rows.size < COMPILED or rows.dtype != np.uint16:
        out[:, : len(rows)] = rows.T
        return
    from refemu.arith import kernels

    plain = np.ascontiguousarray(rows)
    if not plain.flags.writeable:  # a kernel sees one array type
        frozen, plain = plain, np.empty(plain.shape, plain.dtype)
        np.copyto(plain, frozen)
    kernels.transpose_words(plain, out.view(np.uint64))


def peak(x: np.ndarray) -> float:
    """Largest magnitude of float16 or float32 `x`, by its words; NaN if there is one, 0 if `x` is empty."""
    plain, word = np.ascontiguousarray(x), np.dtype(f"u{x.itemsize}").type
    positive = word(plain.view(f"i{x.itemsize}").max(initial=0))
    either = plain.view(word).max(initial=0) & word((1 << 8 * x.itemsize - 1) - 1)  # a negative one, if there is one
    return float(max(positive, either).view(x.dtype))
