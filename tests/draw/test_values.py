"""Values of drawings."""

from refemu.draw import values


def test_patterns_are_written_as_numbers() -> None:
    assert (values.half(0x4880), values.half(0xFC00), values.half(0x7E00)) == ("9", "-inf", "nan")
    assert (values.single(0x3F800000), values.single(0xC0490FDB), values.single(-1)) == ("1", "-3.142", "nan")
    assert (values.bits(5, 4), values.bits(-1, 3)) == ("0101", "111")


def test_long_numbers_lose_digits_but_not_exponent() -> None:
    shown = [values.brief(value) for value in (-0.12345, -6.1035e-05, -65504.0, 12.0, 1e30, float("inf"))]

    assert shown == ["-0.1235", "-6.1e-5", "-65504", "12", "1e30", "inf"]
    assert [values.brief(value, 4) for value in (4294967295, 1024, -0.25, 0.000123)] == ["4e9", "1024", "-0.2", "1e-4"]


def test_long_lists_are_shortened() -> None:
    assert values.listed(range(4), 2) == "0, 1 and 2 more"
