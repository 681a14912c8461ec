"""What the golden cases of the clocked trees must hold."""

import numpy as np
import pytest

from refemu.units.kllm.orizuru_clocked import UNIT


@pytest.mark.parametrize("name", UNIT.configs)
def test_operations_close_are_cut_off_and_never_begin(name: str) -> None:
    config = UNIT.configs[name]
    blocks = [block for kind in ("paper", "edge") for block in UNIT.cases(config, kind, 0)]
    results = [UNIT.evaluate(config, block.inputs) for block in blocks]

    assert sum(int(result.valid.sum()) for result in results) >= 7
    assert any(result.busy[:, -1].any() for result in results)
    assert any((~block.inputs["start"].any(axis=1)).any() for block in blocks)
    assert any(
        (block.inputs["start"][:, 1:] & result.busy[:, :-1]).any()
        for block, result in zip(blocks, results, strict=True)
    )


@pytest.mark.parametrize("name", UNIT.configs)
def test_the_words_on_the_port_change_while_busy(name: str) -> None:
    for block in UNIT.cases(UNIT.configs[name], "edge", 0):
        assert (np.diff(block.inputs["x"].astype(np.int64), axis=1) != 0).any(), block.why


def test_nan_comes_where_it_has_an_order() -> None:
    seen = {
        name: any((block.inputs["x"] & 0x7FFF > 0x7C00).any() for block in UNIT.cases(config, "edge", 0))
        for name, config in UNIT.configs.items()
    }
    assert seen == {"n8": False, "n16": False, "n16_total_order": True}


def test_every_seed_is_a_case_of_its_own() -> None:
    config = UNIT.configs["n8"]
    (both,), *each = (list(UNIT.cases(config, "random", seed)) for seed in (range(3, 5), 3, 4))
    for name, array in both.inputs.items():
        assert np.array_equal(array, np.concatenate([block.inputs[name] for (block,) in each]))
