"""What the golden cases of the clocked dot product unit must hold."""

import numpy as np
import pytest

from refemu.units.olive.olive_edp_clocked import UNIT


@pytest.mark.parametrize("name", UNIT.configs)
def test_operations_are_cut_off_after_each_event(name: str) -> None:
    config = UNIT.configs[name]
    blocks = list(UNIT.cases(config, "edge", 0))
    cut = next(block for block in blocks if block.decision == "D-arith-20")
    result = UNIT.evaluate(config, cut.inputs)

    assert result.phase[:, -1].tolist() == [3, 2, 1, 0, 0]
    assert not cut.inputs["start"][-1].any() and result.illegal[:-1, -1].all()


@pytest.mark.parametrize("name", UNIT.configs)
def test_start_is_high_while_busy_with_other_operands(name: str) -> None:
    config = UNIT.configs[name]
    block = next(block for block in UNIT.cases(config, "edge", 0) if block.decision == "D-arith-19")
    result = UNIT.evaluate(config, block.inputs)

    assert block.inputs["start"].all() and result.valid[0].tolist() == [False, False, False, True] * 3
    assert (np.diff(block.inputs["c"][0]) != 0).any()


@pytest.mark.parametrize("name", UNIT.configs)
def test_edges_leave_32_bits_and_have_illegal_pairs(name: str) -> None:
    config = UNIT.configs[name]
    results = [UNIT.evaluate(config, block.inputs) for block in UNIT.cases(config, "edge", 0)]

    assert any(result.overflows for result in results) and any(result.illegal_operations for result in results)


def test_every_seed_is_a_case_of_its_own() -> None:
    config = UNIT.configs["int4_flint4"]
    both, first, second = (list(UNIT.cases(config, "random", seed)) for seed in (range(3, 5), 3, 4))
    for block, *parts in zip(both, first, second, strict=True):
        for name, array in block.inputs.items():
            assert np.array_equal(array, np.concatenate([part.inputs[name] for part in parts]))
