"""The operands of a decoder's blocks under a KLLM scheme: formats, weights, biases [kllm §III-A, §III-C2]."""

from collections.abc import Sequence
from typing import Any, NamedTuple

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
from refemu.models.schemes import model_share
from refemu.models.schemes.kllm import weights as kllm_weights
from refemu.models.schemes.kllm.calibration import Calibration
from refemu.models.schemes.kllm.config import KllmConfig
from refemu.models.schemes.kllm.steps import Units
from refemu.models.schemes.kllm.tensors import INPUTS, NORMED, encoded
from refemu.units.kllm.index_matmul import Norm
from refemu.units.kllm.index_norm import NormKind


class Weight(NamedTuple):
    """A linear layer as an operand of products."""

    name: str  #: "q"
    tensor: KMeansTensor  #: a vector per output
    right: Any  #: the right operand from it, see `Units.prepare`
    bias: np.ndarray | None  #: float16 (outputs,), added to a product
    row_sum: np.ndarray | None  #: after a LayerNorm, sums over the quantized weights


class Group(NamedTuple):
    """Linear layers that read one activation, for the units, their compiled form, taps, the chip and its cost."""

    tensor: str  #: the activation, "attn_in"
    full: str  #: "blk.3.attn_in"
    norm: NormKind | None  #: before the activation, whose division waits until after the product (D-kllm-18)
    gain: np.ndarray | None  #: float32 (inputs,), where the activation takes the norm's gain
    weights: tuple[Weight, ...]


class Operands:
    """Formats of the activations, encoded weights and biases of all blocks, and the units that compute with them."""

    def __init__(self, model: Model, config: KllmConfig, backend: Backend, calibration: Calibration) -> None:
        """`add` adds the weights later, group by group."""
        sizes: Any = model.config
        self.sizes = sizes
        self.attends: bool = model_share.attends(model)  #: whether there are q, k and v
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
        self.groups: dict[tuple[int, tuple[str, ...]], Group] = {}  #: by block and names of the linear layers

    def __repr__(self) -> str:
        return f"Operands({self.config!r}, {len([w for group in self.groups.values() for w in group.weights])} weights)"

    def add(self, model: Model, layer: int, names: Sequence[str]) -> None:
        """Encode the weights of linear layers that read one activation."""
        tensor, gain = INPUTS[tuple(names)], None
        norm = self.sizes.norm if tensor in NORMED and self.config.norm == "delayed" else None
        if norm and self.config.gamma == "activations":
            gain = fp16.to_f16(model.tensor(f"blk.{layer}.{NORMED[tensor]}")).astype(np.float32)
        weights = []
        for name in names:
            weight, bias = self._weight(model, layer, name), kllm_weights.bias(model, self.config, layer, name)
            sums = row_sums(weight, self.arith) if norm == "layer" else None
            weights.append(Weight(name, weight, self.units.prepare(weight), bias, sums))
        self.groups[layer, tuple(names)] = Group(tensor, f"blk.{layer}.{tensor}", norm, gain, tuple(weights))

    def group(self, layer: int, names: Sequence[str]) -> Group:
        """Linear layers of a block that read one activation."""
        return self.groups[layer, tuple(names)]

    def norms(self, a: KMeansTensor, group: Group) -> list[Norm]:
        """The delayed norm of an activation, divided for each of its weights."""
        weights = [(weight.tensor.codebook, weight.row_sum) for weight in group.weights]
        return self.units.norms(a, self.sizes.norm, self.sizes.rms_eps, weights)

    def encode(self, full: str, x: np.ndarray) -> KMeansTensor:
        """Activation `full` ("blk.3.q"), fp16 values (tokens, size), a vector per token; they must be finite."""
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
        """A weight's indices, a vector per output; wq with 1 / sqrt(head_dim) in its scales.

        If a norm of q follows wq, the gain of the norm has the factor (D-kllm-64).
        """
        stored = kllm_weights.stored(model, self.config, layer, name)
        book = Codebook(self.config.weight_bits, self.calibration.codebook[f"blk.{layer}.w{name}"])
        weight = self.units.encode(KMeans(book, preset=self.arith), stored)
        if name != "q" or self.sizes.qk_norm or not model_share.scaled(model, alone=True):
            return weight
        scale = fp16.bits(kllm_weights.attention_scale(weight.scales, self.sizes))
        return KMeansTensor(weight.codebook, weight.index, scale, weight.mask, weight.outlier)


def not_finite(full: str) -> Refused:
    """The error for an activation with infinity or NaN."""
    return Refused(f"{full}: values must be finite, got infinity or NaN from an FP16 overflow before")
