"""fp16: conversions in every mode, and order, against `struct` and fractions."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refemu.arith import fp16
from refemu.arith.checks import Refused, RefusedType
from refemu.arith.fp16 import IEEE, Fp16Mode
from tests.arith.fp16_words import MODES, WORDS, expected_magnitude, words_of
from tests.oracles import fp16 as oracle

float32s = st.floats(width=32, allow_nan=False).map(np.float32)


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
    """A midpoint goes to the even word, the numbers next to it to the nearer one, the last midpoint to infinity."""
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
    """1 + 2**-11 + 2**-40 is above a midpoint; float32 rounds it onto the midpoint, and then to even."""
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


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_modes_convert_as_stated(mode):
    """D-arith-2. Every 32nd word, its midpoint, and the float32 numbers next to both; infinities and NaN."""
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
def test_fp16_rejects_invalid_inputs(call, error, message):
    with pytest.raises(error, match=message):
        call()
