"""fp16: conversions, modes and operations against `struct`, fractions and integers."""

import itertools
import math
from bisect import bisect_right
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refemu.arith import fp16, prng
from refemu.arith.checks import Refused, RefusedType
from refemu.arith.fp16 import IEEE, Fp16Mode
from tests.oracles import fp16 as oracle

WORDS = np.arange(1 << 16, dtype=np.uint16)
FINITE = WORDS[WORDS >> 10 & 31 != 31]
VALUES = FINITE.view(np.float16)
MODES = [
    Fp16Mode(*choice) for choice in itertools.product(("half_even", "truncate"), ("inf", "saturate"), ("keep", "flush"))
]
#: zeros, ends of the subnormals, 2**-14 +- 1 ulp, ones, odd and even fractions, the largest, infinity, NaN; both signs
EDGES = [w | s for s in (0, 0x8000) for w in (
    0, 1, 2, 3, 0x1FF, 0x200, 0x3FE, 0x3FF, 0x400, 0x401, 0x7FE, 0x7FF, 0x800, 0x1400, 0x37FF, 0x3BFF, 0x3C00, 0x3C01,
    0x3C02, 0x3FFF, 0x4000, 0x4200, 0x6400, 0x6BFF, 0x7800, 0x7BFE, 0x7BFF, 0x7C00, 0x7E00)]  # fmt: skip
float32s = st.floats(width=32, allow_nan=False).map(np.float32)


def words_of(x):
    """The words of fp16-valued float32, NaN canonical."""
    return fp16.bits(fp16.to_f16(x))


def random_words(label, count):
    return (prng.words(prng.stream(label, 0), 0, count) & np.uint64(0xFFFF)).astype(np.uint16)


# Conversions


def test_bits_and_values_are_inverse_and_copy_nothing():
    u = WORDS.copy()
    x = fp16.values(u)

    assert np.array_equal(u, fp16.bits(x))
    assert np.shares_memory(u, x) and np.shares_memory(x, fp16.bits(x))
    assert fp16.values([0x3C00, 0xC000]).tolist() == [1, -2]


def test_canonical_writes_one_nan_and_leaves_the_rest():
    """D-arith-1."""
    for nan, word, exponent in ((0x7E00, np.uint16, 0x7C00), (0x7FC00000, np.uint32, 0x7F800000),
                                (0x7FF8 << 48, np.uint64, 0x7FF0 << 48)):  # fmt: skip
        sign = 1 << (word(0).itemsize * 8 - 1)
        u = np.array([0, sign, 1, exponent, exponent | sign, exponent | 1, exponent | sign | 5, nan | sign], word)
        x = u.view(f"f{u.itemsize}")
        got = fp16.canonical(x)

        assert u[:5].tolist() + [nan] * 3 == got.view(word).tolist()
        assert x.dtype == got.dtype and not np.shares_memory(x, got)


def test_fp16_values_round_to_themselves():
    x = fp16.values(WORDS)
    want = fp16.canonical(x)

    for got in (fp16.round16(x), fp16.round16(x.astype(np.float32)), fp16.round16_of_f64(x.astype(np.float64))):
        assert got.dtype == np.float32
        assert want.tobytes() == fp16.to_f16(got).tobytes()
    assert want.astype(np.float32).tobytes() == fp16.to_f32(x).tobytes()
    assert want.tobytes() == fp16.to_f16(x).tobytes()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sign", [1, -1])
def test_every_midpoint_and_its_neighbours_round_right(dtype, sign):
    """A midpoint goes to the even word, the numbers beside it to the nearer one, the last midpoint to infinity."""
    low = np.arange(0x7C00)
    ladder = np.append(np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(dtype), dtype(65_536))
    middle = (ladder[:-1] + ladder[1:]) / 2
    negative = 0x8000 if sign < 0 else 0

    for x, want in (
        (middle, low + (low & 1)),
        (np.nextafter(middle, dtype(0)), low),
        (np.nextafter(middle, dtype(np.inf)), low + 1),
    ):
        assert np.array_equal((want | negative).astype(np.uint16), words_of(dtype(sign) * x))


@given(x=st.floats())
def test_float64_rounds_as_struct_does(x):
    assert oracle.from_float(x) == int(words_of(fp16.round16_of_f64(x))) == int(fp16.bits(fp16.to_f16(x)))


@given(x=st.floats(width=32))
def test_float32_rounds_as_struct_does(x):
    assert (
        oracle.from_float(x) == int(words_of(fp16.round16(np.float32(x)))) == int(fp16.bits(fp16.to_f16(np.float32(x))))
    )


def test_float64_does_not_pass_through_float32():
    """1 + 2**-11 + 2**-40 lies above a midpoint; float32 puts it on the midpoint, from where it would go to even."""
    x = np.float64(1 + 2.0**-11 + 2.0**-40)

    assert int(words_of(fp16.round16_of_f64(x))) == 0x3C01
    assert int(words_of(fp16.round16(np.float32(x)))) == 0x3C00


def test_integers_convert_from_their_exact_value():
    n = np.concatenate([np.arange(-70_000, 70_001), [1 << 53, -(1 << 62), (1 << 63) - 1]])
    assert [oracle.from_float(float(i)) for i in n.tolist()] == fp16.bits(fp16.to_f16(n)).tolist()
    assert fp16.to_f16(np.array([4095, 2048], np.uint16)).tolist() == [4096, 2048]


@given(n=st.integers(1 - (1 << 53), (1 << 53) - 1), e=st.integers(-1000, 900))
def test_scaled_integers_round_once(n, e):
    assert oracle.from_fraction(Fraction(n) * Fraction(2) ** e) == int(words_of(fp16.from_scaled(n, e)))


# Properties of the rounding


@given(x=float32s, y=float32s)
def test_rounding_is_idempotent_monotone_and_odd(x, y):
    low, high = sorted([x, y])
    once = fp16.round16(x)

    assert once.tobytes() == fp16.round16(once).tobytes()
    assert fp16.round16(low) <= fp16.round16(high)
    assert (-once).tobytes() == fp16.round16(-x).tobytes()


@given(x=st.floats(-65_519, 65_519, width=32).map(np.float32))
def test_rounding_moves_by_half_a_quantum_at_most(x):
    _, exponent = math.frexp(x)
    quantum = Fraction(2) ** (max(exponent - 1, -14) - 10)

    assert abs(Fraction(float(x)) - Fraction(float(fp16.round16(x)))) <= quantum / 2


# Modes

LADDER = [int(Fraction(oracle.to_float(u)) * 2**24) for u in range(0x7C00)]  # the finite magnitudes, in 2**-24


def expected_magnitude(exact, ieee, mode):
    """Magnitude bits of a result: `exact` its magnitude where it is finite and not NaN, `ieee` the default answer."""
    if ieee > 0x7C00:
        return 0x7E00
    if exact is not None and mode.truncates:
        ieee = bisect_right(LADDER, exact * 2**24) - 1
    if mode.overflow == "saturate":
        ieee = min(ieee, 0x7BFF)
    return 0 if mode.flushes and ieee < 0x400 else ieee


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_modes_convert_as_stated(mode):
    """D-arith-2. Every 32nd word, its midpoint, and the float32 numbers beside both; infinities and NaN."""
    ladder = np.append(WORDS[:0x7C00].view(np.float16).astype(np.float32), np.float32(65_536))
    step = np.unique(np.r_[0:0x7C00:32, 0x3F0:0x410, 0x7BF0:0x7C00])
    points = np.concatenate([ladder[step], (ladder[step] + ladder[step + 1]) / 2, np.float32([65_520, 1e30, 1e-30])])
    x = np.concatenate([points, np.nextafter(points, np.float32(np.inf)), np.nextafter(points, np.float32(-1))])
    x = np.concatenate([x, -x, np.float32([np.inf, -np.inf, np.nan])])
    want = []
    for value in x.tolist():
        word = oracle.from_float(value)
        exact = Fraction(abs(value)) if math.isfinite(value) else None
        want.append(expected_magnitude(exact, word & 0x7FFF, mode) | (word & 0x8000))

    assert want == words_of(fp16.round16(x, mode)).tolist()
    assert want == words_of(fp16.round16_of_f64(x.astype(np.float64), mode)).tolist()
    assert want == fp16.bits(fp16.to_f16(x, mode)).tolist()


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


# Operations


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
    """Triples whose product is a midpoint (a * 3) or an fp16 value (a * 1), and whose c is tiny beside it."""
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


# Order


def test_order_keys_sort_as_the_values_do():
    """D-arith-11: -0 = +0 unless the total order is asked for."""
    words = WORDS[(WORDS & 0x7FFF) <= 0x7C00]
    x = words.view(np.float16).astype(np.float64)
    key, total = fp16.order_key(words), fp16.order_key(words.view(np.float16), total=True)
    by_total = np.argsort(total, kind="stable")

    assert key.dtype == total.dtype == np.int64
    assert (np.diff(x[np.argsort(key, kind="stable")]) >= 0).all()
    assert (np.diff(np.sort(key)) == 0).sum() == 1
    assert fp16.order_key([0, 0x8000]).tolist() == [0, 0]
    assert fp16.order_key([0, 0x8000], total=True).tolist() == [0, -1]
    assert (np.diff(total[by_total]) == 1).all() and (np.diff(x[by_total]) >= 0).all()


# Refusals and repr


def test_a_mode_prints_as_its_constructor():
    assert repr(IEEE) == "Fp16Mode(rounding='half_even', overflow='inf', subnormals='keep')"
    assert all(eval(repr(mode)) == mode and hash(eval(repr(mode))) == hash(mode) for mode in MODES)


def test_fp16_values_are_recognised():
    x = np.float32([1, 0.1, np.nan, np.inf, 65_520, 2.0**-25, -0.0])

    assert fp16.is_fp16(x).tolist() == [True, False, True, True, False, False, True]
    assert fp16.is_fp16(x.astype(np.float64)).tolist() == fp16.is_fp16(x).tolist()
    assert fp16.require_fp16(x[[0, 3]], "dot", "a").tolist() == [1, np.inf]


ONE = np.float32(1)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        pytest.param(lambda: fp16.bits(ONE), RefusedType, "bits: float16 is needed, got dtype float32", id="bits"),
        pytest.param(lambda: fp16.values([0, 1 << 16]), Refused, r"values: word 65536 at index \(1,\)", id="values"),
        pytest.param(lambda: fp16.canonical(1), RefusedType, "canonical: float16, float32 or float64", id="canonical"),
        pytest.param(
            lambda: fp16.round16(1.0), RefusedType, "round16: float32 is needed, got dtype float64", id="round16"
        ),
        pytest.param(lambda: fp16.round16_of_f64(ONE), RefusedType, "float64 is needed, got dtype float32", id="f64"),
        pytest.param(lambda: fp16.to_f16([True]), RefusedType, "to_f16: .* got dtype bool", id="bool"),
        pytest.param(lambda: fp16.to_f32(ONE), RefusedType, "to_f32: float16 is needed", id="to_f32"),
        pytest.param(
            lambda: fp16.from_scaled([1 << 53]), Refused, r"from_scaled: 9007199254740992 at .* 2\*\*53", id="scaled"
        ),
        pytest.param(lambda: fp16.from_scaled(1, 901), Refused, "from_scaled: exponent 901 is outside", id="exponent"),
        pytest.param(
            lambda: fp16.require_fp16(np.float32([[1, 1, 1, 0.1]]), "dot", "a"),
            Refused,
            r"^dot: a must hold fp16 values, got 0\.1 at index \(0, 3\)$",
            id="carrier",
        ),
        pytest.param(
            lambda: fp16.add16(ONE, np.float32(0.1)), Refused, "^add16: b must hold fp16 values, got 0.1$", id="add16"
        ),
        pytest.param(
            lambda: fp16.fma16(ONE, ONE, 1.0), RefusedType, "fma16: c must be float16 or float32, got", id="fma16"
        ),
        pytest.param(
            lambda: fp16.order_key(-1), Refused, r"order_key: word -1 is outside \[0, 65536\)", id="order_key"
        ),
        pytest.param(lambda: Fp16Mode(rounding="half_up"), Refused, "Fp16Mode: rounding must be one of", id="rounding"),
        pytest.param(lambda: Fp16Mode(overflow="wrap"), Refused, "Fp16Mode: overflow must be one of", id="overflow"),
        pytest.param(
            lambda: Fp16Mode(subnormals="zero"), Refused, "Fp16Mode: subnormals must be one of", id="subnormals"
        ),
    ],
)
def test_refuses(call, error, message):
    with pytest.raises(error, match=message):
        call()
