"""The cycle-accurate form of a unit with several events an operation: a row is a clock edge, with at most one event.

The cycle-accurate unit has the unit itself, the inner one, and steps it; nothing is computed here.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np

from refemu.units.config import Config
from refemu.units.declaration import Changes, Declared, DeclaredState, Sequential, constant, decides
from refemu.units.ports import Port, Ports
from refemu.units.stepping import Stepped
from refemu.units.unit import AnyUnit
from refemu.units.variant import Variant, of_part, overriding

IDLE = "idle"  #: event of an idle row
HELD = "_held"  #: suffix of a register that holds an operand of the operation


class CycleAccurate(Sequential):
    """Base of cycle-accurate forms: `class ClockedX(CycleAccurate, X)`, with a name, `held` and `edges`.

    Parameters, counters and registers are those of X. A State has the fields of X's, and `start`, `phase`, `busy` and
    `valid`. `held` names the operands that later events of X read; the State has them as `<name>_held`.
    """

    held: ClassVar[Sequence[str]] = ()
    edges: ClassVar[int]  #: events of an operation
    busy, steps, restore = Stepped.busy, Sequential.steps, Stepped.restore  # a row is one event
    _whole: ClassVar[type[Declared]]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if CycleAccurate in cls.__bases__[:-1]:
            cls._whole = cls.__bases__[1]
            cls.events = (*cls._whole.events, IDLE)
            cls.registers = {name: meaning for name, meaning in cls._whole.registers.items() if name != "phase"}

    @constant
    def inner(self) -> Any:
        """Unit that runs the whole operation, event by event."""
        return self._whole(**{name: getattr(self, name) for name in self._names})

    @constant
    def ports(self) -> Ports:
        return ports(self.inner.ports, self.edges, self.held)

    def _reset(self) -> None:
        super()._reset()
        self._in_step: Any = None  # the State whose registers the inner unit has

    def _open(self, *inputs: Any) -> DeclaredState:
        """Advance one clock edge."""
        before: Any = self.state
        row = dict(zip(self._inputs, inputs, strict=True)) | {"index": before.index + 1}
        start, *operands = inputs
        opens = self.begins(start)
        if not opens and not before.busy:
            self.state = self.changed(**row, event=IDLE, **self.idle())
            return self.state
        if before is not self._in_step:
            self.inner.restore(self.whole(before))
        inner = self.inner._open(*operands) if opens else self.inner._continue()
        busy = int(self.inner.busy)
        handshake = {"phase": 0 if opens else before.phase + 1, "busy": busy, "valid": 1 - busy}
        self.state = self._in_step = self.changed(**row, **self._shown(inner), event=inner.event, **handshake)
        return self.state

    @decides("D-arith-19")
    def begins(self, start: int) -> bool:
        """Whether this row, with a value of port `start`, opens an operation: not while one is under way."""
        return bool(start) and not self.state.busy

    @decides("D-arith-21")
    def idle(self) -> Changes:
        """Changes of an edge without an operation: `valid` is 1 only in the row that closes one."""
        return {"valid": 0}

    @cached_property
    def _inputs(self) -> tuple[str, ...]:
        """Names of the input ports."""
        return tuple(port.name for port in self.ports.inputs)

    @decides("D-arith-20")
    def _shown(self, inner: Any) -> dict[str, Any]:
        """Fields of a State from the inner unit: present outputs and registers, counters."""
        hidden = {"event", "index", "phase", *self._inputs}
        values: dict[str, Any] = vars(inner)
        held = {f"{name}{HELD}": values[name] for name in self.held}
        return {name: value for name, value in values.items() if name not in hidden} | held

    def whole(self, state: DeclaredState) -> Any:
        """State of the inner unit within a State of this one; operands no longer needed are those of the last row."""
        kind = type(self.inner.state)
        values = {field.name: getattr(state, field.name) for field in dataclasses.fields(kind)}
        held = {name: getattr(state, f"{name}{HELD}") for name in self.held}
        return kind(**{**values, **held, "index": state.phase})


def ports(inner: Ports, events: int, held: Sequence[str]) -> Ports:
    """Ports of a cycle-accurate form. inner: ports of the whole operation. events: number. held: names of operands."""
    operands = {port.name: port for port in inner.inputs}
    registers = [
        dataclasses.replace(operands[name], name=f"{name}{HELD}", meaning=f"{name} of the operation") for name in held
    ]
    return Ports(
        inputs=(Port("start", 1, meaning="begin an operation, unless one is under way"), *inner.inputs),
        outputs=(
            *inner.outputs,
            Port("busy", 1, meaning="an operation is under way"),
            Port("valid", 1, meaning="this row closes an operation"),
        ),
        state=(
            Port("phase", max(1, (events - 1).bit_length()), meaning="number of the last event in its operation"),
            *registers,
            *inner.state,
        ),
    )


def marks(whole: Any, config: Config, inputs: Mapping[str, np.ndarray], result: Any) -> dict[str, np.ndarray]:
    """Rows of each flag: those that close an operation with this flag.

    whole: Unit of the operation. config, inputs, result: as for `mark`; registers replace the inputs of held operands.
    """
    operands = {name: getattr(result, f"{name}{HELD}", array) for name, array in inputs.items()}
    return {flag: rows & result.valid for flag, rows in whole.mark(config, operands, result).items()}


def latched(values: np.ndarray, valid: np.ndarray, gated: bool, reset: Any = 0) -> np.ndarray:
    """The values of a device whose outputs change only in valid rows, from those of every row.

    values: (..., rows), then lanes. valid: bool (..., rows). gated: 0 in other rows, else those of the last valid one.
    """
    last = np.where(valid, np.arange(valid.shape[-1]), -1)
    if not gated:
        last = np.maximum.accumulate(last, axis=-1)
    index = last.reshape(*last.shape, *[1] * (values.ndim - valid.ndim))
    kept = np.take_along_axis(values, np.maximum(index, 0), axis=valid.ndim - 1)
    return np.where(index >= 0, kept, np.asarray(0 if gated else reset, values.dtype)).astype(values.dtype)


def _closed(
    unit_class: type[CycleAccurate], gated: bool, config: Config, inputs: Mapping[str, np.ndarray], result: Any
) -> dict[str, np.ndarray]:
    """Outputs of a device that shows results of closed operations only."""
    device = unit_class(**config)
    names = [port.name for port in device.inner.ports.outputs]
    return {name: latched(getattr(result, name), result.valid, gated, getattr(device.state, name)) for name in names}


def variants(unit: AnyUnit, known: Sequence[Variant]) -> tuple[Variant, ...]:
    """Variants of a cycle-accurate form, then those of the whole operation that the inner unit can have.

    unit: the form, with the parameters of the inner unit. known: variants of the inner unit; those that change neither
    its class nor, in a ready configuration, a parameter, are left out.
    """
    unit_class: type[Any] = unit.unit_class
    configs, device, closed = unit.configs.values(), partial(overriding, unit_class), partial(_closed, unit_class)
    return (
        device("D-arith-19", "a start while busy begins another operation", begins=lambda self, start: bool(start)),
        Variant("D-arith-20", "outputs stay those of the last closed operation", answer=partial(closed, False)),
        Variant("D-arith-20", "outputs are 0 unless an operation closes", answer=partial(closed, True)),
        device(
            "D-arith-21", "valid stays 1 until the next operation begins", idle=lambda self: {"valid": self.state.valid}
        ),
        *(each for each in known if any(each.apply(config) != config for config in configs)),
        *of_part(unit_class, "inner", known),
    )
