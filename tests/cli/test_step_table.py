"""Tables of events: headers, changes and lanes."""

from dataclasses import dataclass
from typing import Any

from refemu.cli.step_table import lines
from refemu.golden.view.members import flat
from refemu.units.ports import Port, Ports
from refemu.units.value_text import values_of


@dataclass(frozen=True)
class State:
    event: str
    index: int
    op: int
    x: tuple[int, ...]
    y: int
    pairs: tuple[Any, ...]
    adds: int


PORTS = Ports(
    inputs=(Port("op", 1, meaning="0 load, 1 add"), Port("x", 16, 4, encoding="f16")),
    outputs=(Port("y", 8),),
)
X = (0x3C00, 0x4000, 0, 0)
STATES = [
    State("load", 0, 0, X, 7, ((1, 2), (3,)), 0),
    State("add", 1, 1, X, 7, ((1, 9), (3,)), 1),
    State("add", 2, 1, X, 8, (), 2),
]


def test_header_is_printed_once_with_changes_only() -> None:
    assert list(lines(PORTS, STATES, 80)) == [
        "the same after every event",
        "inputs   x  0x3c00=1 0x4000=2 0x0000=0 0x0000=0",
        "",
        "#  event  op      y  pairs  adds",
        "────────────────────────────────",
        "0  load   0=load  7  1 2 3     0",
        "1  add    1=add      1 9 3     1",
        "2  add            8  -         2",
    ]


def test_second_table_omits_events_without_changes() -> None:
    assert list(lines(PORTS, STATES, 23))[3:] == [
        "#  event  op      y",
        "───────────────────",
        "0  load   0=load  7",
        "1  add    1=add",
        "2  add            8",
        "",
        "#  event  pairs  adds",
        "─────────────────────",
        "0  load   1 2 3     0",
        "1  add    1 9 3     1",
        "2  add    -         2",
    ]
    narrow = list(lines(PORTS, STATES, 15))
    assert "0  load   7" in narrow and "2  add    8" in narrow and "1  add" not in narrow


def test_single_event_is_a_list() -> None:
    assert list(lines(PORTS, STATES[:1], 40)) == [
        "0 load",
        "inputs   op     0=load",
        "         x      0x3c00=1 0x4000=2",
        "                0x0000=0 0x0000=0",
        "outputs  y      7",
        "state    pairs  1 2 3",
        "counts   adds 0",
    ]


def test_full_lists_every_lane() -> None:
    wide = Ports(inputs=(), outputs=(Port("op", 1), Port("x", 16, 64)))
    states = [State("go", at, 0, tuple(range(100 + at, 164 + at)), 0, (), 0) for at in range(2)]
    text = list(lines(wide, states, 60, full=True))

    assert "64 lanes" in "\n".join(lines(wide, states, 60))
    assert text[:2] == ["0 go", "outputs  op     0"]
    lanes = " ".join(line.removeprefix("outputs  x") for line in text[text.index("1 go") + 1 :]).split()
    assert lanes == [str(lane) for lane in states[1].x]


def test_inner_registers_are_flattened() -> None:
    assert flat(5) == 5
    assert [*values_of(flat(((1, b"\x02\x03"), (4,))))] == [1, 2, 3, 4]
    assert [*values_of(flat((STATES[0],)))][1:] == [0, 0, *X, 7, 1, 2, 3, 0]


def test_long_names_are_wrapped() -> None:
    ports = Ports(inputs=(), outputs=(Port("y", 8, meaning="0 a, 1 b"),))

    @dataclass(frozen=True)
    class Counted:
        event: str
        index: int
        y: int
        comparisons_live: int

    states = [Counted("go", at, at, at) for at in range(2)]
    assert list(lines(ports, states, 80))[:2] == ["               comparisons_", "#  event  y            live"]
