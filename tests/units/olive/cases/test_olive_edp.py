"""What the golden cases of the dot product units must hold."""

import numpy as np
import pytest

from refemu.units.olive.olive_edp import UNIT


@pytest.mark.parametrize("name", UNIT.configs)
def test_edges_meet_both_ends_and_illegal_pairs(name: str) -> None:
    """D-olive-33 and D-olive-18."""
    results = [UNIT.evaluate(UNIT.configs[name], block.inputs) for block in UNIT.cases(UNIT.configs[name], "edge", 0)]
    seen = {int(d) for result in results for d in result.d}

    assert {2**31 - 1, 2**31 - 2, -(2**31), -(2**31) + 1} <= seen
    assert any(result.overflows for result in results) and any(result.illegal_operations for result in results)


def test_paper_case_is_the_worked_example() -> None:
    (block,) = UNIT.cases(UNIT.configs["int4_int4"], "paper", 0)

    assert UNIT.evaluate(UNIT.configs["int4_int4"], block.inputs).d.tolist() == [240]


@pytest.mark.parametrize("name", ["int4_int4", "flint4_int4"])
def test_sweep_multiplies_every_pair_by_every_pair_once(name: str) -> None:
    (block,) = UNIT.cases(UNIT.configs[name], "exhaustive", 0)
    met = block.inputs["a_pairs"] << 8 | block.inputs["b_pairs"]

    assert np.array_equal(np.sort(met.reshape(-1)), np.arange(1 << 16))
    assert met[0].tolist()[0] == 0x0585
