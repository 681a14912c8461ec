"""Distances in ulps: floats by sign and magnitude, integers by value."""

import numpy as np
import pytest

from refemu.golden.compare import distance
from refemu.golden.compare.distance import Distance


def measured(got: np.ndarray, want: np.ndarray, kind: str) -> Distance:
    codes = (each.view(f"u{each.dtype.itemsize}") for each in (got, want))
    mine, theirs = codes
    return distance.of(mine, theirs, mine != theirs, kind)


@pytest.mark.parametrize(("dtype", "least"), [(np.float16, 2.0**-24), (np.float32, 2.0**-149), (np.float64, 5e-324)])
def test_distance_counts_floats_between(dtype: type, least: float) -> None:
    """One side of zero, both sides of zero, and the largest step to infinity."""
    one = dtype(1)
    want = np.array([1, 1, least, 0, 2], dtype)
    got = np.array([np.nextafter(one, dtype(2)), 1, -least, -0.0, np.nextafter(dtype(2), dtype(0))], dtype)
    far = measured(got, want, np.dtype(dtype).name)
    assert (far.wrong, far.elements, far.median, far.largest, far.at, far.unit) == (4, 5, 1, 2, (2,), "ulp")


def test_largest_float64_distance_does_not_wrap() -> None:
    far = measured(np.array([-np.inf]), np.array([np.inf]), "float64")
    assert far.largest == 2 * 0x7FF0000000000000


def test_nan_has_no_distance() -> None:
    """On one side, or on both with different bits."""
    far = measured(np.float16([np.nan, 1]), np.float16([1, 2]), "float16")
    assert (far.wrong, far.nan, far.median, far.largest, far.at) == (2, 1, 1024, 1024, (1,))
    assert far.text.endswith("; 1 with NaN")
    both = measured(np.uint16([0xFE00, 0x7E00]).view(np.float16), np.float16([np.nan, np.nan]), "float16")
    assert (both.wrong, both.nan, both.text) == (1, 1, "1 of 2 differ (50 %); 1 with NaN")


def test_lanes_and_truncation_are_named() -> None:
    want = np.ones((4, 8), np.float32)
    got = want.copy()
    got[:, 3] = np.nextafter(np.float32(1), np.float32(0))
    far = measured(got, want, "float32")
    assert (far.lanes, far.nearer_zero) == ((3,), True)
    assert far.text == (
        "4 of 32 differ (12.5 %); by 1 ulp (median) to 1 ulp (at [0, 3]); only in lane 3; "
        "each 1 ulp nearer to zero, as truncation gives"
    )


def test_signed_integers_differ_by_value() -> None:
    far = distance.of(np.int8([-128, 3]), np.int8([127, 1]), np.array([True, True]), "")
    assert (far.median, far.largest, far.unit) == (2, 255, "")


def test_zeros_of_two_signs_differ_in_sign_alone() -> None:
    assert measured(np.float16([0.0, 1]), np.float16([-0.0, 1]), "float16").text.endswith("only in the sign of zeros")
