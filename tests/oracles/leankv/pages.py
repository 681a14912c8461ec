"""Keys and values of a page, byte by byte and exactly, as docs/leankv-page.md says it. [leankv §6.2]

read(page, count, ...)    of the first `count` slots: keys, values, score patterns, positions
head(pages, entry, ...)   the same of a head: high pages from the left of its table entry, low ones from the right
"""

import struct
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from tests.oracles import fp16
from tests.oracles.leankv import formats

INFINITY = {16: 0x7C00, 32: 0x7F800000}
NAN = {16: 0x7E00, 32: 0x7FC00000}


class Read(NamedTuple):
    """Lanes of the outputs."""

    key: list[int]
    value: list[int]
    score: list[int]
    position: list[int]


def pattern(code: int, scale: int, zero: int, subtracted: bool, width: int) -> int:
    """scale * code - zero, or + zero: exact, rounded to float32, then to fp16 for a width of 16."""
    if scale & 0x7C00 == 0x7C00 or zero & 0x7C00 == 0x7C00:  # infinities: IEEE's rules by Python's floats
        s, z = (float("inf") * (-1 if word & 0x8000 else 1) if word & 0x7C00 == 0x7C00 else fp16.to_float(word)
                for word in (scale, zero))  # fmt: skip
        special = s * code + (-z if subtracted else z)
        if special != special:
            return NAN[width]
        return INFINITY[width] | ((special < 0) << (width - 1))
    product, addend = Fraction(fp16.to_float(scale)) * code, Fraction(fp16.to_float(zero))
    exact = product - addend if subtracted else product + addend
    if exact == 0:  # -0.0 only as the sum of two of them
        negative = scale & 0x8000 != 0 and (zero & 0x8000 == 0) == subtracted
        return (negative and product == 0 and addend == 0) << (width - 1)
    single = fp16.f32_from_fraction(exact)
    return fp16.f32_bits(single) if width == 32 else fp16.from_fraction(Fraction(single))


def read(page: bytes, count: int, features: int, pair: str, width: int, subtracted: bool) -> Read:
    """The first `count` slots of the bytes of a page."""
    config = formats.CONFIGS[pair]
    stored = formats.Page(features, config, len(page), formats.tokens(features, config, len(page)))
    stored.data = bytearray(page)
    found = Read([], [], [], [])
    for slot in range(count):
        key, value, _, position = stored.read(slot)
        for lanes, groups in ((found.key, key), (found.value, value)):
            for group in groups:
                lanes += [pattern(code, group.scale, group.zero, subtracted, width) for code in group.code]
        found.score.append(struct.unpack_from("<I", page, stored.at["score"] + 4 * slot)[0])
        found.position.append(position)
    return found


def head(
    pages: Sequence[bytes],
    entry: Sequence[int],
    counts: tuple[int, int],
    features: int,
    pairs: Sequence[str],
    width: int,
    subtracted: bool,
) -> Read:
    """Every token of a head."""
    whole = Read([], [], [], [])
    for section, (pair, left) in enumerate(zip(pairs, counts, strict=False)):
        cells = iter(entry) if section == 0 else reversed(entry)
        while left > 0:
            page = pages[next(cells)]
            held = min(left, formats.tokens(features, formats.CONFIGS[pair], len(page)))
            for lanes, more in zip(whole, read(page, held, features, pair, width, subtracted), strict=True):
                lanes += more
            left -= held
    return whole
