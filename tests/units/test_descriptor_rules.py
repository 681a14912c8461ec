"""An inconsistent descriptor is rejected with the rule, before it is registered."""

import re
from typing import Any, ClassVar

import pytest

from refemu import units
from refemu.arith.checks import Refused, RefusedType
from refemu.units import AnyUnit, Changes, Combinational, Config, Port, Ports, Unit, constant, descriptor_rules
from tests.plugin_distribution import CLIPPER


def made(**changes: str) -> Any:
    """The unit of CLIPPER with pieces of its source replaced: `name_of_piece="new text"` with names from PIECES."""
    source = CLIPPER
    for piece, text in changes.items():
        assert PIECES[piece] in source
        source = source.replace(PIECES[piece], text)
    space: dict[str, Any] = {"__name__": __name__}
    exec(source, space)
    return space["UNIT"]


PIECES = {
    "over": 'Port("over", 1)',
    "value": '(Port("value", 8, signed=True),)',
    "first": '"b4": Config(bits=4)',
    "name": '    name="clipper"',
    "class_name": '    name = "clipper"',
    "configs": 'configs={"b4": Config(bits=4), "b6": Config(bits=6)}',
    "meaning": 'meaning="clips a signed value"',
    "counters": 'counters=("operations",)',
    "device": "unit_class=Clipper",
    "ports": "    ports=ports,",
    "cases": "    cases=cases,",
    "own_ports": "self.ports = ports(Config(bits=bits))",
    "end": 'compiled_run="none",',
}


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"over": 'Port("value", 1)'}, "clipper: configuration b4: port names must be unique, got 'value' 2 times"),
        ({"value": '(Port("bits", 8),)'}, "parameters and input ports must have different names, got 'bits' for both"),
        ({"over": 'Port("Over", 1)'}, "a port name must be a lower case word, got 'Over'"),
        ({"value": "()"}, "ports must have at least one input and one output, got none"),
        ({"first": '"b4": Config(bits=4, lanes=2)'}, "the parameters must be those of Clipper, got lanes"),
        ({"first": '"b4": Config(bits=70)'}, "bits must be in"),
        ({"first": '"B-4": Config(bits=4)'}, "configuration B-4: its name must be a lower case word"),
        ({"name": '    name="Clipper"'}, "the name must be a lower case word, got 'Clipper'"),
        ({"class_name": '    name = "other"'}, "unit_class.name must be 'clipper', got 'other'"),
        ({"meaning": 'meaning=""'}, "meaning and paper must not be empty"),
        ({"counters": 'counters=("clips",)'}, "the State must have a field for each port, got none for clips"),
        ({"device": "unit_class=int, run=print, result=int, timing='event'"}, "unit_class must derive from Stepped"),
        ({"own_ports": "self.ports = ports(Config(bits=5))"}, "the device's ports must be those of the descriptor"),
        ({"configs": "configs={}"}, "clipper: configs must have at least one configuration, got none"),
        ({"first": '"b4": Config()'}, "clipper: configuration b4 must state what its ports need, 'bits', got nothing"),
        ({"ports": "    ports=None,"}, "clipper: ports must be callable, got None"),
        ({"cases": "    cases=3,"}, "clipper: cases must be callable, got 3"),
        (
            {"end": 'compiled_run="none", flags={"A": Flag(0, "a"), "B": Flag(0, "b")},'},
            "flags must have different bits below 8",
        ),
    ],
)
def test_contradiction_is_rejected(changes: dict[str, str], rule: str) -> None:
    with pytest.raises((Refused, RefusedType), match=rule):
        units.register(made(**changes))
    assert "clipper" not in units.plugged()


def test_constructor_rejecting_ready_configuration_is_reported() -> None:
    source = CLIPPER.replace(
        "        self.bits = bits\n",
        "        self.bits = bits\n        if bits == 6:\n            raise ValueError('six')\n".replace(
            "ValueError", "TypeError"
        ),
    )
    space: dict[str, Any] = {"__name__": __name__}
    exec(source, space)
    with pytest.raises(Refused, match="clipper: configuration b6: the constructor rejects it: six"):
        descriptor_rules.require(space["UNIT"])


class Serial(Combinational):
    """Adds the bits of a word, one a cycle."""

    name = "serial"
    events = ("load", "cycle")
    counters: ClassVar[dict[str, str]] = {"cycles": "bits added"}

    @constant
    def ports(self) -> Ports:
        left = Port("left", 4, meaning="bits left")
        return Ports((Port("word", 8), Port("base", 4)), (Port("ones", 4),), (left,))

    @property
    def busy(self) -> bool:
        return self.state.left > 0

    def load(self, word: int, base: int) -> Changes:
        return {"ones": base, "left": 8}

    def cycle(self) -> Changes:
        left = self.state.left - 1
        return {"left": left, "ones": self.state.ones + (self.state.word >> left & 1) & 15, "cycles": 1}


def described(**members: Any) -> AnyUnit:
    """The unit of `Serial` with other members."""
    changed = type("Changed", (Serial,), members)
    return Unit(unit_class=changed, paper="x", meaning="x", configs={"one": Config()}, cases=lambda *_: ())


def test_an_operation_of_several_events_is_taken() -> None:
    assert descriptor_rules.require(described()).run([7], [1]).ones.tolist() == [4]


@pytest.mark.parametrize(
    ("members", "rule"),
    [
        (
            {"load": lambda self, word: {}},
            "opens an operation must take all inputs by position, word, base, got load(word)",
        ),
        (
            {"cycle": lambda self, word: {}},
            "continues an operation must take no arguments; it reads self.state, got cycle(word)",
        ),
        ({"busy": lambda self: True}, "`busy` must be a property, got a method; write @property above it"),
    ],
)
def test_events_that_frame_cannot_call_are_rejected(members: dict[str, Any], rule: str) -> None:
    with pytest.raises(Refused, match=re.escape(rule)):
        descriptor_rules.require(described(**members))


def test_register_rejects_non_units_and_refemus_names() -> None:
    with pytest.raises(RefusedType, match="unit: must be a Unit, got str"):
        units.register("clipper")  # type: ignore[arg-type]
    with pytest.raises(Refused, match="unit concat: refemu has a unit of this name"):
        units.register(made(name='    name="concat"', class_name='    name = "concat"'))


def test_every_unit_of_refemu_is_consistent() -> None:
    assert all(descriptor_rules.require(units.find(name)) is units.find(name) for name in units.names())


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        ("return None", "cases must be an iterable of Cases, got None"),
        ("return [3]", "must be Cases, got int in block 0"),
    ],
)
def test_cases_of_other_type_are_rejected(body: str, rule: str) -> None:
    unit = made(cases=f"    cases=lambda config, kind, seed: {body.removeprefix('return ')},")

    with pytest.raises(RefusedType, match=rule):
        list(unit.stimuli(unit.config("b4"), "edge"))
