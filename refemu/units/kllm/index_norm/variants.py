"""Variants of the decisions of index_norm."""

from typing import Any

import numpy as np

from refemu.arith.checks import Refused
from refemu.formats.kllm.kmeans_norm import NoDivisor
from refemu.units.config import Config
from refemu.units.kllm.index_norm import IndexNorm
from refemu.units.kllm.weighted_sum.variants import option
from refemu.units.variant import Variant, choices, overriding


def _divides_once(config: Config, inputs: Any, result: Any) -> Any:
    if result.divided is None:
        raise Refused("index_norm: the configuration has no divided operands")
    weights = np.asarray(inputs["weights"])
    return {"divided": np.broadcast_to(weights, np.shape(result.divided)).astype(result.divided.dtype)}


def _eps_after_root(self: IndexNorm, square: float) -> float:
    root = float(self._round(float(np.sqrt(np.float64(square)))))
    if not root > 0:
        raise NoDivisor(root)
    return float(self._round(root + float(self._round(self.eps))))


def _sample_variance(old: IndexNorm, self: IndexNorm, mean: float, square: float) -> float:
    wider = float(self._round(old._variance(mean, square) * self.n / (self.n - 1)))
    return old._variance(mean, float(self._round(wider + float(self._round(mean * mean)))))


_device = overriding(IndexNorm)
VARIANTS: tuple[Variant, ...] = (
    *choices("D-kllm-19", "eps", 0.0, 1 / (1 << 10)),
    _device("D-kllm-19: eps is added to the root", _divisor=_eps_after_root),
    _device("D-kllm-39: the variance is divided by n - 1", _variance=_sample_variance),
    option("D-kllm-20", "sums are fp16", stat="fp16"),
    Variant("D-kllm-37", "the centroids of the sparse path are not divided", answer=_divides_once),
)
UNOBSERVABLE = {"D-kllm-18": "The ports take indices, so the input is quantized before this unit in every design."}
