"""What the golden cases of the memory manager must hold."""

import numpy as np
import pytest

from refemu.units.leankv.page_manager import UNIT


@pytest.mark.parametrize("name", UNIT.configs)
def test_edges_lack_pages_and_fill_entries(name: str) -> None:
    config = UNIT.configs[name]
    results = [UNIT.evaluate(config, block.inputs) for block in UNIT.cases(config, "edge", 0)]
    used = [result.used.astype(np.int64).reshape(-1, 2).sum(axis=1).max() for result in results]

    assert max(used) == 7
    assert any(result.shortfall for result in results) == (config["reserve_low"] == 0)
    assert {result.step_pages for result in results} >= {1 if config["lazy_pages"] else 2}


@pytest.mark.parametrize("name", UNIT.configs)
def test_random_histories_have_every_call(name: str) -> None:
    config = UNIT.configs[name]
    (block,) = UNIT.cases(config, "random", 2)
    result = UNIT.evaluate(config, block.inputs)

    assert np.unique(block.inputs["op"]).tolist() == [0, 1, 2, 3]
    assert (block.inputs["members"] == 2).any() and result.pruned and result.recycled > 32
