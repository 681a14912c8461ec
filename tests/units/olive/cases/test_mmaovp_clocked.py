"""What the golden cases of the clocked tensor core must hold."""

import numpy as np

from refemu.units.olive.mmaovp_clocked import EVENTS, UNIT

CONFIG = UNIT.configs["i4_i4"]


def test_one_tile_is_whole_and_another_begins_behind_it() -> None:
    block, cut = UNIT.cases(CONFIG, "edge", 0)
    result = UNIT.evaluate(CONFIG, block.inputs)

    assert np.flatnonzero(result.valid[0]).tolist() == [EVENTS - 1] and result.overflow[0, EVENTS - 1].all()
    assert (block.inputs["start"][0, :-1] & result.busy[0, 1:]).sum() > EVENTS // 3
    assert result.phase[0, -1] == 1
    assert UNIT.evaluate(CONFIG, cut.inputs).busy[:-1, -1].all() and not cut.inputs["start"][-1].any()


def test_every_seed_is_a_case_of_its_own() -> None:
    (both,), *each = (list(UNIT.cases(CONFIG, "random", seed)) for seed in (range(3, 5), 3, 4))
    for name, array in both.inputs.items():
        assert np.array_equal(array, np.concatenate([block.inputs[name] for (block,) in each]))
