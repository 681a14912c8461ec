"""Every row of every benchmark runs, once and with little work, and its result is right."""

import pytest

from benchmarks import pairs, suite
from benchmarks.pairs import Absent, Row

ENTRIES = [*suite.table(), *suite.table(several=True)]


@pytest.mark.parametrize("entry", ENTRIES, ids=[f"{e.module.__name__.rpartition('.')[2]}-{e.ids[0]}" for e in ENTRIES])
def test_rows_run_at_their_smallest_size(entry: suite.Entry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(pairs.SMALLEST, "1")
    rows = list(entry.rows())

    assert {row.id for row in rows} == set(entry.ids)
    assert all(isinstance(row, Absent) or (isinstance(row, Row) and row.checked) for row in rows), rows
