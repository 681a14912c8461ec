"""What the golden cases of the prefix sum must hold."""

import pytest

from refemu.units.leankv.prefix_sum import UNIT


@pytest.mark.parametrize("name", UNIT.configs)
def test_edges_wrap_and_start_anywhere(name: str) -> None:
    blocks = list(UNIT.cases(UNIT.configs[name], "edge", 0))

    assert max(int(block.inputs["base"].max()) for block in blocks) == 2**32 - 1
    assert any(not block.inputs["counts"][0].any() for block in blocks)


@pytest.mark.parametrize("name", UNIT.configs)
def test_paper_rows_are_its_two_examples(name: str) -> None:
    rows = [block.inputs["counts"][0][:2].tolist() for block in UNIT.cases(UNIT.configs[name], "paper", 0)]

    assert rows == [[16, 32], [2, 1]]
