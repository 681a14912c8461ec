"""Templates: calls have the terms of the functions, and a wrong one fails the self-check."""

from collections.abc import Sequence
from typing import Any

import pytest

from refemu import units
from refemu.prove import calls, equivalence, lift, selfcheck, templates, terms
from refemu.prove.lift import Lift
from refemu.prove.terms import Term


def _composed(name: str, monkeypatch: pytest.MonkeyPatch) -> Lift:
    """A lift with templates of small functions, which only large units have."""
    unit, config = units.choose(name)
    with monkeypatch.context() as patch:
        patch.setattr(calls, "LARGE", 10)
        patch.setattr(templates, "HEAVY", 60)
        return lift.lift(unit, unit.configs[config])


def _calls(lifted: Lift) -> int:
    return sum(each.op == "call" for each in terms.order(lifted.roots))


@pytest.mark.long
@pytest.mark.parametrize("name", ["olive_edp:int4_int4", "bfp_pe:paper", "orizuru:n8", "kv_quantizer:paper"])
def test_calls_equal_the_compiled_form(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lifted = _composed(name, monkeypatch)
    assert _calls(lifted) > 0
    assert selfcheck.check(lifted, 1_000) >= 1_000


@pytest.mark.long
def test_calls_are_proved_equal_to_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("bitwuzla", reason="no solver here: the extra `formal`")
    unit = units.find("orizuru")
    plain = lift.lift(unit, unit.configs["n8"])
    composed = _composed("orizuru:n8", monkeypatch)
    assert (_calls(plain), _calls(composed) > 0) == (0, True)
    assert equivalence.equivalent(plain, composed, 60).outcome == "proved"


def _swapped(template: Any, arguments: Sequence[Term]) -> list[Term]:
    """Results with a bit inverted."""
    answer: list[Term] = ORIGINAL(template, arguments)
    return [terms.xor(each, terms.const(1, each.width)) if each.width > 1 else each for each in answer]


ORIGINAL = templates.Template.called


@pytest.mark.long
@pytest.mark.parametrize("name", ["olive_edp:int4_int4", "kv_quantizer:paper"])
def test_self_check_detects_a_wrong_call(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(templates.Template, "called", _swapped)
    with pytest.raises((selfcheck.Disagrees, lift.NotLifted)):
        selfcheck.check(_composed(name, monkeypatch), 1_000)


@pytest.mark.long
def test_expanded_terms_have_no_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    lifted = _composed("olive_edp:int4_int4", monkeypatch)
    flat = terms.expanded(lifted.roots)
    assert not any(each.op in ("call", "result") for each in terms.order(flat))
    lifted.terms = dict(zip(lifted.terms, _lanes(lifted, flat), strict=True))
    assert selfcheck.check(lifted, 1_000) >= 1_000


def _lanes(lifted: Lift, roots: Sequence[Term]) -> list[list[Term]]:
    rest = iter(roots)
    return [[next(rest) for _ in lanes] for lanes in lifted.terms.values()]
