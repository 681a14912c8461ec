"""The parts of a block that a KLLM scheme computes on indices with its units [kllm §III-A, §III-C, §III-D].

Every part returns a record of its operands and results, the source of counters and taps. `compiled/block.py` does the
same for one token.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from refemu.arith import fp16
from refemu.formats.kllm.kmeans_outliers import Thresholds
from refemu.formats.kllm.kmeans_tensor import KMeansTensor
from refemu.models.schemes.kllm import attention as kllm_attention
from refemu.models.schemes.kllm.attention import Attention
from refemu.models.schemes.kllm.cache import IndexCache
from refemu.models.schemes.kllm.operands import Operands


class Linear(NamedTuple):
    """Products of an activation with the weights that read it."""

    x: np.ndarray  #: float32 (tokens, size), before encoding
    a: KMeansTensor
    outputs: list[np.ndarray]  #: fp16 values in float32 (tokens, outputs), one array per weight

    @property
    def outliers(self) -> int:
        """Codebook of the activation."""
        return self.a.outlier.size


class Gated(NamedTuple):
    """The activation of the gate, times up."""

    gate: KMeansTensor
    up: KMeansTensor
    function: KMeansTensor  #: activation of the gate
    product: np.ndarray  #: fp16 values in float32 (tokens, size)

    @property
    def outliers(self) -> int:
        """Codebooks of both operands."""
        return self.gate.outlier.size + self.up.outlier.size


class Plain(NamedTuple):
    """The activation of up, in a block without a gate."""

    up: KMeansTensor
    values: np.ndarray  #: fp16 values in float32 (tokens, size)

    @property
    def outliers(self) -> int:
        """Codebook of the operand."""
        return self.up.outlier.size


class Blocks:
    """All blocks of a decoder, computed by the units, compiled or readable; tokens are rows."""

    def __init__(self, operands: Operands) -> None:
        self.operands: Operands = operands
        self._units = operands.units

    def __repr__(self) -> str:
        return f"Blocks({self._units!r})"

    def encode(self, full: str, x: np.ndarray) -> KMeansTensor:
        """Activation `full` ("blk.3.k"), fp16 values (tokens, size)."""
        return self.operands.encode(full, x)

    def linear(self, layer: int, names: Sequence[str], x: np.ndarray) -> Linear:
        """Index products with the weights `names`; after a norm also the norm, whose division comes last."""
        group, norm = self.operands.group(layer, names), None
        if group.gain is not None:
            norm = self._units.plain_norm(x, self.operands.sizes.rms_eps)
            x = self.operands.backend.round16(x * group.gain)
        a = self.encode(group.full, x)
        norms = self.operands.norms(a, group) if group.norm and norm is None else [norm] * len(names)
        outputs = [
            fp16.to_f32(self._units.product(a, weight.right, norm=norm, bias=weight.bias))
            for weight, norm in zip(group.weights, norms, strict=True)
        ]
        return Linear(x, a, outputs)

    def attention(self, layer: int, q: np.ndarray, cache: IndexCache) -> Attention:
        """Index products with K, softmax, integer scores times V. q: fp16 values (tokens, heads * dim)."""
        rule = self.operands.sizes.score_rule(layer)
        return kllm_attention.attention(self.operands, self.encode(f"blk.{layer}.q", q), cache, rule)

    def gated(self, layer: int, gate: np.ndarray, up: np.ndarray) -> Gated:
        """The activation by a table on the gate's indices, then the product of indices, read as FP16 (D-kllm-16)."""
        g, u = self.encode(f"blk.{layer}.gate", gate), self.encode(f"blk.{layer}.up", up)
        function = self._function(layer, g)
        return Gated(g, u, function, self._units.elementwise(f"blk.{layer}.down_in", function, u))

    def plain(self, layer: int, up: np.ndarray) -> Plain:
        """The activation by a table on up's indices, read as FP16."""
        u = self.encode(f"blk.{layer}.up", up)
        return Plain(u, self._units.values(self._function(layer, u)))

    def _function(self, layer: int, a: KMeansTensor) -> KMeansTensor:
        """The model's activation of `a`, by its index."""
        operands, scale = self.operands, None
        limits, mode = operands.formats[f"blk.{layer}.{operands.function}"].outliers, operands.config.function_table
        if mode == "offline" and isinstance(limits, Thresholds):
            scale = limits.scale
        return self._units.function(a, operands.sizes.activation, mode, scale)
