"""Operations on fp16 values: equal to the oracle, to integers, and in every mode to what is stated."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from refemu.arith import fp16
from refemu.arith.fp16 import IEEE
from tests.arith.fp16_words import EDGES, FINITE, MODES, VALUES, WORDS, expected_magnitude, random_words, words_of
from tests.oracles import fp16 as oracle


def exact_magnitude(op, operands):
    """|op(operands)| where it is finite, with a root as its floor in units of 2**-24: enough to cut it off."""
    values = [oracle.to_float(u) for u in operands]
    if not all(map(math.isfinite, values)):
        return None
    x, y, z = ([Fraction(value) for value in values] + [Fraction(0)] * 2)[:3]
    if op == "sqrt":
        return Fraction(math.isqrt(int(x * 2**48)), 2**24) if x >= 0 else None
    if op == "div":
        return abs(x / y) if y else None
    return abs({"add": x + y, "sub": x - y, "mul": x * y, "fma": x * y + z}[op])


def expected(op, operands, mode):
    if mode.flushes:
        operands = [u & 0x8000 if u & 0x7C00 == 0 else u for u in operands]
    word = getattr(oracle, op)(*operands)
    magnitude = expected_magnitude(None if mode == IEEE else exact_magnitude(op, operands), word & 0x7FFF, mode)
    return magnitude | (word & 0x8000 if magnitude <= 0x7C00 else 0)


def check(op, operands, mode=IEEE):
    """The operation of refemu on lists of words equals the oracle's, from float16 and from float32 carriers."""
    operation = getattr(fp16, f"{op}16")
    columns = [fp16.values(np.array(column, np.uint16)) for column in zip(*operands, strict=True)]
    got = operation(*columns, mode)

    assert [expected(op, row, mode) for row in operands] == words_of(got).tolist()
    assert got.dtype == np.float32
    assert words_of(got).tolist() == words_of(operation(*map(fp16.to_f32, columns), mode)).tolist()


@pytest.mark.parametrize("op", ["add", "sub", "mul", "div"])
def test_edge_pairs_equal_the_oracle(op):
    check(op, list(itertools.product(EDGES, EDGES)))


@pytest.mark.parametrize("op", ["add", "sub", "mul", "div"])
def test_random_pairs_equal_the_oracle(op):
    check(op, random_words(op, 6000).reshape(-1, 2).tolist())


def test_every_square_root_equals_the_oracle():
    check("sqrt", [(u,) for u in WORDS.tolist()])


def test_edge_triples_of_fma_equal_the_oracle():
    few = EDGES[::3]
    check("fma", list(itertools.product(few, few, few)))


def near_ties(count):
    """Triples whose product is a midpoint (a * 3) or an fp16 value (a * 1), and whose c is tiny compared with it."""
    a = (random_words("fma/a", count) & 0x80FE) + 0x5C01 + (random_words("fma/exponent", count) % 6 << 10)
    b = np.where(random_words("fma/b", count) & 1, 0x4200, 0x3C00)
    c = random_words("fma/c", count) & 0x83FF
    return np.stack([a, b, c], 1).tolist()


def test_near_ties_of_fma_equal_the_oracle():
    triples = near_ties(6000)
    a, b, c = (fp16.to_f32(fp16.values(column)) for column in np.array(triples).T)

    check("fma", triples)
    assert (fp16.round16(a * b + c) != fp16.fma16(a, b, c)).sum() > 1000  # they are hard: float32 fails them
    check("fma", random_words("fma", 6000).reshape(-1, 3).tolist())


def test_fma_needs_more_than_float32():
    """D-arith-3: neither a float32 sum nor two roundings give the fused result."""
    a, b, c = (fp16.to_f32(fp16.values(u)) for u in (0x39C0, 0xC3FE, 0x07FE))

    assert int(words_of(fp16.fma16(a, b, c))) == 0xC1BF
    assert int(words_of(fp16.round16(a * b + c))) == 0xC1BE

    a, c = (fp16.to_f32(fp16.values(u)) for u in (0x3C01, 0xBC02))
    assert float(fp16.fma16(a, a, c)) == 2.0**-20
    assert float(fp16.add16(fp16.mul16(a, a), c)) == 0


@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize("op", ["add", "sub", "mul", "div"])
def test_modes_operate_as_stated(op, mode):
    """D-arith-2."""
    few = EDGES[::2]
    check(op, list(itertools.product(few, few)) + random_words(op, 800).reshape(-1, 2).tolist(), mode)


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_modes_take_roots_and_fuse_as_stated(mode):
    """D-arith-2."""
    check("sqrt", [(u,) for u in WORDS[::37].tolist() + EDGES], mode)
    few = EDGES[::5]
    check("fma", list(itertools.product(few, few, few)) + near_ties(600), mode)


def test_zeros_keep_the_signs_of_ieee():
    zero, one = np.float16(0), np.float16(1)

    assert [int(words_of(x)) for x in (fp16.add16(one, -one), fp16.add16(zero, -zero), fp16.add16(-zero, -zero))] == [
        0,
        0,
        0x8000,
    ]
    assert (
        int(words_of(fp16.fma16(np.float16(2**-24), np.float16(-(2**-24)), zero))) == 0x8000
    )  # underflow of a fused sum


def nearest_words(magnitude, exponent):
    """Words nearest to magnitude * 2**exponent, half to even, in integers only; magnitude below 2**52."""
    top = np.frexp(magnitude.astype(np.float64))[1] - 1 + exponent
    lowest = np.maximum(top, -14) - 10
    shift = lowest - exponent
    down, up = np.clip(shift, 1, 60), np.clip(-shift, 0, 60)
    kept = magnitude >> down
    rest = (magnitude & ((np.int64(1) << down) - 1)) * 2
    kept += (rest > np.int64(1) << down) | ((rest == np.int64(1) << down) & (kept & 1 == 1))
    significand = np.where(shift > 0, kept, magnitude << up)
    return np.minimum(((lowest + 24) << 10) + significand, 0x7C00)


def parts(u):
    """Sign, significand and power of two of finite words, by the definition."""
    field = (u.astype(np.int64) >> 10) & 31
    return u.astype(np.int64) >> 15, (u & 0x3FF) + np.where(field > 0, 1024, 0), np.maximum(field, 1) - 25


def rows_equal_integers(first):
    """add, mul and div of the finite word `first` with every finite word, by integers alone."""
    a = np.full(FINITE.size, first, np.uint16)
    (s, m, e), (t, n, f) = parts(a), parts(FINITE)
    x, y = fp16.values(a), VALUES
    total = (1 - 2 * s) * (m << (e + 24)) + (1 - 2 * t) * (n << (f + 24))
    sign = np.where(total == 0, s & t, total < 0)
    assert np.array_equal(nearest_words(np.abs(total), -24) | sign << 15, words_of(fp16.add16(x, y)))
    assert np.array_equal(nearest_words(m * n, e + f) | (s ^ t) << 15, words_of(fp16.mul16(x, y)))
    safe = np.maximum(n, 1)
    quotient = ((m << 36) // safe << 1) | ((m << 36) % safe > 0)
    words = np.where(n > 0, nearest_words(quotient, e - f - 37), 0x7C00) | (s ^ t) << 15
    words[(n == 0) & (m == 0)] = 0x7E00
    assert np.array_equal(words, words_of(fp16.div16(x, y)))


@pytest.mark.parametrize("first", [*EDGES[:27:2], 0x8001, 0x8400, 0xB5A7, 0xC248, 0xFBFF])
def test_a_word_with_every_word_equals_integers(first):
    rows_equal_integers(first)


@pytest.mark.slow
def test_every_pair_of_words_equals_integers():
    """All pairs of finite words, up to the sign of the first, in add, mul and div: some ten minutes."""
    for first in FINITE[FINITE < 0x8000].tolist():
        rows_equal_integers(first)
