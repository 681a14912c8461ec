"""OliVe's decoders and multiply-accumulate from the equations of [olive §4.2, §4.4], on Python integers."""

from collections.abc import Iterable

from tests.oracles.bits import signed
from tests.oracles.clocked import Change

Event = tuple[int, int, int, int, int, int]  #: load, acc_in, a_exp, a_int, b_exp, b_int

#: magnitude code -> exponent, integer; their value is the column of [olive Tbl. 3]
FLINT4 = {0: (0, 0), 1: (0, 1), 2: (0, 2), 3: (0, 3), 6: (0, 4), 7: (0, 6), 5: (2, 2), 4: (4, 1)}


def outlier_decoder(code: int, bias: int, exp_bits: int, man_bits: int, exponent_bits: int) -> tuple[int, int]:
    """[olive §4.2]: exponent = bias + (b2 b1), wrapped to `exponent_bits`; integer = (1 b0), 0 for magnitude 000."""
    sign, magnitude = divmod(code, 1 << (exp_bits + man_bits))
    field, mantissa = divmod(magnitude, 1 << man_bits)
    integer = 0 if magnitude == 0 else (1 << man_bits) + mantissa
    return (bias + field) % (1 << exponent_bits), -integer if sign else integer


def flint_decoder(code: int) -> tuple[int, int]:
    """Exponent and integer of a flint4 code; the identifier 1000 gives zeros."""
    exponent, integer = FLINT4[code % 8]
    return exponent, -integer if code >= 8 else integer


def ovp_decoder(
    pair: int, bias: int, normal: str, outlier: tuple[int, int]
) -> tuple[tuple[int, int], tuple[int, int], bool]:
    """[olive §4.2, Fig. 6b]: exponents and integers of the lanes (left first), and whether the pair is illegal."""
    width = 8 if normal == "int8" else 4
    mark = 1 << (width - 1)
    codes = pair % (1 << width), pair >> width
    lanes = [decode_lane(c, p, bias, normal, outlier, mark) for c, p in (codes, codes[::-1])]
    illegal = any(c == mark and p % mark == 0 for c, p in (codes, codes[::-1]))
    return (lanes[0][0], lanes[1][0]), (lanes[0][1], lanes[1][1]), illegal


def decode_lane(
    code: int, partner: int, bias: int, normal: str, outlier: tuple[int, int], mark: int
) -> tuple[int, int]:
    """One lane: a victim is 0; next to a victim is an outlier; else the normal type."""
    if code == mark:
        return 0, 0
    if partner == mark:
        return outlier_decoder(code, bias, *outlier, exponent_bits=4 if mark == 8 else 5)
    return flint_decoder(code) if normal == "flint4" else (0, signed(code, 4 if mark == 8 else 8))


def mac(events: Iterable[Event], overflow: str = "wrap") -> list[tuple[int, int, int, bool]]:
    """[olive §4.4]: shift, product, accumulator and overflow after each event, from a cleared accumulator.

    An event with `load` sets the accumulator to acc_in and multiplies nothing (shift and product 0).
    """
    acc, trace = 0, []
    for load, acc_in, a_exp, a_int, b_exp, b_int in events:
        shift, product = (0, 0) if load else (a_exp + b_exp, a_int * b_int)
        exact = acc_in if load else acc + product * 2**shift
        over = not -(2**31) <= exact < 2**31
        acc = {"wrap": signed(exact % 2**32, 32), "saturate": max(-(2**31), min(2**31 - 1, exact))}[overflow]
        trace.append((shift, product, acc, over))
    return trace


def elements(
    pairs: Iterable[int], bias: int, normal: str, outlier: tuple[int, int]
) -> tuple[list[int], list[int], int]:
    """Exponents and integers of a row of pairs, and 1 if one of them is illegal."""
    decoded = [ovp_decoder(int(pair), bias, normal, outlier) for pair in pairs]
    exponents, integers = ([x for lanes in decoded for x in lanes[field]] for field in (0, 1))
    return exponents, integers, int(any(illegal for *_, illegal in decoded))


def reduced(exact: int, overflow: str) -> tuple[int, int]:
    """A sum in 32 bits, and 1 if it left them."""
    d = {"wrap": signed(exact % 2**32, 32), "saturate": max(-(2**31), min(2**31 - 1, exact))}[overflow]
    return d, int(not -(2**31) <= exact < 2**31)


def edp_events(
    operands: tuple[list[int], list[int], int, int, int],
    kinds: tuple[str, str],
    outliers: tuple[tuple[int, int], tuple[int, int]],
    overflow: str,
) -> Iterable[Change]:
    """[olive §4.1]: decode, multiply, shift, reduce."""
    a_pairs, b_pairs, bias_a, bias_b, c = operands
    a_exponent, a_int, bad_a = elements(a_pairs, bias_a, kinds[0], outliers[0])
    b_exponent, b_int, bad_b = elements(b_pairs, bias_b, kinds[1], outliers[1])
    n, illegal = len(a_int), bad_a | bad_b
    decoded = {"a_exponent": a_exponent, "a_int": a_int, "b_exponent": b_exponent, "b_int": b_int}
    yield {**decoded, "illegal": illegal, "c_held": c}, {"decodes": n}
    shifts = [x + y for x, y in zip(a_exponent, b_exponent, strict=True)]
    products = [x * y for x, y in zip(a_int, b_int, strict=True)]
    yield {"shifts": shifts, "products": products}, {"macs": n}
    terms = [product * 2**shift for product, shift in zip(products, shifts, strict=True)]
    low = [signed(term % 2**32, 32) for term in terms]
    yield {"shifted": low, "above": [(term - word) // 2**32 for term, word in zip(terms, low, strict=True)]}, {}
    d, over = reduced(c + sum(terms), overflow)
    counts = {"operations": 1, "overflows": over, "illegal_operations": illegal}
    yield {"d": d, "overflow": over}, counts


def mmaovp_events(
    operands: tuple[list[int], list[int], int, int, list[int]],
    kinds: tuple[str, str],
    outliers: tuple[tuple[int, int], tuple[int, int]],
    overflow: str,
) -> Iterable[Change]:
    """[olive §4.6]: rows of A by columns of B, each in two chunks of K; sixteen operations are a cycle."""
    a_pairs, b_pairs, bias_a, bias_b, c = operands
    d, flags, illegal, chunk = list(c), [0] * 64, 0, len(a_pairs) // 16
    held = {"a_pairs_held": a_pairs, "b_pairs_held": b_pairs, "bias_a_held": bias_a, "bias_b_held": bias_b}
    for event in range(128):
        place, half = event // 2, event % 2
        starts = [(2 * side + half) * chunk for side in (place // 8, place % 8)]
        left, right = a_pairs[starts[0] : starts[0] + chunk], b_pairs[starts[1] : starts[1] + chunk]
        x_exp, x_int, bad_a = elements(left, bias_a, kinds[0], outliers[0])
        y_exp, y_int, bad_b = elements(right, bias_b, kinds[1], outliers[1])
        terms = [p * q * 2 ** (e + f) for p, q, e, f in zip(x_int, y_int, x_exp, y_exp, strict=True)]
        d[place], over = reduced(d[place] + sum(terms), overflow)
        flags[place] |= over
        illegal |= bad_a | bad_b
        counts = {"operations": 1, "macs": 2 * chunk, "decodes": 2 * chunk, "overflows": over}
        counts |= {"illegal_operations": bad_a | bad_b, "cycles": int(event % 16 == 15)}
        yield {**held, "d": list(d), "overflow": list(flags), "illegal": illegal}, counts
