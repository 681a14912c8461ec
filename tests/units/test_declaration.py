"""A declared unit: what follows from its parameters, ports, counters and events."""

import copy
import dataclasses
import inspect
from typing import Any, Literal

import numpy as np
import pytest

from refemu.arith.checks import Refused, RefusedType, require_int
from refemu.units.declaration import Changes, Combinational, DeclaredState, InPlace, Sequential, constant
from refemu.units.ports import Port, Ports
from refemu.units.unit import AnyUnit, Config, Unit


@dataclasses.dataclass(frozen=True)
class Width:
    """A group of parameters."""

    bits: int = 8  #: width of a word, 2 to 8

    def check(self) -> None:
        """The group's own rule."""
        require_int(self.bits, 2, 8, "width", "bits")


class Adder(Width, Sequential):
    """Adds words; an operation is two events with `twice`."""

    name = "adder"
    events = ("add", "again")
    counters = {"adds": "words added"}
    registers = {"last": "the word that came last"}
    initial = {"total": 1}
    mode: Literal["wrap", "stay"] = "wrap"  #: what a sum does at the end

    def check(self) -> None:
        """No word is that narrow."""
        if self.mode == "stay" and self.bits == 2:
            raise Refused("adder: mode 'stay' needs 3 bits, got 2")

    @constant
    def ports(self) -> Ports:
        return Ports(
            inputs=(Port("x", self.bits, meaning="word"), Port("twice", 1)),
            outputs=(Port("total", self.bits, meaning="sum"),),
            state=(Port("left", 1),),
        )

    @property
    def busy(self) -> bool:
        return bool(self.state.left)

    def add(self, x: int, twice: int) -> Changes:
        """A word is added."""
        return {"total": self.sum(x), "last": x, "left": twice, "adds": 1}

    def again(self) -> Changes:
        """The last word is added again."""
        return {"total": self.sum(self.state.last), "left": 0, "adds": 1}

    def sum(self, x: int) -> int:
        """The total and a word."""
        exact, most = self.state.total + x, (1 << self.bits) - 1
        return exact & most if self.mode == "wrap" else min(exact, most)


UNIT: AnyUnit = Unit(
    unit_class=Adder,
    paper="olive §1",
    meaning="sums of words",
    configs={"wrap": Config(), "stay": Config(bits=4, mode="stay")},
    cases=lambda config, kind, seed: (),
    compiled_run="none",
)


def test_state_documents_ports_registers_and_counters() -> None:
    fields = {field.name: field.metadata["meaning"] for field in dataclasses.fields(Adder.State)}

    assert list(fields) == ["event", "index", "x", "twice", "total", "left", "last", "adds"]
    assert fields["adds"] == "words added" and fields["last"] == "the word that came last"
    assert fields["event"] == ('"reset": no event yet; "add": a word is added; "again": the last word is added again')
    assert Adder().snapshot() == Adder.State("reset", -1, 0, 0, 1, 0, 0, 0)
    assert Adder.State.__module__ == __name__


def test_events_change_what_they_return_and_counters_grow() -> None:
    device = Adder(bits=4)
    states = [device.step(9, 1), device.step(), device.step(x=2, twice=0)]

    assert [(s.event, s.index, s.total, s.adds) for s in states] == [
        ("add", 0, 10, 1),
        ("again", 0, 3, 2),
        ("add", 1, 5, 3),
    ]
    assert hash(states[0]) == hash(dataclasses.replace(states[0])) and states[0].last == 9
    with pytest.raises(Refused, match="step needs the inputs of an operation, got none"):
        device.step()


def test_run_and_result_follow() -> None:
    result = UNIT.run(x=np.array([9, 2]), twice=[1, 0], bits=4)

    assert result.total.tolist() == [3, 5] and result.adds == 3


def test_constructor_and_step_are_described() -> None:
    assert str(inspect.signature(Adder)) == "(bits: int = 8, mode: Literal['wrap', 'stay'] = 'wrap') -> None"
    assert str(inspect.signature(Adder.step)).startswith("(self, x: int = None, twice: int = None)")
    assert "bits : int\n    Width of a word, 2 to 8." in (Adder.__init__.__doc__ or "")
    assert 'mode : {"wrap", "stay"}\n    What a sum does at the end.' in (UNIT.run.__doc__ or "")
    assert repr(Adder(bits=3)) == "Adder(bits=3, mode='wrap')"


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"bits": 9}, Refused, r"width: bits must be in \[2, 8\], got 9"),
        ({"bits": "8"}, RefusedType, "bits must be an int"),
        ({"mode": "stop"}, Refused, "adder: mode must be one of 'wrap', 'stay', got 'stop'"),
        ({"bits": 2, "mode": "stay"}, Refused, "adder: mode 'stay' needs 3 bits, got 2"),
        ({"mode": [["wrap"]]}, RefusedType, "adder: mode must be a number, a word or a tuple"),
    ],
)
def test_wrong_parameters_are_rejected(parameters: Any, error: type[Exception], message: str) -> None:
    for make in (lambda: Adder(**parameters), lambda: UNIT.ports(Config(**parameters))):
        with pytest.raises(error, match=message):
            make()


def test_parameters_become_plain_and_devices_are_apart() -> None:
    narrow, other = Adder(np.int64(4)), Adder(4)  # type: ignore[arg-type]
    narrow.step(1, 0)

    assert type(narrow.bits) is int and narrow.ports is other.ports
    assert other.state.adds == 0 and narrow != other


def test_lists_become_tuples_and_one_is_not_true() -> None:
    class Flagged(Combinational):
        name = "flagged"
        events = ("go",)
        flag: bool = False  #: whether
        sizes: tuple[int, ...] = (1, 2)  #: of what

        @constant
        def ports(self) -> Ports:
            return Ports((Port("x", self.sizes[0]),), (Port("y", 1),))

        def go(self, x: int) -> Changes:
            """Nothing."""
            return {}

    Unit(unit_class=Flagged, paper="olive §1", meaning="m", configs={"all": Config()}, cases=lambda *_: ())
    device = Flagged(True, sizes=[3, 4])  # type: ignore[arg-type]
    assert device.sizes == (3, 4) and device.ports.inputs[0].bits == 3
    with pytest.raises(RefusedType, match="flagged: flag must be a bool, got 1"):
        Flagged(1, sizes=(3, 4))  # type: ignore[arg-type]


def test_a_variant_overrides_what_decides() -> None:
    class Minus(Adder):
        def sum(self, x: int) -> int:
            return (self.state.total - x) & 15

    assert Minus(4).step(2, 0).total == 15 and type(Minus().snapshot()) is Adder.State


def test_parameters_of_a_base_without_events_count() -> None:
    class Base(Combinational):
        bits: int = 3  #: width

    class Through(Base):
        name = "through"
        events = ("go",)

        def go(self) -> Changes:
            """Nothing."""
            return {}

    assert list(inspect.signature(Through).parameters) == ["bits"]


def test_a_port_may_be_the_index() -> None:
    class Numbered(Combinational):
        name, number, events = "numbered", "element", ("go",)

        @constant
        def initial(self) -> Any:
            return {"element": -1, "index": 0}

        @constant
        def ports(self) -> Ports:
            return Ports((Port("x", 8),), (Port("index", 8),))

        def go(self, x: int) -> Changes:
            """A word goes through."""
            return {"index": x}

    Unit(unit_class=Numbered, paper="olive §1", meaning="m", configs={"all": Config()}, cases=lambda *_: ())
    assert Numbered().snapshot() == Numbered.State("reset", -1, 0, 0)
    assert Numbered().step(9) == Numbered.State("go", 0, 9, 9)


def test_register_of_some_configurations_has_own_meaning() -> None:
    class Shown(Combinational):
        name = "shown"
        events = ("go",)
        registers = {"left": "what is left, as a register"}
        shows: bool = True  #: whether there is a port

        @constant
        def ports(self) -> Ports:
            return Ports((Port("x", 1),), (Port("y", 1),), (Port("left", 1, meaning="rest"),) if self.shows else ())

        def go(self, x: int) -> Changes:
            """Nothing."""
            return {"left": x}

    configs = {"shown": Config(shows=True), "hidden": Config(shows=False)}
    Unit(unit_class=Shown, paper="olive §1", meaning="m", configs=configs, cases=lambda *_: ())

    assert Shown.State.__dataclass_fields__["left"].metadata["meaning"] == "what is left, as a register"
    assert [Shown(shows).step(1).left for shows in (True, False)] == [1, 1]


class Stack(InPlace):
    """Words that other units push too."""

    name = "stack"
    does = {"grow": "words are pushed", "shrink": "one word is popped"}
    events = tuple(does)
    counters = {"pushes": "words pushed"}
    room: int = 4  #: words

    @constant
    def ports(self) -> Ports:
        words = Port("words", 8, self.room)
        return Ports((Port("count", 8), words), (Port("popped", 8, self.room, signed=True),), (Port("held", 8),))

    @constant
    def initial(self) -> Any:
        return {"popped": (-1,) * self.room}

    def _reset(self) -> None:
        super()._reset()
        self._memory: list[int] = []
        self.pushes: int = 0

    def push(self, *words: int) -> None:
        """Words, whoever asks."""
        if len(self._memory) + len(words) > self.room:
            raise Refused(f"stack: room for {self.room} words")
        self._memory += words
        self.pushes += len(words)

    def _open(self, *inputs: Any) -> DeclaredState:
        count, words = inputs
        if count:
            self.push(*words[:count])
            self._note("grow", count=count, words=words)
        else:
            self._note("shrink", count=count, words=words, popped=np.array([[self._memory.pop()]]))
        return self.state

    def _registers(self) -> dict[str, Any]:
        return {"held": len(self._memory), "pushes": self.pushes}

    def load(self, state: DeclaredState) -> None:
        self._memory, self.pushes = [0] * state.held, state.pushes


STACK: AnyUnit = Unit(
    unit_class=Stack,
    paper="olive §1",
    meaning="words",
    configs={"four": Config(), "one": Config(room=1)},
    cases=lambda config, kind, seed: (),
    compiled_run="none",
)


def test_memories_are_written_in_place() -> None:
    """A list or an array holds the first lanes of a field; events without methods are described."""
    device = Stack()
    assert device.snapshot() == Stack.State("reset", -1, 0, (0,) * 4, (-1,) * 4, 0, 0)
    before = device.step(2, (7, 8, 0, 0))
    device.push(9)
    state = device.state

    assert (before.event, before.index, before.held, before.pushes, before.popped) == ("grow", 0, 2, 2, (-1,) * 4)
    assert (state.event, state.index, state.held, state.pushes) == ("grow", 0, 3, 3)
    assert device.step(0, (0,) * 4).popped == (9, -1, -1, -1) and device.state.index == 1
    assert 'shrink": one word is popped' in Stack.State.__dataclass_fields__["event"].metadata["meaning"]
    assert Stack(1).step(1, (5,)).popped == (-1,) and Stack(1).state.words == (0,)


def test_memories_are_copied_restored_and_survive_errors() -> None:
    device = Stack()
    device.step(3, (1, 2, 3, 0))
    state, other = device.state, copy.deepcopy(device)
    with pytest.raises(Refused, match="room for 4 words"):
        device.step(2, (1, 2, 0, 0))
    assert device.state == state and device.ports is other.ports

    device.step(0, (0,) * 4)
    assert other.state == state != device.state
    device.restore(state)
    assert device.state == state and hash(state) == hash(device.state) and device.state.held == 3


def test_parameters_may_share_names_with_counters() -> None:
    @dataclasses.dataclass(frozen=True)
    class Sizes:
        counters: int = 2  #: how many
        merge: bool = True  #: whether

    class Merger(Sizes, Sequential):  # type: ignore[misc]
        name = "merger"
        events = ("merge_",)
        counters = {"merges": "words merged"}  # type: ignore[assignment]

        @constant
        def ports(self) -> Ports:
            return Ports((Port("x", 8),), (Port("y", 8),))

        def merge_(self, x: int) -> Changes:
            """A word is merged."""
            return {"event": "merge", "y": x + self.counters, "merges": 1}

    Unit(unit_class=Merger, paper="olive §1", meaning="m", configs={"all": Config()}, cases=lambda *_: ())
    device = Merger(3)

    assert (device.counters, device.merge, Merger().counters) == (3, True, 2)
    assert [device.step(x) for x in (1, 2)][1] == Merger.State("merge", 1, 2, 5, 2)
    assert Merger.State.__dataclass_fields__["event"].metadata["meaning"].endswith('; "merge": a word is merged')


def test_change_of_unknown_name_is_error() -> None:
    class Wrong(Adder):
        def add(self, x: int, twice: int) -> Changes:
            return {"sum": x}

    device = Wrong()
    with pytest.raises(TypeError, match="adder: add changes sum, which is not an output, register or counter"):
        device.step(1, 0)
    assert device.state.event == "reset"


def test_parameter_without_default_must_be_in_every_configuration() -> None:
    class Open(Combinational):
        name = "open"
        events = ("pass_on",)
        bits: int  #: width

        @constant
        def ports(self) -> Ports:
            return Ports((Port("x", self.bits),), (Port("y", self.bits),))

        def pass_on(self, x: int) -> Changes:
            """A word goes through."""
            return {"y": x}

    with pytest.raises(Refused, match="configuration all must state what its ports need, 'bits'"):
        Unit(unit_class=Open, paper="olive §1", meaning="m", configs={"all": Config()}, cases=lambda *_: ())


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"events": ()}, "bad: events must name the methods that are events, got none"),
        ({"events": ("gone",)}, "bad: event 'gone' needs a method of that name"),
        ({"counters": {"left": "words"}}, "bad: ports, registers and counters must have different names, got 'left'"),
    ],
)
def test_class_that_contradicts_itself_is_rejected(attributes: dict[str, Any], message: str) -> None:
    bad: Any = type("Bad", (Combinational,), {"name": "bad", "events": ("add",), "add": Adder.add} | attributes)
    bad.ports = constant(lambda self: UNIT.ports(Config()))
    vars(bad)["ports"].__set_name__(bad, "ports")

    with pytest.raises(RefusedType, match=r"bad: Unit\(unit_class=Bad, \.\.\.\) must describe the class first"):
        bad()
    with pytest.raises(Refused, match=message):
        Unit(unit_class=bad, paper="olive §1", meaning="m", configs={"all": Config()}, cases=lambda *_: ())
