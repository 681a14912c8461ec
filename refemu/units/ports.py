"""Ports and registers of a unit: widths, admitted values, and arrays of the values they carried."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith.checks import Refused, RefusedType, require_integers, require_range
from refemu.arith.integers import limits
from refemu.arith.records import parameters, plain_fields
from refemu.units import events

Lanes: TypeAlias = tuple[int, ...]  #: value of a vector in one event, lane 0 first; a scalar is an int

FEW = 256  #: most lanes that are faster one by one than as an array


@parameters
class Port:
    """Port or register: a scalar, or a vector of `lanes` fields, lane 0 in the least significant bits of a word.

    In an event a scalar is an int and a vector a tuple; in arrays a vector has a last axis of lanes. One lane is also a
    vector.
    """

    name: str  #: lower case; not a keyword of Verilog, SystemVerilog or C
    bits: int  #: width of one lane, 1 to 64
    lanes: int | None = None  #: lanes of a vector, at least 1; None for a scalar
    signed: bool = False  #: two's complement in `bits` bits
    encoding: str = ""  #: encoding of a field: "uint", "int", "f16", "f32" or the name of a format; "" = by `signed`
    meaning: str = ""  #: one-line description
    least: int | None = None  #: smallest admitted value of a lane, by default from the bits
    most: int | None = None  #: largest admitted value of a lane
    payload: bool = False  #: whether NaN payloads are preserved in stimuli (for signalling NaN); else one NaN

    def __post_init__(self) -> None:
        plain_fields(self)
        if not 1 <= self.bits <= 64 or self.count < 1:
            raise Refused(
                f"Port {self.name}: bits must be in [1, 64] and lanes at least 1, got {self.bits}, {self.count}"
            )

    @property
    def count(self) -> int:
        """Number of fields."""
        return 1 if self.lanes is None else self.lanes

    @property
    def shape(self) -> tuple[int, ...]:
        """Axes that the port adds to an array: (lanes,) for a vector, () for a scalar."""
        return () if self.lanes is None else (self.lanes,)

    @property
    def kind(self) -> str:
        """The encoding, explicit."""
        return self.encoding or ("int" if self.signed else "uint")

    @cached_property
    def limits(self) -> tuple[int, int]:
        """Smallest and largest value of one lane."""
        low, high = limits(self.bits, self.signed)
        return low if self.least is None else self.least, high if self.most is None else self.most

    @property
    def dtype(self) -> np.dtype:
        """Narrowest integer dtype of the port's signedness that holds one lane."""
        return np.dtype(f"{'i' if self.signed else 'u'}{next(size for size in (1, 2, 4, 8) if self.bits <= 8 * size)}")

    @property
    def result_dtype(self) -> np.dtype:
        """Dtype of the port in a Result: bool for a flag of one bit, else `dtype`."""
        return np.dtype(np.bool_) if self.bits == 1 else self.dtype

    def filled(self, value: int) -> int | Lanes:
        """Value of the port in one event with the same number in every field: a tuple for a vector."""
        return value if self.lanes is None else (value,) * self.lanes

    def validate(self, values: ArrayLike, unit: str) -> np.ndarray:
        """Check `values`, with lanes last for a vector, and convert them to the port's dtype; unit: for messages.

        Raises Refused with the first bad index for a value outside the port's bits or limits, RefusedType for a dtype
        that is not an integer or a wrong number of lanes.
        """
        array = require_integers(values, f"{unit}.{self.name}")
        if self.shape and array.shape[-1:] != self.shape:
            what = f"{self.lanes} lane{'s' * (self.count > 1)}"
            raise RefusedType(f"{unit}.{self.name}: the last axis must hold {what}, got shape {array.shape}")
        low, high = self.limits
        try:
            require_range(array, low, high + 1, unit, self.name)
        except Refused as error:
            raise Refused(f"{error}{events.as_float(self, array)}") from None
        return array.astype(self.dtype, copy=False)

    def _is_plain(self, lanes: tuple[Any, ...]) -> bool:
        """Whether these are a few ints within the limits; else the checks for arrays apply."""
        low, high = self.limits
        few = len(lanes) == self.count <= FEW
        return few and {*map(type, lanes)} == {int} and low <= min(lanes) and max(lanes) <= high

    def validate_one(self, value: ArrayLike | int, unit: str) -> int | Lanes:
        """Check the `value` of one event, one int per lane of a vector; errors are those of `validate`."""
        low, high = self.limits
        if self.lanes is None and type(value) is int and low <= value <= high:
            return value  # the case of a loop of steps: without an array
        if self.shape and isinstance(value, tuple) and self._is_plain(value):
            return tuple(value)
        array = self.validate(value, unit)
        if array.ndim != len(self.shape):
            raise RefusedType(f"{unit}.{self.name}: must be one event, got shape {array.shape}")
        return tuple(array.tolist()) if self.shape else int(array)


@dataclass(frozen=True)
class Ports:
    """Ports of a unit in one configuration, in the order of the packed words (first port lowest)."""

    inputs: tuple[Port, ...]  #: input ports
    outputs: tuple[Port, ...]  #: output ports
    state: tuple[Port, ...] = ()  #: registers after the event that are exported as `st.<name>`

    @property
    def all(self) -> tuple[Port, ...]:
        """Inputs, outputs and registers."""
        return self.inputs + self.outputs + self.state

    def __deepcopy__(self, memo: object) -> "Ports":  # immutable: copies of a device share it
        return self


def validate(unit: str, ports: Sequence[Port], values: Sequence[Any]) -> list[np.ndarray]:
    """One array per port, each of the port's dtype, all of one shape (and the axis of lanes of a vector).

    values: integers or integer arrays, one per port, broadcast against each other without their lanes. The results may
    be read-only views, or the values themselves. Raises like `Port.validate`, and for shapes that do not broadcast.
    """
    arrays = [port.validate(value, unit) for port, value in zip(ports, values, strict=True)]
    shapes = [array.shape[: array.ndim - len(port.shape)] for port, array in zip(ports, arrays, strict=True)]
    try:
        shape = np.broadcast_shapes(*shapes)
    except ValueError:
        listed = ", ".join(f"{port.name} {shape}" for port, shape in zip(ports, shapes, strict=True))
        raise Refused(f"{unit}: shapes of the ports must broadcast, got {listed}") from None
    whole = [shape + port.shape for port in ports]
    return [
        array if array.shape == each else np.broadcast_to(array, each)
        for array, each in zip(arrays, whole, strict=True)
    ]


def validate_events(unit: str, ports: Sequence[Port], values: Sequence[Any]) -> list[np.ndarray]:
    """As `validate`, for units with registers: at least one port must have an axis, the sequence of events."""
    arrays = validate(unit, ports, values)
    if arrays[0].ndim == len(ports[0].shape):
        raise RefusedType(f"{unit}: at least one port must have an axis, the sequence of events, got scalars")
    return arrays


def in_order(unit: str, ports: Sequence[Port], values: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
    """Inputs of a call in the order of the ports; rejects one that is missing, unknown or given twice."""
    names = [port.name for port in ports]
    rest = names[len(values) :]
    if len(values) > len(names) or set(named) != set(rest):
        got = [f"{len(values)} by position"] * bool(values or not named) + [", ".join(named)] * bool(named)
        missing = ", ".join(name for name in rest if name not in named)
        advice = f"; add {missing}" * bool(missing)
        raise RefusedType(f"{unit}: inputs must be {', '.join(names)}, got {' and '.join(got)}{advice}")
    return [*values, *(named[name] for name in rest)]


class OutsidePort(Refused):
    """A State has a value that a port cannot hold.

    arrays: what `collect` would return, with 0 for such values. outside: by port, bool (states,).
    """

    arrays: Mapping[str, np.ndarray]
    outside: Mapping[str, np.ndarray]

    def __init__(self, message: str, arrays: Mapping[str, np.ndarray], outside: Mapping[str, np.ndarray]) -> None:
        super().__init__(message)
        self.arrays, self.outside = arrays, outside


def collect(states: Sequence[Any], ports: Sequence[Port], shape: tuple[int, ...]) -> dict[str, Any]:
    """Collect the values of `ports` in `states`, by name: arrays of `shape` (and lanes) in the ports' result dtypes.

    OutsidePort: a value is not an integer of its port's bits.
    """
    arrays, outside, message = {}, {}, ""
    for port in ports:
        values = [getattr(state, port.name) for state in states]
        bad = _outside(values, port)
        if bad is not None:
            at = int(np.argmax(bad))
            low, high = limits(port.bits, port.signed)
            message = message or (
                f"{port.name}: a State must have integers in [{low}, {high}], got {values[at]!r} at index {at}; "
                "change the event, or the width of the port"
            )
            outside[port.name] = bad
            values = [port.filled(0) if wrong else value for value, wrong in zip(values, bad.tolist(), strict=True)]
        arrays[port.name] = np.array(values, port.result_dtype).reshape(shape + port.shape)
    if outside:
        raise OutsidePort(message, arrays, outside)
    return arrays


def _outside(values: Sequence[Any], port: Port) -> np.ndarray | None:
    """States with a value that the port cannot hold: bool (states,); None if there are none."""
    low, high = limits(port.bits, port.signed)
    try:
        array = np.array(values)
    except ValueError:  # lanes differ in number
        array = np.empty(0, object)
    if not values or (
        array.dtype.kind in "iub"
        and array.shape[1:] == port.shape
        and low <= int(array.min())
        and int(array.max()) <= high
    ):
        return None
    bad = np.array([not _holds(value, port, low, high) for value in values])
    return bad if bad.any() else None


def _holds(value: Any, port: Port, low: int, high: int) -> bool:
    """Whether a value of any type is one of the port."""
    if np.shape(value) != port.shape:
        return False
    lanes = np.array(value, object).reshape(-1).tolist()
    return all(isinstance(each, int | np.integer | np.bool_) and low <= int(each) <= high for each in lanes)


def put(values: Lanes, at: int, value: int) -> Lanes:
    """A vector with `value` in lane `at`."""
    changed = list(values)
    changed[at] = value
    return tuple(changed)
