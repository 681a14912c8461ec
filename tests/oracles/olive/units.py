"""OliVe's decoders and multiply-accumulate from the equations of [olive §4.2, §4.4], on Python integers."""

from collections.abc import Iterable

from tests.oracles.bits import signed

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
    """One lane: a victim is 0; beside a victim stands an outlier; else the normal type."""
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
