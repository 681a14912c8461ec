"""A decoder under a KLLM scheme: the plan of a block, in the units of the paper [kllm §III-A, §III-C, §III-D].

Behind a norm the un-normalized x is quantized, its root mean square comes from the counts of its indices, and the
division waits until behind the product (D-kllm-18). RoPE comes before the quantization of q and k (D-kllm-34). The
product of SiLU(gate) and up is read as FP16 values and quantized again (D-kllm-16).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from refemu.arith import fp16
from refemu.arith.checks import Refused
from refemu.formats.codebook import Codebook
from refemu.formats.kllm_arith import KllmArith
from refemu.formats.kmeans import KMeans
from refemu.formats.kmeans_outliers import Thresholds, TopK
from refemu.formats.kmeans_tensor import KMeansTensor
from refemu.models.backend import Backend
from refemu.models.schemes import kllm_attention, kllm_weights
from refemu.models.schemes.fp16 import Fp16
from refemu.models.schemes.kllm_cache import IndexCache
from refemu.models.schemes.kllm_calibrate import ACTIVATIONS, INPUTS
from refemu.models.schemes.kllm_calibration import Calibration
from refemu.models.schemes.kllm_units import Units
from refemu.models.schemes.scheme import Progress

if TYPE_CHECKING:
    from refemu.models.model import Model
    from refemu.models.schemes.kllm import KllmConfig
    from refemu.models.taps import Watch

NORMS = {"attn_in": "attn_norm", "ffn_in": "ffn_norm"}


class Kllm(Fp16):
    """A decoder under a KLLM scheme, calibrated."""

    def __init__(self, model: "Model", config: "KllmConfig", backend: Backend, progress: Progress,
                 calibration: Calibration) -> None:
        self.kllm, self.calibration = config, calibration
        self.arith = KllmArith.preset(config.preset)
        self.units = Units(backend, self.arith)
        self.formats = {f"blk.{layer}.{name}": self._format(f"blk.{layer}.{name}", name)
                        for layer in range(model.config.blocks) for name in ACTIVATIONS}
        self.weights: dict[str, KMeansTensor] = {}  #: "blk.3.wq": a vector per output
        super().__init__(model, config, backend, progress)

    def _format(self, full: str, tensor: str) -> KMeans:
        config, trained = self.kllm, self.calibration
        book = Codebook(config.act_bits, trained.codebook[full])
        percent = config.percent(tensor)
        if percent is None:
            return KMeans(book, preset=self.arith)
        if config.static(tensor):
            hi, lo = fp16.values(trained.limits[full]).astype(np.float64).tolist()
            return KMeans(book, Thresholds(hi, lo), preset=self.arith)
        return KMeans(book, TopK(percent), preset=self.arith)

    def encode(self, full: str, x: np.ndarray, watch: "Watch | None" = None) -> KMeansTensor:
        """Activation `full` ("blk.3.q"), fp16 values (tokens, size), a vector per token; refuses what is not finite."""
        if not np.isfinite(x).all():
            raise Refused(f"{full}: values must be finite, an FP16 result overflowed before")
        found = self.units.encode(self.formats[full], x)
        if watch is not None:
            watch.count("encoded_values", x.size)
            watch.count("outliers", found.outlier.size)
            if watch.taps is not None:
                self.taps(int(full.split(".")[1]), watch).encoded(full, x, found)
        return found

    def taps(self, layer: int, watch: "Watch") -> Any:
        """What tells the taps of a block."""
        from refemu.models.schemes.kllm_taps import Taps

        return Taps(self, layer, watch)

    def norm(self, name: str, x: np.ndarray) -> np.ndarray:
        """As scheme `fp16` behind the last block; elsewhere x itself, unless `norm=fp16`: see `linear`."""
        return super().norm(name, x) if name == "norm" or self.kllm.norm == "fp16" else x

    def linear(self, layer: int, names: Sequence[str], x: np.ndarray, watch: "Watch") -> Sequence[np.ndarray]:
        """Index products with the weights; behind a norm also the norm, whose division comes last."""
        tensor = INPUTS[tuple(names)]
        full, norm = f"blk.{layer}.{tensor}", None
        delayed = tensor in NORMS and self.kllm.norm == "delayed"
        if delayed and self.kllm.gamma == "activations":
            norm = self.units.plain_norm(x, self._eps)
            x = self.backend.round16(x * self._vectors[f"blk.{layer}.{NORMS[tensor]}"])
        a = self.encode(full, x, watch)
        if delayed and norm is None:
            norm = self.units.norm(a, self._eps)
        weights = self._linears[layer, tuple(names)]
        if watch.taps is not None:
            self._tap_linear(layer, tensor, a, norm is not None, names, watch)
        products = [self.units.product(a, weight, norm=norm) for weight in weights]
        return [fp16.to_f32(y) for y in products]

    def _tap_linear(self, layer: int, tensor: str, a: KMeansTensor, normed: bool, names: Sequence[str],
                    watch: "Watch") -> None:
        taps = self.taps(layer, watch)
        weights = [self.weights[f"blk.{layer}.w{name}"] for name in names]
        if normed:
            taps.normed(f"blk.{layer}.{tensor}", a, weights[0])
        for name, weight in zip(names, weights, strict=True):
            taps.product(f"blk.{layer}.{name}", a, weight)

    def cache(self, layer: int) -> Any:
        """Keys and values as indices."""
        k, v = f"blk.{layer}.k", f"blk.{layer}.v"
        return IndexCache(self.model.kv_heads * self.model.head_dim, self.model.context,
                          (self.formats[k].codebook, lambda x: self.encode(k, x)),
                          (self.formats[v].codebook, lambda x: self.encode(v, x)))

    def attention(self, layer: int, q: np.ndarray, cache: Any, watch: "Watch") -> np.ndarray:
        """Index products with K, softmax, integer scores times V; see `kllm_attention`."""
        a = self.encode(f"blk.{layer}.q", q.reshape(len(q), -1), watch)
        return kllm_attention.attention(self, layer, a, cache, watch)

    def activation(self, layer: int, gate: np.ndarray, up: np.ndarray, watch: "Watch") -> np.ndarray:
        """SiLU by a table on gate's indices, then the product of indices, read as FP16."""
        g, u = self.encode(f"blk.{layer}.gate", gate, watch), self.encode(f"blk.{layer}.up", up, watch)
        limits, scale = self.formats[f"blk.{layer}.gate"].outliers, None
        if self.kllm.function_table == "offline" and isinstance(limits, Thresholds):
            scale = limits.scale
        silu = self.units.function(g, "silu", self.kllm.function_table, scale)
        if watch.taps is not None:
            self.taps(layer, watch).gated(g, silu, u)
        return self.units.elementwise(f"blk.{layer}.down_in", silu, u)

    def head(self, x: np.ndarray, watch: "Watch") -> np.ndarray:
        """FP16 operands; the logits are rounded to FP16, once (D-kllm-36)."""
        if self.arith.acc == "exact":
            return self.units.head(x, self._outputs)
        return self.backend.round16(super().head(x, watch))

    def _prepare_head(self, model: "Model") -> Any:
        self._outputs = self._embed if self.model.tied_head else fp16.to_f16(model.tensor("head"))
        return super()._prepare_head(model)

    def _prepare_group(self, model: "Model", layer: int, names: Sequence[str]) -> list[Any]:
        encoded = {f"blk.{layer}.w{name}": self._weight(model, layer, name) for name in names}
        self.weights |= encoded
        return [self.units.prepare(weight) for weight in encoded.values()]

    def _weight(self, model: "Model", layer: int, name: str) -> KMeansTensor:
        """A weight's indices, a vector per output; wq with the logits' 1 / sqrt(head_dim) in its scales."""
        stored = kllm_weights.stored(model, self.kllm, layer, name)
        book = Codebook(self.kllm.weight_bits, self.calibration.codebook[f"blk.{layer}.w{name}"])
        found = self.units.encode(KMeans(book, preset=self.arith), stored)
        if name != "q":
            return found
        scale = fp16.bits(kllm_weights.attention_scale(found.scales, model.config.head_dim))
        return KMeansTensor(found.codebook, found.index, scale, found.mask, found.outlier)
