"""Sums of records by hand, their bound, energy and share of the peak."""

from fractions import Fraction

import pytest

from refemu.models.machine import Price, System, Work, placed
from refemu.models.machine.totals import Section, bound, of_works, total

PRICES = {"memory": Price(Fraction(2), "bit", "a table"), "x": Price(Fraction(3), "cycle", "a table")}
SYSTEM = System("a machine", 1000, Fraction(4), 5, "none", prices=PRICES)
WORKS = (
    Work("a", "linear", {"x": 10}, 12, bits={"weights": 33, "keys": 16}, macs=70),
    Work("b", "other", {"y": 6}, 6, events={"x": 2}),
    Work("c", "other", cycles=None, bits={"weights": 800}),
)


def test_a_row_adds_its_records() -> None:
    """5 and 2 bytes take 2 cycles of the port; without overlap they come before 12 cycles."""
    line = placed(WORKS, SYSTEM)

    assert of_works(WORKS[:1], line, SYSTEM).as_json(SYSTEM) == {
        "cycles": 14,
        "seconds": 0.014,
        "bytes": {"weights": 5, "keys": 2},
        "busy": {"memory": 2, "x": 10},
        "bound": "x",
        "energy_pj": {"memory": 98.0, "x": 30.0},
        "peak_share": 1.0,
    }


def test_untimed_records_have_no_cycles() -> None:
    row = of_works(WORKS[2:], placed(WORKS, SYSTEM), SYSTEM).as_json(SYSTEM)

    assert row["cycles"] is None and row["seconds"] is None and row["bytes"] == {} and row["bound"] is None


def test_total_counts_equal_blocks() -> None:
    sections = [Section(0, 3, WORKS), Section(-1, 1, WORKS[1:2])]
    lines = [placed(section.works, SYSTEM) for section in sections]
    sums = total(sections, lines, SYSTEM, 7)

    assert sums["cycles"] == 3 * (14 + 6) + 6
    assert sums["bytes"] == {"weights": 15, "keys": 6}
    assert sums["busy"] == {"memory": 6, "x": 30, "y": 24}
    assert sums["energy_pj"] == {"memory": 3 * 98.0, "x": 3 * (30 + 6) + 6.0, "y": None}
    assert sums["tokens_per_second"] == 7 / 0.066
    assert sums["peak_share"] == pytest.approx(210 / (5 * 66))


def test_bound_is_the_busiest_resource() -> None:
    assert bound({"memory": 3, "x": 4, "y": 4}) == "x" and bound({}) is None
