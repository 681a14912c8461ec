"""Variants of the decisions of kllm_chip."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from refemu.arith.checks import Refused
from refemu.formats.kllm.kllm_arith import KllmArith
from refemu.units import Changes, Config, DeclaredState, Variant, choices
from refemu.units.kllm.clustering import Clustering
from refemu.units.kllm.fp16_mac import Fp16Mac
from refemu.units.kllm.functional import WIDTH
from refemu.units.kllm.functional import variants as functional
from refemu.units.kllm.kllm_chip import KllmChip, LaneArray, Operands, Pass
from refemu.units.kllm.kllm_chip.sizes import CLUSTERING
from refemu.units.kllm.orizuru_passes import variants as passes
from refemu.units.variant import of_part, overriding


class DealtLanes(LaneArray):
    """Columns are dealt to the lanes one by one."""

    def columns(self, lane: int, task: Pass) -> range:
        return range(task.first + lane, task.first + task.width, self.sizes.lanes)


class CountingAll(LaneArray):
    """Positions of outliers are counted too."""

    def begin(self, operands: Operands, plan: Sequence[Pass]) -> None:
        super().begin(replace(operands, a_mask=np.zeros_like(operands.a_mask)), plan)
        streams = [feeder._stream for feeder in self.feeders]
        super().begin(operands, plan)
        for feeder, stream in zip(self.feeders, streams, strict=True):
            feeder._stream = stream


class Overlapped(KllmChip):
    """The first pass over the outputs runs while lanes work on the last tile."""

    _cycles = 0  # cycles of the function so far

    def function_(self) -> Changes:
        after = super().function_()
        self._cycles = 1 if self.state.event == "edge" else self._cycles + 1
        if self._cycles > (self.n - 1) // self.chip.tile * self.chip.tile // WIDTH:
            return after
        return {**after, "cycles_taken": self.state.cycles_taken, "cycles": 0}


def _with(lanes: type[LaneArray]) -> type[KllmChip]:
    """A chip with other lanes."""
    return type(lanes.__name__, (KllmChip,), {"lane_array": lanes})


def _applied(config: Config) -> Config:
    """Reject a chip that does not use its Functional Unit."""
    if config["function"] == "none":
        raise Refused("kllm_chip: function must be one of the Functional Unit, got 'none'")
    return config


def _softmax32(config: Config) -> Config:
    """Another rounding of softmax."""
    if config["function"] != "softmax":
        raise Refused(f"kllm_chip: function must be 'softmax', got {config['function']!r}")
    return Config(**{**config, "softmax": "softmax32"})


def _fused(old: Any, self: KllmChip, *sizes: Any, **options: Any) -> None:
    old.__init__(*sizes, **options)
    for lane in self.array.lanes:
        lane.mac_units = [Fp16Mac("fp16_fma") for _ in lane.mac_units]


def _least_outlier(old: KllmChip, self: KllmChip, done: DeclaredState) -> int:
    x, places = done.x, (*done.max_index[-1:], *done.min_index[-1:])
    return max((x[place] & 0x7FFF for place in places), default=0) or old._scale(done)


def _higher(old: Any, self: KllmChip, *sizes: Any, **options: Any) -> None:
    old.__init__(*sizes, **options)
    self.clustering = Clustering(self.a_bits, KllmArith(tie="high"), CLUSTERING)


_device = overriding(KllmChip)
VARIANTS: tuple[Variant, ...] = (
    _device("D-kllm-3: a MAC rounds once", __init__=_fused),
    _device("D-kllm-9: the scale is the larger magnitude of the last outliers", _scale=_least_outlier),
    _device(
        "D-kllm-9: the scale is the magnitude of the max tree's root",
        _scale=lambda old, self, done: done.root_max & 0x7FFF or old._scale(done),
    ),
    _device(
        "D-kllm-11: the scale of zeros is the smallest number",
        _scale=lambda self, done: max(done.root_max & 0x7FFF, done.root_min & 0x7FFF) or 1,
    ),
    _device("D-kllm-7: the higher of two nearest centroids", __init__=_higher),
    Variant("D-kllm-13", "positions of outliers are counted too", unit_class=_with(CountingAll)),
    *choices("D-kllm-31", "lane_mapping", "column", "counter"),
    Variant("D-kllm-31", "columns are dealt to the lanes one by one", unit_class=_with(DealtLanes)),
    *choices("D-kllm-42", "merge", "tree", "serial"),
    *choices("D-kllm-47", "carry", "counts", "sums"),
    *of_part(KllmChip, "orizuru", [each for each in passes.VARIANTS if "order" not in each.says]),
    Variant("D-kllm-62", "the first pass begins while lanes work", _applied, Overlapped),
    Variant("D-kllm-20", "softmax is 'softmax32'", _softmax32),
    *of_part(KllmChip, "functional", functional.VARIANTS, _applied),
)
UNOBSERVABLE = {
    "D-kllm-10": "Zero points do not cross the ports of this unit, and products of tensors with them are invalid.",
    "D-kllm-27": "The ports reject NaN and infinity, so no row of a stimulus has them.",
    "D-kllm-63": "NaN and +Inf among the outputs are invalid, so no row of a set has them.",
    "D-kllm-48": (
        "Every column of a token excludes the same positions, and lane 0 has most columns, so it never waits; only"
        " registers of the other lanes show when they begin."
    ),
    "D-kllm-66": "No configuration of a set limits the port of the external memory, so no lane waits for its Weight "
    "Buffer.",
    "D-kllm-67": "A row of a set is one token, so no other row passes its slabs.",
    "D-kllm-68": "A row of a set is one product of one head, whose columns have all lanes.",
}
