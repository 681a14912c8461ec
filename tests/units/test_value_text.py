"""Values for people: what a code stands for, runs of lanes, and what is left out."""

import numpy as np
import pytest

from refemu import units
from refemu.units.ports import Port
from refemu.units.value_text import folded, names, number, token, whole

F16, F32 = Port("x", 16, 64, encoding="f16"), Port("x", 32, 64, encoding="f32")
FIRST = {
    name: unit.ports(next(iter(unit.configs.values())))
    for name, unit in ((name, units.find(name)) for name in units.names())
}
WIDE, BITS = Port("x", 8, 64), Port("x", 1, 64)


@pytest.mark.parametrize(
    ("port", "lane", "wanted"),
    [
        (F16, 0x4880, "0x4880=9"),
        (F16, 0xFC00, "0xfc00=-inf"),
        (F16, 0x7E00, "0x7e00=nan"),
        (F32, 0x42642000, "0x42642000=57.03125"),
        (F32, -1 & 0xFFFFFFFF, "0xffffffff=nan"),
        (Port("x", 5, encoding="code"), -1, "0x1f"),
        (Port("x", 8, encoding="ovp_int4"), 0x85, "0x85"),
        (Port("x", 8, signed=True), -3, "-3"),
        (Port("op", 1, meaning="0 allocate, 1 recycle"), 1, "1=recycle"),
        (Port("op", 2, meaning="0 allocate, 1 recycle"), 3, "3"),
        (Port("op", 64, signed=True), "load", "load"),
    ],
)
def test_a_lane(port: Port, lane: object, wanted: str) -> None:
    assert token(port, lane) == wanted


@pytest.mark.parametrize(
    ("meaning", "wanted"),
    [
        ("0 clear, 1 append, 2 split", ("clear", "append", "split")),
        ("0 as the paper; 1 column-major, 2 row-major", ("as the paper", "column-major", "row-major")),
        ("tokens of a prompt; 0 = one token is appended", ()),
        ("1 high, 2 low", ()),
        ("0 or more", ()),
        ("", ()),
    ],
)
def test_names_of_codes(meaning: str, wanted: tuple[str, ...]) -> None:
    assert names(meaning) == wanted


def test_every_op_of_a_unit_has_a_name() -> None:
    ports = [port for name in units.names() for port in FIRST[name].inputs]
    operations = [port for port in ports if port.name == "op"]

    assert len(operations) == 5 and all(names(port.meaning) for port in operations)


def test_every_finite_float16_has_unique_text() -> None:
    finite = [code for code in range(1 << 16) if code & 0x7C00 != 0x7C00]
    values = np.array(finite, np.uint16).view(np.float16)

    assert (np.array([number(F16, code) for code in finite]).astype(float).astype(np.float16) == values).all()


def test_runs_of_lanes_are_counted() -> None:
    assert whole(WIDE, (201, 50, 6, *[0] * 29)) == "201 50 6 29*0"
    assert whole(WIDE, (*[1] * 4, *[2] * 3, *[0] * 25)) == "4*1 2 2 2 25*0"
    assert whole(WIDE, (1, 1, 1)) == "1 1 1"
    assert whole(WIDE, ()) == "-"


def test_one_bit_lanes_are_joined() -> None:
    assert whole(BITS, (0, 1, 1, 0)) == "0110"
    assert whole(BITS, (1, *[0] * 16)) == "1000000000000000 0"
    assert whole(BITS, [0] * 64) == "64*0"
    assert whole(BITS, (1,)) == "1"
    assert folded(BITS, (0, 1) * 32, 40) == "0101010101010101 ... 64 bits"


def test_wide_values_are_folded() -> None:
    """The first lanes; after an event that changed a few, those."""
    value = tuple(range(100, 164))
    other = (*value[:7], 5, *value[8:-1], 6)

    assert folded(WIDE, value, 30) == "100 101 102 103 ... 64 lanes"
    assert folded(WIDE, other, 30, value) == "[7] 5 [63] 6"
    assert folded(WIDE, other, 12, value) == "[7] 5 [63] 6"
    assert folded(WIDE, tuple(reversed(value)), 30, value) == "163 162 161 160 ... 64 lanes"
    assert folded(WIDE, value, 30, ()) == "100 101 102 103 ... 64 lanes"
    assert folded(WIDE, value, 1) == "100 ... 64 lanes"
    assert folded(WIDE, value, 1 << 20) == " ".join(map(str, value))
    assert folded(Port("x", 8), 200, 1) == "200"
