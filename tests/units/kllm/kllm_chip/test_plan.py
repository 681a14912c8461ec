"""Words of a product, and its passes."""

import numpy as np

from refemu.units.kllm.index_matmul import require_problem
from refemu.units.kllm.kllm_chip.plan import Operands, operands, passes
from tests.units.kllm.chip_operands import PAIR, SMALL, layer, scores, sizes
from tests.units.kllm.kmeans_operands import tensor


def laid_out(*pair: object, bias: np.ndarray | None = None, norm: object = None, seen: object = None) -> Operands:
    return operands(require_problem(*pair, "paper", None, bias, norm, seen))  # type: ignore[arg-type]


def test_passes_cover_every_position_of_every_column_once() -> None:
    """D-kllm-31, D-kllm-47: a tile of six columns, slabs of 16 positions with carried sums."""
    words = laid_out(*PAIR, seen=np.array([8, 3]))
    for carry in ("counts", "sums"):
        plan, visits = passes(words, sizes(carry=carry)), np.zeros((2, 8, 40), np.int64)
        for task in plan:
            visits[task.row, task.first : task.first + task.width, task.low : task.high] += 1
            assert (task.opens, task.closes) == (task.low == 0, task.high == 40) and task.length == 40
            assert task.width <= sizes().tile and (carry == "counts" or task.high - task.low <= SMALL["concat"])
        assert (visits[0] == 1).all() and (visits[1, :3] == 1).all() and not visits[1, 3:].any()
        assert len(plan) == (3 if carry == "counts" else 9)


def test_the_column_with_most_left_out_decides() -> None:
    words = laid_out(*PAIR)
    for task in passes(words, sizes()):
        columns = slice(task.first, task.first + task.width)
        assert task.outliers == (words.a_mask[task.row] | words.b_mask[columns]).sum(axis=1).max()


def test_integer_rows_end_at_last_visible_column() -> None:
    """A row that sees nothing is an empty slab: its outputs are zeros."""
    words = laid_out(scores(2, 40, 1), tensor((40, 8), 2, 3, 1), seen=(17, 0))

    assert [(task.row, task.low, task.high, task.width) for task in passes(words, sizes())] == [
        (0, 0, 17, 6),
        (0, 0, 17, 2),
        (1, 0, 0, 6),
        (1, 0, 0, 2),
    ]
    assert words.integer and words.a_bits == 8 and (words.columns[0] == 0x3C00).all() and not words.a_coded.any()


def test_norms_and_biases_are_words() -> None:
    norm, bias = layer(2, 8, 1, True), np.arange(8, dtype=np.float16)
    words = laid_out(PAIR[0], tensor((8, 40), 2, 2), bias=bias, norm=norm)

    assert (words.shifts, words.biases) == (1, 1) and words.centroids.shape == (2, 4)
    assert words.columns[2].tolist() == bias.view(np.uint16).tolist() and words.rows[1].all()
    plain = laid_out(PAIR[0], tensor((8, 40), 2, 2))
    assert (plain.shifts, plain.biases) == (0, 0) and plain.centroids.shape == (1, 4) and not plain.columns[1:].any()
