"""OliVe's formats as tables of (code, value), and its pairs and scale search as the paper words them.

[olive §3.1-3.4, Alg. 1, Alg. 2, Tbl. 3, Tbl. 4, Eq. 2]. Values are integers of grid units; arguments may be int,
float or Fraction and are compared exactly.
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from typing import NamedTuple

from tests.oracles.fp16 import f32
from tests.oracles.rounding import round_fraction

Number = int | float | Fraction


class Element(NamedTuple):
    """One element format: what every code means, and the codes an encoder may produce in order of their values."""

    width: int
    meaning: list[int | None]  #: by code; None is the identifier of a normal type
    legal: list[tuple[int, int]]  #: (magnitude, magnitude code), ascending
    twos: bool  #: negative codes are two's complement, else a sign bit


class Pair(NamedTuple):
    """A pair format; `outlier` "" means that there are none."""

    normal: str
    outlier: str
    threshold: Fraction
    closed: bool = False  #: a value exactly at the threshold is an outlier
    left_first: bool = False  #: two outliers: the left one stays, instead of the larger
    rounding: str = "half_even"
    far: int | None = None  #: magnitudes beyond become 0


def integer(width: int) -> Element:
    """[olive Tbl. 3]: two's complement without the code 10..0."""
    half = 1 << (width - 1)
    meaning = [code if code < half else None if code == half else code - 2 * half for code in range(2 * half)]
    return Element(width, meaning, [(value, value) for value in range(half)], twos=True)


def flint4() -> Element:
    """[olive Tbl. 3]: the values of flint4, in the order that the page's table gives their codes."""
    order = {0b000: 0, 0b001: 1, 0b010: 2, 0b011: 3, 0b110: 4, 0b111: 6, 0b101: 8, 0b100: 16}
    meaning: list[int | None] = [order[code] for code in range(8)] + [None] + [-order[code] for code in range(1, 8)]
    return Element(4, meaning, sorted((value, code) for code, value in order.items()), twos=False)


def abfloat(exp_bits: int, man_bits: int, bias: int, limit: int | None = None) -> Element:
    """[olive §3.3 Eq. 2, Tbl. 4]: magnitude code 0 is 0 with either sign and never produced."""
    magnitudes = [0]
    for exponent in range(1 << exp_bits):
        magnitudes += [((1 << man_bits) + mantissa) << (exponent + bias) for mantissa in range(1 << man_bits)]
    del magnitudes[1]  # exponent 0, mantissa 0: the reserved code
    meaning: list[int | None] = [*magnitudes, *(-magnitude for magnitude in magnitudes)]
    legal = [(value, code) for code, value in enumerate(magnitudes) if code and (limit is None or value <= limit)]
    return Element(1 + exp_bits + man_bits, meaning, legal, twos=False)


ELEMENTS = {
    "INT4": integer(4),
    "INT8": integer(8),
    "FLINT4": flint4(),
    "E2M1_BIAS0": abfloat(2, 1, 0),
    "E2M1_BIAS2": abfloat(2, 1, 2),
    "E2M1_BIAS3": abfloat(2, 1, 3),
    "E4M3_BIAS4": abfloat(4, 3, 4, limit=2**15),
    "E2M5_BIAS2": abfloat(2, 5, 2),
    "E0M3_BIAS0": abfloat(0, 3, 0),  # with int4 [olive Fig. 5]
    "E1M2_BIAS1": abfloat(1, 2, 1),
    "E3M0_BIAS2": abfloat(3, 0, 2),
    "E0M3_BIAS1": abfloat(0, 3, 1),  # with flint4
    "E1M2_BIAS2": abfloat(1, 2, 2),
    "E3M0_BIAS4": abfloat(3, 0, 4),
}

PAIRS = {
    "OVP_INT4": Pair("INT4", "E2M1_BIAS2", Fraction(19, 2)),
    "OVP_FLINT4": Pair("FLINT4", "E2M1_BIAS3", Fraction(20)),
    "OVP_INT8": Pair("INT8", "E4M3_BIAS4", Fraction(271, 2)),
    "OVP_INT4_REPO": Pair("INT4", "E2M1_BIAS2", Fraction(19, 2), True, True, "half_up", 25696),
    "OVP_FLINT4_REPO": Pair("FLINT4", "E2M1_BIAS3", Fraction(20), True, True, "half_up", 51392),
    "OVP_INT8_REPO": Pair("INT8", "E2M5_BIAS2", Fraction(259, 2), True, True, "half_up", 411616),
    "INT4_PLAIN": Pair("INT4", "", Fraction(10**9)),  # baselines without outliers
    "FLINT4_PLAIN": Pair("FLINT4", "", Fraction(10**9)),
    "INT8_PLAIN": Pair("INT8", "", Fraction(10**9)),
}


def element_decode(name: str, code: int) -> int | None:
    """Grid units of a code; None for the identifier of a normal type, 0 for either reserved code of an abfloat."""
    return ELEMENTS[name].meaning[code]


def element_encode(name: str, value: Number, rounding: str = "half_even") -> int:
    """Code of the nearest value that the format may produce; ties by `rounding`, beyond the ends the end."""
    element = ELEMENTS[name]
    negative = value < 0
    code = nearest(element.legal, abs(value), negative, rounding)
    if not negative or element.meaning[code] == 0:
        return code
    return (1 << element.width) - code if element.twos else code | 1 << (element.width - 1)


def nearest(legal: list[tuple[int, int]], magnitude: Number, negative: bool, rounding: str) -> int:
    """The magnitude code nearest to a magnitude: the two neighbours, and twice the value against their sum."""
    place = bisect_left(legal, magnitude, key=lambda entry: entry[0])
    if place in (0, len(legal)):
        return legal[min(place, len(legal) - 1)][1]
    (below, low_code), (above, high_code) = legal[place - 1 : place + 1]
    if 2 * magnitude != below + above:
        return low_code if 2 * magnitude < below + above else high_code
    # The rank of an abfloat value is its code; of the others its place, which starts at 0 with the value 0.
    rank = place - 1 + (legal[0][0] != 0)
    up = {"half_even": rank % 2 == 1, "half_away": True, "half_up": not negative, "half_down": negative}[rounding]
    return high_code if up else low_code


def algorithm2(value: Number, man_bits: int, bias: int) -> int:
    """[olive Alg. 2] line by line on a magnitude, for any mantissa width: code before any repair of its range."""
    exact = abs(Fraction(value))
    exponent = -man_bits
    while Fraction(2) ** (exponent + man_bits + 1) <= exact:
        exponent += 1
    while Fraction(2) ** (exponent + man_bits) > exact:
        exponent -= 1
    base_int = round_fraction(exact / Fraction(2) ** exponent, "half_even")
    if base_int == 2 << man_bits:
        exponent, base_int = exponent + 1, base_int >> 1
    return ((exponent - bias) << man_bits) + base_int - (1 << man_bits)


def identifier(name: str) -> int:
    """10..0 in the width of the pair's elements."""
    return 1 << (ELEMENTS[PAIRS[name].normal].width - 1)


def encode_pair(name: str, v1: Number, v2: Number) -> tuple[int, int]:
    """[olive Alg. 1] on magnitudes: codes of the left and the right element."""
    fmt = PAIRS[name]
    out1, out2 = (is_outlier(fmt, v) for v in (v1, v2))
    if out1 and (fmt.left_first or not out2 or abs(v1) > abs(v2)):
        return element_encode(fmt.outlier, v1, fmt.rounding), identifier(name)
    if out2:
        return identifier(name), element_encode(fmt.outlier, v2, fmt.rounding)
    return normal_encode(fmt, v1), normal_encode(fmt, v2)


def is_outlier(fmt: Pair, v: Number) -> bool:
    """Beyond the threshold, and not beyond `far`."""
    if fmt.outlier == "" or (fmt.far is not None and abs(v) > fmt.far):
        return False
    return abs(v) > fmt.threshold or (fmt.closed and abs(v) == fmt.threshold)


def normal_encode(fmt: Pair, v: Number) -> int:
    """Nearest normal value, saturating; 0 beyond `far`."""
    far = fmt.far is not None and abs(v) > fmt.far
    return 0 if far else element_encode(fmt.normal, v, fmt.rounding)


def decode_pair(name: str, code1: int, code2: int) -> tuple[int, int] | None:
    """Grid units of both elements; None for an illegal pair."""
    fmt, mark = PAIRS[name], identifier(name)
    if mark not in (code1, code2):
        left, right = element_decode(fmt.normal, code1), element_decode(fmt.normal, code2)
        assert left is not None
        assert right is not None
        return left, right
    partner = code2 if code1 == mark else code1
    if fmt.outlier == "" or partner % mark == 0:
        return None
    value = element_decode(fmt.outlier, partner)
    assert value is not None
    return (0, value) if code1 == mark else (value, 0)


class Found(NamedTuple):
    """The best candidate of a row. A row of zeros has scale 1; its alpha and ratio mean nothing."""

    alpha: float
    scale: float
    ratio: int
    mse: float


def search(
    name: str, rows: Sequence[Sequence[float]], base: str = "sigma", low: int = 75, high: int = 250, step: int = 2
) -> list[Found]:
    """[olive §3.4]: the best scale of each row (one row = one scale), by the smallest sum of squared errors.

    rows: float32 values. base: "sigma" (3 sigma) or "mean_sigma" (|mean| + 3 sigma). Ratios low, low + step, ...
    """
    return [search_row(name, list(map(float, row)), base, range(low, high, step)) for row in rows]


def search_row(name: str, row: list[float], base: str, ratios: range) -> Found:
    """The first candidate with the least error."""
    top = max(value for value, _ in ELEMENTS[PAIRS[name].normal].legal)
    start = search_base(row, base, PAIRS[name].outlier != "")
    best = float(top), 1.0, 0
    least = math.inf
    for ratio in ratios:
        alpha = f32(start * f32(ratio * 0.01))
        scale = f32(alpha / top)
        if not 2.0**-126 <= scale < math.inf:
            continue
        error = squared_error(name, row, scale)
        if error < least:
            best, least = (alpha, scale, ratio), error
    if least == math.inf:
        least = squared_error(name, row, 1.0)
    return Found(*best, least / len(row))


def search_base(row: list[float], base: str, outliers: bool) -> float:
    """3 sigma or |mean| + 3 sigma in float32; max|x| where sigma is 0, for one element, and without outliers."""
    peak = max(abs(x) for x in row)
    if not outliers or len(row) == 1:
        return peak
    mean = ordered_sum(row) / len(row)
    sigma = math.sqrt(ordered_sum([(x - mean) * (x - mean) for x in row]) / (len(row) - 1))
    if sigma == 0:
        return peak
    return f32(3 * sigma) if base == "sigma" else f32(abs(mean) + 3 * sigma)


def ordered_sum(values: list[float]) -> float:
    """Left to right from +0, in float64 (the built-in `sum` compensates in newer Pythons)."""
    total = 0.0
    for value in values:
        total += value
    return total


def squared_error(name: str, row: list[float], scale: float) -> float:
    """Sum of (grid * scale - x)**2 over the row, in float64 from left to right."""
    padded = row + [0.0] * (len(row) % 2)
    grid: list[int] = []
    for k in range(0, len(padded), 2):
        grid += quantized_pair(name, f32(padded[k] / scale), f32(padded[k + 1] / scale))
    errors = [value * scale - x for value, x in zip(grid, row, strict=False)]
    return ordered_sum([error * error for error in errors])


@cache
def quantized_pair(name: str, v1: float, v2: float) -> tuple[int, int]:
    """What a pair decodes to after encoding."""
    values = decode_pair(name, *encode_pair(name, v1, v2))
    assert values is not None
    return values


def select(
    names: Sequence[str], rows: Sequence[Sequence[float]], base: str = "sigma", **ratios: int
) -> tuple[str, list[Found]]:
    """The pair format whose best errors, summed over the rows, are least; the first one named wins a tie."""
    found = {name: search(name, rows, base, **ratios) for name in names}
    totals = {name: ordered_sum([row.mse for row in found[name]]) for name in names}
    best = min(names, key=lambda name: totals[name])
    return best, found[best]
