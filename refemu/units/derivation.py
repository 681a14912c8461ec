"""Derivation of `run`, its Result and the frame of a compiled form from a unit's descriptor."""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from refemu.arith.checks import Refused, RefusedType, refuse_as
from refemu.units import docstrings
from refemu.units.ports import Ports, collect
from refemu.units.stepping import Descriptor, Result, Stepped

Arrays = Sequence[np.ndarray]
#: body of a compiled form: device, inputs, outputs -> counters
Body = Callable[[Any, Arrays, Arrays], Sequence[int] | None]


class Rejected(Exception):
    """Raised by the body of a compiled form for inputs that the readable form rejects, which then gives the reason."""


def result_type(configurations: Sequence[Ports], counters: Sequence[str], module: str) -> type[Result]:
    """A Result class: an array for every output and register, an int for every counter, in this order.

    configurations: ports of each. Fields that a configuration lacks are None there.
    """
    names = [[port.name for port in ports.outputs + ports.state] for ports in configurations]
    fields: list[Any] = [
        (name, np.ndarray) if all(name in each for each in names) else (name, np.ndarray | None, None)
        for name in dict.fromkeys(name for each in sorted(names, key=len, reverse=True) for name in each)
    ]
    counts = [(name, int) for name in counters]
    namespace = {"__doc__": "Outputs and registers as arrays, then counters.", "derived": True}
    result = dataclasses.make_dataclass(
        "Result",
        [*fields, *counts],
        bases=(Result,),
        namespace=namespace,
        frozen=True,
        eq=False,
        repr=False,
        kw_only=True,
    )
    result.__module__ = module  # of namespace, from Python 3.12 on make_dataclass drops it
    return result


def readable(unit: Descriptor) -> Callable[..., Any]:
    """`run` of a unit: its stepping class over arrays, an operation (or an event of a sequential unit) per index."""

    order = _order(unit)

    def run(*values: Any, **named: Any) -> Any:
        device, arrays, shape = _validated(unit, order, values, named)
        if unit.timing != "event":
            states = list(_last_events(device, arrays))
            return _result(unit, device.ports, states, shape, [device.state])
        axes = prod(shape[:-1]), shape[-1]
        flat = [array.reshape(*axes, *array.shape[len(shape) :]) for array in arrays]
        devices = [unit.unit_class(**_split(unit, named)[1]) for _ in range(axes[0])]
        states = [state for i, each in enumerate(devices) for state in _last_events(each, [array[i] for array in flat])]
        return _result(unit, device.ports, states, shape, [each.state for each in devices])

    return _described(unit, run)


def compiled_run(unit: Descriptor) -> Callable[[Body], Callable[..., Any]]:
    """Decorate a function of device, inputs and outputs as the compiled `run` of `unit`.

    It gets contiguous, writable arrays in the order of the ports, outputs followed by registers: (rows,) for a
    combinational unit, (devices, events) for a sequential one, then for a vector the axis of lanes. It fills the
    outputs and returns the counters in the order of `unit.counters`; another number of counters raises. A call raises
    Refused for the same inputs as the readable form, also where the body raises Rejected.
    """

    order = _order(unit)

    def decorate(body: Body) -> Callable[..., Any]:
        @functools.wraps(body)
        def run(*values: Any, **named: Any) -> Any:
            device, arrays, shape = _validated(unit, order, values, named)
            rows = (prod(shape[:-1]), shape[-1]) if unit.timing == "event" else (prod(shape),)
            inputs = [
                np.require(array.reshape(*rows, *array.shape[len(shape) :]), requirements=["C", "W"])
                for array in arrays
            ]
            ports = device.ports.outputs + device.ports.state
            outputs = [np.empty((*rows, *port.shape), port.result_dtype) for port in ports]
            try:
                counts = body(device, inputs, outputs) or ()
            except Rejected:
                counts = None
            if counts is None:
                named_inputs = {port.name: array for port, array in zip(device.ports.inputs, arrays, strict=True)}
                refuse_as(unit.run, **named_inputs, **_split(unit, named)[1])
            shaped = {port.name: array.reshape(shape + port.shape) for port, array in zip(ports, outputs, strict=True)}
            return unit.result(**shaped, **dict(zip(unit.counters, map(int, counts), strict=True)))

        return _described(unit, run)

    return decorate


def _validated(
    unit: Descriptor, order: Sequence[str], values: Sequence[Any], named: Mapping[str, Any]
) -> tuple[Any, list[np.ndarray], tuple[int, ...]]:
    """The device of a call, its inputs as arrays, and their shape without lanes. order: order of inputs by position."""
    inputs, config = _split(unit, named)
    device = unit.unit_class(**config)
    if unit.unit_class.validated is not Stepped.validated:
        try:
            _parameters(unit.unit_class.validated).bind(device, *values, **inputs)
        except TypeError as error:
            raise RefusedType(f"{unit.name}.run: {error}") from None
    elif len(order) > len(
        device.ports.inputs
    ):  # a position is that of the signature, even if this device lacks some inputs
        values, inputs = (), _by_name(unit.name, order, values, inputs)
    arrays = device.validated(*values, **inputs)
    first, port = arrays[0], device.ports.inputs[0]
    return device, arrays, first.shape[: first.ndim - len(port.shape)]


def _by_name(unit: str, order: Sequence[str], values: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """All inputs by name, except None; rejects one too many, and one given twice."""
    places = dict(zip(order, values, strict=False))
    twice = [name for name in places if name in named]
    if len(values) > len(order) or twice:
        got = " and ".join([f"{len(values)} by position", *twice])
        raise RefusedType(f"{unit}: inputs must be {', '.join(order)} in this order, got {got}")
    return {name: value for name, value in places.items() if value is not None} | dict(named)


@functools.cache
def _parameters(function: Callable[..., Any]) -> inspect.Signature:
    """The signature of `function`, cached: a lookup takes longer than many compiled calls."""
    return inspect.signature(function)


def _split(unit: Descriptor, named: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The inputs that are not None and the parameters among the keywords of a call."""
    parameters = _parameters(unit.unit_class).parameters  # type: ignore[arg-type]  # a class is hashable
    config = {name: value for name, value in named.items() if name in parameters}
    return {name: value for name, value in named.items() if name not in config and value is not None}, config


def _last_events(device: Stepped[Any], arrays: Arrays) -> Iterator[Any]:
    """Yield the State after the last event of every operation."""
    return (state for state in device.operations(arrays) if not device.busy)


def _result(unit: Descriptor, ports: Ports, states: Sequence[Any], shape: tuple[int, ...], last: Sequence[Any]) -> Any:
    """The Result of the `states` that end an operation; last: last State of every device, with its counters."""
    counts = dict.fromkeys(unit.counters, 0)
    for state in last:
        for name, count in counts.items():
            value = getattr(state, name)
            counts[name] = max(count, value) if name in unit.peaks else count + value
    return unit.result(**collect(states, ports.outputs + ports.state, shape), **counts)


def _described(unit: Descriptor, run: Callable[..., Any]) -> Callable[..., Any]:
    """Give `run` the name, signature and documentation of a hand-written one."""
    run.__name__, run.__qualname__, run.__module__ = "run", "run", unit.unit_class.__module__
    signature = _signature(unit)
    run.__signature__ = signature  # type: ignore[attr-defined]
    run.__doc__ = docstrings.of_run(unit, signature)
    return run


def _signature(unit: Descriptor) -> inspect.Signature:
    """Inputs in the order of `validated`, else of the ports; then the parameters of the constructor by keyword."""
    inputs = [
        each.replace(annotation=inspect.Parameter.empty)  # ArrayLike would expand to several lines
        for each in list(_parameters(unit.unit_class.validated).parameters.values())[1:]
    ]
    if any(each.kind is inspect.Parameter.VAR_POSITIONAL for each in inputs):
        inputs = inputs_of(unit)
    config = _parameters(unit.unit_class).parameters.values()  # type: ignore[arg-type]
    twice = {each.name for each in inputs} & {each.name for each in config}
    if twice:
        raise Refused(f"{unit.name}: parameters and input ports must have different names, got {min(twice)!r} for both")
    keywords = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in config]
    return inspect.Signature([*inputs, *keywords], return_annotation=unit.result)


def inputs_of(unit: Descriptor) -> list[inspect.Parameter]:
    """One parameter per input port of any configuration.

    From the first port that some configuration lacks on, the default is None, since Python requires one there.
    """
    kind, required = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.empty
    ports, order = _ports(unit), _order(unit)
    common = next((i for i, name in enumerate(order) if any(name not in names for names in ports)), len(order))
    return [inspect.Parameter(name, kind, default=required if i < common else None) for i, name in enumerate(order)]


def _order(unit: Descriptor) -> list[str]:
    """Input ports of all configurations, in the order of those with the most."""
    return list(dict.fromkeys(name for names in sorted(_ports(unit), key=len, reverse=True) for name in names))


def _ports(unit: Descriptor) -> list[list[str]]:
    """Input ports of every configuration."""
    return [[port.name for port in ports.inputs] for ports in unit.ready_ports]
