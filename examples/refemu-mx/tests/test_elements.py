"""Every code of every element format and of the scale is that of gfloat and of ml_dtypes, and so is every encoding."""

import gfloat
import ml_dtypes
import numpy as np
import pytest
from gfloat import formats as theirs
from refemu_mx import E8M0, ELEMENTS, Element

from refemu import formats

GFLOAT = {
    "e5m2": theirs.format_info_ocp_e5m2,
    "e4m3": theirs.format_info_ocp_e4m3,
    "e3m2": theirs.format_info_ocp_e3m2,
    "e2m3": theirs.format_info_ocp_e2m3,
    "e2m1": theirs.format_info_ocp_e2m1,
    "int8": theirs.format_info_ocp_int8,
}
ML_DTYPES = {
    "e5m2": ml_dtypes.float8_e5m2,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e3m2": ml_dtypes.float6_e3m2fn,
    "e2m3": ml_dtypes.float6_e2m3fn,
    "e2m1": ml_dtypes.float4_e2m1fn,
}


def same(got: np.ndarray, want: np.ndarray) -> bool:
    """Equal values, zeros with their sign, NaN equal to NaN."""
    return bool(np.array_equal(got, want, equal_nan=True) and np.array_equal(np.signbit(got), np.signbit(want)))


@pytest.mark.parametrize("fmt", ELEMENTS.values(), ids=lambda fmt: fmt.name)
def test_every_code_is_gfloats(fmt: Element) -> None:
    want = np.array([gfloat.decode_float(GFLOAT[fmt.name], int(code)).fval for code in fmt.codes()])
    got = fmt.decode(fmt.codes())

    assert np.array_equal(got, want, equal_nan=True)
    assert np.array_equal(np.signbit(got[~np.isnan(got)]), np.signbit(want[~np.isnan(want)]))


@pytest.mark.parametrize("name", ML_DTYPES)
def test_every_code_is_ml_dtypes(name: str) -> None:
    fmt = ELEMENTS[name]
    assert same(fmt.decode(fmt.codes()), fmt.codes().view(ML_DTYPES[name]).astype(np.float32))


def test_every_scale_is_gfloats_and_ml_dtypes() -> None:
    want = np.array([gfloat.decode_float(theirs.format_info_ocp_e8m0, code).fval for code in range(256)])

    assert np.array_equal(E8M0.decode(E8M0.codes()), want, equal_nan=True)
    theirs_too = E8M0.codes().view(ml_dtypes.float8_e8m0fnu).astype(np.float64)
    assert np.array_equal(E8M0.decode(E8M0.codes()), theirs_too, equal_nan=True)
    assert np.array_equal(E8M0.encode(E8M0.decode(E8M0.codes())), E8M0.codes())


@pytest.mark.parametrize("name", ML_DTYPES)
def test_values_and_midpoints_agree_with_ml_dtypes(name: str) -> None:
    """Up to the largest number, beyond which ml_dtypes gives NaN or infinity where there is one (D-mx-4).

    Of float32: float64 values next to a midpoint are rounded twice there, over float32 (ml_dtypes #401).
    """
    fmt = ELEMENTS[name]
    values = np.array([fmt.number(code) for code in range(fmt.largest_code + 1)])
    middles = ((values[1:] + values[:-1]) / 2).astype(np.float32)
    near = [np.nextafter(middles, np.float32(end)) for end in (0, np.inf)]
    points = np.concatenate([values.astype(np.float32), middles, *near])
    points = np.concatenate([points, -points])
    want = points.astype(ML_DTYPES[name]).view(np.uint8)

    assert np.array_equal(fmt.encode(points), want)


@pytest.mark.parametrize("fmt", ELEMENTS.values(), ids=lambda fmt: fmt.name)
def test_saturated_encodings_are_gfloats(fmt: Element) -> None:
    largest = fmt.number(fmt.largest_code)
    points = np.array([largest * 1.04, -largest * 3, largest * 1e6])
    info = GFLOAT[fmt.name]
    want = [
        gfloat.encode_float(info, gfloat.round_float(info, x, sat=True)) for x in points if x > 0 or fmt.name != "int8"
    ]
    got = [int(fmt.encode(x)) for x in points if x > 0 or fmt.name != "int8"]

    assert got == want


def test_smallest_integer_differs_from_gfloat() -> None:
    """D-mx-5: a difference between libraries."""
    info = theirs.format_info_ocp_int8
    assert gfloat.encode_float(info, gfloat.round_float(info, -3.0, sat=True)) == 0x80
    assert int(ELEMENTS["int8"].encode(-3.0)) == 0x81


def test_refemu_finds_elements_by_name() -> None:
    assert formats.find("OCP_E4M3") is ELEMENTS["e4m3"] and formats.find("refemu-mx/OCP_E8M0") is E8M0
    assert formats.find("ocp-e2m1").describe(0b1101) == "1101 e2m1 = -3"
