"""Arrays have NumPy's results: elements wrap and are rounded in the dtype of the array that they are put into."""

import numpy as np
import pytest

from tests.prove.text_runs import Text, require_equal, require_unsupported


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


@pytest.mark.parametrize(
    "text",
    [
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


def test_extreme_of_floats_is_rejected() -> None:
    require_unsupported(extreme_of_floats)
