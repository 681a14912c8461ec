"""Running sums of page counts against an addition after the other."""

from itertools import accumulate
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refemu.arith.checks import Refused, RefusedType
from refemu.units.leankv import prefix_sum
from refemu.units.leankv.prefix_sum import PrefixSum
from tests.oracles.leankv import memory

IMPLEMENTATIONS = [pytest.param(prefix_sum.run, id="unit"), pytest.param(prefix_sum.UNIT.run_compiled, id="compiled")]


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_regions_of_two_heads(run: Any) -> None:
    """[leankv §5.2] heads of 16 and 32: the second owns 16 to 47, so the paper's last one, 48, is one too many."""
    ends = run([16, 32], 0, elements=2).inclusive.tolist()

    assert ends == [16, 48]
    assert [(0, ends[0] - 1), (ends[0], ends[1] - 1)] == [(0, 15), (16, 47)]


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@settings(deadline=None, max_examples=50)
@given(counts=st.lists(st.integers(0, 1000), min_size=1, max_size=40), base=st.integers(0, 1000))
def test_sums_are_those_of_a_loop(run: Any, counts: list[int], base: int) -> None:
    """D-leankv-39: the network gives what adding in turn gives; levels and additions are counted where they happen."""
    result = run(counts, base, elements=len(counts))
    sums, levels, adds = memory.prefix(counts, base)

    assert result.inclusive.ravel().tolist() == sums == [base + total for total in accumulate(counts)]
    assert (result.levels, result.adds) == (levels, adds) and result.level == levels


def test_levels_double_their_reach() -> None:
    states = list(PrefixSum(5).steps([1, 2, 3, 4, 5], 10))

    assert [state.event for state in states] == ["load", "level", "level", "level"]
    assert [state.inclusive for state in states] == [
        (11, 2, 3, 4, 5),
        (11, 13, 5, 7, 9),
        (11, 13, 16, 20, 14),
        (11, 13, 16, 20, 25),
    ]
    assert [state.adds for state in states] == [0, 4, 7, 8] and [state.level for state in states] == [0, 1, 2, 3]


def test_scan_of_nothing_is_empty() -> None:
    assert prefix_sum.scan([], 7) == prefix_sum.Scan((), 0, 0)
    assert prefix_sum.scan([3], 7) == prefix_sum.Scan((10,), 0, 0)


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_sums_wrap(run: Any) -> None:
    assert run([2**32 - 1, 1, 5], 0, elements=3).inclusive.tolist() == [2**32 - 1, 0, 5]
    assert run([0, 1], 2**32 - 1, elements=2).inclusive.tolist() == [2**32 - 1, 0]


def test_step_out_of_turn_is_rejected() -> None:
    device = PrefixSum(4)
    with pytest.raises(Refused, match="step needs the inputs of an operation, got none"):
        device.step()
    device.step([1, 2, 3, 4], 0)
    with pytest.raises(Refused, match=r"step takes no inputs after event \w+"):
        device.step([1, 2, 3, 4], 0)


@pytest.mark.parametrize(
    ("elements", "error", "message"),
    [
        pytest.param(0, Refused, r"elements must be in \[1, 65536\], got 0", id="none"),
        pytest.param(2.0, RefusedType, "elements must be an int", id="float"),
    ],
)
def test_rejected_sizes(elements: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        PrefixSum(elements)


def test_prefix_sum_repr() -> None:
    assert repr(PrefixSum(13)) == "PrefixSum(elements=13)"
    assert np.array_equal(eval(repr(PrefixSum(3))).snapshot().inclusive, (0, 0, 0))
