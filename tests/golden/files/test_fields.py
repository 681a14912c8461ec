"""Values at a port and their bit patterns."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refemu.arith.checks import Refused, RefusedType
from refemu.golden.files import fields
from refemu.units.ports import Port


@pytest.mark.parametrize(
    ("bits", "name"), [(1, "u1"), (8, "u1"), (9, "u2"), (16, "u2"), (17, "u4"), (32, "u4"), (33, "u8"), (64, "u8")]
)
def test_dtype_is_the_smallest_that_fits(bits: int, name: str) -> None:
    assert np.dtype(name) == fields.dtype_of(bits)


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("bits", range(1, 17))
def test_every_value_becomes_twos_complement_and_back(bits: int, signed: bool) -> None:
    port = Port("p", bits, signed=signed)
    values = np.arange(1 << bits) - (signed << (bits - 1))
    codes = fields.encode(values, port, "t")

    assert [value % (1 << bits) for value in values.tolist()] == codes.tolist()
    assert fields.dtype_of(bits) == codes.dtype
    assert values.tolist() == fields.decode(codes, port).tolist()


@pytest.mark.parametrize(
    ("values", "port", "dtype"),
    [
        pytest.param([-8, 7], Port("p", 4, signed=True), "int8", id="signed"),
        pytest.param([0, 511], Port("p", 9), "uint16", id="unsigned"),
        pytest.param([], Port("p", 9), "uint16", id="none"),
        pytest.param([0, 512], Port("p", 9), "int64", id="too large"),
        pytest.param([-1, 0], Port("p", 64), "int64", id="negative"),
        pytest.param([0.5], Port("p", 9), "float64", id="no integer"),
    ],
)
def test_narrow_preserves_values(values: list[int], port: Port, dtype: str) -> None:
    array = np.array(values, np.float64 if values == [0.5] else np.int64)
    narrow = fields.narrow(array, port)

    assert narrow.dtype == np.dtype(dtype) and narrow.tolist() == values


@given(bits=st.integers(17, 64), signed=st.booleans(), data=st.data())
def test_wide_values_become_twos_complement_and_back(bits: int, signed: bool, data: st.DataObject) -> None:
    low = -(1 << (bits - 1)) if signed else 0
    value = data.draw(st.integers(low, low + (1 << bits) - 1))
    array = np.array([value], np.int64 if signed else np.uint64)
    codes = fields.encode(array, Port("p", bits, signed=signed), "t")

    assert value % (1 << bits) == int(codes[0])
    assert value == int(fields.decode(codes, Port("p", bits, signed=signed))[0])


def test_floats_have_one_nan() -> None:
    """D-arith-1: floats and `canonical` words have one NaN; `encode` leaves integers unchanged."""
    halves = np.array([0x7C01, 0xFE00, 0x7FFF, 0xFC00, 0x8000], np.uint16)

    assert fields.encode(halves.view(np.float16), Port("p", 16, encoding="f16"), "t").tolist() == [
        0x7E00,
        0x7E00,
        0x7E00,
        0xFC00,
        0x8000,
    ]
    assert fields.encode(halves, Port("p", 16, encoding="f16"), "t").tolist() == halves.tolist()
    assert fields.canonical(halves, Port("p", 16, encoding="f16")).tolist() == [0x7E00, 0x7E00, 0x7E00, 0xFC00, 0x8000]
    assert fields.canonical(halves, Port("p", 16)).tolist() == halves.tolist()
    single = np.array([0xFF800001, 0x80000000], np.uint32)

    assert fields.encode(single.view(np.float32), Port("p", 32, encoding="f32"), "t").tolist() == [
        0x7FC00000,
        0x80000000,
    ]
    assert fields.encode(single, Port("p", 32, encoding="f32"), "t").tolist() == single.tolist()
    assert fields.canonical(single, Port("p", 32, encoding="f32")).tolist() == [0x7FC00000, 0x80000000]


def test_bools_are_one_bit() -> None:
    assert fields.encode(np.array([True, False]), Port("p", 1), "t").tolist() == [1, 0]


@pytest.mark.parametrize(
    ("values", "port", "error", "message"),
    [
        pytest.param(
            np.array([0, 16]), Port("p", 4), Refused, r"t: 16 at index \(1,\) is outside \[0, 15\]", id="too large"
        ),
        pytest.param(np.array([[0], [-1]]), Port("p", 4), Refused, r"-1 at index \(1, 0\)", id="negative"),
        pytest.param(np.array([8]), Port("p", 4, signed=True), Refused, r"outside \[-8, 7\]", id="signed"),
        pytest.param(np.array([256], np.uint16), Port("p", 8), Refused, "256", id="uint16"),
        pytest.param(
            np.array([1 << 63], np.uint64), Port("p", 64, signed=True), Refused, "9223372036854775808", id="64 signed"
        ),
        pytest.param(
            np.array([1.0]), Port("p", 4), RefusedType, "integers of 4 bits are needed, got dtype float64", id="float"
        ),
        pytest.param(
            np.array([1.0]), Port("p", 16, encoding="f16"), RefusedType, "float16 is needed, got float64", id="f64"
        ),
        pytest.param(np.array(["1"]), Port("p", 4), RefusedType, "integers of 4 bits", id="text"),
    ],
)
def test_invalid_values_are_rejected(values: np.ndarray, port: Port, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        fields.encode(values, port, "t")


def test_single_lane_has_no_axis_in_files() -> None:
    port = Port("p", 4, 1, signed=True)
    codes = fields.encode([[-1], [3]], port, "t")

    assert codes.tolist() == [15, 3] and fields.decode(codes, port).tolist() == [[-1], [3]]
    with pytest.raises(RefusedType, match=r"t: the last axis must hold 1 lane, got shape \(2,\)"):
        fields.encode([-1, 3], port, "t")
