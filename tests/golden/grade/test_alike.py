"""Lanes that are alike decide faults of an ascending vector; zeros lose a sign only if no output shows it."""

import dataclasses
from collections.abc import Sequence

import pytest

from refemu import units
from refemu.golden.faults import use
from refemu.golden.grade.alike import Alike
from refemu.golden.grade.decider import Decider
from refemu.prove import terms
from refemu.prove.equivalence import ask
from refemu.prove.lift import Lift, lift
from refemu.prove.terms import Term
from tests.golden.grade import plain

pytest.importorskip("bitwuzla")


def two() -> Lift:
    unit = units.find("clustering")
    return lift(unit, unit.config("bits=1"))


def never(conditions: Sequence[Term]) -> bool:
    return ask("", conditions, 10).outcome == "proved"


@pytest.mark.long
def test_faults_of_an_ascending_vector_are_decided() -> None:
    """Permuted or negated lanes ascend only where they are alike; a dead lane is another."""
    answers = plain.committed("clustering-paper_3")
    decide = Decider(answers.unit, answers.config, 10)
    faults = {fault.id: fault for fault in use.faults(answers)}
    for id in ("neighbours", "rotated_1", "inverted", "dead"):
        fault = faults[f"{id}/in.codebook" + {"inverted": "/15", "dead": "/4"}.get(id, "")]
        assert decide.decide(fault, answers).equivalent == (id != "dead"), id


def test_signs_of_zeros_are_forgotten_if_no_output_shows_them() -> None:
    lifted = two()
    shown = dataclasses.replace(lifted, terms={**lifted.terms, "x_hat": [lifted.inputs["codebook"][1]]})

    assert Alike(lifted).signless == {"codebook": True}
    assert Alike(shown).signless == {"codebook": False}


def test_changed_lanes_must_be_alike_too() -> None:
    """A device that sees 1 in the place of -0 distinguishes lanes that are alike for the unit."""
    lifted = two()
    alike, (first, second) = Alike(lifted), lifted.inputs["codebook"]
    inputs = {**lifted.inputs, "codebook": [second, first]}
    zero, one = terms.const(0x8000, 16), terms.const(0x3C00, 16)
    wrong = {**inputs, "codebook": [second, terms.ite(terms.eq(first, zero), one, first)]}
    size = terms.const(0x7FFF, 16)
    both = [
        terms.or_(terms.eq(first, second), terms.eq(terms.and_(terms.or_(first, second), size), terms.const(0, 16)))
    ]

    assert alike.lanes(both, inputs, never) == {second.number: first}
    assert alike.lanes(both, wrong, never) == {}
    assert alike.lanes([], inputs, never) == {}
