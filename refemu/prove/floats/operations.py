"""Operations on numbers in parts, rounded to binary64 where a result may not fit it."""

from dataclasses import replace

from refemu.prove import terms
from refemu.prove.floats.narrow import inner
from refemu.prove.floats.number import (
    BINARY64,
    EXPONENT,
    Number,
    amount,
    cut,
    exponent,
    fitted,
    merged,
    negated,
    normalized,
    rounded,
)
from refemu.prove.terms import Term

FIXED = 120  #: most bits of a sum in fixed point; C holds 128
GUARD = 3  #: bits below the last place of a sum whose smaller term is shifted
QUOTIENT = 55  #: places of a quotient


def of_integer(value: Term) -> Number:
    """A signed integer."""
    value = inner(value)
    sign = terms.extract(value, value.width - 1, 1)
    magnitude = terms.ite(sign, terms.sub(terms.const(0, value.width), value), value)
    return fitted(Number(terms.FALSE, terms.FALSE, sign, exponent(0), magnitude, 0, 0))


def product(a: Number, b: Number) -> Number:
    """a * b."""
    nan = terms.any_of([a.nan, b.nan, terms.and_(a.inf, b.zero), terms.and_(a.zero, b.inf)])
    return fitted(
        Number(
            nan,
            terms.or_(a.inf, b.inf),
            terms.xor(a.sign, b.sign),
            terms.add(a.exponent, b.exponent),
            _multiplied(a.significand, b.significand),
            a.low + b.low,
            a.high + b.high,
        )
    )


def _multiplied(a: Term, b: Term) -> Term:
    """The product of two significands."""
    if terms.TRUE in (a, b):
        return b if a is terms.TRUE else a
    return terms.mul(terms.zext(a, a.width + b.width), terms.zext(b, a.width + b.width))


def total(a: Number, b: Number) -> Number:
    """a + b."""
    low = min(a.low, b.low)
    opposite = terms.xor(a.sign, b.sign)
    nan = terms.any_of([a.nan, b.nan, terms.all_of([a.inf, b.inf, opposite])])
    finite = _fixed(a, b, low) if max(a.top, b.top) - low <= FIXED else _shifted(a, b)
    both = terms.and_(a.sign, b.sign)
    sign = terms.ite(finite.empty, both, finite.sign)
    sign = terms.ite(a.inf, a.sign, terms.ite(b.inf, b.sign, sign))
    return fitted(replace(finite, nan=nan, inf=terms.or_(a.inf, b.inf), sign=sign))


def rounded_once(a: Number, b: Number) -> Number:
    """a + b for numbers of one format, rounded to it.

    From 2 * precision + 2 bits on, a sum that is rounded to binary64 first has the same value.
    """
    form = a.format
    assert form is not None and b.format == form
    less = terms.ult(_key(replace(a, inf=terms.FALSE)), _key(replace(b, inf=terms.FALSE)))
    large, small = merged(less, b, a), merged(less, a, b)
    value = _aligned(large, small, form.precision + GUARD + 1)
    both, opposite = terms.and_(a.sign, b.sign), terms.xor(a.sign, b.sign)
    nan = terms.any_of([a.nan, b.nan, terms.all_of([a.inf, b.inf, opposite])])
    empty = terms.eq(value, terms.const(0, value.width))
    sign = terms.ite(empty, both, large.sign)
    sign = terms.ite(a.inf, a.sign, terms.ite(b.inf, b.sign, sign))
    power = terms.sub(large.exponent, exponent(GUARD))
    low, high = form.least - GUARD, max(a.high, b.high) - GUARD
    return rounded(Number(nan, terms.or_(a.inf, b.inf), sign, power, value, low, high), form)


def _scaled(x: Number, low: int, width: int) -> Term:
    """A finite number in units of 2**low."""
    shift = terms.sub(x.exponent, exponent(low))
    most = x.high - low
    word = terms.zext(x.significand, width)
    if not most:
        return word
    bits = max(most.bit_length(), 1)
    return terms.shl(word, terms.zext(terms.extract(shift, 0, bits), width)) if width >= bits else word


def _fixed(a: Number, b: Number, low: int) -> Number:
    """A sum without loss."""
    width = max(max(a.top, b.top) - low + 2, 8)
    signed = []
    for each in (a, b):
        word = _scaled(each, low, width)
        signed.append(terms.ite(each.sign, terms.sub(terms.const(0, width), word), word))
    value = terms.add(*signed)
    sign = terms.extract(value, width - 1, 1)
    magnitude = terms.ite(sign, terms.sub(terms.const(0, width), value), value)
    significand = terms.extract(magnitude, 0, width - 1)
    return Number(terms.FALSE, terms.FALSE, sign, exponent(low), significand, low, low)


def _wide(x: Number) -> Number:
    """A number of binary64 with a leading one; a zero is below all others."""
    n = normalized(x, BINARY64.precision)
    return replace(n, exponent=terms.ite(x.empty, exponent(-(1 << 13)), n.exponent))


def _shifted(a: Number, b: Number) -> Number:
    """A sum whose smaller term is shifted; bits that go out are one sticky bit."""
    x, y = _wide(a), _wide(b)
    less = terms.or_(
        terms.slt(x.exponent, y.exponent),
        terms.and_(terms.eq(x.exponent, y.exponent), terms.ult(x.significand, y.significand)),
    )
    large, small = merged(less, y, x), merged(less, x, y)
    value = _aligned(large, small, BINARY64.precision + GUARD + 1)
    power = terms.sub(large.exponent, exponent(GUARD))
    low, high = min(a.low, b.low) - GUARD, max(a.high, b.high)
    high = max(high, max(a.top, b.top) - BINARY64.precision) - GUARD + 1
    return Number(terms.FALSE, terms.FALSE, large.sign, power, value, min(low, BINARY64.least - GUARD), high)


def _aligned(large: Number, small: Number, width: int) -> Term:
    """The magnitude of a sum in units of 2**-GUARD last places of the larger number."""
    first, second = (
        terms.zext(terms.concat(each.significand, terms.const(0, GUARD)), width) for each in (large, small)
    )
    distance = terms.sub(large.exponent, small.exponent)
    distance = terms.ite(terms.slt(exponent(width), distance), exponent(width), distance)
    moved = terms.lshr(second, amount(distance, width))
    lost = terms.not_(terms.eq(terms.shl(moved, amount(distance, width)), second))
    moved = terms.or_(moved, terms.zext(lost, width))
    return terms.ite(terms.xor(large.sign, small.sign), terms.sub(first, moved), terms.add(first, moved))


def quotient(a: Number, b: Number) -> Number:
    """a / b, with infinities for a divisor of 0."""
    x, y = normalized(a, BINARY64.precision), normalized(b, BINARY64.precision)
    width = BINARY64.precision + QUOTIENT
    dividend = terms.concat(x.significand, terms.const(0, QUOTIENT))
    divisor = terms.zext(y.significand, width)
    result = terms.udiv(dividend, divisor)
    rest = terms.not_(terms.eq(terms.mul(result, divisor), dividend))
    significand = terms.concat(terms.extract(result, 0, QUOTIENT + 1), rest)
    nothing = terms.or_(a.zero, b.inf)
    significand = terms.ite(nothing, terms.const(0, significand.width), significand)
    return fitted(
        Number(
            terms.any_of([a.nan, b.nan, terms.and_(a.zero, b.zero), terms.and_(a.inf, b.inf)]),
            terms.or_(a.inf, b.zero),
            terms.xor(a.sign, b.sign),
            terms.sub(terms.sub(x.exponent, y.exponent), exponent(QUOTIENT + 1)),
            significand,
            x.low - b.top - QUOTIENT - 1,
            a.top - y.low - QUOTIENT - 1,
        )
    )


def whole(x: Number, downwards: bool) -> Number:
    """The nearest whole number, of two the even one; or the largest one that is not above."""
    if x.low >= 0:
        return x
    width = max(x.width, EXPONENT)
    word = terms.zext(x.significand, width)
    shift = terms.sub(exponent(0), x.exponent)
    far = terms.slt(exponent(width + 1), shift)
    left, half, rest = cut(word, terms.ite(far, exponent(width + 1), shift))
    up = terms.and_(half, terms.or_(rest, terms.extract(left, 0, 1)))
    if downwards:
        up = terms.and_(x.sign, terms.or_(half, rest))
    result = terms.extract(terms.add(left, terms.zext(up, width)), 0, x.width + (x.width == 1))
    ready = terms.slt(exponent(-1), x.exponent)
    changed = replace(x, significand=result, exponent=exponent(0), low=0, high=0, format=None)
    return merged(ready, replace(x, low=min(0, x.high), format=None), changed) if x.high >= 0 else changed


def to_integer(x: Number, width: int) -> Term:
    """The integer part, modulo 2**width; 0 for what is not finite."""
    bits = max(min(width, x.top + 1), 2)
    size = max(bits, x.width, EXPONENT)
    word = terms.zext(x.significand, size)
    left = terms.shl(word, amount(x.exponent, size))
    right = terms.lshr(word, amount(terms.sub(exponent(0), x.exponent), size))
    magnitude = terms.ite(terms.slt(x.exponent, exponent(0)), right, left)
    if x.high <= 0:
        magnitude = right
    value = terms.ite(x.sign, terms.sub(terms.const(0, size), magnitude), magnitude)
    value = terms.ite(terms.or_(x.nan, x.inf), terms.const(0, size), value)
    return terms.sext(terms.extract(value, 0, bits), width)


# comparisons


def _keys(a: Number, b: Number) -> tuple[Term, Term]:
    """Words in the order of magnitudes."""
    if a.format != b.format or a.format is None:
        a, b = rounded(a, BINARY64), rounded(b, BINARY64)
    return _key(a), _key(b)


def _key(x: Number) -> Term:
    assert x.format is not None
    place = terms.concat(x.inf, terms.sub(x.exponent, exponent(x.format.least)))
    infinite = terms.const(1 << (EXPONENT + x.width), EXPONENT + 1 + x.width)
    finite = terms.ite(x.empty, terms.const(0, infinite.width), terms.concat(place, x.significand))
    return terms.ite(x.inf, infinite, finite)


def equal(a: Number, b: Number) -> Term:
    """a == b."""
    p, q = _keys(a, b)
    same = terms.and_(terms.eq(p, q), terms.or_(terms.eq(a.sign, b.sign), terms.eq(p, terms.const(0, p.width))))
    return terms.and_(same, terms.not_(terms.or_(a.nan, b.nan)))


def less(a: Number, b: Number) -> Term:
    """a < b."""
    p, q = _keys(a, b)
    zeros = terms.and_(terms.eq(p, terms.const(0, p.width)), terms.eq(q, terms.const(0, q.width)))
    split = terms.and_(a.sign, terms.not_(zeros))
    same = terms.ite(a.sign, terms.ult(q, p), terms.ult(p, q))
    return terms.and_(terms.ite(terms.xor(a.sign, b.sign), split, same), terms.not_(terms.or_(a.nan, b.nan)))


__all__ = [
    "equal",
    "less",
    "negated",
    "of_integer",
    "product",
    "quotient",
    "rounded_once",
    "to_integer",
    "total",
    "whole",
]
