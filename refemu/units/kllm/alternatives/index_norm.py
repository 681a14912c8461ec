"""Other answers to the decisions of index_norm."""

from dataclasses import replace
from typing import Any

import numpy as np

from refemu.arith.checks import Refused
from refemu.units.alternative import Alternative, choices
from refemu.units.config import Config
from refemu.units.kllm.alternatives.arith import option
from refemu.units.kllm.index_norm.unit import IndexNorm, State, _value, _word


class EpsAfterRoot(IndexNorm):
    """eps is added to the root."""

    def _root(self, before: State) -> State:
        eps, self.eps = self.eps, 0.0
        try:
            after = super()._root(before)
        finally:
            self.eps = eps
        divisor = float(self._round(_value(after.rms, self.arith) + float(self._round(eps))))
        return replace(after, rms=_word(divisor, self.arith))


class SampleVariance(IndexNorm):
    """The variance is divided by n - 1."""

    def _root(self, before: State) -> State:
        if self.norm != "layer":
            return super()._root(before)
        mean, square = self.moments(before)
        variance = max(0.0, float(self._round(square - self._round(mean * mean))))
        wider = float(self._round(variance * self.n / (self.n - 1)))
        same = float(self._round(mean * mean))
        changed = self.with_moments(before, mean, float(self._round(wider + same)))
        return replace(super()._root(changed), moments=before.moments)


def _divides_once(config: Config, inputs: Any, result: Any) -> Any:
    """The centroids of the sparse path are not divided."""
    if result.divided is None:
        raise Refused("index_norm: this configuration folds nothing")
    weights = np.asarray(inputs["weights"])
    return {"divided": np.broadcast_to(weights, np.shape(result.divided)).astype(result.divided.dtype)}


ALTERNATIVES: tuple[Alternative, ...] = (
    *choices("D-kllm-19", "eps", 0.0, 1 / (1 << 10)),
    Alternative("D-kllm-19", "eps is added to the root", variant=EpsAfterRoot),
    option("D-kllm-20", "sums are fp16", stat="fp16"),
    Alternative("D-kllm-37", "the centroids of the sparse path are not divided", answer=_divides_once),
    Alternative("D-kllm-39", "the variance is divided by n - 1", variant=SampleVariance),
)
UNOBSERVABLE = {
    "D-kllm-18": "The ports take indices, so the input is quantized before this unit in every design.",
}
