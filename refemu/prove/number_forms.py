"""Forms of number builtins, `math` and `arith.scalar32` on values that depend on inputs.

Each says where it is exact: outside of that domain it demands that no input gets there.
"""

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from refemu.arith import rounding, scalar32
from refemu.prove import terms
from refemu.prove.forms import form_of
from refemu.prove.frames import Filtered
from refemu.prove.interpreter import Interpreter
from refemu.prove.merging import merge
from refemu.prove.values import (
    Real,
    Symbolic,
    Unsupported,
    bounds,
    demand,
    integer,
    made,
    number_of,
    real,
    real_compare,
    truth,
    truth_of,
    word,
)

LARGEST = 136  #: bits of an integer from a real number: more than float32 has


@form_of(int)
def _int(run: Interpreter, value: Any = 0) -> Any:
    if isinstance(value, Real):
        limit = float(1 << LARGEST)
        demand(terms.and_(truth(value < limit), truth(-limit < value)), f"an integer of {LARGEST} bits or more")
        return made(terms.truncated(value.term, LARGEST + 1), -(1 << LARGEST), (1 << LARGEST) - 1)
    return integer(value)


@form_of(operator.index)
def _index(run: Interpreter, value: Any) -> Any:
    return integer(value)


@form_of(bool)
def _bool(run: Interpreter, value: Any) -> Any:
    if isinstance(value, Filtered):
        return truth_of(value.condition())
    return truth_of(truth(value)) if isinstance(value, Symbolic) else bool(len(value))


@form_of(float, np.float64)
def _float(run: Interpreter, value: Any) -> Any:
    return number_of(real(value))


@form_of(round)
def _round(run: Interpreter, value: Any) -> Any:
    return integer(value) if integer(value) is not None else _int(run, number_of(terms.fp("frint", value.term)))


@form_of(math.floor)
def _floor(run: Interpreter, value: Any) -> Any:
    return integer(value) if integer(value) is not None else _int(run, number_of(terms.fp("ffloor", value.term)))


@form_of(math.ceil)
def _ceil(run: Interpreter, value: Any) -> Any:
    return -_floor(run, -value)


@form_of(math.trunc)
def _trunc(run: Interpreter, value: Any) -> Any:
    return _int(run, value)


@form_of(abs)
def _abs(run: Interpreter, value: Any) -> Any:
    return abs(value)


@form_of(divmod)
def _divmod(run: Interpreter, a: Any, b: Any) -> Any:
    return a // b, a % b


@form_of(math.isnan)
def _isnan(run: Interpreter, x: Any) -> Any:
    return truth_of(terms.fp("isnan", real(x)))


@form_of(math.isinf)
def _isinf(run: Interpreter, x: Any) -> Any:
    return truth_of(terms.fp("isinf", real(x)))


@form_of(math.isfinite)
def _isfinite(run: Interpreter, x: Any) -> Any:
    return truth_of(terms.not_(terms.or_(terms.fp("isnan", real(x)), terms.fp("isinf", real(x)))))


@form_of(math.sqrt)
def _sqrt(run: Interpreter, x: Any) -> Any:
    demand(terms.not_(terms.fp("flt", real(x), terms.real(0.0))), "a square root of a negative number")
    return number_of(terms.fp("fsqrt", real(x)))


def _bits(x: Any) -> terms.Term:
    """Pattern of a real number; NaN is the positive quiet one."""
    return terms.fp("pattern64", real(x))


def with_sign(x: Any, y: Any) -> Any:
    """`math.copysign`; the sign of a NaN has no term."""
    demand(terms.not_(terms.or_(terms.fp("isnan", real(x)), terms.fp("isnan", real(y)))), "a sign of NaN")
    sign, rest = terms.extract(_bits(y), 63, 1), terms.extract(_bits(x), 0, 63)
    return number_of(terms.fp("value64", terms.concat(sign, rest)))


form_of(math.copysign)(lambda run, x, y: with_sign(x, y))


def power_of_two(exponent: Any) -> terms.Term:
    """2**exponent, of a normal number."""
    low, high = bounds(exponent)
    if low < -1022 or high > 1023:
        demand(terms.and_(truth(exponent >= -1022), truth(exponent <= 1023)), "a power of two beyond normal numbers")
    field = terms.extract(word(exponent + 1023, 64), 0, 11)
    return terms.fp("value64", terms.concat(terms.concat(terms.const(0, 1), field), terms.const(0, 52)))


@form_of(math.ldexp)
def _ldexp(run: Interpreter, x: Any, exponent: Any) -> Any:
    """One rounding, as `ldexp`; Python raises where a finite number becomes infinite."""
    result = number_of(terms.fp("fmul", real(x), power_of_two(integer(exponent))))
    fits = terms.or_(terms.not_(truth(_isinf(run, result))), truth(_isinf(run, x)))
    demand(fits, "a result of ldexp beyond real numbers")
    return result


@form_of(math.frexp)
def _frexp(run: Interpreter, x: Any) -> Any:
    """Fraction and exponent of a normal number; 0, infinities and NaN have exponent 0."""
    bits = _bits(x)
    field = terms.extract(bits, 52, 11)
    zero = terms.fp("feq", real(x), terms.real(0.0))
    special = terms.eq(field, terms.const(2047, 11))
    demand(terms.or_(zero, terms.not_(terms.eq(field, terms.const(0, 11)))), "frexp of a subnormal number")
    fraction = terms.concat(terms.extract(bits, 63, 1), terms.concat(terms.const(1022, 11), terms.extract(bits, 0, 52)))
    as_it_is = terms.or_(zero, special)
    exponent = merge(as_it_is, 0, made(terms.zext(field, 12), 0, 2047) - 1022)
    return number_of(terms.ite(as_it_is, real(x), terms.fp("value64", fraction))), exponent


# arith.scalar32


def _pattern(bits: int) -> Callable[..., Any]:
    return lambda run, x: made(terms.zext(terms.fp(f"pattern{bits}", real(x)), bits + 1), 0, (1 << bits) - 1)


def _value(bits: int) -> Callable[..., Any]:
    def of(run: Interpreter, pattern: Any) -> Any:
        low, high = bounds(pattern)
        if low < 0 or high >> bits:
            demand(terms.and_(truth(pattern >= 0), truth(pattern < 1 << bits)), f"a word of more than {bits} bits")
        return number_of(terms.fp(f"value{bits}", word(pattern, bits)))

    return of


form_of(scalar32.pattern16)(_pattern(16))
form_of(scalar32.pattern32)(_pattern(32))
form_of(scalar32.value16)(_value(16))
form_of(scalar32.value32)(_value(32))


@form_of(scalar32.f32)
def _f32(run: Interpreter, x: Any) -> Any:
    return number_of(terms.fp("f32", real(x)))


@form_of(scalar32.div32)
def _div32(run: Interpreter, a: Any, b: Any) -> Any:
    """IEEE 754's quotient, which `div32` has for zeros as well."""
    return number_of(terms.fp("f32", terms.fp("fdiv", real(a), real(b))))


@form_of(scalar32.odd_sum)
def _odd_sum(run: Interpreter, a: Any, b: Any) -> Any:
    total = a + b
    back = total - a
    error = (a - (total - back)) + (b - back)
    bits = _bits(total)
    exact = terms.or_(terms.not_(truth(_isfinite(run, error))), real_compare("feq", error, 0.0))
    away = terms.eq(terms.fp("flt", terms.real(0.0), real(error)), terms.not_(terms.extract(bits, 63, 1)))
    ulp = terms.const(1, 64)
    # as nextafter: total is not 0 where inexact
    other = terms.ite(away, terms.add(bits, ulp), terms.sub(bits, ulp))
    stays = terms.or_(exact, terms.extract(bits, 0, 1))
    return number_of(terms.ite(stays, real(total), terms.fp("value64", other)))


@form_of(rounding.shift_round)
def _shift_round(run: Interpreter, n: Any, s: Any, mode: Any) -> Any:
    """n / 2**s, rounded; a negative s shifts left, and the result must fit 64 bits."""
    kind, number, shift = str(getattr(mode, "value", mode)), integer(n), integer(s)
    if kind not in ROUNDED:
        raise Unsupported(f"rounding {kind!r}")
    demand(terms.and_(truth(number > -(1 << 61)), truth(number < 1 << 61)), "a number of shift_round beyond 61 bits")
    low, _high = bounds(shift)
    right = merge(truth(shift < 1), 1, merge(truth(shift > 62), 62, shift))
    half, odd = 1 << (right - 1), (number >> right) & 1
    result = (number + ROUNDED[kind](number, half, odd, right)) >> right
    if low < 1:
        left = merge(truth(shift > 0), 0, -shift)
        if bounds(left)[1] > 62:
            demand(terms.or_(truth(left <= 62), truth(number == 0)), "a shift of shift_round by more than 62")
            left = merge(truth(left > 62), 62, left)
        exact = number << left
        fits = terms.and_(truth(exact >= -(1 << 63)), truth(exact < 1 << 63))
        demand(terms.or_(truth(shift > 0), fits), "a result of shift_round beyond 64 bits")
        result = merge(truth(shift > 0), result, exact)
    return result


#: added before a shift to the right: what carries exactly the values that go up
ROUNDED: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "floor": lambda n, half, odd, s: 0,
    "ceil": lambda n, half, odd, s: (1 << s) - 1,
    "truncate": lambda n, half, odd, s: merge(truth(n < 0), (1 << s) - 1, 0),
    "half_even": lambda n, half, odd, s: half - 1 + odd,
    "half_away": lambda n, half, odd, s: half - merge(truth(n < 0), 1, 0),
    "half_up": lambda n, half, odd, s: half,
}
