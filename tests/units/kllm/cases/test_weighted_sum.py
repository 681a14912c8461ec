"""What the golden cases of weighted_sum must hold."""

import numpy as np

from refemu.units.kllm.weighted_sum import UNIT


def test_paper_cases_are_the_worked_columns() -> None:
    first, second = UNIT.cases(UNIT.configs["example"], "paper", 0)
    answers = [UNIT.evaluate(UNIT.configs["example"], block.inputs).y.view(np.float16) for block in (first, second)]

    assert [answer.tolist() for answer in answers] == [[-1.5625], [6.0]]


def test_edges_round_counts_and_overflow() -> None:
    """D-kllm-4: fp16 counts and exact ones give other sums, some of them infinite."""
    paper, exact = (
        [
            UNIT.evaluate({**UNIT.configs["integer"], "preset": preset}, block.inputs)
            for block in UNIT.cases(UNIT.configs["integer"], "edge", 0)
        ]
        for preset in ("paper", "exact")
    )

    assert any(not np.array_equal(a.y, b.y) for a, b in zip(paper, exact, strict=True))
    assert sum(result.overflows for result in paper) > sum(result.overflows for result in exact)
