"""Products on lanes: what a Product holds, and threads or leading axes that change nothing."""

import dataclasses

import numpy as np

from refemu.units.kllm import index_matmul, kllm_chip
from refemu.units.kllm.kllm_chip import Product, on_lanes, operands
from refemu.units.kllm.pe_lane import COUNTERS
from refemu.units.kllm.twins import kllm_chip as kllm_chip_jit
from refemu.units.kllm.twins.index_matmul import prepare
from tests.units.kllm.chip_operands import PAIR, scores, sizes
from tests.units.kllm.kmeans_operands import tensor


def test_a_product_has_the_counters_of_a_lane() -> None:
    names = [field.name for field in dataclasses.fields(Product)]

    assert names == ["y", "overflow", *COUNTERS, "batches"]


def test_words_and_tensors_are_one_product() -> None:
    task = index_matmul.require_problem(*PAIR, "paper", None, None, None, None)
    result = kllm_chip.matmul(*PAIR, chip=sizes())

    assert on_lanes(operands(task), task.shape, sizes()).equals(result)
    assert kllm_chip_jit.on_lanes(operands(task), task.shape, sizes()).equals(result)


def test_a_prepared_operand_is_the_operand() -> None:
    v = tensor((40, 8), 2, 3, 1)
    for left, right in (PAIR, (scores(2, 40, 5), v)):
        ready = prepare(right, integer=right is v)
        assert kllm_chip_jit.matmul(left, ready, chip=sizes()).equals(kllm_chip_jit.matmul(left, right, chip=sizes()))


def test_rows_follow_each_other() -> None:
    """The second row is counted while the first is reduced: a product of both is shorter than two."""
    a, b = tensor((2, 40), 2, 1), tensor((8, 40), 2, 2)
    both = kllm_chip.matmul(a, b, chip=sizes())
    rows = [kllm_chip.matmul(tensor((2, 40), 2, 1), b, chip=sizes(), seen=seen) for seen in ((8, 0), (0, 8))]

    assert np.array_equal(both.y[0], rows[0].y[0]) and np.array_equal(both.y[1], rows[1].y[1])
    assert both.cycles < rows[0].cycles + rows[1].cycles and both.tiles == rows[0].tiles + rows[1].tiles
    none = kllm_chip.matmul(a, b, chip=sizes(), seen=(0, 0))
    assert (none.cycles, none.tiles, none.y.any()) == (0, 0, np.False_)
    assert kllm_chip_jit.matmul(a, b, chip=sizes(), seen=(0, 0)).equals(none)
