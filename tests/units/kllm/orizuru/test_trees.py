"""Places of registers in units of 16 inputs, the rule of a comparator, drawings of both trees."""

import numpy as np
import pytest

from refemu.arith.checks import Refused
from refemu.units.kllm.orizuru import Orizuru
from refemu.units.kllm.orizuru.trees import (
    MAX,
    MIN,
    Place,
    better,
    levels,
    unit_of_node,
    units_needed,
)
from tests.oracles.kllm import units

FIG7 = np.array([3, 7, 1, 5, 2, 6, 9, 4], np.float16)


def test_units_of_the_chip() -> None:
    """[kllm Table I] 273 units of 16 inputs take 4096 values: 256 + 16 + 1."""
    assert 273 == units_needed(4096) == Orizuru(4096).units
    assert [units_needed(n) for n in (1, 16, 17, 1024, 11008, 16384)] == [1, 1, 3, 69, 735, 1093]


@pytest.mark.parametrize("n", [*range(1, 70), 255, 256, 257, 4095, 4096, 4097])
def test_units_needed_is_a_sum_of_quotients(n: int) -> None:
    assert units.units_needed(n) == units_needed(n)


@pytest.mark.parametrize("n", [1, 5, 16, 17, 64, 300, 1024, 4096, 5000])
def test_every_register_has_one_place(n: int) -> None:
    """[kllm Table I] units of 16 inputs, but for the root's, which takes what is left."""
    places = [unit_of_node(n, node) for node in range(1, 1 << levels(n))]

    assert len(set(places)) == len(places)
    assert all(1 <= place.node < 16 for place in places)


def test_places_in_4096() -> None:
    """[kllm Table I] stages 0, 1, 2 hold levels 1-4, 5-8, 9-12."""
    assert Place(0, 0, 1) == unit_of_node(4096, 1)
    assert Place(0, 0, 15) == unit_of_node(4096, 15)
    assert Place(1, 0, 1) == unit_of_node(4096, 16)
    assert Place(2, 255, 15) == unit_of_node(4096, 4095)
    assert Place(1, 0, 1) == unit_of_node(1024, 4)  # the root's unit uses 4 of its inputs


def test_one_side_alone_wins() -> None:
    """D-kllm-22: the mask decides, whatever the values."""
    assert [better(MAX, (a, 0), (b, 9)) for a, b in ((1, 0), (0, 1), (0, 0))] == [(0, 0), (1, 0), (0, 0)]
    assert [better(MAX, (1, 0), (1, b)) for b in (9, -9, 0)] == [(1, 1), (0, 1), (0, 1)]
    assert [better(MIN, (1, 0), (1, b)) for b in (9, -9, 0)] == [(0, 1), (1, 1), (0, 1)]


def test_drawing_of_fig7() -> None:
    """[kllm Fig. 7(a)] the max tree above the leaves, the min tree below."""
    device = Orizuru(8)
    states = list(device.steps(FIG7, 1))
    first_pop = next(state for state in states if state.event == "pop_max")

    assert device.draw(first_pop).split("\n") == [
        "max                        --",
        "max            <7                      --",
        "max      7>          5>          6>          --",
        " P    3     7     1     5     2     6    *[9]   4",
        " Q    3     7     1     5     2     6     9     4",
        "min      <3          <1          <2          4>",
        "min            1>                      <2",
        "min                        <1",
    ]
    assert [device.draw(state).count("*") for state in states[:5]] == [0, 4, 2, 1, 4]


def test_drawing_of_padding_and_of_wide_trees() -> None:
    assert "--" in Orizuru(3).draw(next(Orizuru(3).steps(np.ones(3, np.float16), 1)))
    wide = Orizuru(20)
    state = list(wide.steps(np.arange(20).astype(np.float16), 1))[3]

    assert wide.draw(state).split("\n")[0] == "P[1..1] 0"
    assert len(wide.draw(state).split("\n")) == 12


def test_trees_rejects_invalid_inputs() -> None:
    with pytest.raises(Refused, match=r"node must be in \[1, 7\], got 8"):
        unit_of_node(8, 8)
    with pytest.raises(Refused, match="n must be in"):
        units_needed(0)
