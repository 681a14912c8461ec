"""What the golden cases of index_matmul must hold."""

import numpy as np
import pytest

from refemu.units.kllm.index_matmul import UNIT


def test_paper_cases_are_the_worked_columns() -> None:
    answers = {}
    for name in ("w4a4", "example", "integer"):
        (block,) = UNIT.cases(UNIT.configs[name], "paper", 0)
        answers[name] = UNIT.evaluate(UNIT.configs[name], block.inputs).y.view(np.float16).tolist()

    assert answers == {"w4a4": [-1.5625], "example": [-1.5625], "integer": [6.0]}


@pytest.mark.parametrize(
    ("name", "both", "sparse"),
    [
        ("w4a4", [False, False, True, True], 13 + 13 + 13 + 20),
        ("exact", [False, False, True, True], 13 + 13 + 13 + 20),
        ("example", [False, False, True, True], 1 + 1 + 1 + 8),
        ("integer", [False] * 4, 1 + 1 + 1 + 20),
    ],
)
def test_edges_meet_the_sparse_path_of_both_operands(name: str, both: list[bool], sparse: int) -> None:
    """D-kllm-12: an outlier of one operand, of the other, of both at one place, everywhere; integers have one operand.

    Positions 8 to 19, past the worked column, are outliers of A; integers have the amount 0 there.
    """
    config = UNIT.configs[name]
    blocks = list(UNIT.cases(config, "edge", 0))
    results = [UNIT.evaluate(config, block.inputs) for block in blocks]
    marks = UNIT.mark(config, blocks[0].inputs, results[0])

    assert marks["OUTLIER"].tolist() == [True] * 4
    assert marks["BOTH"].tolist() == both
    assert results[0].macs_sparse == sparse
    overflows = [result.overflow.tolist() for result in results[1:]]
    assert overflows == [[False] * 3, [False, True, False, False], [False] * 4]
