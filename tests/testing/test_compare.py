"""Messages about differences: the index, and both codes in hex, in bits and decoded."""

import re

import numpy as np
import pytest

from refemu import formats, units
from refemu.arith.checks import Refused, RefusedType
from refemu.testing import assert_bits_equal, hold


def test_equal_bits_pass_even_for_nan() -> None:
    assert_bits_equal(np.array([np.nan, 1], np.float16), np.array([np.nan, 1], np.float16))


@pytest.mark.parametrize(
    ("got", "want", "message"),
    [
        (
            np.uint8([1, 2]),
            np.uint8([1, 0x82]),
            r"1 of 2 differ \(50 %\); by 128 .*; \[1\] got 0x02 = 0000 0010 \(2\)  want 0x82",
        ),
        (np.float16([0.0]), np.float16([-0.0]), r"got 0x0000 = 0 00000 0000000000 \(0.0\)  want 0x8000 = 1 00000"),
        (np.uint8([1]), np.uint16([1]), "dtype is uint8, want uint16"),
        (np.zeros(2), np.zeros(3), r"shape is \(2,\), want \(3,\)"),
        (np.float32(1), np.float32(2), r"1 of 1 differ \(100 %\); by 8,388,608 ulp .* got 0x3f800000"),
        (np.array([1], ">i4"), np.array([3], "<i4"), r"by 2 \(median\) .* got 0x00000001 .* want 0x00000003"),
    ],
)
def test_difference_is_shown(got: np.ndarray, want: np.ndarray, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        assert_bits_equal(got, want)


@pytest.mark.parametrize("dtype", ["complex64", "longdouble", "U1", "M8[s]", "O"])
def test_other_dtypes_are_rejected_with_their_name(dtype: str) -> None:
    array = np.zeros(1, dtype)
    with pytest.raises(RefusedType, match=f"at most 64 bits are needed, got dtype {re.escape(array.dtype.name)}"):
        assert_bits_equal(array, array)


def test_tensors_differ_by_field_with_decoded_codes() -> None:
    fmt = formats.OVP_INT4
    with pytest.raises(AssertionError, match="OvpTensor"):
        assert_bits_equal(fmt.encode(np.float32([1, 2])), fmt.encode(np.float32([1, 3])))
    with pytest.raises(AssertionError, match=r"E2M1|48"):
        assert_bits_equal(np.uint8([4]), np.uint8([5]), formats.E2M1_BIAS2)


def test_hold_names_port_and_lane_of_difference() -> None:
    stimulus = {"pair": np.array([0x85]), "bias": np.array([2])}
    hold("ovp_decoder", "int4", stimulus, exponent=[[4, 0]], base_int=[[3, 0]], illegal=[False])
    with pytest.raises(AssertionError, match=r"ovp_decoder-int4: row 0, exponent\[0\]: got 0x5 = 0101 \(5\)  want 0x4"):
        hold("ovp_decoder", "int4", stimulus, exponent=[[5, 0]])


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        pytest.param({}, "at least one output is needed, of exponent, base_int, illegal", id="none"),
        pytest.param({"exponents": [[1, 1]]}, "did you mean 'exponent'", id="unknown"),
        pytest.param(
            {"exponent": [[16, 0]]}, r"16 at index \(0, 0\) is outside \[0, 15\]|outside", id="beyond the port"
        ),
    ],
)
def test_hold_with_invalid_arguments_is_rejected(answers: dict[str, object], message: str) -> None:
    with pytest.raises(Refused, match=message):
        hold("ovp_decoder", "int4", {"pair": np.array([0x85]), "bias": np.array([2])}, **answers)


def test_hold_ignores_bits_that_a_set_masks() -> None:
    """Sign and mantissa of the aligner's illegal lanes do not count; its legal lanes and the mark itself do."""
    x = np.full((2, 8), 0x3C00, np.uint16)
    x[:, 3] = 0x7C00
    stimulus = {"x": x, "emax": np.full((2, 8), 15, np.uint8), "m": np.array([8, 8], np.uint8)}
    unit = units.find("bfp_aligner")
    want = unit.evaluate(unit.configs["paper"], stimulus)
    answers = {name: getattr(want, name).copy() for name in ("sign", "mantissa", "illegal")}
    answers["sign"][0, 3], answers["mantissa"][0, 3] = 1, 5

    hold("bfp_aligner", "paper", stimulus, **answers)
    for name, lane in (("mantissa", 2), ("illegal", 3)):
        wrong = {**answers, name: answers[name].copy()}
        wrong[name][1, lane] ^= 1
        with pytest.raises(AssertionError, match=f"row 1, {name}\\[{lane}\\]"):
            hold("bfp_aligner", "paper", stimulus, **wrong)
