"""Every decision of every unit has a variant that its committed sets detect, or a reason why no bit shows it."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from refemu import units
from refemu.arith.checks import RefusedType
from refemu.golden.grade import reimport
from refemu.units import variant as other
from refemu.units.config import Config
from refemu.units.olive.ovp_decoder import OvpDecoder
from refemu.units.variant import Variant, choices, only, overriding

ID = re.compile(r"D-[a-z]+-\d+")
EVERY = [units.find(name) for name in units.names()]


def named(unit: Any) -> set[str]:
    """Decisions that the readable modules of a unit name."""
    return {id for path in reimport.sources(unit) for id in ID.findall(path.read_text())}


def test_every_decision_in_code_has_alternative_or_reason() -> None:
    for unit in EVERY:
        offered = {variant.decision for variant in unit.variants}
        assert named(unit) - offered - set(unit.unobservable) == set(), unit.name
        assert offered & set(unit.unobservable) == set(), unit.name
        assert all(len(reason) > 20 for reason in unit.unobservable.values()), unit.name


def test_alternatives_of_decision_differ_in_what_they_say() -> None:
    for unit in EVERY:
        said = [(variant.decision, variant.says) for variant in unit.variants]
        assert len(set(said)) == len(said), unit.name


class Silent(OvpDecoder):
    """Never flags an illegal pair."""

    def is_illegal(self, *codes: int) -> int:
        return 0


def silent() -> Variant:
    return Variant("D-olive-18", "an illegal pair is not flagged", unit_class=Silent)


PAIRS = {"pair": np.arange(256), "bias": np.full(256, 2)}


def test_overriding_class_answers_in_place_of_unit() -> None:
    unit = units.find("ovp_decoder")
    config = unit.configs["int4"]
    device = other.device(unit, config, [silent()])
    assert device is not None

    right, wrong = unit.evaluate(config, PAIRS), device.evaluate(PAIRS)
    assert right.illegal.any() and not wrong.illegal.any()
    assert (right.base_int == wrong.base_int).all()


def test_changes_compose_and_answer_function_comes_last() -> None:
    unit = units.find("ovp_decoder")
    config = unit.configs["int4"]
    negated = Variant("D-test-1", "negated", answer=lambda config, inputs, result: {"base_int": -result.base_int})
    flint = choices("D-test-2", "normal", "flint4")[0]
    device = other.device(unit, config, [negated, silent(), flint])
    assert device is not None

    right, wrong = unit.evaluate(unit.configs["flint4"], PAIRS), device.evaluate(PAIRS)
    assert right.illegal.any() and not wrong.illegal.any()
    assert (right.base_int == -wrong.base_int).all() and right.base_int.any()


def test_variant_setting_unknown_parameter_is_rejected() -> None:
    unit = units.find("ovp_decoder")
    with pytest.raises(RefusedType, match=r"D-test-1 \(ties is 'up'\) sets 'ties', which is not a parameter"):
        other.device(unit, unit.configs["int4"], choices("D-test-1", "ties", "up"))


def test_identical_or_impossible_device_is_none() -> None:
    unit = units.find("ovp_decoder")
    config = unit.configs["int4"]
    answer = Variant("D-test-1", "negated", answer=lambda config, inputs, result: {})

    assert other.device(unit, config, choices("D-test-2", "normal", "int4")) is None
    assert other.device(unit, config, choices("D-test-2", "normal", "int5")) is None
    short = Config(normal="int4")
    assert other.device(unit, short, choices("D-test-2", "outlier", (2, 1))) is None, "a parameter set to its default"
    assert other.device(unit, short, choices("D-test-2", "normal", "flint4")) is not None
    assert other.device(unit, config, [answer, answer]) is None
    assert other.device(unit, config, [silent(), silent()]) is None


def test_overriding_members_get_the_unit_and_its_own_members() -> None:
    unit = units.find("v_grouper")
    config = unit.configs["paper"]
    device = unit.unit_class(**config)
    narrow = overriding(unit.unit_class)(
        "D-test-1: one bit less",
        format=lambda old, self: replace(old.format, mantissa_bits=self.high - 1),
        _shifts=lambda old, self: not old._shifts,
    )
    assert narrow.unit_class is not None
    changed: Any = narrow.unit_class(**config)

    assert changed.format.mantissa_bits == device.format.mantissa_bits - 1 and changed.format is changed.format
    assert changed._shifts is not device._shifts
    assert (narrow.decision, narrow.says, narrow.unit_class.__doc__) == ("D-test-1", "one bit less", "one bit less")


def test_two_overriding_variants_of_one_method_combine() -> None:
    unit = units.find("ovp_decoder")
    up, double = (
        overriding(unit.unit_class)(f"D-test-1: {says}", is_illegal=method)
        for says, method in (
            ("one more", lambda old, self, *codes: old.is_illegal(*codes) + 1),
            ("twice", lambda old, self, *codes: old.is_illegal(*codes) * 2),
        )
    )
    for order, expected in (([up, double], {1, 3}), ([double, up], {2, 4})):
        device = other.device(unit, unit.configs["int4"], order)
        assert device is not None and device.readable is not None
        decoder = device.readable.unit_class(**unit.configs["int4"])
        assert {decoder.is_illegal(left, right) for left in range(16) for right in range(16)} == expected


def test_overriding_unknown_member_is_an_error() -> None:
    with pytest.raises(AttributeError, match="no_such_method"):
        overriding(OvpDecoder)("D-test-1: none", no_such_method=lambda self: 0)


def test_variant_of_one_value_is_impossible_for_another() -> None:
    unit = units.find("ovp_decoder")
    flint = Variant("D-test-1", "no pair", only(OvpDecoder, "normal", "flint4"), unit_class=Silent)

    assert other.device(unit, unit.configs["int4"], [flint]) is None
    assert other.device(unit, unit.configs["flint4"], [flint]) is not None
