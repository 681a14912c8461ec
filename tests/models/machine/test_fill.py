"""A buffer that the port fills: whole runs equal the stepped port and engine in every size."""

from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refemu.arith.checks import Refused
from refemu.models.machine.fill import Fed, Run, closed, stepped

RUNS = st.lists(st.builds(Run, st.integers(0, 40), st.integers(0, 9), st.integers(1, 12)), min_size=1, max_size=4)


@settings(deadline=None, max_examples=300)
@given(RUNS, st.fractions(Fraction(1, 3), 40, max_denominator=5), st.integers(1, 3))
def test_runs_equal_the_stepped_buffer(runs: list[Run], rate: Fraction, places: int) -> None:
    assert closed(runs, rate, places) == stepped(runs, rate, places)


def test_every_small_run_equals_the_stepped_buffer() -> None:
    for size, cycles, count, rate, places in product((1, 5, 8), (1, 2, 4), (1, 2, 7, 30), (1, 3, 8), (1, 2)):
        run = [Run(size, cycles, count)]
        assert closed(run, Fraction(rate), places) == stepped(run, Fraction(rate), places)


def test_two_places_hide_the_shorter_side() -> None:
    """Ten tiles of 8 bytes at 4 bytes an edge: loads of 2 edges during work of 3, and of 1."""
    assert closed([Run(8, 3, 10)], Fraction(4)) == Fed(2 + 10 * 3, 2)
    assert closed([Run(8, 1, 10)], Fraction(4)) == Fed(10 * 2 + 1, 11)
    assert closed([Run(8, 3, 10)], Fraction(4), places=1) == Fed(10 * 5, 20)


@pytest.mark.parametrize(("rate", "places"), [(Fraction(0), 2), (Fraction(1), 0)])
def test_empty_port_or_buffer_is_rejected(rate: Fraction, places: int) -> None:
    for times in (stepped, closed):
        with pytest.raises(Refused, match="rate must be above 0 and places at least 1"):
            times([Run(1, 1)], rate, places)
