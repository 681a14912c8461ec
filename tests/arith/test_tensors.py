"""Tensors of other libraries: classes with DLPack or a device, and codes of dtypes that NumPy lacks."""

from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from refemu.arith import tensors
from refemu.arith.checks import RefusedType, as_array, host


class OnlyDlpack:
    """DLPack and nothing else. where: device of DLPack."""

    def __init__(self, array: np.ndarray, where: int = tensors.CPU, copies: bool = True) -> None:
        self.array, self.where, self.copies = array, where, copies

    def __dlpack__(self, **options: Any) -> Any:
        if options.get("dl_device") is None and self.where != tensors.CPU:
            raise BufferError("memory of a device")
        if not self.copies:
            raise BufferError("this library has no copy\nand a second line")
        return self.array.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return (self.where, 0)


class OnDevice:
    """CUDA's array interface, as numba and CuPy have it, and their way to copy."""

    __cuda_array_interface__ = {"version": 3}

    def copy_to_host(self) -> np.ndarray:
        return np.arange(4, dtype=np.uint16)


class WithoutLibrary:
    __cuda_array_interface__ = {"version": 3}


class Interface:
    """NumPy's array interface."""

    def __init__(self, array: np.ndarray) -> None:
        self.array, self.__array_interface__ = array, array.__array_interface__


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.uint8, np.int32, np.uint16])
def test_dlpack_and_array_interface_give_the_bits(dtype: type) -> None:
    array = np.arange(6).astype(dtype).reshape(2, 3)
    for tensor in (OnlyDlpack(array), Interface(array), array.tolist()):
        assert np.array_equal(as_array(tensor), array)
    assert as_array(OnlyDlpack(array)).dtype == dtype


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int32, np.uint16, np.float64])
def test_other_byte_orders_give_the_same_values(dtype: type) -> None:
    array = np.array([1, 2, 300], dtype)
    swapped = array.astype(array.dtype.newbyteorder())
    assert as_array(swapped).dtype.isnative and as_array(swapped).tobytes() == array.tobytes()


def test_device_tensors_are_copied_by_their_library() -> None:
    assert np.array_equal(as_array(OnDevice()), np.arange(4))


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (WithoutLibrary(), r"x: .*WithoutLibrary is on a device and cannot copy itself; copy it to the CPU"),
        (OnlyDlpack(np.zeros(2), 2, copies=False), r"OnlyDlpack on device \(2, 0\) cannot be read \(this library has"),
        (OnlyDlpack(np.zeros((4, 4))[:, ::2]), r"must be contiguous, .*shape \(4, 2\); pass x.contiguous\(\)"),
        (OnlyDlpack(np.zeros(())), "needs at least one axis, got 0 axes"),
        (np.zeros(2, "V3"), "dtype void24 is not understood; view it as unsigned integers"),
    ],
)
def test_unreadable_tensors_are_rejected_in_one_sentence(tensor: Any, message: str) -> None:
    with pytest.raises(RefusedType, match=message) as rejected:
        host(tensor, "x")
    assert "\n" not in str(rejected.value)


@pytest.mark.parametrize("name", tensors.NARROW)
def test_every_code_has_its_value(name: str) -> None:
    """All codes of float8 and bfloat16, compared with ml_dtypes."""
    width = 16 if name == "bfloat16" else 8
    codes = np.arange(1 << width).astype(f"u{width // 8}")
    array = codes.view(getattr(ml_dtypes, name))
    given = host(array, "x")
    assert (given.dtype, given.array.dtype) == (name, codes.dtype)
    assert np.array_equal(as_array(array), array.astype(np.float32), equal_nan=True)


def test_values_follow_their_definition() -> None:
    """Codes of 1, the largest, the least and NaN, from the definitions of the formats."""
    definitions = {
        "float8_e4m3fn": {0x38: 1, 0x7E: 448, 0x01: Fraction(1, 512)},
        "float8_e5m2": {0x3C: 1, 0x7B: 57344, 0x01: Fraction(1, 65536)},
        "float8_e4m3fnuz": {0x40: 1, 0x7F: 240, 0x01: Fraction(1, 1024)},
        "float8_e5m2fnuz": {0x40: 1, 0x7F: 57344, 0x01: Fraction(1, 131072)},
    }
    for name, codes in definitions.items():
        values = tensors.widened(np.array(list(codes), np.uint8), name)
        assert values.tolist() == [float(value) for value in codes.values()], name
