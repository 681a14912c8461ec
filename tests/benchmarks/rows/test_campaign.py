"""The table of campaigns: rates, sizes, and what it says when bytes differ."""

import pytest

from benchmarks.rows import campaign
from benchmarks.rows.campaign import Line, Made


def test_table_has_rates_ratios_and_estimates() -> None:
    made = [Made(2.0, 4_000_000, 48_000_000, "a"), Made(1.25, 4_000_000, 48_000_000, "a")]
    head, rule, line = campaign.table([Line("ovp_decoder", made)], [1, 2])
    assert head == (
        "| unit | bytes per row | rows/s, 1 worker | rows/s, 2 workers | ratio 2 : 1 | 10^9 rows | digests |"
    )
    assert rule.count("---") == 7
    assert line == "| ovp_decoder | 12 | 2,000,000 | 3,200,000 | 1.60 | 8.3 min, 12 GB | equal |"


@pytest.mark.parametrize(
    ("rate", "size", "text"),
    [
        (1e6, 1, "17 min, 1.0 GB"),
        (1e5, 100, "2.8 hours, 100 GB"),
        (400, 4000, "29 days, 4.0 TB"),
    ],
)
def test_times_and_sizes_are_readable(rate: float, size: int, text: str) -> None:
    line = campaign.table([Line("u", [Made(1e6 / rate, 1_000_000, size * 1_000_000, "a")])], [1])[-1]
    assert text in line


def test_bytes_that_depend_on_workers_are_reported() -> None:
    line = Line("u", [Made(1.0, 1, 1, "a"), Made(1.0, 1, 1, "b")])
    assert not line.equal
    assert campaign.table([line], [1, 2])[-1].endswith("| DIFFERENT |")


def test_the_table_replaces_what_is_between_the_markers() -> None:
    page = f"before\n{campaign.BEGIN}\nold\n{campaign.END}\nafter\n"
    assert campaign.within(page, ["new"]) == f"before\n{campaign.BEGIN}\nnew\n{campaign.END}\nafter\n"
    with pytest.raises(ValueError):
        campaign.within("no markers", ["new"])


@pytest.mark.long
def test_rows_of_a_slow_unit_are_fewer() -> None:
    """At least those of one seed, so that there is something to compare."""
    assert campaign.affordable("concat", 10**9, 1e-9) == 128
    assert campaign.affordable("concat", 300, 100.0) == 300
