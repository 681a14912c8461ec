"""Hand-written compiled forms are proved, and changed ones are refuted; so are the helpers of all compiled forms."""

import importlib
from typing import Any

import pytest

from refemu import units
from refemu.arith.kernels import scalars
from refemu.prove import helpers, lift, written
from refemu.prove.compiled import CONVERSIONS
from refemu.prove.lift import Lift

pytest.importorskip("bitwuzla")


def _lift(spec: str) -> Lift:
    unit, config = units.choose(spec)
    return lift.lift(unit, unit.config(config))


@pytest.mark.slow
@pytest.mark.parametrize("spec", ["fp16_mac:paper", "prefix_sum:paper", "prefix_sum:odd", "olive_requant:int4"])
def test_hand_written_form_is_proved(spec: str) -> None:
    assert written.written_equals(_lift(spec), 120).outcome == "proved"


@pytest.mark.long
def test_changed_hand_written_form_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("refemu.units.leankv.prefix_sum.compiled")
    monkeypatch.setattr(module, "depth", lambda elements: 7)
    assert written.written_equals(_lift("prefix_sum:odd")).outcome == "refuted"


@pytest.mark.long
def test_changed_view_of_an_output_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    """olive_requant writes float32 values through views of its outputs."""
    monkeypatch.setattr(written._View, "__setitem__", lambda view, index, value: None)
    proof = written.written_equals(_lift("olive_requant:int4"), 20)
    assert proof.refuted is not None


@pytest.mark.parametrize("spec", ["index_counter:example", "bfp_pe:exact"])
def test_loop_over_events_is_rejected(spec: str) -> None:
    with pytest.raises(lift.NotLifted, match="is a loop over events"):
        written.written_equals(_lift(spec))


@pytest.mark.slow
def test_helpers_of_compiled_forms_are_proved() -> None:
    assert {part.what: part.outcome for part in helpers.proofs(120)} == dict.fromkeys(
        [
            *("f32", "pattern16", "pattern32", "value16", "value32", "div32", "odd_sum"),
            *("round16_of_f64", "_widen_portable"),
        ],
        "proved",
    )


@pytest.mark.long
def test_wrong_helper_is_refuted() -> None:
    form: Any = CONVERSIONS[helpers._python(scalars.round16)]
    text = helpers._python(scalars._widen_portable)
    wrong = helpers._proved(text, lambda word: form(CONVERSIONS[helpers._python(scalars.widen)](word ^ 1)), [
        helpers.TEXTS[-1][2][0]
    ], False, 20)
    assert wrong.outcome == "refuted"
