"""What the golden cases of the array must hold."""

import numpy as np
import pytest

from refemu.units.olive.olive_systolic import UNIT


@pytest.mark.parametrize("name", UNIT.configs)
def test_edges_hold_overflows_and_an_illegal_pair(name: str) -> None:
    """D-olive-33, D-olive-18."""
    results = [UNIT.evaluate(UNIT.configs[name], block.inputs) for block in UNIT.cases(UNIT.configs[name], "edge", 0)]

    assert any(result.illegal.any() for result in results) and any(result.overflows for result in results)


@pytest.mark.parametrize("name", UNIT.configs)
def test_flags_follow_the_result(name: str) -> None:
    for block in UNIT.cases(UNIT.configs[name], "edge", 0):
        result = UNIT.evaluate(UNIT.configs[name], block.inputs)
        marks = UNIT.mark(UNIT.configs[name], block.inputs, result) if UNIT.mark else {}
        assert np.array_equal(marks["OVERFLOW"], result.overflow.any(axis=1))
        assert np.array_equal(marks["ILLEGAL"], result.illegal)
