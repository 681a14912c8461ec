"""What the golden cases of index_counter must hold."""

import numpy as np

from refemu.units.kllm.index_counter import UNIT


def test_paper_case_is_the_worked_column() -> None:
    for name, counts in (("example", [1, 0, 1, 2, 1, 2, 1, 0]), ("integer", [0, 3, 3, 6])):
        (block,) = UNIT.cases(UNIT.configs[name], "paper", 0)
        assert UNIT.evaluate(UNIT.configs[name], block.inputs).count[0, -1, : len(counts)].tolist() == counts


def test_edges_have_partial_chunks_and_full_ones() -> None:
    """K = 1, 15, 16, 17, and a column after another."""
    blocks = list(UNIT.cases(UNIT.configs["w4a4"], "edge", 0))

    assert {1, 15, 16, 17, 48} <= {int(np.sum(block.inputs["valid"])) for block in blocks}
    assert any(block.inputs["clear"][0].tolist() == [1, 1] for block in blocks)
