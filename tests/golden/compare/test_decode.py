"""A code in three forms: hex, bits split into fields, and words."""

import pytest

from refemu import formats
from refemu.golden.compare.decode import Value, value
from refemu.units.ports import Port


@pytest.mark.parametrize(
    ("code", "port", "expected"),
    [
        (5, Port("p", 4), Value("0x5", "0101", "5")),
        (13, Port("p", 4, signed=True), Value("0xd", "1101", "-3")),
        (0x1F304, Port("p", 17), Value("0x1f304", "1 1111 0011 0000 0100", "127748")),
        (1, Port("p", 1), Value("0x1", "1", "1")),
        (0xFFFFFFFFFFFFFFFF, Port("p", 64, signed=True), Value("0xffffffffffffffff", " ".join(["1111"] * 16), "-1")),
        (0xC100, Port("p", 16, encoding="f16"), Value("0xc100", "1 10000 0100000000", "-2.5")),
        (0x7E00, Port("p", 16, encoding="f16"), Value("0x7e00", "0 11111 1000000000", "nan")),
        (0x3F800000, Port("p", 32, encoding="f32"), Value("0x3f800000", "0 01111111 00000000000000000000000", "1.0")),
        (13, Port("p", 4, signed=True, encoding="no_such_format"), Value("0xd", "1101", "-3")),
    ],
)
def test_number_has_hex_bits_and_value(code: int, port: Port, expected: Value) -> None:
    assert expected == value(code, port)


def test_codes_are_split_by_their_format() -> None:
    found = value(0b0101, Port("p", 4, encoding="e2m1_bias2"))

    assert (found.hex, found.bits) == ("0x5", "0 10 1")
    assert "48" in found.decoded


def test_pairs_are_described() -> None:
    assert "48" in value(0x85, Port("p", 8, encoding="ovp_int4")).decoded


def test_every_code_of_every_format_has_a_description() -> None:
    for name, fmt in formats.constants().items():
        for code in range(1 << min(8, fmt.width)):
            assert value(code, Port("p", fmt.width, encoding=name.lower())).decoded


def test_unknown_bits_are_x() -> None:
    assert Value("0x1x3", "0001 xx00 0011", "unknown") == value(0x103, Port("p", 12), 0x0C0)
