"""Ranges of numbers, vectors of them, and what each operation and function of lifted texts makes of them."""

import ast
import math
import operator
from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from refemu.arith import scalar32
from refemu.units.compiled.scalars import NAMES


class Range(NamedTuple):
    """An integer."""

    low: int
    high: int


class Real(NamedTuple):
    """A real number, or NaN where both ends are infinite."""

    low: float
    high: float


class Vector(NamedTuple):
    """A list or an array; each of its values is within `item`."""

    item: Any
    length: int  #: the most that it has
    fewer: int = 0  #: how many of these it may lack


class Span(NamedTuple):
    """A range."""

    start: Range
    stop: Range


Value: TypeAlias = Any  #: Range, Vector, or a tuple of values
BIT = Range(0, 1)
NO_REAL = ()  #: item of an empty list for real numbers


def of_constant(value: Any) -> Value:
    """Bounds of a constant: itself; a class of named tuples stays what it is."""
    if isinstance(value, type):
        return value
    if isinstance(value, np.ndarray):
        item: Value = Range(int(value.min()), int(value.max()))
        for length in reversed(value.shape):
            item = Vector(item, length)
        return item
    if isinstance(value, float):
        return Real(value, value)
    return tuple(map(of_constant, value)) if isinstance(value, tuple) else Range(int(value), int(value))


def joined(values: Iterable[Value]) -> Value:
    """What holds all of some values."""
    return reduce(join, values)


def join(a: Value, b: Value) -> Value:
    """What holds both of two values."""
    if isinstance(a, Range) and isinstance(b, Range):
        return Range(min(a.low, b.low), max(a.high, b.high))
    if isinstance(a, Real) and isinstance(b, Real):
        return Real(min(a.low, b.low), max(a.high, b.high))
    if isinstance(a, Range | Real) or isinstance(b, Range | Real):
        raise OverflowError("an integer or a real number")
    if isinstance(a, Vector | Span) != isinstance(b, Vector | Span) or isinstance(a, Vector) or isinstance(b, Vector):
        most = max(length(a), length(b))
        return Vector(join(joined(items(a)), joined(items(b))), most, most - min(least(a), least(b)))
    parts = [join(x, y) for x, y in zip(a, b, strict=True)]
    return a._make(parts) if hasattr(a, "_fields") else tuple(parts)


def items(value: Value) -> list[Value]:
    """Values that a loop over this one takes, in turn."""
    if isinstance(value, Span):
        return [Range(value.start.low, max(value.stop.high - 1, value.start.low))] * length(value)
    return [value.item] * value.length if isinstance(value, Vector) else list(value)


def length(value: Value) -> int:
    """The most that a vector or a tuple has."""
    if isinstance(value, Span):
        return max(value.stop.high - value.start.low, 0)
    return value.length if isinstance(value, Vector) else len(value)


def least(value: Value) -> int:
    """The least that a vector or a tuple has."""
    if isinstance(value, Span):
        return max(value.stop.low - value.start.high, 0)
    return length(value) - (value.fewer if isinstance(value, Vector) else 0)


def _bits(*ranges: Range) -> int:
    """Bits of the magnitudes."""
    return max(max(each.high, ~each.low).bit_length() for each in ranges)


def _and(a: Range, b: Range) -> Range:
    if a == b and a.low == a.high:
        return a
    highs = [each.high for each in (a, b) if each.low >= 0]
    return Range(0, min(highs)) if highs else Range(-(1 << _bits(a, b)), max(a.high, b.high))


def _xor(a: Range, b: Range) -> Range:
    return Range(0 if min(a.low, b.low) >= 0 else -(1 << _bits(a, b)), (1 << _bits(a, b)) - 1)


def _or(a: Range, b: Range) -> Range:
    known = _xor(a, b)
    return known if known.low < 0 else known._replace(low=max(a.low, b.low))


def _corners(operation: Callable[[int, int], int], a: Range, b: Range) -> Range:
    values = [operation(x, y) for x in a for y in b]
    return Range(min(values), max(values))


def _shift(operation: Callable[[int, int], int], a: Range, b: Range) -> Range:
    if b.high > 63:
        raise OverflowError(f"a shift by {b.high}")
    return _corners(operation, a, Range(max(b.low, 0), max(b.high, 0)))


def _divided(operation: Callable[[int, int], int], a: Range, b: Range) -> Range:
    if b.low <= 0:
        raise OverflowError(f"a divisor of {b.low}")
    return _corners(operation, a, b) if operation is operator.floordiv else Range(0, b.high - 1)


ANY = Real(-math.inf, math.inf)
EXACT = 1 << 53  #: magnitude up to which every integer is a real number


def real(value: Value) -> Real:
    """A number as a real one."""
    if isinstance(value, Range) and not -EXACT <= value.low <= value.high <= EXACT:
        raise OverflowError("an integer that no real number is")
    return value if isinstance(value, Real) else Real(float(value.low), float(value.high))


def reals(operation: Callable[[float, float], float], a: Real, b: Real) -> Real:
    """Bounds of a sum, a difference or a product; those of any number where infinities meet."""
    if not all(map(math.isfinite, (*a, *b))):
        return ANY
    values = [operation(x, y) for x in a for y in b]
    return Real(min(values), max(values)) if all(map(math.isfinite, values)) else ANY


REALS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}
OPERATIONS: dict[type[ast.operator], Callable[[Range, Range], Range]] = {
    ast.Add: lambda a, b: Range(a.low + b.low, a.high + b.high),
    ast.Sub: lambda a, b: Range(a.low - b.high, a.high - b.low),
    ast.Mult: lambda a, b: _corners(operator.mul, a, b),
    ast.LShift: lambda a, b: _shift(operator.lshift, a, b),
    ast.RShift: lambda a, b: _shift(operator.rshift, a, b),
    ast.BitAnd: _and,
    ast.BitOr: _or,
    ast.BitXor: _xor,
    ast.FloorDiv: lambda a, b: _divided(operator.floordiv, a, b),
    ast.Mod: lambda a, b: _divided(operator.mod, a, b),
}
COMPARED: dict[type[ast.cmpop], Callable[[int, int], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def truth(value: Value) -> Range:
    """1 or 0, as a test takes the value."""
    if isinstance(value, Real):
        return BIT
    if not isinstance(value, Range):
        return Range(int(least(value) > 0), int(length(value) > 0))
    return Range(int(not value.low <= 0 <= value.high), int(value != (0, 0)))


def _range(*bounds: Range) -> Value:
    if len(bounds) > 2:
        raise OverflowError("a range of other steps than 1")
    return Span(*bounds) if len(bounds) == 2 else Span(Range(0, 0), *bounds)


def _absolute(value: Value) -> Value:
    if isinstance(value, Real):
        return Real(0.0 if value.low <= 0 <= value.high else min(map(abs, value)), max(map(abs, value)))
    return Range(0 if value.low <= 0 <= value.high else min(map(abs, value)), max(map(abs, value)))


def _sum(values: Value) -> Range:
    parts = [each if place < least(values) else join(each, Range(0, 0)) for place, each in enumerate(items(values))]
    return reduce(OPERATIONS[ast.Add], parts, Range(0, 0))


def _zip(*vectors: Value) -> Value:
    if any(least(each) < length(each) for each in vectors):
        raise OverflowError("of an unknown length")
    return list(zip(*map(items, vectors), strict=False))


def _extreme(choose: Callable[..., Any]) -> Callable[..., Value]:
    def of(*values: Value) -> Value:
        parts = items(values[0]) if len(values) == 1 else values
        if all(isinstance(each, Real) for each in parts):
            return Real(choose(each.low for each in parts), choose(each.high for each in parts))
        if any(isinstance(each, Real) for each in parts):
            raise OverflowError("an integer or a real number")
        return Range(choose(each.low for each in parts), choose(each.high for each in parts))

    return of


def _integer(value: Value) -> Range:
    if isinstance(value, Real):
        if not all(map(math.isfinite, value)):
            raise OverflowError("an integer of any real number")
        value = Range(int(value.low), int(value.high))
    if not -(1 << 62) < value.low <= value.high < 1 << 62:
        raise OverflowError("a number beyond 62 bits")
    return value


def _shown(value: Value) -> Range:
    if isinstance(value, Real):
        raise OverflowError("a real number in a port")
    return value


def _rounded(value: Value) -> Real:
    """A real number, rounded to float32 or fp16: the ends with it."""
    return Real(*map(scalar32.f32, real(value)))


def _ldexp(value: Value, exponent: Range) -> Real:
    """Of finite ends and a known exponent."""
    x = real(value)
    if (
        exponent.low != exponent.high
        or not all(map(math.isfinite, x))
        or abs(exponent.low) > 512
        or max(map(abs, x)) >= EXACT
    ):
        return ANY
    return Real(math.ldexp(x.low, exponent.low), math.ldexp(x.high, exponent.low))


#: bounds of the functions that compiled code has a form of
COMPILED: dict[Callable[..., Any], Callable[..., Value]] = {
    divmod: lambda a, b: (_divided(operator.floordiv, a, b), _divided(operator.mod, a, b)),
    scalar32.div32: lambda a, b: ANY,
    scalar32.f32: lambda x: _rounded(x),
    scalar32.odd_sum: lambda a, b: ANY,
    scalar32.pattern16: lambda x: _of_number(x, Range(0, 0xFFFF)),
    scalar32.pattern32: lambda x: _of_number(x, Range(0, 0xFFFFFFFF)),
    scalar32.value16: lambda word: _word(word, 16),
    scalar32.value32: lambda word: _word(word, 32),
    math.copysign: lambda x, y: Real(-max(map(abs, real(x))), max(map(abs, real(x)))),
    math.frexp: lambda x: (Real(-1.0, 1.0) if all(map(math.isfinite, real(x))) else ANY, Range(-1073, 1024)),
    math.isinf: lambda x: _of_number(x, BIT),
    math.isnan: lambda x: _of_number(x, BIT),
    math.ldexp: _ldexp,
}


def _of_number(value: Value, result: Range) -> Range:
    """Bounds of a result that only numbers have."""
    real(value)
    return result


def _word(word: Range, bits: int) -> Real:
    """Value of a pattern."""
    if not 0 <= word.low <= word.high < 1 << bits:
        raise OverflowError(f"a word of more than {bits} bits")
    return ANY


BUILTINS: dict[str, Callable[..., Value]] = {
    "abs": _absolute,
    "f_all_of": lambda values: BIT,
    "f_any_of": lambda values: BIT,
    "f_bit_length": lambda value: Range(0, _bits(value)),
    "bool": truth,
    "f_empty_reals": lambda length: Vector(NO_REAL, length.high, length.high - length.low),
    "f_empty": lambda length: Vector(None, length.high, length.high - length.low),
    "f_count": lambda values, value: Range(0, length(values)),
    "enumerate": lambda values: _zip([Range(i, i) for i in range(length(values))], values),
    "float": lambda value: real(value),
    "len": lambda values: Range(least(values), length(values)),
    "max": _extreme(max),
    "min": _extreme(min),
    "range": _range,
    "f_shown": _shown,
    "sum": _sum,
    "f_whole": _integer,
    "zip": _zip,
    **{NAMES[function]: bound for function, bound in COMPILED.items()},
}
