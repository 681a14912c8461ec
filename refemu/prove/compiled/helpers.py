"""Helpers of compiled forms: their texts equal the functions of Python that they replace, for all arguments."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from refemu.arith import scalar32
from refemu.arith.kernels import scalars
from refemu.prove import equivalence, terms
from refemu.prove.arrays import Array
from refemu.prove.compiled.derived import CONVERSIONS, Words
from refemu.prove.equivalence import Part
from refemu.prove.values import Int, Real, integer, real, word
from refemu.units.compiled.scalars import COMPILED


def _reals(bits: int, count: int = 1) -> list[Any]:
    """Any numbers of a format, as elements of an array have them; binary64 numbers as Python has them."""
    numbers = [Real(terms.fp(f"value{bits}", terms.variable(f"x{at}", bits))) for at in range(count)]
    return numbers if bits == 64 else [Array(each, f"f{bits // 8}") for each in numbers]


def _pattern(bits: int) -> list[Any]:
    return [Int(terms.zext(terms.variable("x0", bits), bits + 1), 0, (1 << bits) - 1)]


#: function of Python, its arguments
FUNCTIONS: tuple[tuple[Callable[..., Any], list[Any]], ...] = (
    (scalar32.f32, _reals(64)),
    (scalar32.pattern16, _reals(64)),
    (scalar32.pattern32, _reals(64)),
    (scalar32.value16, _pattern(16)),
    (scalar32.value32, _pattern(32)),
    (scalar32.div32, _reals(64, 2)),
    (scalar32.odd_sum, _reals(64, 2)),
)
#: text of a conversion, the conversion that it is, its arguments
TEXTS: tuple[tuple[Any, Any, list[Any]], ...] = (
    (scalars.round16_of_f64, scalars.round16_of_f64, _reals(64)),
    (scalars._widen_portable, scalars.widen, [Array(_pattern(16)[0], np.uint16)]),
)


def proofs(seconds: float = 60) -> list[Part]:
    """Prove each helper: `what` is its name.

    Parameters
    ----------
    seconds : float
        Time limit of the solver for each.

    Returns
    -------
    list of Part
        Proved, refuted or undecided.
    """
    pairs = [(COMPILED[function], Words.handlers[function], arguments, True) for function, arguments in FUNCTIONS]
    pairs += [(text, CONVERSIONS[_python(same)], arguments, False) for text, same, arguments in TEXTS]
    return [_proved(_python(text), form, arguments, takes, seconds) for text, form, arguments, takes in pairs]


def _python(function: Any) -> Any:
    return getattr(function, "py_func", function)


def _proved(text: Any, form: Callable[..., Any], arguments: Sequence[Any], takes_run: bool, seconds: float) -> Part:
    run = Words()
    with run.running():
        written = run._interpret(text, arguments, {})
        meant = form(run, *arguments) if takes_run else form(*arguments)
    wrong = [run.illegal, *(terms.not_(condition) for condition, _ in run.obligations)]
    wrong.append(terms.not_(terms.eq(_bits(written), _bits(meant))))
    return equivalence.ask(text.__name__, [terms.any_of(wrong)], seconds)


def _bits(value: Any) -> terms.Term:
    """A number as a word; all NaN are one."""
    item = value.values.item() if isinstance(value, Array) else value
    return terms.fp("pattern64", real(item)) if integer(item) is None else word(item, 65)


__all__ = ["proofs"]
