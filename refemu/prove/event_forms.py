"""Events of units on values that depend on inputs: what `Declared` and `Stepped` do, under a condition."""

import copy
import functools
import inspect
from collections.abc import Sequence
from typing import Any

from refemu.prove import arrays, merging, terms
from refemu.prove.forms import HANDLERS
from refemu.prove.frames import Dead
from refemu.prove.interpreter import Interpreter
from refemu.prove.merging import Choice, merge
from refemu.prove.values import (
    Unsupported,
    bounds,
    integer,
    truth,
)
from refemu.units.declaration import Declared
from refemu.units.ports import in_order
from refemu.units.stepping import Stepped


def commit(run: Interpreter, device: Any, event: Any, inputs: Any, changes: Any) -> Any:
    """As `Declared._commit`, under the present condition; counters are not followed."""
    before = device.state
    after = copy.copy(before)
    fields = vars(after)
    if inputs:
        fields.update({port.name: value for port, value in zip(device.ports.inputs, inputs, strict=True)})
        fields[device.number] = fields[device.number] + 1
    fields["event"] = event
    unknown = set(changes) - set(fields)
    if unknown:
        raise Unsupported(f"a change of {min(unknown)}, which is not an output, register or counter")
    changed_ = {name: value for name, value in changes.items() if name not in type(device).counters}
    fields.update({name: merging.present(value, fields[name]) for name, value in changed_.items()})
    device.state = after if run.now() is terms.TRUE else merge(run.now(), after, before)
    return after


def event_of(run: Interpreter, device: Any, event: Any, inputs: Any) -> Any:
    """Run one of the events that may come, each under its condition, and commit its changes."""
    before = device.state
    ways = event.ways if isinstance(event, Choice) else [(terms.TRUE, event)]
    after: Any = merging.NEVER
    for condition, name in ways:
        with run.under(condition):
            device.state = before
            changes = run.alive(functools.partial(run.call, getattr(device, name), *inputs))
            if changes is merging.NEVER:
                continue
            inside = device.state  # an event may set the State itself
            for also, each in changes.ways if isinstance(changes, Choice) else [(terms.TRUE, changes)]:
                with run.under(also):
                    device.state = inside
                    state = run.call(device._commit, name, inputs, each)
                after = merge(terms.and_(condition, also), state, after)
    device.state = before
    if after is merging.NEVER:
        raise Dead
    device.state = after if run.now() is terms.TRUE else merge(run.now(), after, before)
    return device.state


def changed(run: Interpreter, device: Any, **fields: Any) -> Any:
    """As `Stepped.changed`."""
    after = copy.copy(run.attribute(device, "state"))
    values = vars(after)
    values.update({name: merging.present(value, values.get(name)) for name, value in fields.items()})
    return after


def latched(run: Interpreter, device: Any, *inputs: Any, **fields: Any) -> Any:
    """As `Stepped.latched`."""
    ports = {port.name: value for port, value in zip(device.ports.inputs, inputs, strict=True)}
    return changed(run, device, **{"index": run.attribute(device, "state").index + 1, **ports, **fields})


def restore(run: Interpreter, device: Any, state: Any) -> None:
    """As `Stepped.restore`, of values that fit their ports."""
    if isinstance(inspect.getattr_static(type(device), "state", None), property):
        run.call(type(device).state.fset, device, state)
    else:
        before = vars(device).get("state", state)
        device.state = state if run.now() is terms.TRUE else merge(run.now(), state, before)


def validate_event(run: Interpreter, device: Any, *values: Any, **named: Any) -> Any:
    """As `Stepped.validate_event`: inputs outside their ports are illegal."""
    inputs = in_order(device.name, device.ports.inputs, values, named)
    for port, value in zip(device.ports.inputs, inputs, strict=True):
        low, high = port.limits
        for lane in value if port.lanes else (value,):
            number = integer(lane)
            least, most = bounds(number)
            if least < low or most > high:
                fits = terms.and_(truth(number >= low), truth(number <= high))
                run.illegal = terms.or_(run.illegal, terms.and_(run.now(), terms.not_(fits)))
    require(run, device, inputs)
    return inputs


def require(run: Interpreter, device: Any, inputs: Sequence[Any]) -> None:
    """What a unit requires of its inputs as arrays: others are illegal."""
    if type(device)._require is not Stepped._require:
        taken = [
            arrays.Array(list(value) if port.lanes else value, port.dtype)
            for port, value in zip(device.ports.inputs, inputs, strict=True)
        ]
        run.call(device._require, *taken)


HANDLERS[Stepped.validate_event] = validate_event
HANDLERS[Stepped.changed], HANDLERS[Stepped.latched], HANDLERS[Stepped.restore] = changed, latched, restore
HANDLERS[Declared._commit] = commit
HANDLERS[Declared._open] = lambda run, device, *inputs: event_of(run, device, run.call(device.opens, *inputs), inputs)
HANDLERS[Declared._continue] = lambda run, device: event_of(run, device, run.call(device.follows), ())
HANDLERS[Stepped.reset] = lambda run, device, state, **registers: Stepped.reset(device, state, **registers)
