"""Table entries against plain lists: the runs from both sides, what leaves them, and errors."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refemu.arith.checks import Refused
from refemu.units.leankv import page_table
from refemu.units.leankv.page_table import HIGH, LOW, PageTable, TableOverflow, locate

RUNS = page_table.run, page_table.UNIT.run_compiled
IMPLEMENTATIONS = [pytest.param(run, id=name) for run, name in zip(RUNS, ("unit", "compiled"), strict=True)]
CLEAR, APPEND, SPLIT, TOKENS, LOOKUP = range(5)


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_example_of_the_paper(run: Any) -> None:
    """[leankv Fig. 5] pages 0 to 3 of head 0 become 1 + 1, pages 4 to 7 of head 1 become 2 + 1; 7 cells."""
    given = [(APPEND, head, 0, 4 * head + page, 0) for head in (0, 1) for page in range(4)]
    kept = [(SPLIT, 0, 0, 1, 1), (SPLIT, 1, 0, 2, 1)]
    result = run(*np.array([*given, *kept]).T)
    entries = result.cells[-1].reshape(2, 7)

    assert (entries[0, [0, 6]].tolist(), entries[1, [0, 1, 6]].tolist()) == ([0, 1], [4, 5, 6])
    assert [ids[ids >= 0].tolist() for ids in result.ids[-2:]] == [[2, 3], [7]]
    assert result.used[-1].tolist() == [1, 1, 2, 1]
    assert (result.written, result.given_back) == (8 + 2, 3)


@settings(deadline=None)
@given(cells=st.integers(1, 6), data=st.data())
def test_any_history_is_that_of_two_lists(cells: int, data: st.DataObject) -> None:
    table, high, low = PageTable(cells=cells, heads=1), list[int](), list[int]()
    for page in range(data.draw(st.integers(1, 20))):
        section = data.draw(st.sampled_from([HIGH, LOW]))
        if len(high) + len(low) == cells:
            with pytest.raises(
                TableOverflow, match=f"head 0 of layer 0: cells must be at most {cells}, got {cells + 1}"
            ):
                table.append(0, section, [page])
            assert table.clear(0) == high + low
            high, low = [], []
        table.append(0, section, [page])
        (low if section else high).append(page)
        assert (table.run(0, HIGH), table.run(0, LOW), table.used(0)) == (high, low, (len(high), len(low)))
        assert [table.page(0, HIGH, j) for j in range(len(high))] == high
        assert [table.page(0, LOW, j) for j in range(len(low))] == low
        cell = table.row(0)
        assert cell[: len(high)] == high and cell[cells - len(low) :] == low[::-1]


@pytest.mark.parametrize("scrub", [False, True])
@given(held=st.integers(0, 6), data=st.data())
def test_split_moves_low_pages_to_the_right(scrub: bool, held: int, data: st.DataObject) -> None:
    """D-leankv-40: cells outside the runs keep their ids, or become -1; also where the runs overlap on the way."""
    high = data.draw(st.integers(0, held))
    low = data.draw(st.integers(0, held - high))
    table = PageTable(heads=1, cells=6, scrub=scrub)
    table.append(0, HIGH, range(10, 10 + held))

    assert table.split(0, high, low) == list(range(10 + high + low, 10 + held))
    assert (table.run(0, HIGH), table.run(0, LOW)) == (
        list(range(10, 10 + high)),
        list(range(10 + high, 10 + high + low)),
    )
    between = table.row(0)[high : 6 - low]
    assert between == ([-1] * len(between) if scrub else [10 + j if j < held else -1 for j in range(high, 6 - low)])
    table.clear(0)
    assert (set(table.row(0)) == {-1}) == (scrub or held == 0)


@pytest.mark.parametrize("scrub", [False, True])
def test_every_split_is_compiled_alike(scrub: bool) -> None:
    """Also those after which the low pages are where some of them were."""
    events = [
        [(APPEND, 0, 0, 10 + j, 0) for j in range(6)][-held:]
        + [(APPEND, 1, 0, 9, 0)] * (6 - held)
        + [(SPLIT, 0, 0, high, low)]
        for held in range(1, 7)
        for high in range(held + 1)
        for low in range(held - high + 1)
    ]
    unit, compiled = (run(*np.array(events).transpose(2, 0, 1), heads=2, cells=6, scrub=scrub) for run in RUNS)
    for name in ("ids", "used", "cells"):
        np.testing.assert_array_equal(getattr(unit, name), getattr(compiled, name))


def test_ids_that_no_run_holds_cannot_be_read() -> None:
    table = PageTable(heads=2, cells=4)
    table.append(1, HIGH, [7, 8])
    table.split(1, 1, 0)

    assert 8 in table.row(1)
    with pytest.raises(Refused, match="head 1 of layer 0 has 1 high pages, got 1"):
        table.page(1, HIGH, 1)
    with pytest.raises(Refused, match="has 0 low pages, got 0"):
        table.page(1, LOW, 0)


BAD = [
    pytest.param(
        [(APPEND, 3, 0, 1, 0)] * 4, TableOverflow, "head 1 of layer 1: cells must be at most 3, got 4", id="overflow"
    ),
    pytest.param(
        [(APPEND, 3, 0, 1, 0), (SPLIT, 3, 0, 1, 1)],
        Refused,
        r"high \+ low must be at most 1, .* got 1 \+ 1 with 0",
        id="split of too few",
    ),
    pytest.param(
        [(APPEND, 3, 1, 1, 0), (SPLIT, 3, 0, 0, 0)], Refused, r"high \+ low must be at most 0", id="split twice"
    ),
    pytest.param([(LOOKUP, 0, 0, 0, 0)], Refused, "has 0 high pages, got 0", id="stale"),
]


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize(("events", "error", "message"), BAD)
def test_rejected_events_change_nothing(run: Any, events: Any, error: type[Exception], message: str) -> None:
    sizes: dict[str, Any] = {"slots": 1, "layers": 2, "heads": 2, "cells": 3}
    with pytest.raises(error, match=message):
        run(*np.array(events).T, **sizes)
    table = PageTable(**sizes)
    for event in events[:-1]:
        table.step(*event)
    before = table.snapshot()
    with pytest.raises(error, match=message):
        table.step(*events[-1])

    assert table.snapshot() == before


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ((1, 0, 0), r"slot must be in \[0, 0\], got 1"),
        ((0, 2, 0), r"layer must be in \[0, 1\], got 2"),
        ((0, 0, -1), r"head must be in \[0, 2\], got -1"),
    ],
)
def test_entries_table_does_not_have_are_rejected(place: tuple[int, int, int], message: str) -> None:
    table = PageTable(slots=1, layers=2, heads=3, cells=4)

    assert [table.entry(0, layer, head) for layer in range(2) for head in range(3)] == list(range(6))
    with pytest.raises(Refused, match=message):
        table.entry(*place)


def test_lengths_of_entries_need_one_spare_cell() -> None:
    """[leankv §5.2] says max_len / TH cells never overflow; 7 high and 1 low token of 8 at TH 2, TL 4 need five.

    D-leankv-36: with one cell more they always fit.
    """
    for t_high, t_low in [(2, 4), (3, 3), (1, 5), (4, 6)]:
        most = 0
        for tokens in range(1, 25):
            for high in range(tokens + 1):
                need = -(-high // t_high) + -(-(tokens - high) // t_low)
                most = max(most, need - -(-tokens // t_high))
        assert most == (1 if t_high > 1 else 0)
    assert -(-7 // 2) + -(-1 // 4) == 5 > 8 // 2


def test_tokens_are_found_from_both_sides() -> None:
    cells = np.array([[3, 4, -1, 9], [5, -1, 8, 7]])
    high = locate(cells, HIGH, np.array([3, 1]), 2)
    low = locate(cells, LOW, np.array([3, 4]), 4)

    assert [x.tolist() for x in high] == [[4, 5], [1, 1]]
    assert [x.tolist() for x in low] == [[9, 8], [3, 0]]
    with pytest.raises(Refused, match="token must be below 4 cells of 2, got 8"):
        locate(cells, HIGH, np.array([0, 8]), 2)


def test_page_table_repr() -> None:
    assert repr(PageTable(2, 3, 4, 5, True)) == "PageTable(slots=2, layers=3, heads=4, cells=5, scrub=True)"


def test_a_drawing_has_the_runs_of_every_entry() -> None:
    """[leankv Fig. 5]: high pages from the left, low ones from the right; long gaps are counted."""
    table = PageTable(cells=12)
    for section, page in ((HIGH, 10), (HIGH, 11), (LOW, 7)):
        table.append(0, section, [page])
    table.set_tokens(0, 4, 3)

    assert table.draw(table.state).splitlines() == [
        "entry 0  10 11 ...9 cells...  7  tokens 4 high, 3 low",
        "entry 1  ...12 cells...  tokens 0 high, 0 low",
    ]
