"""Scheme `fp16`: weights, activations, residual, keys and values are fp16 between layers [D-arith-15].

A linear layer is an ordered fp32 sum rounded once; norms, softmax and rotary positions are float32 steps rounded once;
silu and GELU are the correctly rounded fp16 tables. The logits are float32. Every other scheme uses these parts for
what its paper leaves alone.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from refemu.arith import fp16, rotary
from refemu.arith.checks import require_choice
from refemu.arith.records import parameters
from refemu.models.backend import Backend
from refemu.models.cache import Caches, KVCache
from refemu.models.encoder_config import BIAS, EncoderConfig
from refemu.models.schemes.scheme import Prepared, Progress, Scheme, require_layers

if TYPE_CHECKING:
    from refemu.models.config import ModelConfig
    from refemu.models.model import Model
    from refemu.models.taps import Watch


@parameters
class Fp16Config:
    """Parameters of scheme `fp16`."""

    paper: ClassVar[str] = "docs/models.md"
    encoders: ClassVar[bool] = True
    every_decoder: ClassVar[bool] = True

    acc: str = "fp32"  #: accumulator of the linear layers and the head; attention always sums in fp32
    residual: str = "fp16"  #: "fp16": rounded after every block half; "fp32": the stream stays float32

    def __post_init__(self) -> None:
        require_choice(self.acc, ("fp32", "fp32_fma", "fp16", "fp16_fma"), "fp16", "acc")
        require_choice(self.residual, ("fp16", "fp32"), "fp16", "residual")

    def prepare(
        self, model: "Model", backend: Backend, calibration: Sequence[int] | None, progress: Progress
    ) -> Prepared:
        """Round the weights to fp16; nothing is calibrated."""
        from refemu.models.schemes.fp16_encoder import Fp16Encoder

        made: Any = Fp16Encoder if isinstance(model.config, EncoderConfig) else Fp16
        return made(model, self, backend, progress)


class Fp16Layers:
    """What every kind of model shares under scheme `fp16`; hidden states are fp16 values held in float32."""

    model: Any  #: sizes, of the kind that the class computes

    def __init__(self, model: "Model", config: Scheme, backend: Backend, progress: Progress) -> None:
        self.name, self.sha256, self.model = model.name, model.sha256, model.config
        self.config, self.backend = config, backend
        self.acc, self.residual = getattr(config, "acc", "fp32"), getattr(config, "residual", "fp16")
        self._scale = np.float32(1.0 / np.sqrt(np.float64(self.model.head_dim)))
        self._embed = fp16.to_f16(model.tensor("embed"))
        self._vectors = {
            name: self._vector(model, name) for name, shape in model.config.shapes.items() if len(shape) == 1
        }
        self._linears = self._prepare_linears(model, progress)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.config!r}, backend={self.backend.name!r})"

    def embed(self, ids: np.ndarray) -> np.ndarray:
        """Rows of the embedding, each rounded once to fp16."""
        return self._embed[ids].astype(np.float32)

    def linear(self, layer: int, names: Sequence[str], x: np.ndarray, watch: "Watch") -> Sequence[np.ndarray]:
        """`matmul(order=Sequential(), acc=acc)`, one rounding; the rows of all `names` stand in one matrix."""
        weights, parts = self._linears[layer, tuple(names)]
        full = [f"blk.{layer}.{name}" for name in names]
        y = self.finish(full, self.backend.matmul(x, weights, self.acc))
        return [y[:, part] for part in parts]

    def finish(self, names: Sequence[str], y: np.ndarray) -> np.ndarray:
        """What follows the float32 sums of the linear layers `names` ("blk.3.q"), side by side.

        The biases where there are any, fp16 values added in float32; then one rounding.
        """
        if self.model.bias:
            y = y + np.concatenate([self._vectors[name + BIAS] for name in names])
        return self.backend.round16(y)

    def add(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """float32 sum, rounded to fp16 unless the residual stream is float32."""
        total = x + y
        return self.backend.round16(total) if self.residual == "fp16" else total

    def _vector(self, model: "Model", name: str) -> np.ndarray:
        return fp16.to_f16(model.tensor(name)).astype(np.float32)

    def _prepare_linears(self, model: "Model", progress: Progress) -> dict[tuple[int, tuple[str, ...]], Any]:
        linears: dict[tuple[int, tuple[str, ...]], Any] = {}
        for layer in range(self.model.blocks):
            progress("weights", layer, self.model.blocks)
            for names in self.model.groups:
                linears[layer, names] = self._prepare_group(model, layer, names)
        progress("weights", self.model.blocks, self.model.blocks)
        return linears

    def _prepare_group(self, model: "Model", layer: int, names: Sequence[str]) -> Any:
        rows = [fp16.to_f16(model.tensor(f"blk.{layer}.{name}")) for name in names]
        return self.backend.weights(np.concatenate(rows)), columns(rows)


class Fp16(Fp16Layers):
    """A decoder under scheme `fp16`."""

    model: "ModelConfig"

    def __init__(self, model: "Model", config: Scheme, backend: Backend, progress: Progress) -> None:
        require_layers(config, model)
        super().__init__(model, config, backend, progress)
        self._eps = self.model.rms_eps  # rounded to float32 where it is used
        self._cos = self._sin = np.empty((0, self.model.head_dim // 2), np.float32)
        self._head = self._prepare_head(model)
        if self.model.positions == "learned":
            self._position = fp16.to_f16(model.tensor("position"))

    def position(self, start: int, count: int) -> np.ndarray:
        """Rows of the position embedding, each rounded once to fp16."""
        return self._position[start : start + count].astype(np.float32)

    def norm(self, name: str, x: np.ndarray) -> np.ndarray:
        """RMSNorm or LayerNorm, gain and bias rounded once to fp16; sums in ascending order."""
        if self.model.norm == "layer":
            return self.backend.layernorm(x, self._vectors[name], self._vectors[name + BIAS], self._eps)
        return self.backend.rmsnorm(x, self._vectors[name], self._eps)

    def rotate(self, x: np.ndarray, start: int) -> np.ndarray:
        """Rotary positions with float32 tables of correctly rounded angles, one rounding."""
        cos, sin = self._angles(start + len(x))
        return self.backend.rotate(
            x, cos[start : start + len(x)], sin[start : start + len(x)], self.model.rope_interleaved
        )

    def cache(self, layer: int) -> KVCache:
        """Keys and values as they come out of the rotation: fp16 values."""
        return KVCache(self.model.kv_heads, self.model.head_dim, self.model.context)

    def caches(self) -> Caches:
        """One of each block."""
        return Caches(self.cache(layer) for layer in range(self.model.blocks))

    def attention(self, layer: int, q: np.ndarray, cache: Any, watch: "Watch") -> np.ndarray:
        """Causal grouped-query attention over ascending keys; one rounding, after the weighted sum."""
        start = len(cache) - len(q)
        return self.backend.attention(q, cache.keys, cache.values, self._scale, start).reshape(len(q), -1)

    def activation(self, layer: int, gate: np.ndarray, up: np.ndarray, watch: "Watch") -> np.ndarray:
        """silu by table, then one fp16 product."""
        return self.backend.round16(self.backend.apply16("silu", gate) * up)

    def activate(self, layer: int, up: np.ndarray, watch: "Watch") -> np.ndarray:
        """GELU by table; or ReLU, +0 for what is not above 0, NaN excepted."""
        if self.model.activation == "relu":
            return np.where(up <= 0, np.float32(0), up)
        return self.backend.apply16(self.model.activation, up)

    def head(self, x: np.ndarray, watch: "Watch") -> np.ndarray:
        """The output matrix; its sums are not rounded to fp16."""
        return self.backend.matmul(x, self._head, self.acc)

    def _angles(self, end: int) -> tuple[np.ndarray, np.ndarray]:
        """(cos, sin) float32 of positions 0 to at least end - 1; the table doubles, so decoding stays cheap."""
        if end > len(self._cos):
            positions = np.arange(max(end, min(2 * len(self._cos) + 512, self.model.context)))
            tables = rotary.rotary(positions, self.model.head_dim, self.model.rope_base, "exact")
            self._cos, self._sin = (table.astype(np.float32) for table in tables)
        return self._cos, self._sin

    def _prepare_head(self, model: "Model") -> Any:
        return self.backend.weights(self._embed if self.model.tied_head else fp16.to_f16(model.tensor("head")))


def columns(rows: Sequence[np.ndarray]) -> list[slice]:
    """Where the outputs of each of the concatenated matrices `rows` stand."""
    ends = np.cumsum([len(part) for part in rows]).tolist()
    return [slice(end - len(part), end) for part, end in zip(rows, ends, strict=True)]
