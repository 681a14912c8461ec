"""Texts of States in a debugger: short, codes in hex, and never a part that passes for the whole."""

import ast

import pytest

from refemu import units
from refemu.units.kllm.fp16_mac import Fp16Mac
from refemu.units.kllm.fp16_mac import State as MacState
from refemu.units.kllm.orizuru import Orizuru
from refemu.units.state_text import MOST, state_class
from refemu.units.stepping import Stepped


def test_repr_of_short_state_is_hex_that_evaluates() -> None:
    state = Fp16Mac().step(a=0x4000, b=0xB600, acc=0x3800)

    assert repr(state).startswith("State(event='mac', index=0, a=0x4000, b=0xb600, acc=0x3800, ")
    assert eval(repr(state), {"State": MacState}) == state


def test_str_has_the_values_of_floats() -> None:
    state = Fp16Mac().step(a=0x4000, b=0xB600, acc=0x3800)

    assert "a=0x4000=2, b=0xb600=-0.375, acc=0x3800=0.5" in str(state)


def test_long_states_fold_lanes_and_are_invalid_python() -> None:
    state = Orizuru(64, 2).step(x=[0x3C00] * 64)
    text = repr(state)

    assert "x=(0x3c00, 0x3c00, " in text and "... 64 values)" in text and len(text) <= MOST
    assert "x=(0x3c00=1, " in str(state) and len(str(state)) <= MOST
    with pytest.raises(SyntaxError):
        ast.parse(text)


@pytest.mark.parametrize("name", units.names())
def test_every_unit_has_a_state_with_texts(name: str) -> None:
    unit = units.find(name)
    state = unit.unit_class(**next(iter(unit.configs.values()))).snapshot()

    assert state_class(unit.unit_class) is type(state)
    assert repr(state).startswith("State(event='") and len(repr(state)) <= MOST
    assert str(state).startswith("State(event='") and len(str(state)) <= MOST


def test_a_class_that_names_no_state_has_none() -> None:
    class Plain(Stepped):  # type: ignore[type-arg]
        """Without a State."""

    assert state_class(Plain) is None
