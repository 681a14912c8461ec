"""What the golden cases of the list of free pages must hold."""

import numpy as np
import pytest

from refemu.units.free_page_list import UNIT


@pytest.mark.parametrize("name", UNIT.configs)
def test_edges_empty_the_list_and_wrap(name: str) -> None:
    config = UNIT.configs[name]
    results = [UNIT.evaluate(config, block.inputs) for block in UNIT.cases(config, "edge", 0)]

    assert any((result.free == 0).any() for result in results)
    assert any((result.free[..., -1] == config["pages"] - 1).any() or result.wraps > 2 for result in results)


@pytest.mark.parametrize("name", UNIT.configs)
def test_random_histories_do_something(name: str) -> None:
    config = UNIT.configs[name]
    (block,) = UNIT.cases(config, "random", 3)
    result = UNIT.evaluate(config, block.inputs)

    assert np.unique(block.inputs["op"]).tolist() == [0, 1]
    assert result.allocated > 20 and result.recycled > 3
