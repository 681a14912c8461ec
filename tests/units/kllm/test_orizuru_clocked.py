"""The clocked trees against the oracle, edge by edge: every output, register and counter."""

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from refemu.arith.checks import Refused
from refemu.units.kllm import orizuru_clocked
from refemu.units.kllm.orizuru_clocked import UNIT, ClockedOrizuru
from tests.oracles import clocked
from tests.oracles.kllm import units
from tests.units.clocked_rows import assert_rows, reset

IMPLEMENTATIONS = [pytest.param(orizuru_clocked.run, id="unit"), pytest.param(UNIT.run_compiled, id="compiled")]
FIG7 = [0x4200, 0x4700, 0x3C00, 0x4500, 0x4000, 0x4600, 0x4880, 0x4400]  #: 3 7 1 5 2 6 9 4
TIES = [0x0000, 0x8000, 0x3C00, 0xBC00, 0x7C00, 0xFC00]
NANS = [0x7E00, 0xFE00, 0x7C01]


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@settings(deadline=None, max_examples=40)
@given(data=st.data(), n=st.integers(1, 11), total_order=st.booleans(), compare=st.booleans())
@example(data=None, n=8, total_order=False, compare=False)
def test_rows_equal_the_oracle(run: Any, data: Any, n: int, total_order: bool, compare: bool) -> None:
    """Any size, drained trees, ties and infinities; a start in most rows, other values in each."""
    k = 2 if data is None else data.draw(st.integers(0, n))
    words = st.one_of(st.sampled_from(TIES + NANS * total_order), st.integers(0, 0x7BFF))
    starts = [1] * 60 if data is None else data.draw(st.lists(st.sampled_from([1, 1, 0]), min_size=1, max_size=70))
    pool = (
        [FIG7] if data is None else data.draw(st.lists(st.lists(words, min_size=n, max_size=n), min_size=1, max_size=5))
    )
    rows = [(start, pool[number % len(pool)]) for number, start in enumerate(starts)]
    min_leaf = "compare" if compare else "not_max"
    config = {"n": n, "k": k, "total_order": total_order, "min_leaf": min_leaf}
    expected = clocked.rows(
        rows,
        lambda x: units.orizuru_events(x, k, total_order, min_leaf),
        reset(UNIT, config, k=k, p_mask=[1] * n, q_mask=[1] * n, root_max_valid=1, root_min_valid=1),
    )
    x = np.array([row[1] for row in rows])

    assert_rows(UNIT, config, run(starts, x, **config), list(expected))


def test_steps_of_fig7() -> None:
    """[kllm §IV-C, Fig. 7] load, three levels of each tree, then pops and repairs of the max tree."""
    device = ClockedOrizuru(8, 2)
    states = [device.step(int(edge == 0), FIG7 if edge == 0 else [0] * 8) for edge in range(24)]

    assert [state.event for state in states[:9]] == ["load"] + ["init_max"] * 3 + ["init_min"] * 3 + [
        "pop_max",
        "maintain_max",
    ]
    assert [state.max_index for state in (states[6], states[7], states[11])] == [(0, 0), (6, 0), (6, 1)]
    assert [(state.busy, state.valid, state.phase) for state in states[21:]] == [(1, 0, 21), (0, 1, 22), (0, 0, 22)]
    assert states[-1].min_index == (2, 4) and states[-1].x == (0,) * 8 and states[-1].x_held == tuple(FIG7)


def test_nan_is_rejected_with_start_only() -> None:
    nan = [0x7E00] * 8
    with pytest.raises(Refused, match=r"orizuru: x must not be NaN, got NaN at index \(1, 0\)"):
        orizuru_clocked.run([0, 1], [nan, nan], n=8)
    assert not orizuru_clocked.run([0, 0], [nan, nan], n=8).busy.any()
    with pytest.raises(Refused, match="x must not be NaN, got NaN"):
        ClockedOrizuru(8).step(1, nan)
    assert ClockedOrizuru(8, total_order=True).step(1, nan).event == "load"


def test_both_trees_are_drawn_as_orizuru_does() -> None:
    device = ClockedOrizuru(8)
    inner = device.inner
    state = device.step(1, FIG7)
    assert device.draw(state) == inner.draw(inner.snapshot()) and "9" in device.draw(state)
    later = device.step(0, [0] * 8)
    assert device.draw(later) == inner.draw(inner.snapshot()) != device.draw(state)


def test_orizuru_clocked_repr_evaluates_back() -> None:
    text = "ClockedOrizuru(n=8, k=1, total_order=False, min_leaf='not_max')"
    assert repr(ClockedOrizuru(8)) == text
