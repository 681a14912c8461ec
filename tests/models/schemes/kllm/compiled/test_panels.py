"""Counts of a panel's indices against NumPy's."""

import numpy as np
import pytest

from refemu.models.schemes.kllm.compiled.panels import HALF, LANES, PANEL, count_panel
from refemu.units.kllm.kernels.counts import CHUNK
from tests.arith.interpreted import needs_compiled


@needs_compiled
@pytest.mark.parametrize(("first", "last"), [(0, CHUNK), (8, 24), (0, 0)])
@pytest.mark.parametrize("half", [0, 1])
def test_a_half_has_the_counts_of_bincount(first: int, last: int, half: int) -> None:
    """As many members as eight planes hold, all of one index in some columns; the other half is unchanged."""
    rng = np.random.default_rng(last)
    codes = rng.integers(0, 256, (2, 40, PANEL // 2), np.uint8)
    codes[:, :, 3] = 0xF0
    members, part = rng.integers(0, 40, CHUNK).astype(np.int32), np.full((16, PANEL), 7, np.uint16)
    count_panel(codes, 1, half, members, first, last, part)
    rows = codes[1, members[first:last], half * LANES : (half + 1) * LANES].astype(np.int64)
    columns = np.concatenate([rows & 15, rows >> 4], axis=1).T
    here = slice(half * HALF, (half + 1) * HALF)

    assert part[:, here].T.tolist() == [np.bincount(column, minlength=16).tolist() for column in columns]
    assert (np.delete(part, np.r_[here], axis=1) == 7).all()
