"""Values of drawings."""

from refemu.draw import values


def test_patterns_are_written_as_numbers() -> None:
    assert (values.half(0x4880), values.half(0xFC00), values.half(0x7E00)) == ("9", "-inf", "nan")
    assert (values.single(0x3F800000), values.single(0xC0490FDB), values.single(-1)) == ("1", "-3.142", "nan")
    assert (values.bits(5, 4), values.bits(-1, 3)) == ("0101", "111")


def test_lanes_and_lists() -> None:
    assert (values.lanes(3), values.lanes((1, 2))) == ((3,), (1, 2))
    assert values.listed(range(4), 2) == "0, 1 and 2 more"
