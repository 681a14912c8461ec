"""What the golden cases of the multiply-accumulate unit must hold."""

import numpy as np
import pytest

from refemu.units.olive.olive_mac import UNIT


@pytest.mark.parametrize("name", UNIT.configs)
def test_exhaustive_is_every_pair_of_operands_once(name: str) -> None:
    (block,) = UNIT.cases(UNIT.configs[name], "exhaustive", 0)
    words = (
        block.inputs["a_exp"] << 12
        | block.inputs["b_exp"] << 8
        | (block.inputs["a_int"] & 15) << 4
        | block.inputs["b_int"] & 15
    )

    assert sorted(words.ravel().tolist()) == list(range(1 << 16))


@pytest.mark.parametrize("name", UNIT.configs)
def test_edges_meet_both_ends_of_the_accumulator(name: str) -> None:
    """D-olive-33: 2**31 - 1 and -2**31, one step inside, at and over."""
    results = [UNIT.evaluate(UNIT.configs[name], block.inputs) for block in UNIT.cases(UNIT.configs[name], "edge", 0)]
    seen = {int(acc) for result in results for acc in result.acc.ravel()}

    assert {2**31 - 1, 2**31 - 2, -(2**31), -(2**31) + 1} <= seen
    assert any(result.overflows for result in results)


def test_flag_is_the_overflow_port() -> None:
    config, (block, *_) = UNIT.configs["wrap"], UNIT.cases(UNIT.configs["wrap"], "edge", 0)
    result = UNIT.evaluate(config, block.inputs)

    assert UNIT.mark is not None
    assert np.array_equal(UNIT.mark(config, block.inputs, result)["OVERFLOW"], result.overflow)


def test_random_sequences_start_with_a_load() -> None:
    for block in UNIT.cases(UNIT.configs["wrap"], "random", 3):
        assert block.inputs["load"][:, 0].all() and not block.inputs["load"].all()
