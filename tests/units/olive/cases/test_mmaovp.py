"""What the golden cases of the tile instruction must hold."""

import numpy as np
import pytest

from refemu.units.olive.mmaovp import UNIT


@pytest.mark.parametrize("name", UNIT.configs)
def test_edges_have_both_ends_illegal_pairs_large_biases(name: str) -> None:
    """D-olive-33, D-olive-18, D-olive-21."""
    config = UNIT.configs[name]
    edge = list(UNIT.cases(config, "edge", 0))
    results = [UNIT.evaluate(config, block.inputs) for block in edge]

    assert any(result.overflows for result in results) and any(result.illegal_operations for result in results)
    assert {8, 15} <= {int(bias) for block in edge for bias in block.inputs["bias_a"]}


def test_flags_follow_overflow_illegal_pairs_and_biases() -> None:
    config = UNIT.configs["i4_i4"]
    for block in UNIT.cases(config, "edge", 0):
        result = UNIT.evaluate(config, block.inputs)
        marks = UNIT.mark(config, block.inputs, result) if UNIT.mark else {}
        assert np.array_equal(marks["OVERFLOW"], result.overflow.any(axis=1))
        assert np.array_equal(marks["ILLEGAL"], result.illegal)
        assert np.array_equal(marks["UNSPECIFIED"], (block.inputs["bias_a"] > 7) | (block.inputs["bias_b"] > 7))
