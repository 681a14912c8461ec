"""The baseline of [kllm §V-A, Table II, Fig. 11]: integers by rounding to nearest, one scale per token and per output.

Operands of every product go through `GroupInt` without outliers and back to FP16 (scale times code, one rounding):
weights, inputs of linear layers (after the norm), q, k, v, gate and up. The rest, scores too, is scheme `fp16`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from refemu.arith import fp16
from refemu.arith.checks import Refused
from refemu.formats.groupint import GroupInt
from refemu.models.backend import Backend
from refemu.models.cache import KVCache
from refemu.models.model import Model
from refemu.models.schemes.fp16.decoder import Fp16
from refemu.models.schemes.fp16.layers import columns
from refemu.models.schemes.kllm.config import KllmConfig
from refemu.models.schemes.scheme import Progress
from refemu.models.taps import Watch


def rounded(name: str, x: np.ndarray, bits: int, backend: Backend) -> np.ndarray:
    """x (..., size) through integers of `bits` bits with one scale per row: fp16 values, float32."""
    if not np.isfinite(x).all():
        raise Refused(f"{name}: values must be finite, got infinity or NaN from an overflow before")
    encoded = GroupInt(bits).encode(x)
    return backend.round16(
        encoded.code.astype(np.float32) * encoded.scale.astype(np.float32)
    )  # exact before the rounding: 15 bits


class RoundedCache(KVCache):
    """Keys and values rounded to integers; a vector is a token, all heads together."""

    def __init__(self, parts: "KllmRtn", layer: int) -> None:
        sizes = parts.model
        super().__init__(sizes.kv_heads, sizes.head_dim, sizes.context)
        self._parts, self._layer = parts, layer

    def append(self, keys: np.ndarray, values: np.ndarray) -> None:
        """Round, then as `KVCache`."""
        k, v = (self._parts.whole(f"blk.{self._layer}.{name}", x) for name, x in (("k", keys), ("v", values)))
        super().append(k, v)

    def storage_bits(self) -> int:
        """Size of the integers in bits, with an fp16 scale for a token's keys and one for its values."""
        return self._parts.act_bits * (self.keys.size + self.values.size) + 32 * len(self)


class KllmRtn(Fp16):
    """A decoder with every operand rounded to integers."""

    def __init__(self, model: Model, config: KllmConfig, backend: Backend, progress: Progress) -> None:
        self._rtn = config
        self.act_bits: int = config.act_bits
        super().__init__(model, config, backend, progress)

    def whole(self, name: str, x: np.ndarray) -> np.ndarray:
        """Rounded tokens of x (tokens, heads, head_dim), all heads under one scale."""
        return rounded(name, x.reshape(len(x), -1), self._rtn.act_bits, self.backend).reshape(x.shape)

    def linear(self, layer: int, names: Sequence[str], x: np.ndarray, watch: Watch) -> Sequence[np.ndarray]:
        """As in scheme `fp16`, with the rounded input."""
        return super().linear(layer, names, self.whole(f"blk.{layer}.{names[0]}.input", x), watch)

    def cache(self, layer: int) -> KVCache:
        """Rounded keys and values."""
        return RoundedCache(self, layer)

    def attention(self, layer: int, q: np.ndarray, cache: Any, watch: Watch) -> np.ndarray:
        """As in scheme `fp16`, with the rounded q."""
        return super().attention(layer, self.whole(f"blk.{layer}.q", q), cache, watch)

    def activation(self, layer: int, gate: np.ndarray, up: np.ndarray, watch: Watch) -> np.ndarray:
        """As in scheme `fp16`, with the rounded operands."""
        return super().activation(
            layer, self.whole(f"blk.{layer}.gate", gate), self.whole(f"blk.{layer}.up", up), watch
        )

    def activate(self, layer: int, up: np.ndarray, watch: Watch) -> np.ndarray:
        """As in scheme `fp16`, with the rounded operand."""
        return super().activate(layer, self.whole(f"blk.{layer}.up", up), watch)

    def _prepare_group(self, model: Model, layer: int, names: Sequence[str]) -> Any:
        tensors = {name: f"blk.{layer}.{name}" for name in names}
        rows = [
            fp16.to_f16(
                rounded(full, fp16.to_f16(model.tensor(full)).astype(np.float32), self._rtn.weight_bits, self.backend)
            )
            for full in tensors.values()
        ]
        return self.backend.weights(np.concatenate(rows)), columns(rows)
