"""Modules of compiled forms: what `loop` and the functions take."""

import sys

from refemu import units
from refemu.units.compiled.form import Form
from tests.units.compiled.toy import Toy


def test_form_has_one_length_per_event_list() -> None:
    lengths = Form(Toy()).lengths_of(Toy())

    assert lengths["w_load_load_parts__high"] == 4 and lengths == dict(sorted(lengths.items()))


def test_functions_take_constants_and_registers_that_they_need() -> None:
    form = Form(Toy())
    module = form.module(*form.lengths_of(Toy()))

    lane, load = (getattr(module, name).py_func.__code__ for name in ("lane_lane", "load_load"))
    assert form.initial_of(Toy())[0] == 0
    assert {"c_rule", "c_weights", "s_total", "_d"} <= set(lane.co_varnames[: lane.co_argcount])
    assert not {"c_rule", "c_weights"} & set(load.co_varnames) and "y_halves" in load.co_varnames


def test_two_forms_of_a_kind_are_two_modules() -> None:
    """So that what runs kernels as Python finds those of both."""
    unit = units.find("concat")
    one, other = (Form(unit.unit_class(**unit.configs["a4"])).module() for _ in range(2))
    assert one is not other and sys.modules[one.__name__] is one and sys.modules[other.__name__] is other
