"""Positions of a row, sorted into groups, against comprehensions."""

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from refemu.units.kllm.kernels.counts import EIGHT, sort_positions

FILLER = 99


@settings(deadline=None, max_examples=80)
@given(
    row=st.lists(st.tuples(st.integers(0, 15), st.booleans()), max_size=40),
    amounts=st.booleans(),
)
@example(row=[(3, False)] * 9 + [(0, False), (3, True)], amounts=False)
@example(row=[(3, False)] * 9 + [(0, False), (3, True)], amounts=True)
def test_positions_are_sorted_into_groups_of_whole_eights(row: list[tuple[int, bool]], amounts: bool) -> None:
    """By index, or for amounts once for every bit that is set; what is masked is in no group."""
    count = 4 if amounts else 16
    groups = [
        [k for k, (i, masked) in enumerate(row) if not masked and (i >> g & 1 if amounts else i == g)]
        for g in range(count)
    ]
    index, mask = (np.array([pair[i] for pair in row], np.uint8) for i in (0, 1))
    order = np.full(len(row) * (count if amounts else 1) + EIGHT * count, -1, np.int32)
    starts, sizes = np.full(count + 1, -1, np.int64), np.full(count, -1, np.int64)
    sort_positions(index, mask, int(amounts), FILLER, order, starts, sizes)
    filled = [group + [FILLER] * (-len(group) % EIGHT) for group in groups]

    assert sizes.tolist() == [len(group) for group in groups]
    assert starts.tolist() == [sum(map(len, filled[:g])) for g in range(count + 1)]
    assert order[: starts[-1]].tolist() == [k for group in filled for k in group]
    assert (order[starts[-1] :] == -1).all()
