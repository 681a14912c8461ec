"""OliVe's experiments on values as loops over Python floats: what is an outlier, its pair, its format.

[olive §2.1, §2.3 Tbl. 2, Fig. 3, §3.3 Fig. 5]. A tensor is a list of rows; pairs are inside a row. Sums are Python
floats, element after element.
"""

import math
from fractions import Fraction

from tests.oracles import prng
from tests.oracles.fp16 import f32
from tests.oracles.olive import ovp

Rows = list[list[float]]


def sigma(rows: Rows) -> float:
    """Standard deviation about the mean, count - 1 in the denominator; 0 for one value."""
    values = [value for row in rows for value in row]
    total = 0.0
    for value in values:
        total += value
    squares = 0.0
    for value in values:
        squares += (value - total / len(values)) * (value - total / len(values))
    return math.sqrt(squares / (len(values) - 1)) if len(values) > 1 else 0.0


def bound(rows: Rows, factor: float = 3) -> float:
    """Magnitudes beyond are outliers'; without a spread there are none."""
    return factor * sigma(rows) or math.inf


def shares(rows: Rows, factors: tuple[int, ...] = (3, 6)) -> list[float]:
    """Share of values beyond each multiple of sigma."""
    values = [value for row in rows for value in row]
    limits = [bound(rows, factor) for factor in factors]
    return [len([value for value in values if abs(value) > limit]) / len(values) for limit in limits]


def pairs(rows: Rows, factor: float = 3) -> list[int]:
    """How many pairs hold no, one and two outliers."""
    counts, limit = [0, 0, 0], bound(rows, factor)
    for row in rows:
        for left, right in zip(row[0::2], row[1::2], strict=False):
            counts[(abs(left) > limit) + (abs(right) > limit)] += 1
    return counts


def clip(rows: Rows, limit: float) -> Rows:
    """Outliers at the limit, which is rounded to float32."""
    return [[value if abs(value) <= limit else math.copysign(f32(limit), value) for value in row] for row in rows]


def victims(rows: Rows, limit: float) -> Rows:
    """The smaller of a pair with an outlier becomes 0; of equal ones the left."""
    found = [list(row) for row in rows]
    for row in found:
        for at in range(0, len(row) - 1, 2):
            smaller = at + 1 if abs(row[at]) > abs(row[at + 1]) else at
            if max(abs(row[at]), abs(row[at + 1])) > limit:
                row[smaller] = 0.0
    return found


def normals(values: list[float], limit: float, seed: int, start: int = 0) -> list[float]:
    """As many normal values as there are outliers become 0: those with the smallest word."""
    outliers = [place for place, value in enumerate(values) if abs(value) > limit]
    drawn = prng.words(seed, start, len(values))
    words = {place: word for place, word in enumerate(drawn) if place not in outliers}
    chosen = sorted(words, key=lambda place: (words[place], place))[: len(outliers)]
    return [0.0 if place in chosen else value for place, value in enumerate(values)]


def rounding_error(maxima: list[float], outlier: str, normal: int) -> Fraction:
    """Mean of |round(x) - x| * 3 / normal for x = maximum * normal / 3, exact."""
    errors = []
    for maximum in maxima:
        x = Fraction(maximum) * normal / 3
        rounded = ovp.element_decode(outlier, ovp.element_encode(outlier, x))
        assert rounded is not None
        errors.append(abs(rounded - x) * 3 / normal)
    return Fraction(sum(errors)) / len(errors)


def bias(man_bits: int, largest: int) -> int:
    """The smallest bias whose first magnitude skips the normal values."""
    return next(b for b in range(64) if (2**man_bits + 1) * 2**b > largest)
