"""Pairs: ratios, checks, first calls and memory of what is timed."""

import time

import numpy as np
import pytest

from benchmarks import pairs
from tests.benchmarks.factory import row


def test_a_ratio_is_the_rivals_time_over_ours():
    seconds = [(2.0, 1.0), (6.0, 2.0), (4.0, 1.0)]
    made = pairs.row("A", "", "", seconds, pairs.First(9.0, 3.0, None), 2.5, True)

    assert (made.ratio, made.low, made.high) == (3.0, 2.0, 4.0)
    assert (made.ours_s, made.rival_s, made.first_s, made.compile_s) == (1.0, 4.0, 9.0, 3.0)


@pytest.mark.parametrize(
    ("ratio", "goal", "checked", "outcome"),
    [
        (1.0, 0.9, True, "met"),
        (0.9, 0.9, True, "met"),
        (0.8, 0.9, True, "missed"),
        (0.8, 0.0, True, ""),
        (9.0, 0.9, False, "WRONG"),
        (9.0, 0.0, False, "WRONG"),
    ],
)
def test_result_counts_before_the_goal(ratio, goal, checked, outcome):
    assert row(ratio=ratio, goal=goal, checked=checked).outcome == outcome


def test_results_are_compared_once_and_wrong_ones_reported():
    seen = []

    def check(theirs, ours):
        seen.append((theirs, ours))
        return theirs == ours

    assert not pairs.pairs("A", "", "", lambda: 1, lambda: 2, check, count=1).checked
    assert pairs.pairs("A", "", "", lambda: 2, lambda: 2, check, count=1).checked
    assert seen == [(1, 2), (2, 2)]


def test_number_as_rival_is_met_from_one_on():
    slow = pairs.absolute("A", "", "", 1e-9, lambda: time.sleep(1e-3), lambda _: True, count=1, clock=time.perf_counter)
    fast = pairs.absolute("A", "", "", 60.0, lambda: 0, lambda _: True, count=1)

    assert (slow.outcome, fast.outcome) == ("missed", "met")


def test_memory_is_that_of_one_call():
    held = np.zeros(1 << 20)

    assert pairs.peak_mb(lambda: np.zeros(1 << 20)) == pytest.approx(8.39, abs=0.1)
    assert pairs.peak_mb(lambda: held.sum()) < 0.1


def test_compiling_is_counted_once_where_kernel_compiles_another():
    marks = [(1.0, True), (2.0, True), (3.0, False), (5.0, False), (7.0, True), (8.0, False)]

    assert pairs._outermost(marks) == 5.0


def test_rival_with_more_work_scales_its_side_only():
    more = row(ratio=2.0, goal=0.0).times(3.0, goal=5.0)

    assert (more.ratio, more.rival_s, more.ours_s, more.outcome) == (6.0, 3e-3, 0.5e-3, "met")


def test_first_calls_only_look_at_nothing_else(monkeypatch):
    monkeypatch.setattr(pairs, "first_calls_only", True)
    calls = []
    made = pairs.pairs("A", "", "", lambda: calls.append("rival"), lambda: calls.append("ours"), lambda a, b: False)

    assert calls == ["ours"] and made.checked
