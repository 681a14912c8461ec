"""Linear layers of the OliVe schemes: encode the input, multiply exactly, reduce to 32 bits, rescale [olive §4].

Linear layers that read one input and have one width are one `Part`: one encode serves q, k and v, and their rows stand
in one matrix, since outputs do not depend on each other.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from refemu.arith import dot, integers
from refemu.arith.checks import Refused
from refemu.arith.dot import Sequential
from refemu.arith.integers import Overflow
from refemu.formats.olive.ovp import Ovp, OvpTensor
from refemu.models.backend import Backend
from refemu.models.schemes.fp16.layers import columns
from refemu.models.schemes.olive import steps

LIMIT = 1 << 31  #: magnitudes below fit the 32-bit accumulator
TERMS = {4: 16, 8: 8}  #: products of one operation of the dot-product unit, by width [olive §4.1]


@dataclass(frozen=True, eq=False)
class Weight:
    """A linear layer's weight in the paper's format: pairs along the inputs, one scale per output row."""

    name: str  #: "blk.3.down"
    format: Ovp
    tensor: OvpTensor
    scale: np.ndarray  #: float32 (outputs,)
    mse: float  #: mean over the rows of the search's error

    def pairs(self) -> np.ndarray:
        """The words of the pairs as a decoder reads them, (outputs, inputs / 2)."""
        return self.tensor.pairs().reshape(len(self.scale), -1)

    def grid(self) -> np.ndarray:
        """int64 (outputs, inputs) in grid units."""
        return self.tensor.decode()


@dataclass(frozen=True, eq=False)
class Input:
    """Type, scale and error of a linear input, frozen by calibration (D-olive-23)."""

    format: Ovp
    scale: np.float32
    mse: float


@dataclass(frozen=True)
class Candidates:
    """What a search may choose from: formats, base and percentages (D-olive-26, D-olive-27)."""

    formats: tuple[Ovp, ...]
    base: str
    low: int
    high: int
    step: int

    def options(self) -> dict[str, Any]:
        """Keywords of `ovp_search.select`."""
        return {"base": self.base, "low": self.low, "high": self.high, "step": self.step}


def quantize(name: str, values: np.ndarray, candidates: Candidates, backend: Backend) -> Weight:
    """Search and encode the weight (outputs, inputs) of a linear layer."""
    if values.shape[1] % 2 and any(fmt.pairing == "flat" for fmt in candidates.formats):
        raise Refused(f"{name}: pairs of preset repo need an even number of inputs, got {values.shape[1]}")
    fmt, search = steps.select(backend, values, candidates.formats, per="row", **candidates.options())
    tensor = steps.encode(backend, fmt, values, search.scale)
    return Weight(name=name, format=fmt, tensor=tensor, scale=search.scale, mse=mean(search.mse))


class Plain:
    """Linear layers without a quantized input: an ordered sum in the runtime's float, as in scheme `fp16`."""

    def __init__(self, names: Sequence[str], rows: Sequence[np.ndarray], backend: Backend) -> None:
        """rows: one matrix (outputs, inputs) per name, float16 as in scheme `fp16`, or float32 if dequantized."""
        self.names: tuple[str, ...] = tuple(names)
        self.backend: Backend = backend
        self.columns: dict[str, slice] = dict(zip(names, columns(rows), strict=True))
        self._weights = backend.weights(np.concatenate(rows))

    def __repr__(self) -> str:
        return f"Plain({', '.join(self.names)})"

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """x (tokens, inputs) -> float32 (tokens, outputs), not rounded."""
        return self.backend.matmul(x, self._weights, "fp32")


@dataclass(frozen=True, eq=False)
class Product:
    """One pass of an input through a `Part`."""

    pairs: np.ndarray  #: words of the encoded input, (tokens, inputs / 2)
    exact: np.ndarray  #: sums before they are reduced to 32 bits, (tokens, outputs)
    acc: np.ndarray  #: sums in 32 bits, (tokens, outputs)
    overflowed: int  #: sums that leave 32 bits
    outputs: np.ndarray  #: float32 (tokens, outputs), not rounded to fp16


class Part:
    """Linear layers that read one input at one width."""

    def __init__(
        self,
        layer: int,
        names: Sequence[str],
        weights: Sequence[Weight],
        candidates: Candidates,
        overflow: Overflow,
        backend: Backend,
    ) -> None:
        """names: what the layers are called, one per weight. candidates: for the input's search."""
        grids = [weight.grid() for weight in weights]
        self.layer: int = layer
        self.names: tuple[str, ...] = tuple(names)
        self.weights: tuple[Weight, ...] = tuple(weights)
        self.columns: dict[str, slice] = dict(zip(names, columns(grids), strict=True))
        self.candidates: Candidates = candidates
        self.overflow = overflow
        self.backend: Backend = backend
        self.input: Input | None = None
        self._matrix = backend.integer_weights(np.concatenate(grids))
        self._scale = np.concatenate([weight.scale for weight in weights])
        self._row_sum = max(int(integers.total(np.abs(grid), axis=1).max()) for grid in grids)

    def __repr__(self) -> str:
        return f"Part({', '.join(self.names)})"

    @property
    def fmt(self) -> Ovp:
        """The input's format."""
        assert self.input is not None
        return self.input.format

    def freeze(self, x: np.ndarray) -> None:
        """Search the input's type and scale on `x`, all tokens as one tensor."""
        options = self.candidates.options()
        fmt, search = steps.select(self.backend, x, self.candidates.formats, per="tensor", **options)
        scale = np.float32(np.asarray(search.scale).reshape(()))
        self.set_input(Input(format=fmt, scale=scale, mse=mean(search.mse)))

    def set_input(self, frozen: Input) -> None:
        """Use this type and scale from now on."""
        self.input = frozen
        self.rescale = frozen.scale * self._scale  # fl32(s_a * s_w[n]) [olive §4]

    def __call__(self, x: np.ndarray) -> Product:
        """The product with x (tokens, inputs), float32: three roundings after the exact sum (D-olive-42)."""
        assert self.input is not None
        pairs = steps.encode_pairs(self.backend, self.fmt, x, self.input.scale)
        grid = pair_values(self.fmt).take(pairs, axis=0).reshape(len(x), -1)[:, : x.shape[1]]
        exact = self.backend.integer_matmul(grid, self._matrix)
        acc, overflowed = self._reduce(exact, grid)
        return Product(pairs, exact, acc, overflowed, acc.astype(np.float32) * self.rescale)

    def _reduce(self, exact: np.ndarray, grid: np.ndarray) -> tuple[np.ndarray, int]:
        """The sums in 32 bits, and how many of the exact sums leave them."""
        if largest(self.fmt) * self._row_sum < LIMIT:
            return exact, 0
        wide = exact.astype(np.float64)
        overflowed = int(np.count_nonzero((wide >= LIMIT) | (wide < -LIMIT)))
        if self.overflow == "saturate":
            return self._saturating(grid), overflowed
        turns = np.floor((wide + LIMIT) / (2 * LIMIT))  # exact: integers below 2**53 and powers of two
        return wide - turns * (2 * LIMIT), overflowed

    def _saturating(self, grid: np.ndarray) -> np.ndarray:
        """The sums in the order of the dot-product unit: clamped after every operation of `TERMS` products."""
        a, terms = integers.from_float(grid), TERMS[self.weights[0].format.width]
        b = np.concatenate([weight.grid() for weight in self.weights])
        acc = np.zeros((len(a), len(b)), np.int64)
        for at in range(0, a.shape[1], terms):
            chunk = slice(at, at + terms)
            acc = integers.saturate(acc + integers.matmul(a[:, chunk], b[:, chunk].T), 32, signed=True)
        return acc


def mean(values: Any) -> float:
    """Mean of float64 values in ascending order."""
    flat = np.asarray(values, np.float64).reshape(-1)
    return float(dot.total64(flat, order=Sequential())) / flat.size


@lru_cache(maxsize=8)
def pair_values(fmt: Ovp) -> np.ndarray:
    """float32 (2**pair bits, 2): both grid values of every pair word, 0 for the illegal ones."""
    codes = fmt.split(np.arange(1 << 2 * fmt.width))
    return fmt.decode(codes, strict=False).astype(np.float32)


@lru_cache(maxsize=8)
def largest(fmt: Ovp) -> int:
    """Largest magnitude in grid units."""
    return int(np.abs(pair_values(fmt)).max())
