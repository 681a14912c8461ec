"""A number in parts, as bit vectors with static bounds, and its rounding to a format.

Significands keep the bits that a number needs: a product of two fp16 numbers has 22, unrounded. Only a result that may
not fit binary64 is rounded.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

from refemu.prove import terms
from refemu.prove.floats.ranges import unsigned
from refemu.prove.terms import Term

EXPONENT = 16  #: bits of an exponent, in two's complement


class Format(NamedTuple):
    """A format of IEEE 754."""

    bits: int  #: of a word
    precision: int
    least: int  #: exponent of the last place of subnormal numbers
    most: int  #: exponent of the largest numbers


FORMATS = {16: Format(16, 11, -24, 15), 32: Format(32, 24, -149, 127), 64: Format(64, 53, -1074, 1023)}
BINARY64 = FORMATS[64]


@dataclass(frozen=True)
class Number:
    """(-1)**sign * significand * 2**exponent, an infinity or NaN; a zero has the significand 0."""

    nan: Term
    inf: Term
    sign: Term
    exponent: Term
    significand: Term
    low: int  #: least exponent of a finite number
    high: int  #: largest one
    format: Format | None = None  #: in which it is canonical: subnormal, with a leading one, or infinite as its words

    @property
    def width(self) -> int:
        """Bits of the significand."""
        return self.significand.width

    @property
    def top(self) -> int:
        """A power of two that finite magnitudes are below."""
        return self.high + self.width

    @property
    def empty(self) -> Term:
        """Whether the significand is 0."""
        return terms.eq(self.significand, terms.const(0, self.width))

    @property
    def zero(self) -> Term:
        """Whether it is a zero."""
        return terms.all_of([terms.not_(self.nan), terms.not_(self.inf), self.empty])


def exponent(value: int) -> Term:
    """A constant exponent."""
    return terms.const(value, EXPONENT)


def negated(x: Number) -> Number:
    """-x."""
    return replace(x, sign=terms.not_(x.sign))


def constant(word: int) -> Number:
    """The number of a word of binary64, with the fewest bits."""
    sign, field, fraction = word >> 63, word >> 52 & 2047, word & ((1 << 52) - 1)
    value = fraction | (1 << 52 if field else 0)
    power = max(field, 1) - 1075
    trailing = (value & -value).bit_length() - 1 if value else 0
    value, power = (value >> trailing, power + trailing) if value and field != 2047 else (0, 0)
    nan, inf = (terms.const(int(each), 1) for each in (field == 2047 and fraction != 0, field == 2047 and not fraction))
    width = max(value.bit_length(), 1)
    return Number(nan, inf, terms.const(sign, 1), exponent(power), terms.const(value, width), power, power)


def bounded(x: Number, top: int) -> Number:
    """A number of which a test has shown that it is at most 2**top, or NaN."""
    return x if x.format is None else replace(x, high=max(x.format.least, min(x.high, top - x.width + 1)))


def of_word(word: Term) -> Number:
    """The number of a word of a format."""
    form = FORMATS[word.width]
    places = form.precision - 1
    if (single := _power_of_two(word, form)) is not None:
        return single
    fraction, field = terms.extract(word, 0, places), terms.extract(word, places, form.bits - form.precision)
    special = terms.eq(field, terms.const(-1, field.width))
    subnormal, whole = (terms.eq(each, terms.const(0, each.width)) for each in (field, fraction))
    place = terms.ite(subnormal, exponent(1), terms.zext(field, EXPONENT))
    power = terms.add(place, exponent(form.least - 1))
    known = None if power.op != "const" else power.name - ((power.name >> (EXPONENT - 1)) << EXPONENT)
    return Number(
        terms.and_(special, terms.not_(whole)),
        terms.and_(special, whole),
        terms.extract(word, form.bits - 1, 1),
        power,
        terms.concat(terms.not_(subnormal), fraction),
        form.least if known is None else known,
        form.most - places if known is None else known,
        form,
    )


def _power_of_two(word: Term, form: Format) -> Number | None:
    """The number of a word of zeros below a field of which no value is that of a subnormal or infinite number."""
    places = form.precision - 1
    if word.op != "concat" or word.args[1].op != "const" or word.args[1].name or word.args[1].width != places:
        return None
    low, high = unsigned(word.args[0])
    if low < 1 or high >= (1 << (form.bits - form.precision)) - 1 or word.args[0].width > EXPONENT:
        return None
    offset = form.least + places - 1
    power = terms.add(terms.zext(word.args[0], EXPONENT), exponent(offset))
    return Number(terms.FALSE, terms.FALSE, terms.FALSE, power, terms.TRUE, low + offset, high + offset)


def to_word(x: Number, bits: int) -> Term:
    """The word of the nearest number of a format; the positive quiet NaN."""
    form = FORMATS[bits]
    r = rounded(x, form)
    places = form.precision - 1
    field = terms.sub(r.exponent, exponent(form.least - 1))
    normal = terms.extract(r.significand, places, 1)
    low = terms.ite(normal, terms.extract(field, 0, bits - 1 - places), terms.const(0, bits - 1 - places))
    magnitude = terms.concat(low, terms.extract(r.significand, 0, places))
    word = terms.concat(r.sign, magnitude)
    nan = ((1 << (bits - places)) - 1) << (places - 1)
    return terms.ite(r.nan, terms.const(nan & ((1 << (bits - 1)) - 1), bits), word)


def merged(test: Term, a: Number, b: Number) -> Number:
    """`a` where `test` holds, else `b`."""
    a, b = _alike(a, b), _alike(b, a)
    width = max(a.width, b.width)
    return Number(
        terms.ite(test, a.nan, b.nan),
        terms.ite(test, a.inf, b.inf),
        terms.ite(test, a.sign, b.sign),
        terms.ite(test, a.exponent, b.exponent),
        terms.ite(test, terms.zext(a.significand, width), terms.zext(b.significand, width)),
        min(a.low, b.low),
        max(a.high, b.high),
        a.format if a.format == b.format else None,
    )


def _alike(x: Number, other: Number) -> Number:
    """A constant in the format of another number, if it is exact there."""
    form = other.format
    if form is None or x.format is not None or not (x.significand.op == x.exponent.op == "const"):
        return x
    return rounded(x, form) if fits(x, form) else x


def normalized(x: Number, width: int = 0) -> Number:
    """The same value with a leading one at the top of at least `width` bits, unless it is 0."""
    word, shift = x.significand, exponent(0)
    if width > word.width:
        word, shift = terms.concat(word, terms.const(0, width - word.width)), exponent(width - word.width)
    most = word.width
    step = 1 << max(most - 1, 1).bit_length() - 1
    while step:
        if step < most:
            clear = terms.eq(terms.extract(word, most - step, step), terms.const(0, step))
            moved = terms.concat(terms.extract(word, 0, most - step), terms.const(0, step))
            word = terms.ite(clear, moved, word)
            shift = terms.add(shift, terms.ite(clear, exponent(step), exponent(0)))
        step >>= 1
    low = x.low - most - (most - x.width)
    return replace(x, significand=word, exponent=terms.sub(x.exponent, shift), low=low, format=None)


def amount(shift: Term, width: int) -> Term:
    """A shift that is not negative, for words of `width` bits; more than all bits is all."""
    if width >= EXPONENT:
        return terms.zext(shift, width)
    far = terms.ult(terms.const(width, EXPONENT), shift)
    return terms.ite(
        far, terms.const(width, width) if width > 2 else terms.const(-1, width), terms.extract(shift, 0, width)
    )


def cut(word: Term, shift: Term) -> tuple[Term, Term, Term]:
    """A word shifted to the right by 1 or more: what is left, the last bit that went out, and whether others did."""
    width = word.width
    less = amount(terms.sub(shift, exponent(1)), width)
    last = terms.lshr(word, less)
    rest = terms.not_(terms.eq(terms.shl(last, less), word))
    return terms.lshr(last, terms.const(1, width)), terms.extract(last, 0, 1), rest


def rounded(x: Number, form: Format) -> Number:
    """The nearest number of a format, of two the one whose last bit is 0; beyond it an infinity."""
    if x.format == form:
        return x
    n = normalized(x, max(form.precision + 2, EXPONENT))
    width = n.width
    extra = width - form.precision
    place = terms.add(n.exponent, exponent(extra))  # of the last bit that is left
    if x.low - (form.precision - 1) < form.least:
        place = terms.ite(terms.slt(place, exponent(form.least)), exponent(form.least), place)
        shift = terms.sub(place, n.exponent)
        shift = terms.ite(terms.slt(exponent(width + 1), shift), exponent(width + 1), shift)
        left, half, rest = cut(n.significand, shift)
        left = terms.extract(left, 0, form.precision)
    else:
        left = terms.extract(n.significand, extra, form.precision)
        half = terms.extract(n.significand, extra - 1, 1)
        rest = terms.not_(terms.eq(terms.extract(n.significand, 0, extra - 1), terms.const(0, extra - 1)))
    up = terms.and_(half, terms.or_(rest, terms.extract(left, 0, 1)))
    total = terms.add(terms.zext(left, form.precision + 1), terms.zext(up, form.precision + 1))
    carry = terms.extract(total, form.precision, 1)
    leading = terms.const(1 << (form.precision - 1), form.precision)
    significand = terms.ite(carry, leading, terms.extract(total, 0, form.precision))
    place = terms.add(place, terms.zext(carry, EXPONENT))
    largest = form.most - form.precision + 1
    over = terms.FALSE
    if x.top > form.most:
        over = terms.and_(terms.slt(exponent(largest), place), terms.extract(significand, form.precision - 1, 1))
    inf, quiet = terms.or_(x.inf, over), terms.const(3 << (form.precision - 2), form.precision)
    significand = terms.ite(x.nan, quiet, terms.ite(inf, leading, significand))  # those of the words
    place = terms.ite(terms.or_(x.nan, inf), exponent(largest + 1), place)
    low = max(form.least, x.low - form.precision - 1)
    high = max(low, min(x.top - form.precision + 1, largest))
    return Number(x.nan, inf, x.sign, place, significand, low, high, form)


def fits(x: Number, form: Format) -> bool:
    """Whether every value is one of a format."""
    return x.width <= form.precision and x.low >= form.least and x.top <= form.most + 1


def fitted(x: Number) -> Number:
    """The nearest number of binary64; itself where it always is one."""
    return x if fits(x, BINARY64) else rounded(x, BINARY64)
