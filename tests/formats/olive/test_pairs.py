"""Elements become pairs of neighbours along any axis, or across the whole array, and come back."""

import numpy as np
import pytest

from refemu.arith.checks import Refused
from refemu.formats.olive.pairs import from_pairs, padded, to_pairs

SHAPES = [((4,), 0), ((3, 4), -1), ((3, 4), 1), ((3, 4), 0), ((2, 3, 5), 1), ((2, 3, 5), -3), ((0, 4), 1)]


@pytest.mark.parametrize(("shape", "axis"), SHAPES, ids=str)
def test_pairs_come_back(shape: tuple[int, ...], axis: int) -> None:
    """D-olive-24: an odd length along the axis gets a zero at its end."""
    array = np.arange(1, 1 + int(np.prod(shape))).reshape(shape)
    even = padded(shape, axis)
    filled = np.zeros(even, array.dtype)
    filled[tuple(slice(n) for n in shape)] = array

    assert even == tuple(n + n % 2 if i == axis % len(shape) else n for i, n in enumerate(shape))
    assert np.array_equal(from_pairs(to_pairs(array, axis), even, axis), filled)


def test_neighbours_along_axis_form_pair_left_first() -> None:
    array = np.arange(8).reshape(2, 4)

    assert to_pairs(array, 1).tolist() == [[[0, 1], [2, 3]], [[4, 5], [6, 7]]]
    assert to_pairs(array, 0).tolist() == [[[0, 4]], [[1, 5]], [[2, 6]], [[3, 7]]]


def test_flat_pairs_cross_rows_and_need_even_size() -> None:
    array = np.arange(6).reshape(2, 3)

    assert to_pairs(array, None).tolist() == [[0, 1], [2, 3], [4, 5]]
    assert np.array_equal(from_pairs(to_pairs(array, None), padded(array.shape, None), None), array)
    with pytest.raises(Refused, match="flat pairs need an even number of elements, got 3"):
        to_pairs(array[0], None)
