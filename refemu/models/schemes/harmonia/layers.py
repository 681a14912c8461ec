"""A decoder under a Harmonia scheme: the steps of a block, in the units of the paper [harmonia §III, §IV-A].

Every result of the array goes through FP2Half before anything else reads it. Every input of a product is converted to
block floating point along the axis of the sum (D-harmonia-15, D-harmonia-16): channels for linear layers, the head for
queries and keys, keys for scores, tokens for values.
"""

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from refemu.formats.harmonia.bfp import Bfp
from refemu.models.backend import Backend
from refemu.models.encoder.config import BIAS
from refemu.models.model import Model
from refemu.models.prepared.prepared_cache import Recipe, prepared_cache
from refemu.models.schemes import model_share
from refemu.models.schemes.fp16.decoder import Fp16
from refemu.models.schemes.harmonia import attention as harmonia_attention
from refemu.models.schemes.harmonia.cache import HarmoniaCache, HarmoniaCaches
from refemu.models.schemes.harmonia.config import HarmoniaConfig
from refemu.models.schemes.harmonia.linear import Linear
from refemu.models.schemes.harmonia.smoothing import Smoothing, spread
from refemu.models.schemes.harmonia.steps import Scoring, Units
from refemu.models.schemes.harmonia.taps import Taps
from refemu.models.schemes.model_share import Share
from refemu.models.schemes.scheme import Progress
from refemu.models.taps import Watch


class Harmonia(Fp16):
    """A decoder under a Harmonia scheme."""

    observed: bool = False  #: whether its calls are observed: caches then keep the words of all tokens

    def __init__(
        self, model: Model, config: HarmoniaConfig, backend: Backend, progress: Progress, smoothing: Smoothing
    ) -> None:
        self.harmonia: HarmoniaConfig = config
        self.smoothing: Smoothing = smoothing
        self.units: Units = Units(backend, config)
        self.activations: Bfp = config.format(config.act_mantissa)
        self._prepared_cache = prepared_cache(
            model, backend, recipe(config, smoothing, alone=not isinstance(model, Share))
        )
        super().__init__(model, config, backend, progress)

    def linear(self, layer: int, names: Sequence[str], x: np.ndarray, watch: Watch) -> Sequence[np.ndarray]:
        """One conversion of the input, one product, FP2Half."""
        linear: Linear = self._linears[layer, tuple(names)]
        taps = self.taps(layer, watch)
        direct = linear.direct(x) if taps is None else None
        if direct is not None:
            return direct
        a = self.units.encode(self.activations, self.units.words(x), name=f"{linear.names[0]}.input")
        if taps is not None:
            taps.linear(linear, x, a)
        return linear(a)

    def taps(self, layer: int, watch: Watch) -> Taps | None:
        """The taps of a block; None without an observer."""
        return None if watch.taps is None else Taps(self.units, layer, watch, self.scoring(layer))

    def cache(self, layer: int) -> HarmoniaCache:
        """Keys and values as codes."""
        return HarmoniaCache(
            self.model.kv_heads,
            self.model.head_dim,
            self.model.context,
            self.harmonia,
            self.units,
            f"blk.{layer}",
            self.observed,
        )

    def caches(self) -> HarmoniaCaches:
        """One cache per block."""
        return HarmoniaCaches(self.cache(layer) for layer in range(self.model.blocks))

    def attention(self, layer: int, q: np.ndarray, cache: Any, watch: Watch) -> np.ndarray:
        """See `harmonia.attention`."""
        return harmonia_attention.attention(self.units, q, cache, self.scoring(layer), watch, self.taps(layer, watch))

    def scoring(self, layer: int) -> Scoring:
        """Operations of a block on its logits."""
        return Scoring(self._scale, self.model.score_rule(layer))

    def norm(self, name: str, x: np.ndarray) -> np.ndarray:
        """As in scheme `fp16`; the norms of q and k have gains per head (D-harmonia-57)."""
        part = name.rpartition(".")[2]
        if part not in ("q_norm", "k_norm"):
            return super().norm(name, x)
        gains = self._head_gains(int(name.split(".")[1]), part[0])
        heads = [self.backend.rmsnorm(x[:, h], gain, self._eps) for h, gain in enumerate(gains)]
        return np.stack(heads, axis=1)

    def _head_gains(self, layer: int, name: str) -> np.ndarray:
        """Smoothed gains of the norm of q or k by head, fp16 values (heads, head_dim)."""
        gain, factor = self._vectors[f"blk.{layer}.{name}_norm"], self.smoothing.s[layer]
        if name == "k":
            return self.backend.round16(gain * factor)
        scaled = gain / spread(factor, self.model.heads)
        return self.backend.round16(scaled * self._scale if self.harmonia.score_scale == "fold" else scaled)

    def smoothed(self, model: Model) -> Model:
        """The model with the factors in W_Q and W_K, for the linear parts of a mix (D-mix-2)."""
        if self.model.qk_norm or (not self.harmonia.offline and self.harmonia.score_scale == "softmax"):
            return model  # norms on q and k have the factors, and belong to the attention
        return model_share.changed(model, self.smoothing.s.tobytes() + self.harmonia.score_scale.encode(), self._smooth)

    def _prepare_group(self, model: Model, layer: int, names: Sequence[str]) -> Linear:
        source = model if isinstance(model, Share) else model_share.changed(model, b"", self._smooth)
        full = [f"blk.{layer}.{name}" for name in names]

        def rows() -> np.ndarray:
            return np.concatenate([source.tensor(name) for name in full])

        biases = [source.tensor(name + BIAS) for name in full if name + BIAS in model.config.shapes]
        outputs = [model.config.shapes[name][0] for name in full]
        return Linear(full, outputs, rows, biases, self.units, self._prepared_cache)

    def _smooth(self, tensor: str, rows: np.ndarray) -> np.ndarray:
        """Outputs of W_K times their factors, of W_Q divided by them [harmonia Eq. 1]; each rounded once to float32.

        If q and k have norms, their gains are smoothed instead (D-harmonia-57).
        """
        block, _, name = tensor.removeprefix("blk.").removesuffix(BIAS).partition(".")
        if name not in ("q", "k") or self.model.qk_norm:
            return rows
        factor = self.smoothing.s[int(block)]
        per_row = (factor if name == "k" else spread(factor, self.model.heads)).reshape(-1, *[1] * (rows.ndim - 1))
        rows = rows * per_row if name == "k" else rows / per_row
        return rows * self._scale if name == "q" and self.harmonia.score_scale == "fold" else rows


def recipe(config: HarmoniaConfig, smoothing: Smoothing, alone: bool) -> Recipe:
    """Everything that the quantized weights depend on: format, groups, and smoothing.

    alone: not as a part of a mix, whose weights are given.
    """
    settings: dict[str, Any] = {name: getattr(config, name) for name in ("weights", "zero_point", "group")}
    settings["folded"] = alone and config.score_scale == "fold"
    settings["factors"] = hashlib.sha256(np.ascontiguousarray(smoothing.s, "<f4").tobytes()).hexdigest()
    sources = ("formats/*.py", "formats/compiled/*.py", "formats/harmonia/**/*.py")
    scheme = ("models/schemes/model_share.py", "models/schemes/harmonia/l*.py", "models/schemes/harmonia/s*.py")
    return Recipe("harmonia", (*sources, *scheme), settings, width=1.1 if config.weights == "int4" else 2)
