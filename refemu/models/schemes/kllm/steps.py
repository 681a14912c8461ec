"""Steps of a KLLM scheme: compiled, or with backend `numpy` the readable units.

Paper: [kllm §III, §IV]. Both give the same bits; the scheme names the steps and their order.
"""

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from refemu import units
from refemu.arith import dot, fp16
from refemu.arith.checks import Refused, at, first_index
from refemu.arith.orders import Exact, Sequential
from refemu.formats.kllm.codebook import Codebook
from refemu.formats.kllm.kllm_arith import KllmArith
from refemu.formats.kllm.kmeans import KMeans
from refemu.formats.kllm.kmeans_tensor import KMeansTensor
from refemu.models.backend import Backend
from refemu.units.kllm import index_function, score_quantizer
from refemu.units.kllm.index_matmul import Norm, Scores
from refemu.units.kllm.index_norm import Divisors, NormKind
from refemu.units.kllm.index_product.index_product import product


class Units:
    """The units of one arithmetic; matrices are (tokens, size)."""

    def __init__(self, backend: Backend, arith: KllmArith) -> None:
        self.backend: Backend = backend
        self.arith: KllmArith = arith
        self._compiled = backend.name == "jit"

    def __repr__(self) -> str:
        return f"Units({self.backend!r})"

    def unit(self, name: str) -> Any:
        """The module of a unit, or of its compiled form."""
        return units.module(name, self._compiled)

    def encode(self, fmt: KMeans, x: np.ndarray) -> KMeansTensor:
        """`fmt.encode(x)`, a vector per row."""
        if not self._compiled:
            return fmt.encode(x)
        from refemu.formats.kllm.compiled import kmeans as kmeans_compiled

        return kmeans_compiled.encode(fmt, x)

    def norms(
        self, a: KMeansTensor, norm: NormKind, eps: float, weights: Sequence[tuple[Codebook, np.ndarray | None]]
    ) -> list[Norm]:
        """Results of index_norm for the product with each weight that reads `a`: statistics, divided operands.

        weights: codebook, and for LayerNorm the sums over the columns.
        """
        divisors: Divisors = self.unit("index_norm").divisors(a, norm=norm, eps=eps, preset=self.arith)
        return [Norm.of(divisors.of(codebook), sums) for codebook, sums in weights]

    def plain_norm(self, x: np.ndarray, eps: float) -> Norm:
        """`norm` from FP16 values, by the steps of scheme `fp16` up to the root."""
        squares = dot.total32(x * x, order=Sequential()) / np.float32(x.shape[1])
        return Norm(np.sqrt(squares + np.float32(eps)))

    def prepare(self, b: KMeansTensor, integer: bool = False) -> Any:
        """The right operand of many products; integer: of `mix`."""
        return self.unit("index_matmul").prepare(b, integer=integer) if self._compiled else b

    def product(
        self,
        a: KMeansTensor,
        b: Any,
        seen: np.ndarray | None = None,
        norm: Norm | None = None,
        bias: np.ndarray | None = None,
    ) -> np.ndarray:
        """K-Means x K-Means, float16 (tokens, vectors of b). seen: how many of them each token needs; the rest is 0."""
        return self._outputs(a, b, norm=norm, seen=seen, bias=bias)

    def mix(self, scores: Scores, v: Any, seen: np.ndarray) -> np.ndarray:
        """Integer x K-Means over the visible tokens of each query: float16 (tokens, columns of v)."""
        return self._outputs(scores, v, seen=seen)

    def _outputs(self, a: Any, b: Any, **options: Any) -> np.ndarray:
        unit = self.unit("index_matmul")
        if self._compiled:
            return np.asarray(unit.outputs(a, b, preset=self.arith, **options))
        return np.asarray(unit.matmul(a, b, preset=self.arith, **options).y)

    def softmax(self, logits: np.ndarray) -> np.ndarray:
        """Scores, float16."""
        return np.asarray(self.unit("functional").apply(logits, op="softmax", softmax=self.arith.softmax).y)

    def quantize_scores(
        self, p: np.ndarray, v_scale: np.ndarray | None, bits: int, mode: score_quantizer.Mode
    ) -> Scores:
        """Integers from rows of scores."""
        scale = None if v_scale is None else np.tile(v_scale, (len(p), 1))
        quantized = self.unit("score_quantizer").quantize(p, scale, bits=bits, mode=mode, preset=self.arith)
        return Scores(quantized.q, quantized.scale, p, fold=mode == "fold")

    def function(
        self, tensor: KMeansTensor, name: index_function.Function, mode: index_function.Mode, scale: Any
    ) -> KMeansTensor:
        """An FP16 function by a table instead of the codebook."""
        result: KMeansTensor = self.unit("index_function").apply(tensor, name, mode=mode, scale=scale).tensor
        return result

    def elementwise(self, full: str, a: KMeansTensor, b: KMeansTensor) -> np.ndarray:
        """The elementwise product `full`, read as FP16 values: float32 (tokens, size)."""
        unit = units.find("index_product")
        elements = unit.run_compiled if self._compiled else unit.run
        result = product(a, b, preset=self.arith, elements=elements)
        if result.bits.overflow.any():
            raise Refused(
                f"{full}: products of outliers must be finite, got an overflow{at(first_index(result.bits.overflow))}"
            )
        return self.values(result.tensor)

    def values(self, tensor: KMeansTensor) -> np.ndarray:
        """A tensor read as FP16 values, float32."""
        if self._compiled:
            from refemu.formats.kllm.compiled import kmeans as kmeans_compiled

            return fp16.to_f32(kmeans_compiled.dequantized(tensor))
        return fp16.to_f32(tensor.dequantize_fp16())

    def head(self, x: np.ndarray, words: np.ndarray) -> np.ndarray:
        """FP16 operands, exact sums, one rounding: fp16 values, float32. words: float16 (outputs, inputs)."""
        module = importlib.import_module("refemu.arith.dot_compiled") if self._compiled else dot
        return np.asarray(module.matmul(x, words.T, order=Exact(), acc="exact", out="fp16"))
