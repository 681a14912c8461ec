"""Lifts compared by a solver: a control of faults that must be refuted, and equal forms that must be proved."""

import pytest

from refemu import units
from refemu.prove import equivalence, lift, solver, terms

pytest.importorskip("bitwuzla")


def _lift(name: str) -> lift.Lift:
    unit, config = units.choose(name)
    return lift.lift(unit, unit.config(config))


def test_unit_equals_itself() -> None:
    assert equivalence.equivalent(_lift("ovp_decoder:int4"), _lift("ovp_decoder:int4")).outcome == "proved"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("olive_mac:wrap", "olive_mac:exponent_bits=4,int_bits=4,overflow=wrap"),
    ],
)
def test_configuration_equals_its_parameters(one: str, other: str) -> None:
    assert equivalence.equivalent(_lift(one), _lift(other)).outcome == "proved"


@pytest.mark.parametrize(
    ("one", "other"), [("ovp_decoder:int4", "ovp_decoder:flint4"), ("olive_mac:wrap", "olive_mac:saturate")]
)
def test_other_configuration_is_refuted_with_inputs(one: str, other: str) -> None:
    left, right = _lift(one), _lift(other)
    proof = equivalence.equivalent(left, right)
    assert proof.outcome == "refuted" and proof.refuted is not None
    rows = {name: [value] for name, value in proof.refuted.values.items()}
    free = {
        each.name: rows.get(each.name, [0]) for each in terms.order([*left.roots, *right.roots]) if each.op == "var"
    }
    a, b = (terms.evaluate(each.roots, free, 1) for each in (left, right))
    assert any(int(x[0]) != int(y[0]) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("name", ["bitwuzla", "z3"])
def test_solvers_agree(name: str) -> None:
    pytest.importorskip(name)
    a, b = terms.variable("a", 16), terms.variable("b", 16)
    same = terms.eq(terms.sub(terms.add(a, b), b), a)
    assert solver.solve([terms.not_(same)], 10, name).verdict == "unsat"
    product = terms.fp("feq", terms.fp("value16", a), terms.real(1.5))
    answer = solver.solve([product], 10, name)
    assert (answer.verdict, answer.values["a"]) == ("sat", 0x3E00)
