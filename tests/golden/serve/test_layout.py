"""Ports in packed words: the first port lowest, lanes ascending, as in the hex files."""

import numpy as np
import pytest

from refemu.golden.serve.layout import Layout
from refemu.units.ports import Port

WIDE = Layout([("in", Port("a", 3, 5)), ("in", Port("b", 64)), ("in", Port("c", 7, signed=True))])


def test_places_follow_each_other() -> None:
    assert [(place.name, place.lsb, place.first) for place in WIDE.places] == [("a", 0, 0), ("b", 15, 5), ("c", 79, 6)]
    assert (WIDE.width, WIDE.words, WIDE.bytes) == (86, 3, 12)


def test_names_distinguish_the_groups() -> None:
    both = Layout([("out", Port("y", 4)), ("st", Port("y", 4)), ("care", Port("y", 4))])

    assert [place.name for place in both.places] == ["y", "st_y", "care_y"]
    assert both.places[1].item["group"] == "st"


def test_values_of_a_row_are_read() -> None:
    number = 5 << 3 | ((1 << 64) - 2) << 15 | 0x7F << 79 | 1 << 90  # the bit above the fields means nothing
    row = WIDE.values(number.to_bytes(12, "little")).tolist()[0]

    assert WIDE.of_ports(row) == [(0, 5, 0, 0, 0), (1 << 64) - 2, -1]


@pytest.mark.parametrize("value", [0, 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1])
def test_fields_are_the_inverse_of_ports(value: int) -> None:
    values = [(1, 2, 3, 4, 7), value, -64]
    data = WIDE.packed(np.array([WIDE.of_fields(values)], np.int64))

    assert WIDE.of_ports(WIDE.values(data).tolist()[0]) == values
    assert int.from_bytes(data, "little") >> 86 == 0


def test_an_item_has_the_limits_of_the_port() -> None:
    item = Layout([("in", Port("x", 4, least=2, most=9))]).places[0].item

    assert (item["least"], item["most"], item["bits"], item["signed"]) == (2, 9, 4, False)
