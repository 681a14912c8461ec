"""Modules of compiled forms: what `loop` and the functions take."""

from refemu.units.compiled.form import Form
from tests.units.compiled.toy import Toy


def test_a_form_has_one_length_for_each_list_of_an_event() -> None:
    lengths = Form(Toy()).lengths_of(Toy())

    assert lengths["w_load_load_parts__high"] == 4 and lengths == dict(sorted(lengths.items()))


def test_constants_and_registers_are_arguments_of_their_own() -> None:
    form = Form(Toy())
    module = form.module(*form.lengths_of(Toy()))

    assert form.initial_of(Toy())[0] == 0 and "c_rule" in form.lifted.constants
    assert {"c_rule", "s_total", "y_halves", "_d", "_e"} <= set(module.load_load.py_func.__code__.co_varnames)
