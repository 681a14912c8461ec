"""The operands that a decoder's blocks keep under a KLLM scheme: formats, weights, biases [kllm §III-A, §III-C2]."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from refemu.arith import fp16
from refemu.arith.checks import Refused
from refemu.formats.kllm.codebook import Codebook
from refemu.formats.kllm.kllm_arith import KllmArith
from refemu.formats.kllm.kmeans import KMeans
from refemu.formats.kllm.kmeans_norm import row_sums
from refemu.formats.kllm.kmeans_outliers import Thresholds, TopK
from refemu.formats.kllm.kmeans_tensor import KMeansTensor
from refemu.models.backend import Backend
from refemu.models.model import Model
from refemu.models.schemes import share
from refemu.models.schemes.kllm import weights as kllm_weights
from refemu.models.schemes.kllm.calibration import Calibration
from refemu.models.schemes.kllm.config import KllmConfig
from refemu.models.schemes.kllm.steps import Units
from refemu.models.schemes.kllm.tensors import INPUTS, NORMED, encoded


class Operands:
    """Formats of the activations, encoded weights and biases of all blocks, and the units that compute with them."""

    def __init__(self, model: Model, config: KllmConfig, backend: Backend, calibration: Calibration) -> None:
        """The weights come later, group by group, by `add`."""
        sizes: Any = model.config
        self.sizes = sizes
        self.layers: Sequence[int] = share.blocks(model)  #: whose linear layers there are
        self.attends: bool = share.attends(model)  #: whether there are q, k and v
        self.config: KllmConfig = config
        self.backend: Backend = backend
        self.calibration: Calibration = calibration
        self.arith: KllmArith = KllmArith.preset(config.preset)
        self.units: Units = Units(backend, self.arith)
        self.function = "gate" if sizes.gated else "up"  #: argument of the feed-forward half's function
        self.formats: dict[str, KMeans] = {
            f"blk.{layer}.{name}": self._format(f"blk.{layer}.{name}", name)
            for layer in range(sizes.blocks)
            for name in encoded(model, layer)
        }
        self.weights: dict[str, KMeansTensor] = {}  #: "blk.3.wq": a vector per output
        self.prepared: dict[str, Any] = {}  #: the same as right operands, see `Units.prepare`
        self.biases: dict[str, np.ndarray | None] = {}  #: "blk.3.wq": float16, added to a product
        self.row_sums: dict[str, np.ndarray] = {}  #: "blk.3.wq": behind a LayerNorm, sums over the quantized weights
        self.gains: dict[str, np.ndarray] = {}  #: "blk.3.attn_in": float32, where an activation takes the norm's gain

    def __repr__(self) -> str:
        return f"Operands({self.config!r}, {len(self.weights)} weights)"

    def add(self, model: Model, layer: int, names: Sequence[str]) -> None:
        """Encode the weights of linear layers that read one activation."""
        tensor = INPUTS[tuple(names)]
        for name in names:
            whole = f"blk.{layer}.w{name}"
            self.weights[whole] = weight = self._weight(model, layer, name)
            self.prepared[whole] = self.units.prepare(weight)
            self.biases[whole] = kllm_weights.bias(model, self.config, layer, name)
            if self.delayed(tensor) and self.sizes.norm == "layer":
                self.row_sums[whole] = row_sums(weight, self.arith)
        if self.delayed(tensor) and self.config.gamma == "activations":
            gain = fp16.to_f16(model.tensor(f"blk.{layer}.{NORMED[tensor]}"))
            self.gains[f"blk.{layer}.{tensor}"] = gain.astype(np.float32)

    def delayed(self, tensor: str) -> bool:
        """Whether an activation stands behind a norm whose division waits until behind the product (D-kllm-18)."""
        return tensor in NORMED and self.config.norm == "delayed"

    def encode(self, full: str, x: np.ndarray) -> KMeansTensor:
        """Activation `full` ("blk.3.q"), fp16 values (tokens, size), a vector per token; refuses what is not finite."""
        if not np.isfinite(x).all():
            raise not_finite(full)
        return self.units.encode(self.formats[full], x)

    def _format(self, full: str, tensor: str) -> KMeans:
        config, trained = self.config, self.calibration
        book = Codebook(config.act_bits, trained.codebook[full])
        percent = config.percent(tensor)
        if percent is None:
            return KMeans(book, preset=self.arith)
        if config.static(tensor, self.function):
            hi, lo = fp16.values(trained.limits[full]).astype(np.float64).tolist()
            return KMeans(book, Thresholds(hi, lo), preset=self.arith)
        return KMeans(book, TopK(percent), preset=self.arith)

    def _weight(self, model: Model, layer: int, name: str) -> KMeansTensor:
        """A weight's indices, a vector per output; wq with the logits' 1 / sqrt(head_dim) in its scales.

        Where q has a norm behind wq, the norm's gain has it (D-kllm-64).
        """
        stored = kllm_weights.stored(model, self.config, layer, name)
        book = Codebook(self.config.weight_bits, self.calibration.codebook[f"blk.{layer}.w{name}"])
        weight = self.units.encode(KMeans(book, preset=self.arith), stored)
        if name != "q" or self.sizes.qk_norm or not share.scaled(model, alone=True):
            return weight
        scale = fp16.bits(kllm_weights.attention_scale(weight.scales, self.sizes))
        return KMeansTensor(weight.codebook, weight.index, scale, weight.mask, weight.outlier)


def not_finite(full: str) -> Refused:
    """The refusal of an activation that holds an infinity or NaN."""
    return Refused(f"{full}: values must be finite, an FP16 result overflowed before")
