"""Products on lanes: what a Product holds, threads or leading axes that change nothing, functions of the outputs."""

import dataclasses
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from refemu.arith.checks import Refused
from refemu.formats.kllm.kllm_arith import KllmArith
from refemu.units.kllm import index_matmul, kllm_chip
from refemu.units.kllm.index_matmul.compiled import prepare
from refemu.units.kllm.kllm_chip import Product, on_lanes, operands
from refemu.units.kllm.kllm_chip import compiled as kllm_chip_compiled
from refemu.units.kllm.pe_lane import UNIT as LANE
from tests.oracles.kllm import chip as oracle
from tests.units.kllm.chip_operands import PAIR, scores, sizes
from tests.units.kllm.kmeans_operands import tensor

RUNS = [pytest.param(kllm_chip.matmul, id="unit"), pytest.param(kllm_chip_compiled.matmul, id="compiled")]


def test_a_product_has_the_counters_of_a_lane() -> None:
    names = [field.name for field in dataclasses.fields(Product)]

    assert names == ["y", "overflow", *LANE.counters, "batches", "z", "function_cycles", "exps", "roots", "divides"]


def test_words_and_tensors_are_one_product() -> None:
    task = index_matmul.require_problem(*PAIR, "paper", None, None, None, None)
    result = kllm_chip.matmul(*PAIR, chip=sizes())

    assert on_lanes(operands(task), task.shape, sizes()).equals(result)
    assert kllm_chip_compiled.on_lanes(operands(task), task.shape, sizes()).equals(result)


def test_a_prepared_operand_is_the_operand() -> None:
    v = tensor((40, 8), 2, 3, 1)
    for left, right in (PAIR, (scores(2, 40, 5), v)):
        ready = prepare(right, integer=right is v)
        assert kllm_chip_compiled.matmul(left, ready, chip=sizes()).equals(
            kllm_chip_compiled.matmul(left, right, chip=sizes())
        )


def test_rows_follow_each_other() -> None:
    """The second row is counted while the first is reduced: a product of both is shorter than two."""
    a, b = tensor((2, 40), 2, 1), tensor((8, 40), 2, 2)
    both = kllm_chip.matmul(a, b, chip=sizes())
    rows = [kllm_chip.matmul(tensor((2, 40), 2, 1), b, chip=sizes(), seen=seen) for seen in ((8, 0), (0, 8))]

    assert np.array_equal(both.y[0], rows[0].y[0]) and np.array_equal(both.y[1], rows[1].y[1])
    assert both.cycles < rows[0].cycles + rows[1].cycles and both.tiles == rows[0].tiles + rows[1].tiles
    none = kllm_chip.matmul(a, b, chip=sizes(), seen=(0, 0))
    assert (none.cycles, none.tiles, none.y.any()) == (0, 0, np.False_)
    assert kllm_chip_compiled.matmul(a, b, chip=sizes(), seen=(0, 0)).equals(none)


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("softmax", ["fp16", "softmax32"])
@pytest.mark.parametrize("function", ["exp", "sqrt", "recip", "softmax"])
@pytest.mark.parametrize("seen", [None, (8, 3), (0, 7)])
def test_function_takes_columns_that_row_sees(run: Any, softmax: Any, function: Any, seen: Any) -> None:
    """D-kllm-62: after the last edge of the product, row after row."""
    arith = KllmArith(softmax=softmax)
    plain = run(*PAIR, chip=sizes(), seen=seen, preset=arith)
    result = run(*PAIR, chip=sizes(), seen=seen, preset=arith, function=function)
    widths = [8, 8] if seen is None else seen
    answers = [
        oracle.applied(function, row[:width], softmax)
        for row, width in zip(plain.y.view(np.uint16).tolist(), widths, strict=True)
        if width
    ]

    filled = iter(answers)
    due = [next(filled).z + [0] * (8 - width) if width else [0] * 8 for width in widths]
    assert result.z.dtype == np.float16 and result.z.view(np.uint16).tolist() == due
    for counter in ("function_cycles", "exps", "roots", "divides"):
        assert getattr(result, counter) == sum(each.counters.get(counter, 0) for each in answers)
    none = {"z": None, "function_cycles": 0, "exps": 0, "roots": 0, "divides": 0}
    assert replace(result, **none).equals(plain)


@pytest.mark.parametrize("run", RUNS)
def test_integers_and_leading_axes_have_functions(run: Any) -> None:
    """A row of integers has every column, however few positions it sees."""
    a, v = scores(2, 40, 5), tensor((40, 8), 2, 3, 1)
    result = run(a, v, chip=sizes(), seen=(40, 3), function="softmax")
    shaped = run(tensor((1, 2, 40), 2, 1, 2), PAIR[1], chip=sizes(), function="softmax")

    assert result.function_cycles == 2 * 3 and result.z.view(np.uint16).tolist() == [
        oracle.applied("softmax", row).z for row in result.y.view(np.uint16).tolist()
    ]
    flat = run(*PAIR, chip=sizes(), function="softmax")
    assert shaped.z.shape == (1, 2, 8) and shaped.z.tobytes() == flat.z.tobytes()


@pytest.mark.parametrize("run", RUNS)
def test_outputs_that_no_function_takes_are_named(run: Any) -> None:
    """D-kllm-63: with row and column; what a row does not see is not looked at."""
    a, b = PAIR
    beyond = replace(b, scale=np.where(np.arange(8) == 5, 0x7BFF, b.scale).astype(np.uint16))
    y = run(a, beyond, chip=sizes()).y
    assert not np.isfinite(y[:, 5]).all() and np.isfinite(np.delete(y, 5, axis=1)).all()
    place = next((row, 5) for row in range(2) if y[row, 5] == np.inf or np.isnan(y[row, 5]))
    with pytest.raises(Refused, match=rf"functional: x must not be .*, got .* at index \({place[0]}, 5\)"):
        run(a, beyond, chip=sizes(), function="softmax")
    assert np.isfinite(run(a, beyond, chip=sizes(), seen=(5, 4), function="softmax").z).all()
    with pytest.raises(Refused, match="kllm_chip: function must be one of 'none', 'exp'"):
        run(a, b, function="log")
