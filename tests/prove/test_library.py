"""Planted unsoundness: a library function that is wrong in one way fails the self-check of a unit that uses it."""

import math
from collections.abc import Callable
from typing import Any

import pytest

from refemu import units
from refemu.arith import scalar32
from refemu.prove import arrays, forms, lift, number_forms, selfcheck, terms
from refemu.prove.interpreter import Interpreter
from refemu.prove.values import number_of, real

Form = Callable[..., Any]
#: function -> unit that calls it, and a form with an error
PLANTED: dict[Any, tuple[str, Form]] = {
    scalar32.pattern16: ("fp16_mac:paper", lambda run, x: number_forms._pattern(16)(run, x) ^ 1),
    scalar32.value16: ("fp16_mac:paper", lambda run, word: number_forms._value(16)(run, word & 0x7FFF)),
    scalar32.f32: ("significance:paper", lambda run, x: -x),
    scalar32.pattern32: ("bfp_accumulator:paper", lambda run, x: number_forms._pattern(32)(run, x) & ~1),
    scalar32.value32: ("bfp_accumulator:paper", lambda run, word: number_forms._value(32)(run, word & 0x7FFFFFFF)),
    scalar32.odd_sum: ("fp16_mac:fma", lambda run, a, b: a - b),
    math.ldexp: ("bfp_accumulator:paper", lambda run, x, k: number_of(terms.fp("fmul", real(x), real(2.0)))),
    math.isnan: ("bfp_accumulator:paper", lambda run, x: False),
    max: ("bfp_aligner:paper", lambda run, *values, **rest: Interpreter.handlers[min](run, *values)),
    sum: ("olive_edp:int4_int4", lambda run, values, start=0: start),
    int: ("ovp_encoder:int4", lambda run, value=0: number_forms._int(run, value) + 1),
}


@pytest.mark.parametrize("function", PLANTED, ids=lambda function: function.__name__)
def test_self_check_detects_an_unsound_form(function: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    name, form = PLANTED[function]
    unit, config = units.choose(name)
    assert selfcheck.check(lift.lift(unit, unit.configs[config]), 1_000)
    used = []

    def wrong(run: Any, *args: Any, **named: Any) -> Any:
        if not any(map(forms.is_special, args)):
            return function(*args, **named)
        used.append(args)
        return form(run, *args, **named)

    monkeypatch.setitem(Interpreter.handlers, function, wrong)
    try:
        lifted = lift.lift(unit, unit.configs[config])
    except lift.NotLifted:
        assert used
        return
    if not used:
        pytest.skip(f"{name} calls {function.__name__} with constants only")
    with pytest.raises(selfcheck.Disagrees):
        selfcheck.check(lifted, 2_000)


#: function of NumPy -> unit that calls it, its sizes, and an error in its form
OF_NUMPY: dict[str, tuple[str, dict[str, int], Form]] = {
    "trunc": ("score_quantizer:fold4", {}, lambda form, x: form(x) + 1.0),
    "take_along_axis": ("index_matmul:example", {}, lambda form, x, index, axis: form(x, index ^ 1, axis)),
    "ldexp": ("streaming_significance:two_pass", {"tokens": 2, "heads": 1}, lambda form, x, e: form(x, e + 1)),
}


@pytest.mark.parametrize("name", OF_NUMPY)
def test_self_check_detects_an_unsound_form_of_numpy(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    spec, sizes, wrong = OF_NUMPY[name]
    unit, ready = units.choose(spec)
    config = {**unit.configs[ready], **sizes}
    assert selfcheck.check(lift.lift(unit, config), 200, cases=False)
    form = arrays.FUNCTIONS[name]
    monkeypatch.setitem(arrays.FUNCTIONS, name, lambda *args: wrong(form, *args))
    with pytest.raises(selfcheck.Disagrees):
        selfcheck.check(lift.lift(unit, config), 2_000, cases=False)


def test_self_check_detects_an_unsound_shift_of_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    unit = units.find("v_grouper")
    config = {**unit.configs["paper"], "channels": 1}
    assert selfcheck.check(lift.lift(unit, config), 500, cases=False)
    form = arrays.SHIFT_ROUND
    monkeypatch.setattr(arrays, "SHIFT_ROUND", lambda run, n, s, mode: form(run, n, s, "half_up"))
    with pytest.raises(selfcheck.Disagrees):
        selfcheck.check(lift.lift(unit, config), 500, cases=False)
