"""Decoders under scheme `fp16`: weights, activations, residual, keys and values are fp16 between layers [D-arith-15].

A linear layer is an ordered fp32 sum rounded once; norms, softmax and rotary positions are float32 steps rounded once;
silu and GELU are the correctly rounded fp16 tables. The logits are float32. Every other scheme uses these parts for
what its paper does not change.
"""

from typing import Any

import numpy as np

from refemu.models.backend import Backend
from refemu.models.cache import Cache, Caches, KVCache
from refemu.models.config import ModelConfig
from refemu.models.encoder.config import BIAS
from refemu.models.model import Model
from refemu.models.prepared import tensors
from refemu.models.rotation import Rotation
from refemu.models.schemes import model_share
from refemu.models.schemes.fp16.layers import Fp16Layers
from refemu.models.schemes.scheme import PreparedPart, Progress, Scheme, require_layers
from refemu.models.taps import Watch


class Fp16(Fp16Layers, PreparedPart):
    """A decoder under scheme `fp16`."""

    model: ModelConfig

    def __init__(self, model: Model, config: Scheme, backend: Backend, progress: Progress) -> None:
        require_layers(config, model)
        assert isinstance(model.config, ModelConfig)
        self._scale = model.config.attention_scale
        super().__init__(model, config, backend, progress)
        self._eps = self.model.rms_eps  # rounded to float32 at its use
        self._rotation = Rotation(self.model)
        self._head = self._prepare_head(model) if model_share.outer(model) else None
        if self.model.positions == "learned" and model_share.outer(model):
            self._position = tensors.half(self._fp16, model, "position")

    def embed(self, ids: np.ndarray) -> np.ndarray:
        """Rows of the embedding, rounded once to fp16, times float32(sqrt(width)) if scaled (D-arith-32)."""
        x = super().embed(ids)
        return self.streamed(x * np.sqrt(np.float32(self.model.width))) if self.model.scaled_embed else x

    def position(self, start: int, count: int) -> np.ndarray:
        """Rows of the position embedding, each rounded once to fp16."""
        return self._position[start : start + count].astype(np.float32)

    def norm(self, name: str, x: np.ndarray) -> np.ndarray:
        """RMSNorm or LayerNorm of the last axis, gain and bias rounded once to fp16; sums in ascending order."""
        if self.model.norm == "layer":
            return self.backend.layernorm(x, self._vectors[name], self._vectors[name + BIAS], self._eps)
        return self.backend.rmsnorm(x, self._vectors[name], self._eps)

    def rotate(self, x: np.ndarray, start: int) -> np.ndarray:
        """Rotary positions with float32 tables of correctly rounded angles, one rounding."""
        return self._rotation.rotate(x, start, self.backend)

    def cache(self, layer: int) -> Cache:
        """Keys and values after the rotation: fp16 values."""
        return KVCache(self.model.kv_heads, self.model.head_dim, self.model.context)

    def caches(self) -> Caches:
        """One cache per block."""
        return Caches(self.cache(layer) for layer in range(self.model.blocks))

    def attention(self, layer: int, q: np.ndarray, cache: Any, watch: Watch) -> np.ndarray:
        """Causal grouped-query attention over ascending keys; one rounding, after the weighted sum."""
        start, rule = len(cache) - len(q), self.model.score_rule(layer)
        return self.backend.attention(q, cache.keys, cache.values, self._scale, start, rule).reshape(len(q), -1)

    def prompt_attention(self, layer: int, q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Attention of a prompt without later tokens: (tokens, heads, head_dim) to (tokens, heads * head_dim)."""
        cache = self.cache(layer)
        cache.append(k, v)
        return self.attention(layer, q, cache, Watch())

    def activation(self, layer: int, gate: np.ndarray, up: np.ndarray, watch: Watch) -> np.ndarray:
        """The activation by table, then one fp16 product."""
        return self.backend.round16(self._function(gate) * up)

    def activate(self, layer: int, up: np.ndarray, watch: Watch) -> np.ndarray:
        """The activation alone."""
        return self._function(up)

    def _function(self, x: np.ndarray) -> np.ndarray:
        """SiLU or GELU by table, or ReLU: +0 for values not above 0, except NaN."""
        if self.model.activation == "relu":
            return np.where(x <= 0, np.float32(0), x)
        return self.backend.apply16(self.model.activation, x)

    def head(self, x: np.ndarray, watch: Watch) -> np.ndarray:
        """The output matrix; its sums are not rounded to fp16."""
        return self.backend.matmul(x, self._head, self.acc)

    def _prepare_head(self, model: Model) -> Any:
        return self._fp16_matrix(model, ["head"])[0]
