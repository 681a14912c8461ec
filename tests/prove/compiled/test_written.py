"""Hand-written compiled forms are proved, and changed ones are refuted."""

import importlib

import pytest

from refemu import units
from refemu.prove import arrays, lift
from refemu.prove.compiled import written
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
def test_wrong_running_sum_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hand-written form of prefix_sum is all that calls `cumsum`."""
    form = arrays.FUNCTIONS["cumsum"]
    monkeypatch.setitem(arrays.FUNCTIONS, "cumsum", lambda x, **named: form(x, **named) + x)
    assert written.written_equals(_lift("prefix_sum:odd")).outcome == "refuted"


@pytest.mark.long
def test_sum_in_two_words_is_proved_and_a_lost_carry_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    lifted = _lift("olive_edp:flint4_flint4")
    assert written.written_equals(lifted, 120).outcome == "proved"
    monkeypatch.setattr(importlib.import_module("refemu.units.olive.kernels.pairs"), "WORD", 0x7FFFFFFF)
    assert written.written_equals(lifted, 60).outcome == "refuted"


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
