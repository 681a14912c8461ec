"""Compiled forms on every input: equal ones are proved, and one wrong or rejected input refutes."""

import dataclasses
from typing import Any

import pytest

from refemu import units
from refemu.arith.checks import Refused
from refemu.prove.compiled import exhaustive
from refemu.units.unit import AnyUnit

UNIT = units.find("outlier_decoder")
CONFIG = UNIT.configs["e2m1"]


def changed(change: Any) -> AnyUnit:
    """A unit whose compiled form has an error."""

    def run(*values: Any, **named: Any) -> Any:
        return change(UNIT.run_compiled(*values, **named))

    unit = dataclasses.replace(UNIT)
    object.__setattr__(unit, "run_compiled", run)
    return unit


@pytest.mark.long
def test_equal_form_is_proved() -> None:
    proof = exhaustive.compiled_equals(UNIT, CONFIG)
    assert proof.outcome == "proved" and proof.parts[0].what == "256 inputs"


@pytest.mark.long
def test_one_wrong_input_refutes() -> None:
    def wrong(result: Any) -> Any:
        result.base_int[77] ^= 1
        return result

    proof = exhaustive.compiled_equals(changed(wrong), CONFIG)
    assert proof.refuted is not None and proof.refuted.values == {"code": 4, "bias": 13}


@pytest.mark.long
def test_input_that_one_form_rejects_refutes() -> None:
    def rejects(result: Any) -> Any:
        if (result.base_int == 0).any():
            raise Refused("an input")
        return result

    assert exhaustive.compiled_equals(changed(rejects), CONFIG).outcome == "refuted"


@pytest.mark.parametrize("spec", ["olive_mac:wrap", "fp16_mac:paper"])
def test_large_unit_or_one_with_registers_is_rejected(spec: str) -> None:
    unit, config = units.choose(spec)
    with pytest.raises(Refused, match="no registers and at most 65536 inputs"):
        exhaustive.compiled_equals(unit, unit.configs[config])
