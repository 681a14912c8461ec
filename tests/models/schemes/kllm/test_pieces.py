"""Vectors of tensors by the ports of units: they hold the values of the tensor."""

import numpy as np

from refemu.arith import fp16
from refemu.formats.kllm.codebook import Codebook
from refemu.formats.kllm.kmeans import KMeans
from refemu.formats.kllm.kmeans_outliers import TopK
from refemu.models.schemes.kllm import pieces

BOOK = Codebook(2, np.array([-1, -0.5, 0, 1]))
X = np.array([[0.5, 1, -7, 0.25, 3], [2, -1, 9, 0.5, 0]], np.float16)
TENSOR = KMeans(BOOK, TopK(k=1)).encode(X)


def test_the_peak_is_the_token_of_the_largest_outlier() -> None:
    assert pieces.peak(TENSOR) == 1


def test_operands_and_factors_are_vectors() -> None:
    """Outliers as words, 0 elsewhere; a factor's values as FP16, outliers among them."""
    operand, factor = pieces.operand("a", TENSOR, 0), pieces.factor("b", TENSOR, 0)

    assert operand["a_mask"].tolist() == factor["b_mask"].tolist() == [0, 0, 1, 0, 1]
    assert fp16.values(operand["a_outlier"]).tolist() == [0, 0, -7, 0, 3]
    assert operand["a_index"].tolist() == factor["b"].tolist() == TENSOR.index[0].tolist()
    assert operand["a_scale"] == TENSOR.scale[0]
    assert fp16.values(factor["b_value"]).tolist() == TENSOR.dequantized()[0].tolist()


def test_cycles_are_filled_up_with_zeros() -> None:
    cycles = pieces.cycles(np.arange(1, 19))

    assert cycles.shape == (1, 2, 16)
    assert cycles.reshape(-1).tolist() == [*range(1, 19), *[0] * 14]


def test_a_case_has_an_axis_of_its_own() -> None:
    assert pieces.case({"x": [1, 2], "scale": 3})["x"].shape == (1, 2)
