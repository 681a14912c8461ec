"""Derived compiled forms are proved, and changed ones are refuted."""

import ast
from typing import Any

import numpy as np
import pytest

from refemu import units
from refemu.prove import equivalence, lift, terms
from refemu.prove.arrays import Array
from refemu.prove.compiled import derived
from refemu.prove.frames import Frame
from refemu.prove.inner.shared import Shared
from refemu.prove.lift import Lift
from refemu.prove.terms import Term
from refemu.prove.values import Int, Real
from refemu.units.compiled.form import Form

pytest.importorskip("bitwuzla")


def _lift(spec: str) -> Lift:
    unit, config = units.choose(spec)
    return lift.lift(unit, unit.config(config))


@pytest.mark.long
@pytest.mark.parametrize(
    "spec",
    [
        *("ovp_decoder", "olive_mac:wrap", "olive_mac:saturate", "concat", "outlier_decoder", "olive_pe8", "sub_pe"),
        *("fp2half", "index_product", "bfp_accumulator", "clustering", "bit_allocator"),
    ],
)
def test_derived_form_is_proved(spec: str) -> None:
    assert derived.compiled_equals(_lift(spec)).outcome == "proved"


@pytest.mark.long
def test_form_of_other_configuration_is_refuted() -> None:
    unit, config = units.choose("olive_mac:saturate")
    device = unit.unit_class(**unit.config(config))

    assert derived.compiled_equals(_lift("olive_mac:wrap"), device=device).outcome == "refuted"


class _Less(ast.NodeTransformer):
    def visit_Add(self, node: ast.Add) -> ast.Sub:
        return ast.copy_location(ast.Sub(), node)


@pytest.mark.long
@pytest.mark.parametrize("spec", ["ovp_decoder", "olive_mac:wrap", "olive_pe8"])
def test_changed_text_is_refuted(spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Wrong(Form):
        def __init__(self, device: Any) -> None:
            super().__init__(device)
            for tree in self.lifted.functions.values():
                _Less().visit(tree)

    lifted = _lift(spec)
    with monkeypatch.context() as patch:
        patch.setattr(derived, "Form", Wrong)
        assert derived.compiled_equals(lifted).outcome == "refuted"
    assert derived.compiled_equals(lifted).outcome == "proved"


@pytest.mark.parametrize(
    ("operation", "amount", "obligations"), [("Mult", 2, 0), ("Mult", 16, 1), ("LShift", 1, 0), ("LShift", 64, 2)]
)
def test_what_leaves_64_bits_is_an_obligation(operation: str, amount: int, obligations: int) -> None:
    run, value = derived.Words(), Int(terms.variable("a", 62), -(1 << 61), (1 << 61) - 1)
    with run.running():
        run.operate(operation, value, amount)

    assert len(run.obligations) == obligations


@pytest.mark.long
def test_form_that_reads_an_event_is_rejected() -> None:
    with pytest.raises(lift.NotLifted, match="prefix_sum: the compiled form reads the name of the last event"):
        derived.compiled_equals(_lift("prefix_sum"))


def test_number_of_an_event_is_free() -> None:
    run = derived.Words("s_index")
    run.frames.append(Frame(None, lambda name: None, ""))
    run.store(ast.Name("s_index"), -1)
    number = run.frames[-1].names["s_index"]

    assert (number.low, number.high) == (-1, 1 << 48)


def test_elements_of_an_empty_array_may_have_any_value() -> None:
    run = derived.Words()
    with run.running():
        array = run.call(np.empty, (2, 3), np.int64)

    assert len({each.term.number for each in array.values.ravel()}) == 6


def test_extreme_of_nan_is_an_obligation() -> None:
    run, x = derived.Words(), Array(Real(terms.fp("value32", terms.variable("x", 32))), np.float32)
    with run.running():
        run.call(max, np.float32(0), x)

    (condition,) = [condition for condition, _ in run.obligations]
    rows = {"x": np.array([0x7FC00000, 0x3F800000], np.uint64)}
    assert terms.evaluate([condition], rows, 2)[0].tolist() == [0, 1]


def test_lanes_that_stay_undecided_are_asked_again() -> None:
    lanes = [terms.variable(name, 1) for name in "abc"]
    outcomes: dict[Term, equivalence.Outcome] = {lanes[0]: "proved", lanes[2]: "proved"}

    class Scripted(Shared):
        def ask(self, what: str, condition: Term, seconds: float) -> equivalence.Part:
            return equivalence.Part(what, outcomes.get(condition, "undecided"), 0.0, "")

    left = list(lanes)
    assert derived._asked(Scripted([]), "d", left, lanes, 1).outcome == "undecided" and left == [lanes[1]]
    for outcomes[lanes[1]] in ("refuted", "proved"):
        assert derived._asked(Scripted([]), "d", list(lanes), lanes, 1).outcome == outcomes[lanes[1]]
