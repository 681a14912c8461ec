"""The clocked form of a unit whose operation is several events: every row is a clock edge, with one event or none.

The clocked unit holds the unit itself, the inner one, and steps it; nothing is computed here. Decisions: D-arith-19 (a
start while an operation is under way), D-arith-20 (outputs show what the registers hold), D-arith-21 (`valid` lasts one
row).
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np

from refemu.units.config import Config
from refemu.units.ports import Lanes, Port, Ports
from refemu.units.stepped import Clocked, Stepped

IDLE = "idle"  #: event of a row in which nothing is done
HELD = "_held"  #: end of the name of a register that holds an operand of the operation


class Edge(Protocol):
    """What every State of a clocked form has beside the fields of the inner unit's State."""

    @property
    def event(self) -> str:
        """The inner unit's event in this row, or IDLE."""

    @property
    def phase(self) -> int:
        """Number of the event in its operation, of the last one where the unit is idle."""

    @property
    def busy(self) -> int:
        """1 while events of the operation are left."""


S = TypeVar("S", bound=Edge)


class EventPerEdge(Clocked[S]):
    """Base of the clocked forms. A State has the fields of the inner unit's, `start`, `phase`, `busy` and `valid`.

    Of an operand that later events of the inner unit read, `held` has the name, and the State `<name>_held`.
    """

    inner: Stepped[Any]  #: the whole operation, event by event
    held: ClassVar[Sequence[str]] = ()
    events: ClassVar[Sequence[str]] = ()  #: of an operation, by phase, where the inner unit goes by their names

    def _contain(self, inner: Stepped[Any], ports: Ports, state: type[S]) -> None:
        """Take the inner unit at reset. ports: of this unit. state: class of its State."""
        self.inner = inner
        self.ports: Ports = ports
        self.state: S = self.reset(state, **self._shown(inner.state))
        self._in_step = self.state  # the State that the inner unit's belongs to

    def _open(self, start: int, *operands: Lanes) -> S:
        """One clock edge."""
        before = self.state
        opens = self.begins(start)
        if not opens and not before.busy:
            self.state = self.latched(start, *operands, event=IDLE, valid=self.stays_valid())
            return self.state
        if before is not self._in_step:
            self.inner.restore(self.whole(before))
        inner = self.inner._open(*operands) if opens else self.inner._continue()
        changed = self._shown(inner) | {
            "event": inner.event,
            "phase": 0 if opens else before.phase + 1,
            "busy": int(self.inner.busy),
            "valid": int(not self.inner.busy),
        }
        self.state = self._in_step = self.latched(start, *operands, **changed)
        return self.state

    def begins(self, start: int) -> bool:
        """Whether this row opens an operation.

        Parameters
        ----------
        start : int
            The port.

        Returns
        -------
        bool
            Never while an operation is under way (D-arith-19).
        """
        return bool(start) and not self.state.busy

    def stays_valid(self) -> int:
        """Value of `valid` in an idle row.

        Returns
        -------
        int
            0: it is 1 only in the row that closes an operation (D-arith-21).
        """
        return 0

    def _shown(self, inner: Any) -> dict[str, Any]:
        """Fields of a State that are the inner unit's: outputs and registers as they stand (D-arith-20), counters."""
        operands = {port.name for port in self.inner.ports.inputs}
        names = [field.name for field in dataclasses.fields(inner) if field.name not in {"event", "index", *operands}]
        held = {f"{name}{HELD}": getattr(inner, name) for name in self.held}
        return {name: getattr(inner, name) for name in names} | held

    def whole(self, state: S) -> Any:
        """State of the inner unit that a State of this one holds.

        Parameters
        ----------
        state : State
            A State of this unit.

        Returns
        -------
        State
            The inner unit's; operands that it has done with are those of the last row.
        """
        kind = type(self.inner.state)
        values = {field.name: getattr(state, field.name) for field in dataclasses.fields(kind)}
        held = {name: getattr(state, f"{name}{HELD}") for name in self.held}
        event = self.events[state.phase] if self.events else state.event
        return kind(**{**values, **held, "index": state.phase, "event": event})


def ports(inner: Ports, events: int, held: Sequence[str]) -> Ports:
    """Ports of the clocked form. inner: of the whole operation. events: of an operation. held: names of operands."""
    operands = {port.name: port for port in inner.inputs}
    registers = [
        dataclasses.replace(operands[name], name=f"{name}{HELD}", meaning=f"{name} of the operation") for name in held
    ]
    return Ports(
        inputs=(Port("start", 1, meaning="begin an operation, unless one is under way"), *inner.inputs),
        outputs=(
            *inner.outputs,
            Port("busy", 1, meaning="events of the operation are left"),
            Port("valid", 1, meaning="this row closes an operation"),
        ),
        state=(
            Port("phase", max(1, (events - 1).bit_length()), meaning="number of the last event in its operation"),
            *registers,
            *inner.state,
        ),
    )


Mark = Callable[[Config, Mapping[str, np.ndarray], Any], Mapping[str, np.ndarray]]


def marks(mark: Mark, config: Config, inputs: Mapping[str, np.ndarray], result: Any) -> dict[str, np.ndarray]:
    """Rows of each flag: those that close an operation that `mark` of the whole operation flags.

    config, inputs, result: as for `mark`; of operands that are held, the registers stand for the inputs.
    """
    operands = {name: getattr(result, f"{name}{HELD}", array) for name, array in inputs.items()}
    return {flag: rows & result.valid for flag, rows in mark(config, operands, result).items()}
