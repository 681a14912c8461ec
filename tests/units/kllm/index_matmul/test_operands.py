"""Operands of the index MatMul as vectors along K."""

import numpy as np

from refemu.formats.kllm.kllm_arith import KllmArith
from refemu.units.kllm.index_matmul.operands import Scores, columns_under, one_scale, scores_of, vectors_of
from tests.units.kllm.kmeans_operands import tensor


def test_vectors_run_along_k_for_any_axis() -> None:
    """D-kllm-32: values are fp16, inliers rounded once."""
    rows = vectors_of(tensor((3, 20), 4, 1, 2))
    columns = tensor((20, 3), 4, 1, 2, axis=0)

    assert rows.index.shape == rows.mask.shape == rows.value.shape == (3, 20) and rows.scale.shape == (3,)
    assert np.array_equal(vectors_of(columns).value, columns.dequantize_fp16().astype(np.float32).T)


def test_tokens_of_v_run_across_sum() -> None:
    """D-kllm-14: their scales are in the integers, so none is left here."""
    v = tensor((5, 8), 4, 1, 1)
    under = columns_under(v)

    assert np.array_equal(under.index, v.index.T) and np.array_equal(under.mask, v.mask.T)
    assert under.scale.tolist() == [1.0] * 8


def test_one_scale_of_v_joins_that_of_scores() -> None:
    """D-kllm-14, rounded to fp16 as products of scales are."""
    v = tensor((1, 8), 4, 1)
    scores = Scores(np.ones((2, 1), np.uint8), np.array([0.1, 3], np.float16), np.ones((2, 1), np.float16), fold=False)
    joint = scores_of(scores, KllmArith(), v).scale

    assert joint.tolist() == (scores.scale * np.float16(one_scale(v))).tolist()
