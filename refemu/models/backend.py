"""Two backends with the same bits: `Jit`, compiled kernels, and `Numpy`, the readable definitions of `arith`.

A scheme names the steps and their order; a backend only chooses the code that computes them. Steps on the formats of a
paper are in that scheme's `steps` module, which chooses by the backend's name. All hidden states are float32
arrays; after a step that rounds to fp16 their values are fp16 values.
"""

import contextlib
from typing import Any, Protocol

import numpy as np

from refemu.arith import dot, fp16, fp32, integers, tables
from refemu.arith.attention import scores
from refemu.arith.attention.scores import PLAIN, ScoreRule
from refemu.arith.checks import lookup, require_int
from refemu.arith.dot import Sequential
from refemu.arith.operands import Accumulator
from refemu.arith.tables import FunctionName
from refemu.arith.threads import MOST, using_threads
from refemu.models.integer_panels import IntegerPanels, digits


class Backend(Protocol):
    """The steps of a decoder."""

    name: str

    def weights(self, rows: np.ndarray) -> Any:
        """A matrix (outputs, inputs), float16 or float32, in the form that `matmul` reads."""

    def integer_weights(self, rows: np.ndarray) -> Any:
        """int64 (outputs, inputs), all fp16 values, in the form that `integer_matmul` reads."""

    def matmul(self, x: np.ndarray, weights: Any, acc: Accumulator) -> np.ndarray:
        """x (tokens, inputs) times the matrix, summed in order `Sequential()` in format `acc`; float32, not rounded."""

    def integer_matmul(self, x: np.ndarray, weights: Any) -> np.ndarray:
        """Exact sums of integers below 2**53 as float32 (where all are below 2**24) or float64; x: float32."""

    def attention(
        self, q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: np.float32, start: int, rule: ScoreRule = PLAIN
    ) -> np.ndarray:
        """q (T, H, D) at positions start + t over k and v (S, KV, D); (T, H, D), rounded to fp16 once."""

    def rmsnorm(self, x: np.ndarray, gain: np.ndarray, eps: float) -> np.ndarray:
        """RMSNorm of every row, rounded to fp16 once."""

    def layernorm(self, x: np.ndarray, gain: np.ndarray, offset: np.ndarray, eps: float) -> np.ndarray:
        """LayerNorm of every row, rounded to fp16 once."""

    def softcap(self, x: np.ndarray, cap: float) -> np.ndarray:
        """cap * tanh(x / cap) of float32, rounded to float32 three times."""

    def rotate(self, x: np.ndarray, cos: np.ndarray, sin: np.ndarray, interleaved: bool) -> np.ndarray:
        """Rotation of (T, H, D) by (T, D/2) tables, rounded to fp16 once."""

    def apply16(self, name: FunctionName, x: np.ndarray) -> np.ndarray:
        """The fp16 table `name` of fp16-valued float32."""

    def round16(self, x: np.ndarray) -> np.ndarray:
        """float32 to fp16-valued float32."""


class Numpy:
    """The readable definitions; for small models."""

    name = "numpy"

    def __repr__(self) -> str:
        return "Numpy()"

    def weights(self, rows: np.ndarray) -> np.ndarray:
        """The transposed matrix in float32."""
        return rows.astype(np.float32).T

    def integer_weights(self, rows: np.ndarray) -> integers.Right:
        """The transposed matrix, prepared once."""
        return integers.Right(rows.T)

    def matmul(self, x: np.ndarray, weights: np.ndarray, acc: Accumulator) -> np.ndarray:
        """See `Backend`."""
        return dot.matmul(x, weights, order=Sequential(), acc=acc)

    def integer_matmul(self, x: np.ndarray, weights: integers.Right) -> np.ndarray:
        """See `Backend`."""
        return integers.matmul(integers.from_float(x), weights).astype(np.float64)

    def attention(
        self, q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: np.float32, start: int, rule: ScoreRule = PLAIN
    ) -> np.ndarray:
        """See `Backend`."""
        return dot.attention(q, k, v, scale=scale, start=start, rule=rule)

    def rmsnorm(self, x: np.ndarray, gain: np.ndarray, eps: float) -> np.ndarray:
        """See `Backend`."""
        return fp16.round16(fp32.rmsnorm(x, gain, eps, order=Sequential()))

    def layernorm(self, x: np.ndarray, gain: np.ndarray, offset: np.ndarray, eps: float) -> np.ndarray:
        """See `Backend`."""
        return fp16.round16(fp32.layernorm(x, gain, offset, eps, order=Sequential()))

    def softcap(self, x: np.ndarray, cap: float) -> np.ndarray:
        """See `Backend`."""
        return scores.softcap(x, cap)

    def rotate(self, x: np.ndarray, cos: np.ndarray, sin: np.ndarray, interleaved: bool) -> np.ndarray:
        """See `Backend`."""
        return fp16.round16(fp32.rotate(x, cos, sin, interleaved=interleaved))

    def apply16(self, name: FunctionName, x: np.ndarray) -> np.ndarray:
        """See `Backend`."""
        return fp16.values(tables.apply16(name, fp16.bits(fp16.to_f16(x)))).astype(np.float32)

    def round16(self, x: np.ndarray) -> np.ndarray:
        """See `Backend`."""
        return fp16.round16(x)


class Jit:
    """The compiled kernels. They split independent outputs over `threads` threads; no bit depends on it."""

    name = "jit"

    def __init__(self, threads: int | None = None) -> None:
        """threads: None for the number of the process, `refemu.arith.threads`."""
        from refemu.arith import dot_compiled, fp16_compiled, fp32_compiled, tables_compiled

        if threads is not None:
            require_int(threads, 1, MOST, "Jit", "threads")
        self.threads = threads
        self._dot, self._fp16, self._fp32, self._tables = dot_compiled, fp16_compiled, fp32_compiled, tables_compiled

    def __repr__(self) -> str:
        return "Jit()" if self.threads is None else f"Jit(threads={self.threads})"

    def weights(self, rows: np.ndarray) -> Any:
        """Panels in the float width of `rows`."""
        return self._dot.panels(rows)

    def integer_weights(self, rows: np.ndarray) -> IntegerPanels:
        """Panels of fp16 values, and the bound up to which their sums are exact."""
        return IntegerPanels(rows, self._dot.panels)

    def matmul(self, x: np.ndarray, weights: Any, acc: Accumulator) -> np.ndarray:
        """See `Backend`. Any float32 will do for an accumulator of float32, so values are not looked at."""
        if acc == "fp32" and x.dtype == np.float32 and x.shape[1:] == weights.shape[1:]:
            return self._dot.by_panels(self._fp16.plain(x), weights, acc)
        return self._dot.matmul(x, weights, order=Sequential(), acc=acc)

    def integer_matmul(self, x: np.ndarray, weights: IntegerPanels) -> np.ndarray:
        """See `Backend`. Beyond the bound, x is split into signed digits within it, and their sums are added.

        The digits are further rows of one product, so a decode step still reads the weights once.
        """
        bits = weights.digit_bits(int(np.abs(x).max()))
        if bits == 0:
            return weights.join(self.matmul(x, weights.panels, "fp32"))
        parts = digits(x, bits)
        sums = self.matmul(np.concatenate(parts), weights.panels, "fp32").reshape(len(parts), len(x), -1)
        scales = [np.float64(1 << bits * place) for place in range(len(parts))]
        total = np.zeros(sums.shape[1:], np.float64)
        for part, scale in zip(sums, scales, strict=True):
            total = total + part * scale  # integers below 2**53: exact
        return weights.join(total)

    def attention(
        self, q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: np.float32, start: int, rule: ScoreRule = PLAIN
    ) -> np.ndarray:
        """See `Backend`."""
        return self._dot.attend(q, k, v, scale, start, rule)

    def rmsnorm(self, x: np.ndarray, gain: np.ndarray, eps: float) -> np.ndarray:
        """See `Backend`."""
        return self._fp32.rmsnorm16(x, gain, eps)

    def layernorm(self, x: np.ndarray, gain: np.ndarray, offset: np.ndarray, eps: float) -> np.ndarray:
        """See `Backend`. The norm of x - mean, then the offset: the same operations as in the readable form."""
        with np.errstate(over="ignore", invalid="ignore"):
            mean = self._dot.total32(x, order=Sequential()) / np.float32(x.shape[-1])
            normed = self._fp32.rmsnorm(x - mean[..., None], gain, eps, order=Sequential())
            return self.round16(fp16.canonical(normed + offset))

    def softcap(self, x: np.ndarray, cap: float) -> np.ndarray:
        """See `Backend`."""
        return self._fp32.softcap(x, cap)

    def rotate(self, x: np.ndarray, cos: np.ndarray, sin: np.ndarray, interleaved: bool) -> np.ndarray:
        """See `Backend`."""
        return self._fp32.rotate16(x, cos, sin, interleaved)

    def apply16(self, name: FunctionName, x: np.ndarray) -> np.ndarray:
        """See `Backend`."""
        return self._tables.values16(name, x)

    def round16(self, x: np.ndarray) -> np.ndarray:
        """See `Backend`."""
        return self._fp16.round16(x)


NUMPY = Numpy()
NAMES: dict[str, type[Jit] | type[Numpy]] = {"jit": Jit, "numpy": Numpy}


def on_threads(backend: Backend) -> contextlib.AbstractContextManager[None]:
    """Inside this context, compiled kernels use the threads of the backend, if it states a number."""
    count: int | None = getattr(backend, "threads", None)
    return contextlib.nullcontext() if count is None else using_threads(count)


def find(backend: "str | Backend") -> Backend:
    """The backend of a name ("jit", "numpy"), or the backend itself."""
    return lookup("backend", backend, NAMES)() if isinstance(backend, str) else backend
