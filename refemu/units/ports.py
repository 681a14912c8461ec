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

Lanes: TypeAlias = tuple[int, ...]  #: value of a vector in one event, lane 0 first; that of a scalar is an int

FEW = 256  #: lanes that take less time one by one than as an array


@parameters
class Port:
    """Port or register: a scalar, or a vector of `lanes` fields, lane 0 in the least significant bits of a word.

    In an event a scalar is an int and a vector a tuple; in arrays a vector has a last axis of its lanes. One lane is a
    vector, too.
    """

    name: str  #: lower case; no keyword of Verilog, SystemVerilog or C
    bits: int  #: of one lane, 1 to 64
    lanes: int | None = None  #: of a vector, at least 1; None for a scalar
    signed: bool = False  #: two's complement in `bits` bits
    encoding: str = ""  #: what a field means: "uint", "int", "f16", "f32" or the name of a format; "" = by `signed`
    meaning: str = ""  #: one line for people
    least: int | None = None  #: smallest value of a lane that is admitted, if that is not what the bits say
    most: int | None = None  #: largest one
    payload: bool = False  #: a NaN keeps its bits in stimuli, as where a signalling one counts; else there is one NaN

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
        """Axes that the port adds to an array: (lanes,) of a vector, () of a scalar."""
        return () if self.lanes is None else (self.lanes,)

    @property
    def kind(self) -> str:
        """Encoding, spelled out."""
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
        """Value of the port in one event that has one number in every field.

        Parameters
        ----------
        value : int
            Number.

        Returns
        -------
        int or tuple of int
            A tuple for a vector.
        """
        return value if self.lanes is None else (value,) * self.lanes

    def validate(self, values: ArrayLike, unit: str) -> np.ndarray:
        """Check values and convert them to the port's dtype.

        Parameters
        ----------
        values : array_like of integers
            Of a vector, lanes on the last axis.
        unit : str
            Name of the unit, for a refusal.

        Returns
        -------
        ndarray
            The values in the port's dtype.

        Raises
        ------
        Refused
            A value is outside the port's bits or limits, with the first bad index.
        RefusedType
            A dtype that is no integer dtype, or a wrong number of lanes.
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
        """Whether these are a few ints within the limits; all else is for arrays to check or to refuse."""
        low, high = self.limits
        few = len(lanes) == self.count <= FEW
        return few and {*map(type, lanes)} == {int} and low <= min(lanes) and max(lanes) <= high

    def validate_one(self, value: ArrayLike | int, unit: str) -> int | Lanes:
        """Check the value of one event.

        Parameters
        ----------
        value : int or sequence of int
            One per lane of a vector.
        unit : str
            Name of the unit, for a refusal.

        Returns
        -------
        int or tuple of int
            A tuple for a vector.

        Raises
        ------
        Refused
            The value is outside the port's bits or limits.
        RefusedType
            Another type, or a wrong number of lanes.
        """
        low, high = self.limits
        if self.lanes is None and type(value) is int and low <= value <= high:
            return value  # what a loop of steps passes: no array is made
        if self.shape and isinstance(value, tuple) and self._is_plain(value):
            return tuple(value)
        array = self.validate(value, unit)
        if array.ndim != len(self.shape):
            raise RefusedType(f"{unit}.{self.name}: one event is needed, got shape {array.shape}")
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

    def __deepcopy__(self, memo: object) -> "Ports":  # of devices, which are copied: nothing in it changes
        return self


def validate(unit: str, ports: Sequence[Port], values: Sequence[Any]) -> list[np.ndarray]:
    """One array per port, each of the port's dtype, all of one shape (and the axis of lanes of a vector).

    values: integers or integer arrays, one per port, broadcast against each other without their lanes. The results may
    be read-only views, or the values themselves. Refuses what `Port.admit` refuses, and shapes that do not fit.
    """
    arrays = [port.validate(value, unit) for port, value in zip(ports, values, strict=True)]
    shapes = [array.shape[: array.ndim - len(port.shape)] for port, array in zip(ports, arrays, strict=True)]
    try:
        shape = np.broadcast_shapes(*shapes)
    except ValueError:
        listed = ", ".join(f"{port.name} {shape}" for port, shape in zip(ports, shapes, strict=True))
        raise Refused(f"{unit}: the ports' shapes do not fit each other: {listed}") from None
    whole = [shape + port.shape for port in ports]
    return [
        array if array.shape == each else np.broadcast_to(array, each)
        for array, each in zip(arrays, whole, strict=True)
    ]


def validate_events(unit: str, ports: Sequence[Port], values: Sequence[Any]) -> list[np.ndarray]:
    """As `validate`, for units with registers: refused unless some port has an axis, the sequence of events."""
    arrays = validate(unit, ports, values)
    if arrays[0].ndim == len(ports[0].shape):
        raise RefusedType(f"{unit}: at least one port needs an axis, the sequence of events; all are scalars")
    return arrays


def in_order(unit: str, ports: Sequence[Port], values: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
    """Inputs of a call in the ports' order; refuses one that is missing, unknown or there twice."""
    names = [port.name for port in ports]
    rest = names[len(values) :]
    if len(values) > len(names) or set(named) != set(rest):
        got = [f"{len(values)} by position"] * bool(values or not named) + [", ".join(named)] * bool(named)
        raise RefusedType(f"{unit}: inputs must be {', '.join(names)}, got {' and '.join(got)}")
    return [*values, *(named[name] for name in rest)]


def collect(states: Sequence[Any], ports: Sequence[Port], shape: tuple[int, ...]) -> dict[str, Any]:
    """Collect the values of `ports` in `states`, by name: arrays of `shape` (and lanes) in the ports' result dtypes."""
    return {
        port.name: np.array([getattr(state, port.name) for state in states], port.result_dtype).reshape(
            shape + port.shape
        )
        for port in ports
    }


def put(values: Lanes, at: int, value: int) -> Lanes:
    """A vector with `value` in lane `at`."""
    changed = list(values)
    changed[at] = value
    return tuple(changed)
