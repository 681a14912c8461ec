"""Derived compiled forms are proved, and changed ones are refuted."""

import ast
from typing import Any

import pytest

from refemu import units
from refemu.prove import compiled, lift, terms
from refemu.prove.lift import Lift
from refemu.prove.values import Int
from refemu.units.compiled.form import Form

pytest.importorskip("bitwuzla")


def _lift(spec: str) -> Lift:
    unit, config = units.choose(spec)
    return lift.lift(unit, unit.config(config))


@pytest.mark.long
@pytest.mark.parametrize(
    "spec", ["ovp_decoder", "olive_mac:wrap", "olive_mac:saturate", "concat", "outlier_decoder", "olive_pe8", "sub_pe"]
)
def test_derived_form_is_proved(spec: str) -> None:
    assert compiled.compiled_equals(_lift(spec)).outcome == "proved"


@pytest.mark.long
def test_form_of_other_configuration_is_refuted() -> None:
    unit, config = units.choose("olive_mac:saturate")
    device = unit.unit_class(**unit.config(config))

    assert compiled.compiled_equals(_lift("olive_mac:wrap"), device=device).outcome == "refuted"


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
        patch.setattr(compiled, "Form", Wrong)
        assert compiled.compiled_equals(lifted).outcome == "refuted"
    assert compiled.compiled_equals(lifted).outcome == "proved"


@pytest.mark.parametrize(
    ("operation", "amount", "obligations"), [("Mult", 2, 0), ("Mult", 16, 1), ("LShift", 1, 0), ("LShift", 64, 2)]
)
def test_what_leaves_64_bits_is_an_obligation(operation: str, amount: int, obligations: int) -> None:
    run, value = compiled.Words(), Int(terms.variable("a", 62), -(1 << 61), (1 << 61) - 1)
    with run.running():
        run.operate(operation, value, amount)

    assert len(run.obligations) == obligations


@pytest.mark.long
def test_text_without_terms_names_its_line() -> None:
    with pytest.raises(lift.NotLifted, match=r"ovp_encoder: .* of the compiled text"):
        compiled.compiled_equals(_lift("ovp_encoder"))
