"""Functions that lifted texts may call, compiled: those of `arith.scalar32`, of `math`, and of lists."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from refemu.arith import scalar32
from refemu.arith.jit import inlined
from refemu.arith.kernels import scalars


class GivenUp(Exception):
    """Values may exceed 64 bits, or events reject the inputs: the readable form runs."""


@inlined
def shown(value):  # type: ignore[no-untyped-def]
    """A value of an output, a register or a counter."""
    return np.int64(value)


@inlined
def whole(value):  # type: ignore[no-untyped-def]
    """`int`."""
    if not -(1 << 62) < value < 1 << 62:  # also for NaN; integers have known bounds
        raise GivenUp
    return np.int64(value)


@inlined
def empty(length):  # type: ignore[no-untyped-def]
    """An array for a list of integers."""
    return np.empty(length, np.int64)


@inlined
def empty_reals(length):  # type: ignore[no-untyped-def]
    """An array for a list of real numbers."""
    return np.empty(length, np.float64)


@inlined
def count(values, value):  # type: ignore[no-untyped-def]
    """`tuple.count`."""
    number = 0
    for each in values:
        number += each == value
    return number


@inlined
def all_of(values):  # type: ignore[no-untyped-def]
    """`all`."""
    for each in values:  # noqa: SIM110  numba has no all
        if not each:
            return False
    return True


@inlined
def any_of(values):  # type: ignore[no-untyped-def]
    """`any`."""
    for each in values:  # noqa: SIM110  numba has no any
        if each:
            return True
    return False


@inlined
def divided(a, b):  # type: ignore[no-untyped-def]
    """`divmod`."""
    quotient = a // b
    return quotient, a - quotient * b


@inlined
def bit_length(value):  # type: ignore[no-untyped-def]
    """`int.bit_length`."""
    rest, length = abs(value), 0
    while rest:
        rest, length = rest >> 1, length + 1
    return length


@inlined
def f32(x):  # type: ignore[no-untyped-def]
    """`scalar32.f32`."""
    return np.float64(np.float32(x))


@inlined
def pattern32(x):  # type: ignore[no-untyped-def]
    """`scalar32.pattern32`."""
    return np.int64(np.float32(x).view(np.uint32)) if x == x else np.int64(0x7FC00000)


@inlined
def value32(pattern):  # type: ignore[no-untyped-def]
    """`scalar32.value32`."""
    return np.float64(np.uint32(pattern).view(np.float32))


@inlined
def pattern16(x):  # type: ignore[no-untyped-def]
    """`scalar32.pattern16`."""
    return np.int64(scalars.narrow(scalars.round16_of_f64(x))) if x == x else np.int64(0x7E00)  # type: ignore[no-untyped-call]


@inlined
def value16(pattern):  # type: ignore[no-untyped-def]
    """`scalar32.value16`."""
    return np.float64(scalars.widen(np.uint16(pattern)))  # type: ignore[no-untyped-call]


@inlined
def odd_sum(a, b):  # type: ignore[no-untyped-def]
    """`scalar32.odd_sum`."""
    total = a + b
    back = total - a
    error = (a - (total - back)) + (b - back)
    word = np.float64(total).view(np.int64)
    if not math.isfinite(error) or error == 0 or word & 1:
        return total
    return np.int64(word + (1 if (error > 0) == (total > 0) else -1)).view(np.float64)


@inlined
def div32(a, b):  # type: ignore[no-untyped-def]
    """`scalar32.div32`."""
    return np.float64(np.float32(a / b))


@inlined
def frexp(x):  # type: ignore[no-untyped-def]
    """`math.frexp`."""
    fraction, exponent = math.frexp(x)
    return fraction, np.int64(exponent)


@inlined
def ldexp(x, exponent):  # type: ignore[no-untyped-def]
    """`math.ldexp`, infinity beyond the range."""
    return math.ldexp(x, int(exponent))


#: functions that lifted texts call, as `f_whole`
LISTS = (all_of, any_of, bit_length, count, empty, empty_reals, shown, whole)
#: compiled functions by the function of Python
COMPILED: dict[Callable[..., Any], Callable[..., Any]] = {
    divmod: divided,
    scalar32.div32: div32,
    scalar32.f32: f32,
    scalar32.odd_sum: odd_sum,
    scalar32.pattern16: pattern16,
    scalar32.pattern32: pattern32,
    scalar32.value16: value16,
    scalar32.value32: value32,
    math.copysign: inlined(lambda x, y: math.copysign(x, y)),
    math.frexp: frexp,
    math.isinf: inlined(lambda x: math.isinf(x)),
    math.isnan: inlined(lambda x: math.isnan(x)),
    math.ldexp: ldexp,
}
NAMES = {function: f"f_{function.__name__}" for function in COMPILED}  #: in lifted texts
#: types of the results of functions of `math`
RETURNED: dict[Callable[..., Any], type] = {math.copysign: float, math.isinf: bool, math.isnan: bool, math.ldexp: float}
