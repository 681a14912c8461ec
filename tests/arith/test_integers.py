"""Widths, exact sums and exact products against Python integers, at every boundary."""

from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refemu.arith import integers
from refemu.arith.checks import Refused, RefusedType
from refemu.arith.integers import Overflow

LOW, HIGH = -(1 << 63), (1 << 63) - 1
INT64 = st.integers(LOW, HIGH)
WIDTHS = [(bits, signed) for bits in range(1, 64) for signed in (False, True)]
#: every power of two of either sign, its neighbours, and the ends of int64
BOUNDARIES = sorted(
    {v for k in range(64) for s in (1, -1) for d in (-1, 0, 1) if LOW <= (v := s * (1 << k) + d) <= HIGH} | {0}
)


def bounds(bits, signed):
    return (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)


@pytest.mark.parametrize(("bits", "signed"), WIDTHS)
def test_widths_agree_with_python_integers_at_every_boundary(bits, signed):
    low, high = bounds(bits, signed)
    wrapped = [(v - low) % 2**bits + low for v in BOUNDARIES]

    assert (low, high) == integers.limits(bits, signed)
    assert [low <= v <= high for v in BOUNDARIES] == integers.fits(BOUNDARIES, bits, signed).tolist()
    assert wrapped == integers.wrap(BOUNDARIES, bits, signed).tolist()
    assert [min(max(v, low), high) for v in BOUNDARIES] == integers.saturate(BOUNDARIES, bits, signed).tolist()


@given(v=INT64, bits=st.integers(1, 63), signed=st.booleans())
def test_wrapping_twice_is_wrapping_once(v, bits, signed):
    once = integers.wrap(v, bits, signed)
    assert int(once) == int(integers.wrap(once, bits, signed))


@given(v=st.lists(st.integers(-(1 << 61), 1 << 61), max_size=20), bits=st.integers(1, 62), signed=st.booleans())
def test_wrapping_every_step_equals_wrapping_once(v, bits, signed):
    low, _ = bounds(bits, signed)
    stepped = 0
    for one in v:
        stepped = int(integers.wrap(stepped + one, bits, signed))

    assert (sum(v) - low) % 2**bits + low == stepped


def test_results_are_int64_of_the_same_shape():
    x = np.array([[200], [7]], np.uint8)
    for got in (integers.wrap(x, 4, True), integers.saturate(x, 4, True), integers.require_width(x, 8, False, "x")):
        assert (np.int64, (2, 1)) == (got.dtype, got.shape)


@pytest.mark.parametrize(
    ("overflow", "want"),
    [
        pytest.param("wrap", [127, -128, 127], id="wrap"),
        pytest.param("saturate", [127, 127, -128], id="saturate"),
    ],
)
def test_limit_does_what_the_unit_states(overflow, want):
    """D-arith-10."""
    assert want == integers.limit([127, 128, -129], 8, True, overflow, "acc").tolist()


def test_limit_rejects_by_name():
    """D-arith-10."""
    assert integers.limit([1], 8, True, "refuse", "acc").tolist() == [1]
    with pytest.raises(Refused, match=r"^acc: 128 at index \(1,\) does not fit 8 signed bits$"):
        integers.limit([127, 128], 8, True, "refuse", "acc")


def test_limit_rejects_another_overflow_with_choices():
    assert get_args(Overflow) == ("refuse", "wrap", "saturate")
    with pytest.raises(Refused, match=r"^acc: overflow must be one of 'refuse', 'wrap', 'saturate', got 'clamp'$"):
        integers.limit([1], 8, True, "clamp", "acc")


@given(rows=st.lists(st.lists(st.integers(-(1 << 58), 1 << 58), min_size=3, max_size=3), min_size=1, max_size=5))
def test_total_is_the_exact_sum(rows):
    x = np.array(rows, np.int64)

    assert sum(map(sum, rows)) == int(integers.total(x))
    assert [sum(column) for column in zip(*rows, strict=True)] == integers.total(x, 0).tolist()
    assert [sum(row) for row in rows] == integers.total(x, axis=-1).tolist()
    assert sum(map(sum, rows)) == int(integers.total(x, (0, 1)))


def test_total_counts_bools_and_widens_small_types():
    assert int(integers.total(np.ones((3, 4), np.bool_))) == 12
    assert int(integers.total(np.full(3, 255, np.uint8))) == 765
    assert integers.total(np.zeros(0, np.int8)).dtype == np.int64


def test_total_uses_all_of_int64():
    assert int(integers.total(np.full(7, (1 << 60), np.int64))) == 7 << 60
    assert int(integers.total(np.full((8, 7), (1 << 60), np.int64), 1)[0]) == 7 << 60


@given(v=st.lists(st.integers(-(1 << 53), 1 << 53)))
def test_from_float_is_exact(v):
    assert v == integers.from_float(np.array(v, np.float64)).tolist()


def test_from_float_accepts_every_width_and_minus_zero():
    for dtype in (np.float16, np.float32, np.float64):
        assert integers.from_float(np.array([[-0.0, 2048, -3]], dtype)).tolist() == [[0, 2048, -3]]
    assert int(integers.from_float(np.nextafter(2.0**63, 0))) == (1 << 63) - 1024


MATRICES = st.tuples(st.integers(1, 3), st.integers(0, 4), st.integers(1, 3), st.sampled_from([3, 12, 26, 30]))


@given(sizes=MATRICES, data=st.data())
def test_matmul_is_the_exact_product(sizes, data):
    m, k, n, width = sizes
    value = st.integers(-(1 << width), 1 << width)
    a = [data.draw(st.lists(value, min_size=k, max_size=k)) for _ in range(m)]
    b = [data.draw(st.lists(value, min_size=n, max_size=n)) for _ in range(k)]
    want = [[sum(a[i][j] * b[j][c] for j in range(k)) for c in range(n)] for i in range(m)]
    left, right = np.array(a, np.int64).reshape(m, k), np.array(b, np.int64).reshape(k, n)

    assert want == integers.matmul(left, right).tolist()
    assert want == integers.matmul(left, integers.Right(right)).tolist()
    assert want == integers.matmul(left, integers.Right(right, largest=1 << 31)).tolist()


@pytest.mark.parametrize("side", [(1 << 12) - 1, 4097, 94_906_267, (1 << 31) - 1])
def test_matmul_leaves_a_float_before_it_rounds(side):
    """4097**2 needs 25 bits and 94906267**2 needs 54, both odd: the next narrower float would round them."""
    want = side * side
    assert [[want]] == integers.matmul([[side]], [[side]]).tolist()
    assert [[-want]] == integers.matmul([[-side]], integers.Right([[side]])).tolist()


@pytest.mark.parametrize(
    ("peak", "k", "dtype"),
    [
        pytest.param(96, 1820, np.float32, id="OVP int4"),
        pytest.param(96, 1821, np.float64, id="OVP int4, one more"),
        pytest.param(192, 455, np.float32, id="OVP flint4"),
        pytest.param(192, 456, np.float64, id="OVP flint4, one more"),
    ],
)
def test_worst_cases_stay_in_the_stated_float(peak, k, dtype):
    right = integers.Right(np.full((k, 2), -peak, np.int16), largest=peak)

    assert dtype == right.values.dtype
    assert [[-peak * peak * k] * 2] == integers.matmul(np.full((1, k), peak, np.uint8), right).tolist()


def test_factor_beyond_prepared_float_is_exact():
    right = integers.Right(np.array([[4097]]), largest=1)

    assert right.values.dtype == np.float32
    assert integers.matmul([[4097], [-(1 << 45)]], right).tolist() == [[4097**2], [-(1 << 45) * 4097]]


def test_the_peak_is_exact_for_every_dtype():
    assert [integers.peak(np.array([low, 1], d)) for low, d in ((-128, np.int8), (LOW, np.int64))] == [128, 1 << 63]
    assert integers.peak(np.array([0, (1 << 64) - 1], np.uint64)) == (1 << 64) - 1
    assert integers.peak(np.zeros(0, np.int8)) == 0


def test_matmul_knows_that_smallest_integer_has_no_negative():
    assert integers.matmul(np.array([[-128]], np.int8), np.array([[-128]], np.int8)).tolist() == [[16384]]
    assert integers.matmul([[1]], np.array([[LOW + 1]])).tolist() == [[LOW + 1]]


def test_matmul_takes_leading_axes_and_unsigned_values():
    a = np.arange(12, dtype=np.uint8).reshape(2, 1, 6)
    b = np.arange(18, dtype=np.int16).reshape(6, 3)

    assert np.array_equal(np.stack([integers.matmul(one, b) for one in a]), integers.matmul(a, b))
    assert integers.matmul(a[0, 0], b).tolist() == integers.matmul(a, b)[0, 0].tolist()


def test_prepared_factor_is_frozen_and_prints_its_shape():
    right = integers.Right(np.array([[1, -2], [3, 4]], np.int8))

    assert right.shape == (2, 2)
    assert repr(right) == "<Right (2, 2) float32 column_sum=6>"
    with pytest.raises(ValueError, match="read-only"):
        right.values[0, 0] = 5


TWO_62 = np.full((2, 1), 1 << 62)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        pytest.param(
            lambda: integers.wrap(0, 64, True), Refused, r"^wrap: bits must be in \[1, 63\], got 64$", id="wrap"
        ),
        pytest.param(lambda: integers.saturate(0, 0, True), Refused, r"^saturate: bits .* got 0$", id="saturate"),
        pytest.param(lambda: integers.fits(0, 64, False), Refused, r"^fits: bits .* got 64$", id="fits"),
        pytest.param(
            lambda: integers.require_width([0, 1, 2, 3, -129], 8, True, "partial"),
            Refused,
            r"^partial: -129 at index \(4,\) does not fit 8 signed bits$",
            id="signed width",
        ),
        pytest.param(
            lambda: integers.require_width(-1, 8, False, "partial"),
            Refused,
            "^partial: -1 does not fit 8 unsigned bits$",
            id="unsigned width",
        ),
        pytest.param(lambda: integers.wrap([0.5], 8, True), RefusedType, "wrap: integers are needed", id="wrap float"),
        pytest.param(
            lambda: integers.wrap(np.array([0, 1 << 63], np.uint64), 8, True),
            Refused,
            r"wrap: 9223372036854775808 at index \(1,\) does not fit 64 signed bits",
            id="uint64",
        ),
        pytest.param(
            lambda: integers.limit(0, 8, True, "clip", "acc"), Refused, "acc: overflow must be one of", id="limit"
        ),
        pytest.param(
            lambda: integers.total([0.5]), RefusedType, "total: integers are needed, got dtype float64", id="total"
        ),
        pytest.param(
            lambda: integers.total(np.full(8, 1 << 60)),
            Refused,
            "total: 8 terms of magnitude up to 1152921504606846976 can leave int64",
            id="total too large",
        ),
        pytest.param(
            lambda: integers.total([LOW]), Refused, "total: 1 terms of magnitude up to 9223", id="total of the least"
        ),
        pytest.param(
            lambda: integers.from_float([0, 1, np.nan]), Refused, r"^from_float: NaN at index \(2,\)$", id="nan"
        ),
        pytest.param(
            lambda: integers.from_float([-np.inf]), Refused, r"from_float: -infinity at index \(0,\)", id="inf"
        ),
        pytest.param(lambda: integers.from_float(0.5), Refused, "^from_float: 0.5 is not an integer$", id="fraction"),
        pytest.param(
            lambda: integers.from_float([2.0**63]), Refused, r"e\+18 is outside int64 at index", id="too large"
        ),
        pytest.param(lambda: integers.from_float([-(2.0**63)]), Refused, r"-9.2.*e\+18 is outside int64", id="too low"),
        pytest.param(
            lambda: integers.from_float([1]), RefusedType, "from_float: floats are needed, got dtype int", id="int"
        ),
        pytest.param(lambda: integers.matmul([[1.0]], [[1]]), RefusedType, "matmul: integers are needed", id="float a"),
        pytest.param(lambda: integers.matmul([[1]], [[1.0]]), RefusedType, "matmul: integers are needed", id="float b"),
        pytest.param(
            lambda: integers.matmul([[1, 2]], [[1]]), RefusedType, r"matmul: shapes \(1, 2\) and \(1, 1\)", id="shape"
        ),
        pytest.param(lambda: integers.matmul([[1]], [1]), RefusedType, r"matmul: b must have two axes", id="rank"),
        pytest.param(lambda: integers.matmul(1, [[1]]), RefusedType, r"matmul: shapes \(\) and", id="scalar"),
        pytest.param(
            lambda: integers.matmul([[1, 1]], TWO_62), Refused, "matmul: a sum can reach 9223372036854775808", id="sum"
        ),
        pytest.param(lambda: integers.matmul([[2]], TWO_62[:1]), Refused, "which is outside int64", id="product"),
    ],
)
def test_integers_rejects_invalid_inputs(call, error, message):
    with pytest.raises(error, match=message):
        call()
