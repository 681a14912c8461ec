"""A whole MatMul and its outputs one by one: what a norm divides, what an output reads."""

import numpy as np

from refemu.units.kllm.index_matmul.operands import Norm
from refemu.units.kllm.index_matmul.problem import column, require_problem
from tests.units.kllm.kmeans_operands import tensor


def test_norm_divides_scale_and_sparse_weights() -> None:
    """D-kllm-37: not the dense codebook, or it would divide twice; in the exact accumulator nothing."""
    a, b = tensor((2, 20), 4, 1, 2), tensor((20, 3), 4, 2, axis=0)
    plain, paper, exact = (
        require_problem(a, b, preset, None, None, norm, None)
        for preset, norm in (
            ("paper", None),
            ("paper", Norm(np.array([2.0, 4.0]))),
            ("exact", Norm(np.array([2.0, 4.0]))),
        )
    )

    assert paper.divided[0][1] == plain.divided[0][1] / 4 == exact.divided[0][1] / 4
    assert np.array_equal(paper.divided[1][0], plain.centroids[1] / 2) and np.array_equal(paper.table, plain.table)
    assert np.array_equal(exact.divided[1][0], plain.centroids[1]) and exact.finish(1, 0) == (4.0, 0.0, 0.0)
    assert np.array_equal(column(exact, 0, 1).b_value, exact.b.value[1])
    assert column(paper, 0, 0).norm is None
