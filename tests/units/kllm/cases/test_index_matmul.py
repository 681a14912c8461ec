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
    assert overflows[:3] == [[False] * 3, [False, True, False, False], [False] * 4]


@pytest.mark.parametrize("name", UNIT.configs)
def test_ties_subnormals_and_nan(name: str) -> None:
    """Scaled products halfway between two fp16 values, of either sign; a subnormal one; 0 times infinity."""
    config = UNIT.configs[name]
    blocks = [block for block in UNIT.cases(config, "edge", 0) if block.why.startswith("one product:")]
    if name == "long":
        assert blocks == []
        return
    y = UNIT.evaluate(config, blocks[0].inputs).y
    signs = [0x0000] * 8 if config["integer"] else [0x0000] * 4 + [0x8000] * 4
    even = [0x3A02, 0x3A04, 0x3A08, 0x3A0A]  # of 0x3A00 times 1.5, 4.5, 7.5 and 10.5 halves of a last place

    assert (y[:8] & 0x7FFF).tolist() == even * 2
    assert (y[:8] & 0x8000).tolist() == ([0] * 4 + [0x8000] * 4 if config["integer"] else signs)
    assert 0 < int(y[9]) < 0x0400
    assert int(y[10]) == (0 if config["integer"] or config["preset"] == "exact" else 0x7E00)
