"""What the golden cases of the list of free pages must hold."""

import numpy as np
import pytest

from refemu.units.leankv.free_page_list import UNIT


@pytest.mark.parametrize("name", UNIT.configs)
def test_edges_empty_the_list_and_wrap(name: str) -> None:
    """The second block takes the pages one by one: head and tail pass the end of the ring once each."""
    config = UNIT.configs[name]
    emptied, single, _, *long, _ = (UNIT.evaluate(config, block.inputs) for block in UNIT.cases(config, "edge", 0))

    assert (emptied.free[0] == 0).tolist() == [True, True, False, False, True]
    assert (single.allocated, single.recycled, single.wraps) == (config["pages"], config["pages"], 2)
    assert single.free[0, ::2].tolist() == [config["pages"] - 1] * config["pages"]
    assert len(long) == (name == "small")
    assert all(min(each.allocated, each.recycled, int(each.head.max())) > 4096 for each in long)


@pytest.mark.parametrize("name", UNIT.configs)
def test_random_histories_do_something(name: str) -> None:
    config = UNIT.configs[name]
    (block,) = UNIT.cases(config, "random", 3)
    result = UNIT.evaluate(config, block.inputs)

    assert np.unique(block.inputs["op"]).tolist() == [0, 1]
    assert result.allocated > 20 and result.recycled > 3
