"""A decoder under a KLLM scheme: the plan of a block, in the units of the paper [kllm §III-A, §III-C, §III-D].

Behind a norm the un-normalized x is quantized, its root mean square comes from the counts of its indices, and the
division waits until behind the product (D-kllm-18). RoPE comes before the quantization of q and k (D-kllm-34). The
product of SiLU(gate) and up is read as FP16 values and quantized again (D-kllm-16); so is a function of `up` without a
gate. A bias is added behind the products, in FP16 (D-kllm-40).
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from refemu.arith import fp16
from refemu.arith.checks import Refused
from refemu.formats.codebook import Codebook
from refemu.formats.kllm_arith import KllmArith
from refemu.formats.kmeans import KMeans
from refemu.formats.kmeans_norm import row_sums
from refemu.formats.kmeans_outliers import Thresholds, TopK
from refemu.formats.kmeans_tensor import KMeansTensor
from refemu.models.backend import Backend
from refemu.models.schemes import kllm_attention, kllm_weights
from refemu.models.schemes.fp16 import Fp16
from refemu.models.schemes.kllm_cache import IndexCache
from refemu.models.schemes.kllm_calibrate import INPUTS, activations
from refemu.models.schemes.kllm_calibration import Calibration
from refemu.models.schemes.kllm_units import Units
from refemu.models.schemes.scheme import Progress
from refemu.units.index_matmul_parts import Norm

if TYPE_CHECKING:
    from refemu.models.model import Model
    from refemu.models.schemes.kllm import KllmConfig
    from refemu.models.taps import Watch

NORMS = {"attn_in": "attn_norm", "ffn_in": "ffn_norm"}


class Kllm(Fp16):
    """A decoder under a KLLM scheme, calibrated."""

    def __init__(
        self, model: "Model", config: "KllmConfig", backend: Backend, progress: Progress, calibration: Calibration
    ) -> None:
        self.kllm, self.calibration = config, calibration
        self.arith = KllmArith.preset(config.preset)
        self.units = Units(backend, self.arith)
        sizes: Any = model.config
        self._function = "gate" if sizes.gated else "up"  # what the feed-forward half takes a function of
        self.formats = {
            f"blk.{layer}.{name}": self._format(f"blk.{layer}.{name}", name)
            for layer in range(sizes.blocks)
            for name in activations(sizes)
        }
        self.weights: dict[str, KMeansTensor] = {}  #: "blk.3.wq": a vector per output
        self.biases: dict[str, np.ndarray | None] = {}  #: "blk.3.wq": float16, what is added to a product
        self.row_sums: dict[str, np.ndarray] = {}  #: "blk.3.wq": behind a LayerNorm, sums over the quantized weights
        super().__init__(model, config, backend, progress)
        self._step = self._prepare_step()

    def _prepare_step(self) -> Any:
        """What decodes single tokens; None: the units do."""
        if self.backend.name != "jit":
            return None
        from refemu.models.schemes import kllm_step_jit

        return kllm_step_jit.Step(self) if kllm_step_jit.suits(self) else None

    def _single(self, x: np.ndarray, watch: "Watch") -> bool:
        """Whether x is one token that nobody taps, and there is what decodes it."""
        return self._step is not None and len(x) == 1 and watch.taps is None

    def _format(self, full: str, tensor: str) -> KMeans:
        config, trained = self.kllm, self.calibration
        book = Codebook(config.act_bits, trained.codebook[full])
        percent = config.percent(tensor)
        if percent is None:
            return KMeans(book, preset=self.arith)
        if config.static(tensor, self._function):
            hi, lo = fp16.values(trained.limits[full]).astype(np.float64).tolist()
            return KMeans(book, Thresholds(hi, lo), preset=self.arith)
        return KMeans(book, TopK(percent), preset=self.arith)

    def encode(self, full: str, x: np.ndarray, watch: "Watch | None" = None) -> KMeansTensor:
        """Activation `full` ("blk.3.q"), fp16 values (tokens, size), a vector per token; refuses what is not finite."""
        if not np.isfinite(x).all():
            raise Refused(f"{full}: values must be finite, an FP16 result overflowed before")
        found = self.units.encode(self.formats[full], x)
        if watch is not None:
            counted(watch, x.size, found.outlier.size)
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
        single = self._step.linear(layer, names, x) if self._single(x, watch) else None
        if single is not None:
            counted(watch, x.size, single[0].outliers)
            return list(single[1])
        tensor = INPUTS[tuple(names)]
        full, norm = f"blk.{layer}.{tensor}", None
        delayed = tensor in NORMS and self.kllm.norm == "delayed"
        if delayed and self.kllm.gamma == "activations":
            norm = self.units.plain_norm(x, self._eps)
            x = self.backend.round16(x * self._vectors[f"blk.{layer}.{NORMS[tensor]}"])
        a = self.encode(full, x, watch)
        wholes = [f"blk.{layer}.w{name}" for name in names]
        norms: Sequence[Norm | None] = [norm] * len(names)
        if delayed and self.model.norm == "layer":
            norms = self.units.layer_norms(a, self._eps, [self.row_sums[whole] for whole in wholes])
        elif delayed and norm is None:
            norms = [self.units.norm(a, self._eps)] * len(names)
        weights = self._linears[layer, tuple(names)]
        if watch.taps is not None:
            self._tap_linear(layer, tensor, a, delayed, names, watch)
        products = [
            self.units.product(a, weight, norm=norm, bias=self.biases[whole])
            for whole, weight, norm in zip(wholes, weights, norms, strict=True)
        ]
        return [fp16.to_f32(y) for y in products]

    def _tap_linear(
        self, layer: int, tensor: str, a: KMeansTensor, normed: bool, names: Sequence[str], watch: "Watch"
    ) -> None:
        taps = self.taps(layer, watch)
        weights = [self.weights[f"blk.{layer}.w{name}"] for name in names]
        if normed:
            taps.normed(f"blk.{layer}.{tensor}", a, weights[0])
        for name, weight in zip(names, weights, strict=True):
            taps.product(f"blk.{layer}.{name}", a, weight)

    def cache(self, layer: int) -> Any:
        """Keys and values as indices."""
        k, v = f"blk.{layer}.k", f"blk.{layer}.v"
        made = IndexCache(
            self.model.kv_heads * self.model.head_dim,
            self.model.context,
            (self.formats[k].codebook, lambda x: self.encode(k, x)),
            (self.formats[v].codebook, lambda x: self.encode(v, x)),
        )
        if self._step is not None:
            made.keep = partial(self._step.keep, layer)
        return made

    def attention(self, layer: int, q: np.ndarray, cache: Any, watch: "Watch") -> np.ndarray:
        """Index products with K, softmax, integer scores times V; see `kllm_attention`."""
        single = self._step.attention(layer, q, cache) if self._single(q, watch) else None
        if single is not None:
            counted(watch, q.size, single[0].outliers)
            return np.asarray(single[1])
        a = self.encode(f"blk.{layer}.q", q.reshape(len(q), -1), watch)
        return kllm_attention.attention(self, layer, a, cache, watch)

    def activation(self, layer: int, gate: np.ndarray, up: np.ndarray, watch: "Watch") -> np.ndarray:
        """SiLU by a table on gate's indices, then the product of indices, read as FP16."""
        single = self._step.gated(layer, gate, up) if self._single(gate, watch) else None
        if single is not None:
            counted(watch, 2 * gate.size, single[0].outliers + single[1].outliers)
            return np.asarray(single[2])
        g, u = self.encode(f"blk.{layer}.gate", gate, watch), self.encode(f"blk.{layer}.up", up, watch)
        silu = self._table(layer, g)
        if watch.taps is not None:
            self.taps(layer, watch).gated(g, silu, u)
        return self.units.elementwise(f"blk.{layer}.down_in", silu, u)

    def activate(self, layer: int, up: np.ndarray, watch: "Watch") -> np.ndarray:
        """GELU or ReLU by a table on up's indices, read as FP16."""
        u = self.encode(f"blk.{layer}.up", up, watch)
        if watch.taps is not None:
            self.taps(layer, watch).table("up", u)
        return self.units.values(self._table(layer, u))

    def _table(self, layer: int, a: KMeansTensor) -> KMeansTensor:
        """The model's function of `a`, by its index."""
        limits, scale = self.formats[f"blk.{layer}.{self._function}"].outliers, None
        if self.kllm.function_table == "offline" and isinstance(limits, Thresholds):
            scale = limits.scale
        return self.units.function(a, self.model.activation, self.kllm.function_table, scale)

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
        for name, (whole, weight) in zip(names, encoded.items(), strict=True):
            self.biases[whole] = kllm_weights.bias(model, self.kllm, layer, name)
            if self.kllm.norm == "delayed" and self.model.norm == "layer" and name in kllm_weights.NORMS:
                self.row_sums[whole] = row_sums(weight, self.arith)
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


def counted(watch: "Watch", values: int, outliers: int) -> None:
    """Encoded values, and the outliers among them."""
    watch.count("encoded_values", values)
    watch.count("outliers", outliers)
