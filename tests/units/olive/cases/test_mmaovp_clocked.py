"""What the golden cases of the clocked tensor core must hold."""

import numpy as np

from refemu.units.olive.mmaovp import OPERATIONS
from refemu.units.olive.mmaovp_clocked import UNIT

CONFIG = UNIT.configs["i4_i4"]


def test_complete_tile_is_followed_by_another() -> None:
    _, block, cut = UNIT.cases(CONFIG, "edge", 0)
    result = UNIT.evaluate(CONFIG, block.inputs)

    assert np.flatnonzero(result.valid[0]).tolist() == [OPERATIONS - 1] and result.overflow[0, OPERATIONS - 1].all()
    assert (block.inputs["start"][0, :-1] & result.busy[0, 1:]).sum() > OPERATIONS // 3
    assert result.phase[0, -1] == 1
    assert UNIT.evaluate(CONFIG, cut.inputs).busy[:-1, -1].all() and not cut.inputs["start"][-1].any()


def test_second_of_two_tiles_has_one_illegal_pair() -> None:
    both, *_ = UNIT.cases(CONFIG, "edge", 0)
    result = UNIT.evaluate(CONFIG, both.inputs)

    assert np.flatnonzero(result.valid[0]).tolist() == [OPERATIONS - 1, 2 * OPERATIONS - 1]
    assert result.illegal[0, [OPERATIONS - 1, 2 * OPERATIONS - 2, 2 * OPERATIONS - 1]].tolist() == [0, 1, 1]
    assert not result.illegal[0, OPERATIONS : 2 * OPERATIONS - OPERATIONS // 8].any()
    d = result.d[0, OPERATIONS - 1].astype(np.int64)
    assert (d < 0).any() and (d > 0).any()
