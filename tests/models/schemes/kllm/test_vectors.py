"""Vectors of tensors by the ports of units: they hold the values of the tensor."""

import numpy as np

from refemu.arith import fp16
from refemu.formats.kllm.codebook import Codebook
from refemu.formats.kllm.kmeans import KMeans
from refemu.formats.kllm.kmeans_outliers import TopK
from refemu.models.schemes.kllm import vectors

BOOK = Codebook(2, np.array([-1, -0.5, 0, 1]))
X = np.array([[0.5, 1, -7, 0.25, 3], [2, -1, 9, 0.5, 0]], np.float16)
TENSOR = KMeans(BOOK, TopK(k=1)).encode(X)


def test_peak_is_token_of_largest_outlier() -> None:
    assert vectors.peak(TENSOR) == 1


def test_operands_and_factors_are_vectors() -> None:
    """Outliers as words, 0 elsewhere; a factor's values as FP16, outliers among them."""
    operand, factor = vectors.operand("a", TENSOR, 0), vectors.factor("b", TENSOR, 0)

    assert operand["a_mask"].tolist() == factor["b_mask"].tolist() == [0, 0, 1, 0, 1]
    assert fp16.values(operand["a_outlier"]).tolist() == [0, 0, -7, 0, 3]
    assert operand["a_index"].tolist() == factor["b"].tolist() == TENSOR.index[0].tolist()
    assert operand["a_scale"] == TENSOR.scale[0]
    assert fp16.values(factor["b_value"]).tolist() == TENSOR.dequantize_fp16()[0].tolist()


def test_factors_of_all_vectors_are_stacked() -> None:
    whole, last = vectors.factor("b", TENSOR, slice(None)), vectors.factor("b", TENSOR, 1)

    assert all(array.shape == (2, 5) and array[1].tolist() == last[name].tolist() for name, array in whole.items())


def test_inliers_have_the_scale_and_the_codebook_each() -> None:
    found = vectors.inliers(fp16.bits(X)[0], TENSOR, 0)

    assert fp16.values(found["x"]).tolist() == [0.5, 1, 0.25]
    assert found["scale"].tolist() == [TENSOR.scale[0]] * 3
    assert found["codebook"].tolist() == [BOOK.values.tolist()] * 3


def test_a_norm_reads_the_tables_of_both_operands() -> None:
    weight = KMeans(Codebook(1, np.array([-1.0, 1.0])), None).encode(X)
    found = vectors.normed(TENSOR, weight)

    assert fp16.values(found["squares"]).tolist() == [[1, 0.25, 0, 1]] * 2
    assert found["centroids"].tolist() == [BOOK.values.tolist()] * 2
    assert fp16.values(found["weights"]).tolist() == [[-1, 1]] * 2
    assert fp16.values(found["x"])[1].tolist() == [0, -1, 9, 0, 0] and found["scale"].tolist() == TENSOR.scale.tolist()


def test_cycles_are_filled_up_with_zeros() -> None:
    cycles = vectors.cycles(np.arange(1, 19))

    assert cycles.shape == (1, 2, 16)
    assert cycles.reshape(-1).tolist() == [*range(1, 19), *[0] * 14]


def test_a_case_has_an_axis_of_its_own() -> None:
    assert vectors.case({"x": [1, 2], "scale": 3})["x"].shape == (1, 2)
