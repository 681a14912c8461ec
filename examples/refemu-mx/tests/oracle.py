"""Blocks by exact fractions: tables of values, and the nearest of them. Imports nothing of refemu or refemu_mx."""

from fractions import Fraction
from math import inf, isinf, isnan, nan
from struct import pack, unpack

#: exponent bits, mantissa bits, bias, codes at the top of a sign that are not numbers
SHAPES = {"e5m2": (5, 2, 15, 4), "e4m3": (4, 3, 7, 1), "e3m2": (3, 2, 3, 0), "e2m3": (2, 3, 1, 0), "e2m1": (2, 1, 1, 0)}


def value(name: str, code: int) -> Fraction | float:
    """What an element code stands for."""
    if name == "int8":
        return Fraction(code - 256 if code > 127 else code, 64)
    exp, man, bias, special = SHAPES[name]
    size, sign = code % (1 << (exp + man)), -1 if code >> (exp + man) else 1
    if size >= (1 << (exp + man)) - special:
        return sign * inf if name == "e5m2" and size % 4 == 0 else nan
    field, fraction = divmod(size, 1 << man)
    significand = Fraction(fraction, 1 << man) + (1 if field else 0)
    return sign * significand * Fraction(2) ** (max(field, 1) - bias)


def magnitudes(name: str) -> list[tuple[Fraction, int]]:
    """Magnitudes and their codes, ascending."""
    top = 128 if name == "int8" else 1 << sum(SHAPES[name][:2])
    pairs = [(value(name, code), code) for code in range(top)]
    return sorted((Fraction(size), code) for size, code in pairs if not isinstance(size, float))


def nearest(name: str, x: Fraction, negative: bool) -> tuple[int, bool]:
    """The code nearest to |x|, of two the even one, and whether |x| rounds beyond the largest."""
    table = magnitudes(name)
    _, code = min(table, key=lambda pair: (abs(pair[0] - abs(x)), pair[1] & 1))
    step = table[-1][0] - table[-2][0]
    # the code after the largest would be even if the largest is odd
    beyond = 2 * (abs(x) - table[-1][0])
    clipped = beyond > step or (beyond == step and table[-1][1] & 1 == 1)
    if name == "int8":
        return (-code) % 256 if negative else code, clipped
    return code + (negative << sum(SHAPES[name][:2])), clipped


def log2(x: Fraction) -> int:
    """floor(log2(x)) of x > 0, by comparison."""
    exponent = 0
    while Fraction(2) ** (exponent + 1) <= x:
        exponent += 1
    while Fraction(2) ** exponent > x:
        exponent -= 1
    return exponent


def scale(name: str, rule: str, top: Fraction) -> int:
    """Code of the scale of a block whose largest magnitude is `top`."""
    if top == 0:
        return 0
    largest = magnitudes(name)[-1][0]
    man = 6 if name == "int8" else SHAPES[name][1]
    exponent = log2(top)
    if rule == "ceil" and Fraction(2) ** exponent < top:
        exponent += 1
    if rule == "even" and top >= Fraction(2) ** (exponent + 1) - Fraction(2) ** (exponent - man - 1):
        exponent += 1
    exponent -= log2(largest)
    if rule == "nvidia":
        exponent = next(each for each in range(log2(top) - 20, 200) if largest * Fraction(2) ** each >= top)
    return min(max(exponent + 127, 0), 254)


def encode(name: str, rule: str, values: list[tuple[Fraction | float, bool]]) -> tuple[int, list[int], bool]:
    """Scale, codes and clipped of values with their signs."""
    if any(isinstance(x, float) for x, _ in values):
        return 255, [0] * len(values), False
    code = scale(name, rule, max(abs(Fraction(x)) for x, _ in values))
    pairs = [nearest(name, Fraction(x) / Fraction(2) ** (code - 127), negative) for x, negative in values]
    return code, [each for each, _ in pairs], any(clip for _, clip in pairs)


def of_float32(word: int) -> tuple[Fraction | float, bool]:
    """Value and sign of a float32 pattern."""
    x = unpack("<f", pack("<I", word))[0]
    return (x if isnan(x) or isinf(x) else Fraction(x)), bool(word >> 31)


def of_block(name: str, scale_code: int, codes: list[int]) -> list[tuple[Fraction | float, bool]]:
    """Values and signs of a block."""
    width = 8 if name == "int8" else 1 + sum(SHAPES[name][:2])
    values = [value(name, code) for code in codes]
    factor = nan if scale_code == 255 else Fraction(2) ** (scale_code - 127)
    return [
        (nan if isinstance(x, float) or isinstance(factor, float) else x * factor, bool(code >> (width - 1)))
        for x, code in zip(values, codes, strict=True)
    ]


def to_float32(x: Fraction) -> int:
    """The float32 pattern nearest to x, ties to even."""
    if x == 0:
        return 0
    place = Fraction(2) ** (max(log2(abs(x)), -126) - 23)
    whole = round(abs(x) / place)  # of a Fraction: ties to even
    size = whole * place
    sign = int(x < 0) << 31
    if size >= Fraction(2) ** 128:
        return sign | 0x7F800000
    return sign | unpack("<I", pack("<f", float(size)))[0]


def dot(a: str, a_scale: int, a_codes: list[int], b: str, b_scale: int, b_codes: list[int], in_order: bool) -> int:
    """The float32 pattern of a dot product."""
    if 255 in (a_scale, b_scale):
        return 0x7FC00000
    terms = [value(a, x) * value(b, y) for x, y in zip(a_codes, b_codes, strict=True)]
    odd = [float(term) for term in terms if isinstance(term, float)]
    if odd:
        total = sum(odd)
        return 0x7FC00000 if isnan(total) else 0x7F800000 | int(total < 0) << 31
    factor, total32 = Fraction(2) ** (a_scale + b_scale - 254), Fraction(0)
    if in_order:
        for term in terms:
            total32 = Fraction(of_float32(to_float32(total32 + term))[0])
    else:
        total32 = sum(map(Fraction, terms), Fraction(0))
    return to_float32(total32 * factor)


def nvfp4(order: str, factor: int, x: list[int]) -> tuple[int, list[int], bool]:
    """Scale, codes and clipped; every float32 operation is an exact one and a rounding."""
    if any(isinstance(of_float32(word)[0], float) for word in (factor, *x)):
        return 0x7F, [0] * 16, False

    def rounded(value: Fraction | float) -> Fraction | float:
        return value if isinstance(value, float) else of_float32(to_float32(value))[0]

    def times(a: Fraction | float, b: Fraction | float) -> Fraction | float:
        if isinstance(a, float) or isinstance(b, float):
            sign = -1 if (a < 0) != (b < 0) else 1
            return nan if 0 in (a, b) else sign * inf
        return rounded(a * b)

    values = [Fraction(of_float32(word)[0]) for word in x]
    known = Fraction(of_float32(factor)[0])
    top = times(rounded(max(map(abs, values)) / 6), known)
    code, over = (0x7E, True) if isinstance(top, float) else nearest("e4m3", top, False)
    if code == 0:
        return 0, [8 * (word >> 31) for word in x], False
    unit = Fraction(value("e4m3", code))
    if order == "division":
        products = [times(each, known) for each in values]
        scaled = [each if isinstance(each, float) else rounded(each / unit) for each in products]
    else:
        scaled = [times(each, rounded(known / unit)) for each in values]
    pairs = [
        (7 + 8 * (word >> 31), True)
        if isinstance(each, float) and not isnan(each)
        else (0, False)
        if isinstance(each, float)
        else nearest("e2m1", each, bool(word >> 31))
        for each, word in zip(scaled, x, strict=True)
    ]
    return code, [each for each, _ in pairs], over or any(clip for _, clip in pairs)
