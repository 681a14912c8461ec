"""Rounding against exact fractions."""

from fractions import Fraction
from typing import get_args

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from refemu.arith import fp16, rounding
from refemu.arith.checks import Refused, RefusedType
from refemu.arith.rounding import Rounding, div_round, round_float, shift_round
from refemu.formats import nearest
from refemu.formats.harmonia import bfp
from tests.oracles.rounding import round_fraction

MODES = get_args(Rounding)
LIMIT = 1 << 61


@pytest.mark.parametrize("mode", MODES)
def test_shifts_round_as_fractions_do(mode):
    n = range(-600, 601)
    shifts = range(9)
    want = [[round_fraction(Fraction(i, 1 << s), mode) for i in n] for s in shifts]

    assert want == shift_round(np.arange(-600, 601), np.arange(9)[:, None], mode).tolist()


@pytest.mark.parametrize("mode", MODES)
@given(n=st.integers(1 - LIMIT, LIMIT - 1), s=st.integers(0, 80))
@example(n=LIMIT - 1, s=62)
@example(n=1 - LIMIT, s=62)
@example(n=1 << 60, s=61)  # a tie at one half
@example(n=-(1 << 60), s=61)
def test_wide_numbers_and_shifts_round_as_fractions_do(mode, n, s):
    assert round_fraction(Fraction(n, 1 << s), mode) == int(shift_round(n, s, mode))


@given(n=st.integers(1 - LIMIT, LIMIT - 1), s=st.integers(0, 62))
def test_negative_shift_is_exact_or_rejected(n, s):
    if -(1 << 63) <= n << s < 1 << 63:
        assert n << s == int(shift_round(n, -s, "floor"))
    else:
        with pytest.raises(Refused, match="shifted left leaves int64"):
            shift_round(n, -s, "floor")


def test_shifts_of_both_signs_may_be_mixed():
    assert shift_round([5, 5, 5, 0], [-3, 0, 1, -70], "half_up").tolist() == [40, 5, 3, 0]
    assert shift_round(np.array([5], np.int8), 1, "ceil").dtype == np.int64


@pytest.mark.parametrize("mode", MODES)
def test_ratios_round_as_fractions_do(mode):
    want = [[round_fraction(Fraction(n, d), mode) for n in range(-60, 61)] for d in range(1, 25)]

    assert want == div_round(np.arange(-60, 61), np.arange(1, 25)[:, None], mode).tolist()


@pytest.mark.parametrize("mode", MODES)
@given(n=st.integers(-(1 << 63), (1 << 63) - 1), d=st.integers(1, (1 << 62) - 1))
@example(n=(1 << 63) - 1, d=(1 << 62) - 1)
@example(n=-(1 << 63), d=1)
@example(n=3 << 60, d=1 << 61)  # a tie at one and a half
def test_wide_ratios_round_as_fractions_do(mode, n, d):
    assert round_fraction(Fraction(n, d), mode) == int(div_round(n, d, mode))


@pytest.mark.parametrize("mode", MODES)
def test_shift_and_ratio_agree(mode):
    n = np.arange(-5000, 5001)
    assert np.array_equal(div_round(n, 64, mode), shift_round(n, 6, mode))


@pytest.mark.parametrize("mode", MODES)
def test_every_fp16_value_rounds_as_its_fraction_does(mode):
    """In every float width; the values are multiples of 2**-24, so integers give the same answer."""
    words = np.arange(1 << 16, dtype=np.uint16)
    x = words[(words >> 10) & 31 != 31].view(np.float16)
    want = shift_round((x.astype(np.float64) * (1 << 24)).astype(np.int64), 24, mode)

    for dtype in (np.float16, np.float32, np.float64):
        got = round_float(x.astype(dtype), mode)
        assert got.dtype == dtype
        assert np.array_equal(want, got.astype(np.int64))
        assert np.array_equal(np.signbit(x), np.signbit(got))


@pytest.mark.parametrize("mode", MODES)
@given(x=st.floats(-(2.0**53), 2.0**53))
@example(x=0.49999999999999994)  # floor(x + 0.5) gives 1
@example(x=-0.49999999999999994)
@example(x=4503599627370495.5)  # the largest tie
@example(x=-4503599627370495.5)
def test_floats_round_as_fractions_do(mode, x):
    got = round_float(x, mode)

    assert round_fraction(Fraction(x), mode) == int(got)
    assert np.signbit(x) == np.signbit(got)


@pytest.mark.parametrize("mode", MODES)
def test_infinities_and_nan_pass(mode):
    assert round_float([np.inf, -np.inf], mode).tolist() == [np.inf, -np.inf]
    assert np.isnan(round_float(np.float32(np.nan), mode))


TIES = {
    "floor": [-3, -2, 1, 2],
    "ceil": [-2, -1, 2, 3],
    "truncate": [-2, -1, 1, 2],
    "half_even": [-2, -2, 2, 2],
    "half_away": [-3, -2, 2, 3],
    "half_up": [-2, -1, 2, 3],
    "half_down": [-3, -2, 1, 2],
    "half_zero": [-2, -1, 1, 2],
}


@pytest.mark.parametrize("mode", MODES)
def test_ties_go_where_the_name_says(mode):
    """-2.5, -1.5, 1.5, 2.5 by hand."""
    ties = np.array([-5, -3, 3, 5])

    assert TIES[mode] == shift_round(ties, 1, mode).tolist()
    assert TIES[mode] == div_round(ties, 2, mode).tolist()
    assert TIES[mode] == round_float(ties / 2, mode).tolist()


def test_a_mode_is_its_name():
    assert rounding.require_mode("half_up", "x") == "half_up" == str(rounding.require_mode(np.str_("half_up"), "x"))
    with pytest.raises(Refused, match=r"x: rounding must be one of 'floor', .*'half_zero', got 'half_odd'"):
        rounding.require_mode("half_odd", "x")


@pytest.mark.parametrize("some", [fp16.Fp16Rounding, nearest.Ties, bfp.BfpRounding], ids=["fp16", "ties", "bfp"])
def test_every_rounding_of_package_is_one_of_vocabulary(some):
    assert set(get_args(some)) < set(MODES)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        pytest.param(
            lambda: shift_round([0, LIMIT], 1, "floor"), Refused, r"2305843009213693952 at index \(1,\)", id="n"
        ),
        pytest.param(lambda: shift_round(-LIMIT, 1, "floor"), Refused, r"outside \(-2\*\*61, 2\*\*61\)", id="low n"),
        pytest.param(
            lambda: shift_round(1, -63, "floor"), Refused, "shift_round: 1 shifted left leaves int64", id="left"
        ),
        pytest.param(lambda: shift_round(1.5, 1, "floor"), RefusedType, "shift_round: integers are needed", id="float"),
        pytest.param(
            lambda: shift_round(1, 1, "even"), Refused, "shift_round: rounding must be one of 'floor'", id="mode"
        ),
        pytest.param(
            lambda: div_round(1, [1, 0], "floor"), Refused, r"div_round: 0 at index \(1,\) as divisor", id="zero"
        ),
        pytest.param(
            lambda: div_round(1, -2, "floor"), Refused, r"-2 as divisor is outside \[1, 2\*\*62\)", id="negative"
        ),
        pytest.param(lambda: div_round(1, 1 << 62, "floor"), Refused, "4611686018427387904 as divisor", id="divisor"),
        pytest.param(lambda: div_round(0.5, 1, "floor"), RefusedType, "div_round: integers are needed", id="ratio"),
        pytest.param(
            lambda: round_float(1, "floor"), RefusedType, "round_float: floats are needed, got dtype int64", id="int"
        ),
        pytest.param(lambda: round_float(1.0, "nearest"), Refused, "got 'nearest'", id="float mode"),
    ],
)
def test_rounding_rejects_invalid_inputs(call, error, message):
    with pytest.raises(error, match=message):
        call()
