"""Plans of a large product: the row runs, and compares with the formula."""

import pytest

from benchmarks import pairs
from benchmarks.rows import fdgf


def test_rows_follow_the_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a small product: the shape of a plan is the core's own, whatever fields it has."""
    monkeypatch.setattr(fdgf, "SIZES", (64, 128, 128))
    monkeypatch.setattr(pairs, "SAMPLE", 0.0)
    rows = fdgf.plans()

    assert [row.id for row in rows] == ["FDGF-PLAN"] * 2
    assert all(row.checked for row in rows)


def test_elements_that_are_not_fetched_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fdgf, "SIZES", (64, 128, 128))
    monkeypatch.setattr(pairs, "SAMPLE", 0.0)
    monkeypatch.setattr(fdgf, "fetched", lambda tiles: 0)

    assert [row.checked for row in fdgf.plans()] == [False, True]
