"""Units of a lane are made of its small units: a wrong small unit shows at the outputs of what contains it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from refemu import units
from refemu.units.declaration import Changes
from refemu.units.kllm.clustering import Clustering
from refemu.units.kllm.concat import Concat
from refemu.units.kllm.fp16_mac import Fp16Mac
from refemu.units.kllm.functional import Functional
from refemu.units.kllm.index_counter import IndexCounter
from refemu.units.kllm.index_matmul import IndexMatmul, accumulators
from refemu.units.kllm.index_matmul import index_matmul as index_matmul_unit
from refemu.units.kllm.index_norm import index_norm as index_norm_unit
from refemu.units.kllm.kllm_chip import kllm_chip as kllm_chip_unit
from refemu.units.kllm.orizuru import CandidateArray, OrizuruArray
from refemu.units.kllm.orizuru_passes import OrizuruPasses, orizuru_passes
from refemu.units.kllm.pe_lane import macs as pe_lane_macs
from refemu.units.kllm.pe_lane import pe_lane as pe_lane_unit
from refemu.units.kllm.weighted_sum import weighted_sum

Answers = dict[str, list[Any]]


class Swapped(Concat):
    """The halves of the register are exchanged."""

    def concat(self, a: int, b: int) -> Changes:
        return super().concat(b, a)


class WithoutLane15(IndexCounter):
    """The last input is not connected."""

    def count(self, clear: int, q: Any, valid: Any, *amount: Any) -> Changes:
        return super().count(clear, q, (*valid[:15], 0), *amount)


class WithoutLastLane(IndexCounter):
    """The last input, of however many, is not connected."""

    def count(self, clear: int, q: Any, valid: Any, *amount: Any) -> Changes:
        return super().count(clear, q, (*valid[:-1], 0), *amount)


class Fused(Fp16Mac):
    """One rounding a step, whatever is asked for."""

    def __init__(self, rounding: Any = "fp16") -> None:
        super().__init__("fp16_fma")


class Sevens(Fp16Mac):
    """The sum is lost."""

    def multiply_add(self, a: int, b: int, acc: int) -> tuple[int, int]:
        return super().multiply_add(a, b, acc)[0], 0x4700


class Mirrored(OrizuruArray):
    """The inputs are connected in the reverse order."""

    def load(self, x: Any) -> Any:
        return super().load(tuple(x[::-1]))


class Exchanged(CandidateArray):
    """Each tree has the other's candidates."""

    def load_apart(self, top: Any, low: Any) -> Any:
        return super().load_apart(low, top)


class MirroredPasses(OrizuruPasses):
    """As `Mirrored`, of all passes."""

    def _open(self, x: Any) -> Any:
        return super()._open(tuple(x[::-1]))


class OtherIndex(Clustering):
    """The lowest bit of every index is wrong."""

    def _open(self, *inputs: Any) -> Any:
        state = super()._open(*inputs)
        return replace(state, index=state.index ^ 1)


class OtherFunction(Functional):
    """The lowest bit of every result is wrong."""

    def step(self, x: Any = None) -> Any:
        state = super().step(x)
        return replace(state, y=tuple([word ^ 1 for word in state.y]))


def answers(unit: str, config: str) -> Answers:
    """Outputs of the readable unit over the cases."""
    descriptor = units.find(unit)
    chosen = descriptor.configs[config]
    results = [
        descriptor.evaluate(chosen, block.inputs, jit=False)
        for kind in ("paper", "edge", "random")
        for block in descriptor.cases(chosen, kind, 0)  # type: ignore[arg-type]
    ]
    names = [port.name for port in descriptor.ports(chosen).outputs]
    return {name: [getattr(result, name).tolist() for result in results] for name in names}


@pytest.mark.parametrize(
    ("unit", "config", "place", "name", "wrong"),
    [
        ("index_matmul", "w4a4", index_matmul_unit, "Concat", Swapped),
        ("index_matmul", "w4a4", index_matmul_unit, "IndexCounter", WithoutLane15),
        ("index_matmul", "integer", index_matmul_unit, "IndexCounter", WithoutLane15),
        ("index_matmul", "exact", index_matmul_unit, "Concat", Swapped),
        ("index_matmul", "w4a4", accumulators, "Fp16Mac", Fused),
        ("index_matmul", "layer", accumulators, "Fp16Mac", Fused),
        ("index_matmul", "integer", accumulators, "Fp16Mac", Sevens),
        ("index_norm", "rms", index_norm_unit, "IndexCounter", WithoutLane15),
        ("index_norm", "layer_exact", index_norm_unit, "IndexCounter", WithoutLane15),
        ("pe_lane", "column", pe_lane_unit, "Concat", Swapped),
        ("pe_lane", "counter", pe_lane_unit, "Concat", Swapped),
        ("pe_lane", "column", pe_lane_unit, "IndexCounter", WithoutLastLane),
        ("pe_lane", "counter", pe_lane_unit, "IndexCounter", WithoutLastLane),
        ("pe_lane", "integer", pe_lane_unit, "IndexCounter", WithoutLastLane),
        ("pe_lane", "column", pe_lane_macs, "Fp16Mac", Fused),
        ("pe_lane", "integer", pe_lane_macs, "Fp16Mac", Sevens),
        ("orizuru_passes", "n40", orizuru_passes, "OrizuruArray", Mirrored),
        ("orizuru_passes", "n40", orizuru_passes, "CandidateArray", Exchanged),
        ("kllm_chip", "column", kllm_chip_unit, "OrizuruPasses", MirroredPasses),
        ("kllm_chip", "column", kllm_chip_unit, "Clustering", OtherIndex),
        ("kllm_chip", "softmax", kllm_chip_unit, "Functional", OtherFunction),
        ("kllm_chip", "column", pe_lane_unit, "Concat", Swapped),
        ("kllm_chip", "counter", pe_lane_unit, "IndexCounter", WithoutLastLane),
        ("kllm_chip", "sums", pe_lane_macs, "Fp16Mac", Fused),
        ("weighted_sum", "w4a4", weighted_sum, "Fp16Mac", Fused),
        ("weighted_sum", "integer", weighted_sum, "Fp16Mac", Sevens),
    ],
)
def test_a_wrong_small_unit_shows(
    monkeypatch: pytest.MonkeyPatch, unit: str, config: str, place: Any, name: str, wrong: type[Any]
) -> None:
    """[kllm §IV-A, Fig. 6] Concat units that swap, a counter without lane 15, MACs that round once."""
    right = answers(unit, config)
    monkeypatch.setattr(place, name, wrong)

    assert answers(unit, config) != right


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        (lambda macs: setattr(macs, "mac", Sevens()), {"inside": 0x40E00000, "outside": 0x40E00000}),
        (lambda macs: setattr(macs, "merging", Sevens()), {"y": 0x4700}),
    ],
)
def test_every_stage_is_a_mac(change: Callable[[Any], None], parts: dict[str, int]) -> None:
    """[kllm §III-B, §III-D] reduction, sparse path and merge: registers hold what the MACs answer."""
    (block, *_) = index_matmul_unit.UNIT.cases(index_matmul_unit.UNIT.configs["w4a4"], "edge", 0)
    device = IndexMatmul(**index_matmul_unit.UNIT.configs["w4a4"])
    change(device.accumulator)
    *_, last = device.steps(**{name: array[:1] for name, array in block.inputs.items()})

    assert {name: getattr(last, name) for name in parts} == parts


def test_registers_of_small_units_are_those_of_column() -> None:
    """q is in the Concat units, the counts in the counter, also after a State is restored."""
    (block, *_) = index_matmul_unit.UNIT.cases(index_matmul_unit.UNIT.configs["w4a4"], "edge", 0)
    device = IndexMatmul(**index_matmul_unit.UNIT.configs["w4a4"])
    states = list(device.steps(**{name: array[:2] for name, array in block.inputs.items()}))
    for state in (states[0], states[2], states[-1]):
        device.restore(state)
        assert tuple(unit.state.q for unit in device.concats) == state.q
        assert device.counter.state.count == state.count

    assert len(device.concats) == 20


def test_one_default_of_eps() -> None:
    """D-kllm-19: 0, of the unit, of its port-level run and of whole tensors, compiled too."""
    import inspect

    from refemu.units.kllm import index_norm
    from refemu.units.kllm.index_norm import compiled as index_norm_compiled

    functions = (
        index_norm.IndexNorm,
        index_norm.run,
        index_norm_compiled.run,
        index_norm.divisors,
        index_norm_compiled.divisors,
    )
    assert [inspect.signature(each).parameters["eps"].default for each in functions] == [0.0] * 5
    assert np.signbit(index_norm.IndexNorm(4).eps) == np.False_
