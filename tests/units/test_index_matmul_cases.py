"""What the golden cases of index_matmul must hold."""

import numpy as np

from refemu.units.index_matmul import UNIT


def test_paper_cases_are_the_worked_columns() -> None:
    answers = {}
    for name in ("w4a4", "example", "integer"):
        (block,) = UNIT.cases(UNIT.configs[name], "paper", 0)
        answers[name] = UNIT.evaluate(UNIT.configs[name], block.inputs).y.view(np.float16).tolist()

    assert answers == {"w4a4": [-1.5625], "example": [-1.5625], "integer": [6.0]}


def test_edges_meet_the_sparse_path_of_both_operands() -> None:
    """D-kllm-12: flags of outliers in one, in both; a row in which everything is one."""
    config = UNIT.configs["w4a4"]
    blocks = list(UNIT.cases(config, "edge", 0))
    results = [UNIT.evaluate(config, block.inputs) for block in blocks]
    marks = UNIT.mark(config, blocks[0].inputs, results[0])

    assert (marks["OUTLIER"].all() and marks["BOTH"].tolist() == [True, True, True, True]) or marks["BOTH"].any()
    assert results[0].macs_sparse >= 20 and any(result.overflows for result in results)
