"""Words for `$readmemh`, compared with one Python integer per row."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as drawn_arrays

from refemu.arith.checks import Refused
from refemu.golden.files import fields, hexfile

OVP = [
    {"name": "out.exponent", "lanes": 2, "bits": 4, "signed": False},
    {"name": "out.base_int", "lanes": 2, "bits": 4, "signed": True},
    {"name": "out.illegal", "lanes": 1, "bits": 1, "signed": False},
]
LAYOUT = hexfile.layout(OVP)
ARRAYS = {
    "out.exponent": np.array([[4, 0], [1, 2]], np.uint8),
    "out.base_int": np.array([[3, 0], [15, 9]], np.uint8),
    "out.illegal": np.array([0, 1], np.uint8),
}
TEXT = b"// 2 words of 17 bits and one sentinel\n00304\n19f21\n1ffff\n"


def as_integers(layout: list[dict[str, Any]], arrays: dict[str, np.ndarray]) -> list[int]:
    """Every row as one Python integer."""
    lanes = {name: array.reshape(len(array), -1).tolist() for name, array in arrays.items()}
    rows = len(next(iter(lanes.values())))
    return [sum(lanes[field["name"]][row][field["lane"]] << field["lsb"] for field in layout) for row in range(rows)]


def test_layout_has_the_first_port_and_lane_lowest() -> None:
    assert [(one["name"], one["lane"], one["lsb"], one["bits"]) for one in LAYOUT] == [
        ("out.exponent", 0, 0, 4),
        ("out.exponent", 1, 4, 4),
        ("out.base_int", 0, 8, 4),
        ("out.base_int", 1, 12, 4),
        ("out.illegal", 0, 16, 1),
    ]
    assert tuple(hexfile.layout(OVP, first=True)[-1][key] for key in ("name", "lsb", "bits")) == ("first", 17, 1)
    assert (hexfile.width(LAYOUT), hexfile.width(hexfile.layout(OVP, first=True))) == (17, 18)


def test_file_has_its_fixed_text() -> None:
    assert hexfile.words(LAYOUT, ARRAYS) == TEXT


ports = st.lists(st.tuples(st.integers(1, 64), st.integers(1, 5)), min_size=1, max_size=4)


def values_of(bits: int, lanes: int, rows: int) -> st.SearchStrategy[np.ndarray]:
    """Values of a port: (rows,), or (rows, lanes) if it has several lanes."""
    shape = (rows, lanes) if lanes > 1 else rows
    return drawn_arrays.arrays(
        fields.dtype_of(bits), shape, elements=st.integers(0, (1 << bits) - 1), fill=st.nothing()
    )


@given(ports=ports, rows=st.integers(1, 5), data=st.data())
def test_words_are_the_ports_as_one_integer(ports: list[tuple[int, int]], rows: int, data: st.DataObject) -> None:
    entries = [
        {"name": f"p{at}", "lanes": lanes, "bits": bits, "signed": False} for at, (bits, lanes) in enumerate(ports)
    ]
    arrays = {f"p{at}": data.draw(values_of(bits, lanes, rows)) for at, (bits, lanes) in enumerate(ports)}
    layout = hexfile.layout(entries)
    width = hexfile.width(layout)
    digits = -(-width // 4)
    expected = [f"{word:0{digits}x}" for word in as_integers(layout, arrays)]
    text = hexfile.words(layout, arrays)

    assert [
        f"// {rows} words of {width} bits and one sentinel",
        *expected,
        f"{(1 << width) - 1:x}",
    ] == text.decode().splitlines()
    found, unknown = hexfile.read(text, layout, rows, "t")
    assert unknown == {}
    for name, array in arrays.items():
        assert (array.dtype, array.tolist()) == (found[name].dtype, found[name].tolist())


def test_many_rows_are_written_in_chunks() -> None:
    layout = hexfile.layout([{"name": "x", "lanes": 1, "bits": 20, "signed": False}])
    array = np.arange(300_000, dtype=np.uint32)

    assert [f"{value:05x}" for value in range(300_000)] == b"".join(
        hexfile.lines(layout, {"x": array})
    ).decode().split()


def test_cases_of_stepping_units_begin_with_first() -> None:
    cases = [{"first": 0, "cases": 2, "rows": 3}, {"first": 6, "cases": 1, "rows": 2}]

    assert hexfile.case_starts({"rows": 8, "cases": cases}).tolist() == [1, 0, 0, 1, 0, 0, 1, 0]


def test_port_without_mask_has_all_ones() -> None:
    masks = hexfile.care(OVP, {**ARRAYS, "out.illegal.care": np.array([0, 1], np.uint8)})

    assert {name: mask.tolist() for name, mask in masks.items()} == {
        "out.exponent": [[15, 15]] * 2,
        "out.base_int": [[15, 15]] * 2,
        "out.illegal": [0, 1],
    }
    assert hexfile.care(OVP, ARRAYS) == {}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(TEXT, id="as written"),
        pytest.param(b"00304\n19f21\n", id="bare"),
        pytest.param(b"// a simulator wrote this\n00304 // row 0\n\n1_9F_21\r\n1ffff", id="loose"),
    ],
)
def test_text_of_simulators_is_read(text: bytes) -> None:
    found, unknown = hexfile.read(text, LAYOUT, 2, "dut")

    assert {name: array.tolist() for name, array in ARRAYS.items()} == {
        name: array.tolist() for name, array in found.items()
    }
    assert unknown == {}


def test_x_and_z_are_unknown_bits() -> None:
    found, unknown = hexfile.read(b"0x304\n19fz1\n", LAYOUT, 2, "dut")

    assert unknown["out.base_int"].tolist() == [[0, 15], [0, 0]]
    assert unknown["out.exponent"].tolist() == [[0, 0], [0, 15]]
    assert found["out.illegal"].tolist() == [0, 1]


def test_x_above_the_word_is_harmless() -> None:
    """A 17-bit word prints its top bit as one digit, x when it is unknown."""
    _, unknown = hexfile.read(b"x0304\n19f21\n", LAYOUT, 2, "dut")

    assert unknown["out.illegal"].tolist() == [1, 0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(b"", "dut: 2 words and an end word of ones are needed, got 0", id="empty"),
        pytest.param(b"00304\n", "end word of ones are needed, got 1; is the file complete", id="short"),
        pytest.param(b"00304\n19f21\n1ffff\n00000\n", "got 4; is", id="long"),
        pytest.param(b"00304\n19f21\n1ff\xff\xfe\n", r"sentinel of 17 ones, got 1ff\\xff\\xfe", id="sentinel, no text"),
        pytest.param(b"00304\n19f21\n1fffe\n", "word 2 must be the sentinel of 17 ones, got 1fffe", id="sentinel"),
        pytest.param(b"00304\n9f21\n", "line 2 must have 5 digits, got 4: 9f21", id="digits"),
        pytest.param(b"// a comment\n00304\n9f21\n", "line 3 must have 5 digits, got 4", id="digits after a comment"),
        pytest.param(b"00304\n19g21\n", "word 1 has 'g', which is not a hex digit", id="letter"),
        pytest.param(b"00304\n29f21\n", "word 1 has more than 17 bits", id="bits"),
        pytest.param(b"\xff\xfe0\x000\x003\x00", "dut: line", id="utf-16"),
    ],
)
def test_invalid_text_is_rejected(text: bytes, message: str) -> None:
    with pytest.raises(Refused, match=message):
        hexfile.read(text, LAYOUT, 2, "dut")
