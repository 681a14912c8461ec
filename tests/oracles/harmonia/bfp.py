"""Harmonia's formats on Python integers and fractions [harmonia §II-B, §III-A, §III-B, §IV-B].

FP16 values are 16-bit words (ints). Codes are found by dividing exact values by the unit of the group, not by shifts.

    encode_group(words, m, ...)     -> Group;  values(group), grid(group)
    encode(words, m, size, ...)     one row cut into groups, the last padded with +0
    demote(group, m), realign(group, exponent)
    storage_bits(length, m, size, exponent)
    pack(groups, layout), unpack(data, count, m, size, layout)
    encode_int(row, bits, size)     -> list of IntGroup;  int_storage_bits(length, bits, size)
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from tests.oracles import bits, fp16
from tests.oracles.fp16 import f32
from tests.oracles.rounding import round_fraction


class Group(NamedTuple):
    """One shared 5-bit exponent field, signs (1 = negative) and unsigned magnitudes of m bits."""

    exponent: int
    sign: list[int]
    mantissa: list[int]
    m: int


def field(word: int) -> int:
    """The exponent field of an FP16 word."""
    return word >> 10 & 31


def unit(exponent: int, m: int) -> Fraction:
    """What a magnitude of 1 is worth: the top bit of m weighs 2**(E' - 15), field 0 counting as 1."""
    return Fraction(2) ** (max(exponent, 1) - 14 - m)


def magnitude(word: int, subnormals: str) -> Fraction:
    """|x|; field 31 is an ordinary field with a hidden bit; "flush" makes field 0 zero."""
    if field(word) == 0:
        return Fraction(word & 0x3FF, 2**24) if subnormals == "keep" else Fraction(0)
    return Fraction(1024 + word % 1024) * Fraction(2) ** (field(word) - 25)


def encode_group(
    words: Sequence[int],
    m: int = 8,
    rounding: str = "truncate",
    special: str = "error",
    subnormals: str = "keep",
    zero_sign: str = "keep",
) -> Group:
    """One group. Infinities and NaN: assertion; "hw" takes the field as it is; "saturate" makes +-Inf +-65504."""
    if special == "saturate":
        assert all(field(w) < 31 or w & 0x3FF == 0 for w in words)
        words = [w & 0x8000 | 0x7BFF if field(w) == 31 else w for w in words]
    assert special == "hw" or all(field(w) < 31 for w in words)
    top = max(map(field, words))
    found = []
    for w in words:
        negative = w >= 0x8000
        exact = magnitude(w, subnormals) / unit(top, m)
        mode = ("ceil" if negative else "floor") if rounding == "floor" else rounding
        found.append(min(round_fraction(exact, mode), 2**m - 1))
    sign = [int(w >= 0x8000) for w in words]
    if zero_sign == "canonical":
        sign = [s if code else 0 for s, code in zip(sign, found, strict=True)]
    return Group(top, sign, found, m)


def encode(words: Sequence[int], m: int = 8, size: int = 32, **options: str) -> list[Group]:
    """A row as groups of `size`; a short last group is padded with +0."""
    padded = [*words, *[0] * (-len(words) % size)]
    return [encode_group(padded[i : i + size], m, **options) for i in range(0, len(padded), size)]


def values(group: Group) -> list[Fraction]:
    """Exact values."""
    step = unit(group.exponent, group.m)
    return [-code * step if s else code * step for s, code in zip(group.sign, group.mantissa, strict=True)]


def grid(group: Group) -> list[int]:
    """Values in units of 2**(-13 - m)."""
    whole = [value * 2 ** (13 + group.m) for value in values(group)]
    assert all(value.denominator == 1 for value in whole)
    return [int(value) for value in whole]


def demote(group: Group, m: int, zero_sign: str = "keep") -> Group:
    """Fewer bits, the rest dropped."""
    codes = [code // 2 ** (group.m - m) for code in group.mantissa]
    sign = group.sign if zero_sign == "keep" else [s if c else 0 for s, c in zip(group.sign, codes, strict=True)]
    return Group(group.exponent, list(sign), codes, m)


def realign(group: Group, exponent: int) -> Group:
    """The same magnitudes under a larger shared exponent."""
    step = unit(exponent, group.m) / unit(group.exponent, group.m)
    return group._replace(exponent=exponent, mantissa=[int(code / step) for code in group.mantissa])


def storage_bits(length: int, m: int, size: int = 32, exponent: bool = True) -> int:
    """Bits of a row: real elements only, a whole exponent for a short group."""
    return length * (1 + m) + (5 * -(-length // size) if exponent else 0)


def word(group: Group) -> int:
    """The group word: exponent, signs, magnitudes, least significant first."""
    text = [f"{code:0{group.m}b}" for code in reversed(group.mantissa)]
    text += [str(s) for s in reversed(group.sign)] + [f"{group.exponent:05b}"]
    return int("".join(text), 2)


def pack(groups: Sequence[Group], layout: str = "group") -> bytes:
    """Group words without gaps; or planes of exponents, signs, high and (m = 8) low nibbles, each filled to a byte."""
    first = groups[0]
    if layout == "group":
        return bits.pack([word(g) for g in groups], 5 + len(first.sign) * (1 + first.m))
    codes = [code for g in groups for code in g.mantissa]
    data = bits.pack([g.exponent for g in groups], 5) + bits.pack([s for g in groups for s in g.sign], 1)
    if first.m == 4:
        return data + bits.pack(codes, 4)
    assert first.m == 8
    return data + bits.pack([code >> 4 for code in codes], 4) + bits.pack([code & 15 for code in codes], 4)


def unpack(data: bytes, count: int, m: int, size: int = 32, layout: str = "group") -> list[Group]:
    """The inverse of `pack` for `count` groups."""
    if layout == "group":
        found = []
        for whole in bits.unpack(data, 5 + size * (1 + m), count):
            signs = [whole >> (5 + i) & 1 for i in range(size)]
            codes = [whole >> (5 + size + m * i) & ((1 << m) - 1) for i in range(size)]
            found.append(Group(whole & 31, signs, codes, m))
        return found
    parts = []
    for width, number in [(5, count), (1, count * size)] + [(4, count * size)] * (m // 4):
        used = -(-width * number // 8)
        parts.append(bits.unpack(data[:used], width, number))
        data = data[used:]
    codes = parts[2] if m == 4 else [16 * high + low for high, low in zip(parts[2], parts[3], strict=True)]
    return [
        Group(parts[0][g], parts[1][g * size : (g + 1) * size], codes[g * size : (g + 1) * size], m)
        for g in range(count)
    ]


class IntGroup(NamedTuple):
    """Integer codes and the FP16 word of their scale."""

    scale: int
    code: list[int]


def encode_int(row: Sequence[float], width: int = 4, size: int | None = 128) -> list[IntGroup]:
    """Symmetric weights of one output row (float32 values); `size` None is one group."""
    size = size or len(row)
    return [encode_int_group(row[i : i + size], width) for i in range(0, len(row), size)]


def encode_int_group(block: Sequence[float], width: int) -> IntGroup:
    """Scale absmax / (2**(width-1) - 1), one rounding; codes by a float64 quotient, half to even, clamped."""
    top = 2 ** (width - 1) - 1
    scale = fp16.from_fraction(Fraction(f32(max(map(abs, block)))) / top)
    if scale == 0:
        return IntGroup(0, [0] * len(block))
    return IntGroup(scale, [max(-top - 1, min(top, round(w / fp16.to_float(scale)))) for w in block])


def int_storage_bits(length: int, width: int = 4, size: int = 128) -> int:
    """Codes and one FP16 scale per group."""
    return length * width + 16 * -(-length // size)
