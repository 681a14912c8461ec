"""Pieces of tensors: where they lie, and that they hold the values of the tensor."""

import numpy as np
import pytest

from refemu.arith import fp16
from refemu.formats.kllm.codebook import Codebook
from refemu.formats.kllm.kmeans import KMeans
from refemu.formats.kllm.kmeans_outliers import TopK
from refemu.models.schemes.kllm import pieces

BOOK = Codebook(2, np.array([-1, -0.5, 0, 1]))
X = np.array([[0.5, 1, -7, 0.25, 3], [2, -1, 9, 0.5, 0]], np.float16)
TENSOR = KMeans(BOOK, TopK(k=1)).encode(X)


@pytest.mark.parametrize(("place", "size", "length", "start"), [(0, 4, 10, 0), (5, 4, 10, 3), (9, 4, 10, 6)])
def test_pieces_lie_around_a_place(place: int, size: int, length: int, start: int) -> None:
    piece = pieces.around(place, size, length)

    assert (piece.start, piece.stop) == (start, start + size)
    assert piece.start <= place < piece.stop


def test_the_peak_is_the_largest_outlier() -> None:
    assert pieces.peak(TENSOR, 3) == (1, slice(1, 4))


def test_operands_and_factors_are_pieces_of_a_vector() -> None:
    """Outliers as words, 0 elsewhere; a factor's values as FP16, outliers among them."""
    operand, factor = pieces.operand("a", TENSOR, 0, slice(1, 4)), pieces.factor("b", TENSOR, 0, slice(1, 4))

    assert operand["a_mask"].tolist() == factor["b_mask"].tolist() == [0, 1, 0]
    assert fp16.values(operand["a_outlier"]).tolist() == [0, -7, 0]
    assert operand["a_index"].tolist() == factor["b"].tolist() == TENSOR.index[0, 1:4].tolist()
    assert operand["a_scale"] == TENSOR.scale[0]
    assert fp16.values(factor["b_value"]).tolist() == TENSOR.dequantized()[0, 1:4].tolist()


def test_cycles_are_filled_up_with_zeros() -> None:
    cycles = pieces.cycles(np.arange(1, 19))

    assert cycles.shape == (1, 2, 16)
    assert cycles.reshape(-1).tolist() == [*range(1, 19), *[0] * 14]


def test_a_case_has_an_axis_of_its_own() -> None:
    assert pieces.case({"x": [1, 2], "scale": 3})["x"].shape == (1, 2)
