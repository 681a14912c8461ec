"""Linear layers of the OliVe schemes: encode the input, multiply exactly, reduce to 32 bits, rescale [olive §4].

Linear layers with one input and one width form a `Part`: one encoding serves q, k and v, and their rows form one
matrix, since outputs do not depend on each other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from refemu.arith import dot, fp16, integers
from refemu.arith.checks import Refused
from refemu.arith.dot import Sequential
from refemu.arith.panels import panels
from refemu.formats.olive.ovp import Ovp, OvpTensor
from refemu.models.backend import Backend
from refemu.models.integer_panels import IntegerPanels
from refemu.models.prepared.prepared_cache import NOWHERE, PreparedCache
from refemu.models.schemes.fp16.layers import columns
from refemu.models.schemes.olive import steps

LIMIT = 1 << 31  #: magnitudes below it fit the 32-bit accumulator
TERMS = {4: 16, 8: 8}  #: products of one operation of the dot-product unit, by width [olive §4.1]


@dataclass(frozen=True, eq=False)
class Weight:
    """A linear layer's weight in the paper's format: pairs along the inputs, one scale per output row."""

    name: str  #: "blk.3.down"
    format: Ovp
    words: np.ndarray  #: words of the pairs as a decoder reads them, (outputs, inputs / 2)
    inputs: int
    scale: np.ndarray  #: float32 (outputs,)
    mse: float  #: mean over the rows of the search's error

    def arrays(self, formats: Sequence[Ovp]) -> dict[str, np.ndarray]:
        """The arrays from which `of_arrays` rebuilds the weight, for a file; formats: the search candidates."""
        numbers = np.array([formats.index(self.format), self.inputs], np.int64)
        return {"words": self.words, "scale": self.scale, "mse": np.array(self.mse), "numbers": numbers}

    @classmethod
    def of_arrays(cls, name: str, arrays: Mapping[str, np.ndarray], formats: Sequence[Ovp]) -> "Weight":
        """The weight with these `arrays`."""
        fmt, inputs = arrays["numbers"].tolist()
        return cls(name, formats[fmt], arrays["words"], inputs, arrays["scale"], float(arrays["mse"]))

    def pairs(self) -> np.ndarray:
        """The words of the pairs as a decoder reads them, (outputs, inputs / 2)."""
        return self.words

    @property
    def tensor(self) -> OvpTensor:
        """The codes and scales, built at every call."""
        code = self.format.split(self.words).reshape(len(self.scale), -1)
        return OvpTensor(self.format, code, (len(self.scale), self.inputs), -1, self.scale.copy())

    def grid(self) -> np.ndarray:
        """int64 (outputs, inputs) in grid units."""
        return self.tensor.decode()

    def halves(self) -> np.ndarray:
        """float16 (outputs, inputs) in grid units, exact."""
        fours = halves_of_pairs(self.format).take(self.words)
        return fours.view(np.float16).reshape(len(self.scale), -1)[:, : self.inputs]

    def row_sum(self) -> int:
        """Largest sum of magnitudes of a row, in grid units."""
        magnitudes = integers.total(np.abs(integers.from_float(pair_values(self.format))), axis=1)
        return max(int(integers.total(magnitudes.take(row))) for row in self.words)


@dataclass(frozen=True, eq=False)
class Input:
    """Type, scale and error of a linear input, frozen by calibration (D-olive-23)."""

    format: Ovp
    scale: np.float32
    mse: float


@dataclass(frozen=True)
class Candidates:
    """Search candidates: formats, base and percentages (D-olive-26, D-olive-27)."""

    formats: tuple[Ovp, ...]
    base: str
    low: int
    high: int
    step: int

    def options(self) -> dict[str, Any]:
        """Arguments for `ovp_search.select`."""
        return {"base": self.base, "low": self.low, "high": self.high, "step": self.step}


def quantize(name: str, values: np.ndarray, candidates: Candidates, backend: Backend) -> Weight:
    """Search and encode the weight (outputs, inputs) of a linear layer."""
    if values.shape[1] % 2 and any(fmt.pairing == "flat" for fmt in candidates.formats):
        raise Refused(f"{name}: the number of inputs must be even for pairs of preset repo, got {values.shape[1]}")
    fmt, search = steps.select(backend, values, candidates.formats, per="row", **candidates.options())
    words = steps.encode(backend, fmt, values, search.scale).pairs().reshape(len(values), -1)
    return Weight(name, fmt, words, values.shape[1], search.scale, mean(search.mse))


class Plain:
    """Linear layers whose input is not quantized: ordered sums in the runtime's float, as in scheme `fp16`."""

    def __init__(self, names: Sequence[str], parts: Sequence[slice], matrix: Any, backend: Backend) -> None:
        """matrix: from `Backend.weights`, as in scheme `fp16`, or dequantized. parts: its columns, one per name."""
        self.names: tuple[str, ...] = tuple(names)
        self.backend: Backend = backend
        self.columns: dict[str, slice] = dict(zip(names, parts, strict=True))
        self._weights = matrix

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
        overflow: Literal["wrap", "saturate"],
        backend: Backend,
        prepared_cache: PreparedCache = NOWHERE,
    ) -> None:
        """names: names of the layers, one per weight. candidates: for the search of the input."""
        self.layer: int = layer
        self.names: tuple[str, ...] = tuple(names)
        self.weights: tuple[Weight, ...] = tuple(weights)
        self.columns: dict[str, slice] = dict(zip(names, columns([weight.scale for weight in weights]), strict=True))
        self.candidates: Candidates = candidates
        self.overflow = overflow
        self.backend: Backend = backend
        self.input: Input | None = None
        self._packed: Any = None  # weights in the form of a kernel for one token, or None
        self._token: Any = None  # the product of one token, or None
        self._matrix, self._row_sum = self._prepare(prepared_cache, "+".join(weight.name for weight in weights))
        self._scale = np.concatenate([weight.scale for weight in weights])

    def __repr__(self) -> str:
        return f"Part({', '.join(self.names)})"

    def _prepare(self, prepared_cache: PreparedCache, name: str) -> tuple[Any, int]:
        """The matrix of all weights, and the largest sum of magnitudes of its rows."""
        if self.backend.name != "jit":
            row_sum = max(weight.row_sum() for weight in self.weights)
            return self.backend.integer_weights(np.concatenate([weight.grid() for weight in self.weights])), row_sum

        from refemu.models.schemes.olive.compiled import linear as olive_linear_compiled

        def make() -> dict[str, np.ndarray]:
            row_sum = max(weight.row_sum() for weight in self.weights)
            rows = np.concatenate([weight.halves() for weight in self.weights])
            pairs = olive_linear_compiled.arrays(self._formats, [weight.words for weight in self.weights])
            return {**IntegerPanels(rows, panels, row_sum).arrays(), "row_sum": np.array(row_sum), **pairs}

        arrays = prepared_cache.item(f"{name}@{self.weights[0].format.width}.matrix", make)
        self._packed = olive_linear_compiled.of_arrays(self._formats[0], arrays)
        return IntegerPanels.of_arrays(arrays), int(arrays["row_sum"])

    @property
    def _formats(self) -> list[Ovp]:
        return [weight.format for weight in self.weights]

    @property
    def fmt(self) -> Ovp:
        """Format of the input."""
        assert self.input is not None
        return self.input.format

    def freeze(self, x: np.ndarray) -> None:
        """Search type and scale of the input on `x`, all tokens as one tensor."""
        options = self.candidates.options()
        fmt, search = steps.select(self.backend, x, self.candidates.formats, per="tensor", **options)
        scale = np.float32(np.asarray(search.scale).reshape(()))
        self.set_input(Input(format=fmt, scale=scale, mse=mean(search.mse)))

    def set_input(self, frozen: Input) -> None:
        """Use this type and scale for the input."""
        self.input = frozen
        self.rescale: np.ndarray = frozen.scale * self._scale  # fl32(s_a * s_w[n]) [olive §4]
        self._token = None
        bound = largest(frozen.format) * (self._row_sum + 8 * self.weights[0].inputs)  # reading an outlier as integers
        if self._packed is not None and bound < LIMIT:
            from refemu.models.schemes.olive.compiled import linear as olive_linear_compiled

            token = olive_linear_compiled.TokenProduct(frozen.format, frozen.scale, self._packed, self.rescale)
            self._token = token if token.suits else None

    def __call__(self, x: np.ndarray) -> Product:
        """The product with x (tokens, inputs), float32: three roundings after the exact sum (D-olive-42)."""
        assert self.input is not None
        if self._token is not None and len(x) == 1:
            sums = self._token(x)
            if sums is not None:
                return Product(sums.pairs, sums.exact, sums.exact, 0, sums.outputs)
        pairs = steps.encode_pairs(self.backend, self.fmt, x, self.input.scale)
        grid = pair_values(self.fmt).take(pairs, axis=0).reshape(len(x), -1)[:, : x.shape[1]]
        exact = self.backend.integer_matmul(grid, self._matrix)
        acc, overflowed = self._reduce(exact, grid)
        return Product(pairs, exact, acc, overflowed, acc.astype(np.float32) * self.rescale)

    def _reduce(self, exact: np.ndarray, grid: np.ndarray) -> tuple[np.ndarray, int]:
        """The sums in 32 bits, and the number of exact sums that exceed them."""
        if largest(self.fmt) * self._row_sum < LIMIT:
            return exact, 0
        wide = exact.astype(np.float64)
        overflowed = int(np.count_nonzero((wide >= LIMIT) | (wide < -LIMIT)))
        if self.overflow == "saturate":
            return self._saturating(grid), overflowed
        turns = np.floor((wide + LIMIT) / (2 * LIMIT))  # exact: integers below 2**53 and powers of two
        return wide - turns * (2 * LIMIT), overflowed

    def _saturating(self, grid: np.ndarray) -> np.ndarray:
        """Sums in the order of the dot-product unit: clamped after every operation of `TERMS` products."""
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
def halves_of_pairs(fmt: Ovp) -> np.ndarray:
    """uint32 (2**pair bits,): both grid values of every pair word as fp16 words, the left one first in memory."""
    return np.ascontiguousarray(fp16.to_f16(pair_values(fmt))).view(np.uint32).reshape(-1)


@lru_cache(maxsize=8)
def largest(fmt: Ovp) -> int:
    """Largest magnitude in grid units."""
    return int(np.abs(pair_values(fmt)).max())
