"""Variants of decisions: each configuration once, alone and in pairs."""

import dataclasses

import numpy as np

from refemu.arith.checks import Refused
from refemu.golden.grade import answers as answers_of
from refemu.golden.grade import decisions, device
from refemu.golden.grade.answers import Answers
from refemu.units.unit import Cases, Config, Variant, choices
from refemu.units.variant import right
from tests.golden import fakes
from tests.golden.grade import plain


def with_variants(*variants: Variant) -> Answers:
    unit = dataclasses.replace(fakes.BLENDER, care=None, mark=None)
    vars(unit)["_variants"] = variants
    inputs = {"first": np.array([1, 15]), "second": np.array([1, 7])}
    return answers_of.of_cases(unit, unit.configs["wrap"], [Cases("edge", "one overflows", inputs)])


def test_variants_alone() -> None:
    answers = with_variants(*choices("D-fake-1", "overflow", "wrap", "saturate"))
    faults = plain.by_id(decisions.faults, answers)

    assert list(faults) == ["D-fake-1/overflow is 'saturate'"]
    (fault,) = faults.values()
    assert fault.wrong(answers).tolist() == [False, True]
    assert (
        fault.wrong(answers).tolist()
        == device.wrong(answers, right(answers.unit, Config(overflow="saturate"))).tolist()
    )


def test_pairs_have_different_decisions() -> None:
    def refused(config: Config) -> Config:
        raise Refused("cannot be")

    def add(name: str, config: Config) -> Config:
        return Config(**{**config, name: 1})

    a, b = (Variant(f"D-fake-{name}", f"{name} is 1", lambda config, name=name: add(name, config)) for name in "ab")
    same = Variant("D-fake-a", "a is one", lambda config: add("a", config))
    never = Variant("D-fake-c", "c", refused)
    faults = plain.by_id(decisions.faults, with_variants(a, same, b, never))

    assert list(faults) == ["D-fake-a/a is 1", "D-fake-b/b is 1", "D-fake-a/a is 1+D-fake-b/b is 1"]
