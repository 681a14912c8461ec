"""Stepping classes and the results of a run."""

from dataclasses import FrozenInstanceError, dataclass, replace

import numpy as np
import pytest

from refemu.arith.checks import Refused, RefusedType
from refemu.units import stepping
from refemu.units.ports import Port, Ports
from refemu.units.stepping import Stepped


@dataclass(frozen=True)
class State:
    value: int
    pair: tuple[int, int]


NIBBLE = Port("nibble", 4)


@dataclass(frozen=True, eq=False)
class Result(stepping.Result):
    out: np.ndarray
    count: int


def test_results_equal_only_if_all_bits_equal() -> None:
    same = Result(np.arange(3, dtype=np.uint8), 3)

    assert same.equals(Result(np.arange(3, dtype=np.uint8), 3))
    assert not same.equals(Result(np.arange(3, dtype=np.int8), 3))
    assert not same.equals(Result(np.arange(3, dtype=np.uint8)[None], 3))
    assert not same.equals(Result(np.array([0, 1, 3], np.uint8), 3))
    assert not same.equals(Result(np.arange(3, dtype=np.uint8), 4))
    assert not same.equals(Result(np.arange(3, dtype=np.uint8), np.int64(3)))  # type: ignore[arg-type]
    assert not same.equals(3)


def test_stepped_replaces_its_state_as_a_whole() -> None:
    device = Stepped()
    device.name, device.ports = "thing", Ports((Port("value", 4),), (Port("pair", 4, 2),))
    device.state = State(1, (2, 3))
    kept = device.snapshot()
    device.restore(State(5, (6, 7)))

    assert (device.snapshot(), kept) == (State(5, (6, 7)), State(1, (2, 3)))
    assert device.validate_event(np.uint8(9)) == [9]
    with pytest.raises(Refused, match=r"thing: pair 16 at index \(1,\) is outside"):
        device.restore(State(1, (2, 16)))
    with pytest.raises(RefusedType, match="thing: state must be a State of this unit, got tuple"):
        device.restore((1, 2))


@dataclass(frozen=True)
class Count:
    event: str
    left: int


class Countdown(Stepped[Count]):
    """An operation loads a nibble; every event after it counts one down."""

    name, ports = "countdown", Ports((NIBBLE,), ())

    def __init__(self) -> None:
        self.state = Count("reset", 0)

    @property
    def busy(self) -> bool:
        return self.state.left > 0

    def step(self, nibble: int | None = None) -> Count:
        return self._stepped(nibble=nibble)

    def _open(self, nibble: int) -> Count:
        self.state = Count("load", nibble)
        return self.state

    def _continue(self) -> Count:
        self.state = Count("down", self.state.left - 1)
        return self.state


def test_changed_state_is_what_dataclasses_make_of_it() -> None:
    block: Stepped[State] = Stepped()
    block.name = "block"  # type: ignore[misc]  # of this object alone
    block.state = before = State(1, (2, 3))
    after = block.changed(pair=(4, 5))

    assert block.state is before == State(1, (2, 3))
    assert type(after) is State and after == replace(before, pair=(4, 5)) and hash(after) == hash(State(1, (4, 5)))
    with pytest.raises(FrozenInstanceError):
        after.value = 2  # type: ignore[misc]
    with pytest.raises(TypeError, match=r"^block: no field of State: pairs, values$"):
        block.changed(values=1, pairs=2, value=3)


def test_inputs_begin_operation_and_next_event_takes_none() -> None:
    device = Countdown()

    events = [device.step(2), device.step(), device.step(), device.step(nibble=0)]
    assert events == [Count("load", 2), Count("down", 1), Count("down", 0), Count("load", 0)]
    with pytest.raises(Refused, match=r"^countdown: step needs the inputs of an operation, got none$"):
        device.step()
    with pytest.raises(Refused, match=r"^countdown: nibble 16 is outside \[0, 16\)"):
        device.step(16)
    assert device.state == Count("load", 0)
    device.step(1)
    with pytest.raises(Refused, match=r"^countdown: step takes no inputs after event load$"):
        device.step(0)
    assert device.state == Count("load", 1)
