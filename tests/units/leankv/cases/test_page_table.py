"""What the golden cases of the page table must hold."""

import numpy as np
import pytest

from refemu.units.leankv.page_table import UNIT


@pytest.mark.parametrize("name", UNIT.configs)
def test_edges_fill_an_entry(name: str) -> None:
    config = UNIT.configs[name]
    results = [UNIT.evaluate(config, block.inputs) for block in UNIT.cases(config, "edge", 0)]
    full = [(result.high_pages.astype(np.int64) + result.low_pages).max() for result in results]

    assert max(full) == config["cells"]


@pytest.mark.parametrize("name", UNIT.configs)
def test_random_histories_have_every_event(name: str) -> None:
    (block,) = UNIT.cases(UNIT.configs[name], "random", 1)

    assert np.unique(block.inputs["op"]).tolist() == [0, 1, 2, 3, 4]
