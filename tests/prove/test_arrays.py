"""Arrays have NumPy's results: elements wrap and are rounded in the dtype of the array that they are put into."""

import numpy as np
import pytest

from refemu.arith import rounding
from tests.prove.text_runs import VALUES, Text, interpreted, require_equal, require_unsupported


def element_that_wraps(x: int) -> int:
    array = np.zeros_like(np.asarray([x, 1], np.uint8))
    array[0] = np.asarray(x, np.int64) * 100
    return int(array[0])


def element_that_is_rounded(x: int) -> int:
    array = np.zeros_like(np.asarray([x, 1], np.float16))
    array[0] = np.asarray(x, np.float64) * 1001
    return int(array[0])


def sum_in_place(x: int) -> int:
    array = np.asarray([x, 1], np.uint8)
    other = array
    other += np.asarray([255, 1], np.uint8)
    return int(array[0])


def element_under_a_condition(x: int) -> int:
    array = np.asarray([x, 1], np.int64)
    if x > 3:
        array[1] = 7
    return int(array[1])


def chained_comparison(x: int) -> int:
    return int(1 < np.asarray([x, 1])[0] < 4)


def kind(x: int) -> int:
    return int(isinstance(np.asarray([x, 1]), np.ndarray))


def operations_that_wrap(x: int) -> int:
    a = np.asarray([x, 200], np.uint8)
    return int((a << 6)[0]) + int((-a)[0]) + int((a * a)[1]) + int((a // 3)[1]) + int(a.sum())


def selection_sort_and_extremes(x: int) -> int:
    a = np.asarray([x, 3], np.int32)
    return int(np.where(a > 2, a, 0).sum() + np.sort(a)[0] * 10 + np.maximum(a, 4)[1] + np.minimum(a, 4)[0])


def fractions_dropped(x: int) -> int:
    values = np.asarray([x, 1], np.float64) / 2 - 2.0
    return int((np.trunc(values) * 4 + np.trunc(-values))[0]) + 8 * int(np.signbit(np.trunc(np.asarray([-0.5])))[0])


def scaled_by_powers(x: int) -> int:
    return int(np.ldexp(np.asarray([x, 3], np.float64), np.asarray([x - 2, 1]))[0] * 8)


def scaled_to_subnormals(x: int) -> int:
    tiny = np.ldexp(np.asarray([2.0 * x + 1], np.float64), np.asarray([-900]))
    return int((np.ldexp(tiny, np.asarray([-174])).view(np.int64))[0])


def fractions_and_exponents(x: int) -> int:
    fraction, exponent = np.frexp(np.asarray([x, 1], np.float64) / 8)
    return int(fraction[0] * 16) + 64 * int(exponent[0] + 8)


def shifts_of_arrays(x: int) -> int:
    return int(rounding.shift_round(np.asarray([x * 3, 5]), np.asarray([x - 2, 1]), "half_even")[0])


def array_that_is_filled(x: int) -> int:
    table = np.zeros(4, np.uint8)
    for place in range(4):
        table[place] = x * 30 if x > place else 7
    return int(table[0]) + int(table[3])


def array_with_two_names(x: int) -> int:
    table = np.array([1, 2, 3], np.int64)
    other = table
    table[1] = x
    return int(other[1])


@pytest.mark.parametrize(
    "text",
    [
        fractions_dropped,
        scaled_by_powers,
        scaled_to_subnormals,
        fractions_and_exponents,
        shifts_of_arrays,
        array_that_is_filled,
        array_with_two_names,
        element_that_wraps,
        element_that_is_rounded,
        sum_in_place,
        element_under_a_condition,
        chained_comparison,
        kind,
        operations_that_wrap,
        selection_sort_and_extremes,
    ],
)
def test_operation_has_the_result_of_numpy(text: Text) -> None:
    require_equal(text)


def extreme_of_floats(x: int) -> int:
    return int(np.isnan(np.asarray([x, 1.0, np.nan], np.float64).max()))


def scaled_float32(x: int) -> int:
    return int(np.ldexp(np.asarray([x, 3], np.float32), np.asarray([x, 1]))[0])


def exponent_of_infinity(x: int) -> int:
    return int(np.frexp(np.asarray([x, x + 1], np.float64) * np.inf)[1][0])


def array_of_another_object(x: int) -> int:
    TABLE[0] = x
    return int(TABLE[0])


TABLE = np.zeros(2, np.int64)


@pytest.mark.parametrize("text", [extreme_of_floats, scaled_float32, array_of_another_object])
def test_operation_without_a_form_is_rejected(text: Text) -> None:
    require_unsupported(text)


def test_exponent_of_infinity_is_never_reached() -> None:
    assert interpreted(exponent_of_infinity) == [None] * len(VALUES)
