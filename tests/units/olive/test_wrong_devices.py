"""Faulty OliVe devices that golden cases must detect, and rows of some of them worked by hand."""

from typing import Any

import numpy as np
import pytest

from refemu import units
from refemu.arith import integers
from refemu.golden.grade import answers, device
from refemu.units import variant as other
from refemu.units.declaration import Changes
from refemu.units.olive.olive_edp import DotProductUnit
from refemu.units.olive.olive_edp.olive_edp import terms
from refemu.units.olive.olive_mac import reduce
from refemu.units.olive.olive_systolic import OliveSystolic
from refemu.units.variant import Variant

pytestmark = pytest.mark.committed

KINDS: tuple[Any, ...] = ("paper", "edge", "random")


class Forgetful(OliveSystolic):
    """The flag of an illegal pair is that of the last cycle of computation: it does not stay."""

    def compute(self, *inputs: Any) -> Changes:
        self.state = self.changed(illegal=0)
        return super().compute(*inputs)


class Short(DotProductUnit):
    """An adder tree of 36 bits: two fewer than products of 4-bit pairs and c need."""

    def reduce(self) -> Changes:
        total = int(integers.wrap(sum(terms(self.state)) + self.state.c, 36, True))
        d, overflow = reduce(total, self.overflow)
        return {**super().reduce(), "d": d, "overflow": overflow}


def of_decision(name: str, decision: str, says: str) -> Variant:
    """The alternative of a unit, by its decision and by words in what it says."""
    (answer,) = (each for each in units.find(name).variants if each.decision == decision and says in each.says)
    return answer


def rows(name: str, config: str, kinds: tuple[Any, ...] = KINDS) -> answers.Answers:
    unit = units.find(name)
    parameters = unit.config(config)
    return answers.of_cases(unit, parameters, (each for kind in kinds for each in unit.cases(parameters, kind, 0)))


def detections(name: str, config: str, variant: Variant) -> int:
    """Rows in which the device with another answer differs."""
    unit, stimulus = units.find(name), rows(name, config)
    wrong = other.device(unit, unit.config(config), [variant])
    assert wrong is not None
    return int(device.wrong(stimulus, wrong).sum())


@pytest.mark.parametrize(
    ("name", "config", "decision", "says"),
    [
        ("ovp_decoder", "int4", "D-olive-1", "high half"),
        ("ovp_decoder", "flint4", "D-olive-16", "<1, 2>"),
        ("ovp_decoder", "int4", "D-olive-18", "is not flagged"),
        ("ovp_decoder", "int4", "D-olive-19", "a victim"),
        ("ovp_decoder", "int4", "D-olive-20", "saturates"),
    ],
)
def test_cases_detect_device(name: str, config: str, decision: str, says: str) -> None:
    assert detections(name, config, of_decision(name, decision, says)) >= 3


@pytest.mark.parametrize("says", ["every addition", "one by one to c", "before c"])
@pytest.mark.parametrize("name", ["olive_edp", pytest.param("mmaovp", marks=pytest.mark.slow)])
def test_every_configuration_detects_32_bit_tree(name: str, says: str) -> None:
    """D-olive-34: a sum that leaves 32 bits and comes back shows a flag that is raised on the way."""
    for config in units.find(name).configs:
        assert detections(name, config, of_decision(name, "D-olive-34", says)) >= 3, config


@pytest.mark.parametrize("config", [name for name in units.find("olive_edp").configs if "int8" not in name])
def test_cases_detect_adder_tree_two_bits_short(config: str) -> None:
    """An exact sum of 2**36 is 0 in 36 bits, and nothing overflows there."""
    short = Variant("D-olive-34", "a tree of 36 bits", unit_class=Short)
    assert detections("olive_edp", config, short) >= 3


def test_sum_from_c_leaves_32_bits_and_returns() -> None:
    """2**31 - 1 + 1 - 1: the exact sum fits."""
    unit = units.find("olive_edp")
    ones, signs = [0x01, 0x01] + [0] * 6, [0x01, 0x0F] + [0] * 6
    inputs = {"a_pairs": [ones], "b_pairs": [signs], "bias_a": [2], "bias_b": [2], "c": [2**31 - 1]}
    arrays = {name: np.array(values) for name, values in inputs.items()}
    right = unit.evaluate(unit.config("int4_int4"), arrays)
    wrong = other.device(unit, unit.config("int4_int4"), [of_decision("olive_edp", "D-olive-34", "one by one to c")])
    assert wrong is not None
    got = wrong.evaluate(arrays)
    assert (right.d.tolist(), right.overflow.tolist()) == ([2**31 - 1], [False])
    assert (got.d.tolist(), got.overflow.tolist()) == ([2**31 - 1], [True])


def test_cases_detect_array_with_lost_illegal_flag() -> None:
    forgetful = Variant("D-olive-18", "the flag does not stay", unit_class=Forgetful)
    assert detections("olive_systolic", "int4", forgetful) >= 3


def test_tile_elements_overflow_in_different_rows() -> None:
    unit = units.find("mmaovp")
    for name in unit.configs:
        flags = rows("mmaovp", name, ("edge",)).outputs["out.overflow"] != 0
        assert len(np.unique(flags.T, axis=0)) == 64, name


@pytest.mark.parametrize(
    ("config", "decision", "says", "pair", "bias", "exponent", "base_int"),
    [
        ("int4", "D-olive-1", "high half", 0x85, 2, [0, 4], [0, 3]),  # the right element is the outlier
        ("int4", "D-olive-19", "a victim", 0x85, 2, [4, 2], [3, 0]),
        ("int4", "D-olive-20", "saturates", 0x87, 15, [15, 0], [3, 0]),  # 15 + 3, not 2 as modulo 16
        ("flint4", "D-olive-16", "<1, 2>", 0x11, 2, [0, 0], [1, 1]),
    ],
)
def test_decoder_variants_are_detected(
    config: str, decision: str, says: str, pair: int, bias: int, exponent: list[int], base_int: list[int]
) -> None:
    unit = units.find("ovp_decoder")
    wrong = other.device(unit, unit.config(config), [of_decision("ovp_decoder", decision, says)])
    assert wrong is not None
    result = wrong.evaluate({"pair": np.array([pair]), "bias": np.array([bias])})
    assert (result.exponent.tolist(), result.base_int.tolist()) == ([exponent], [base_int])


def test_other_flint_pairs_have_the_same_values() -> None:
    """D-olive-16: a comparison of integer << exponent passes them."""
    unit = units.find("ovp_decoder")
    wrong = other.device(unit, unit.config("flint4"), [of_decision("ovp_decoder", "D-olive-16", "<1, 2>")])
    assert wrong is not None
    inputs = {"pair": np.arange(256), "bias": np.full(256, 3)}
    right, got = unit.evaluate(unit.config("flint4"), inputs), wrong.evaluate(inputs)
    assert ((right.exponent != got.exponent).any(axis=1)).sum() >= 3
    shifted = [each.base_int.astype(np.int64) << each.exponent.astype(np.int64) for each in (right, got)]
    np.testing.assert_array_equal(shifted[0], shifted[1])
