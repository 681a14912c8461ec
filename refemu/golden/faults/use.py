"""Faults of class `use`: an input that is not connected, late, or seen with changed bits or lanes."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from refemu.golden.faults import bits, lanes, words
from refemu.golden.faults.fault import Change, Fault, Inputs, Rows
from refemu.golden.files import fields
from refemu.units.ports import Port

FEW = 4  #: bits of an input of which each is stuck and inverted, at most; of others the ends
DEAD = 32  #: lanes of an input of which each is dead, at most
NARROW = 8  #: bits of an input that has fewer, at most


def faults(rows: Rows) -> Iterator[Fault]:
    """Those of every input, and two inputs of one size exchanged."""
    ports = {port.name: port for port in rows.unit.ports(rows.config).inputs}
    event = rows.unit.timing == "event"
    for name in ports:
        yield _fault("unconnected", name, "is not connected, and reads as 0", "unconnected", partial(_zero, name))
        late = partial(_delayed, name, event)
        yield replace(_fault("late", name, "is sampled a row late, 0 first", "row_shift", late, rows=1), remembers=True)
    for name, port in ports.items():
        yield from _arranged(name, port)
        yield from _ordered(name, port)
        yield from _tampered(name, port)
    for left, right in words.pairs(ports):
        if ports[left].signed == ports[right].signed:
            says, parameters = f"in.{left} and in.{right} are exchanged", {"ports": [left, right]}
            change = partial(_exchanged, left, right)
            yield Fault(f"exchanged/in.{left}/in.{right}", says, "port_swap", parameters, 1, stimulus=change)


def _fault(id: str, port: str, says: str, name: str, stimulus: Any, where: str = "", **parameters: object) -> Fault:
    return Fault(
        f"{id}/in.{port}{where}", f"in.{port} {says}", name, {"port": port, **parameters}, 1, stimulus=stimulus
    )


def _arranged(name: str, port: Port) -> Iterator[Fault]:
    """Bits of its words in another place, no sign, and fewer bits."""
    known = ("bytes", "nibbles", "halves")
    for id, called, says, change in words.changes(port):
        if id in known:
            yield _fault(id, name, says.replace("its", "has its", 1), called, _seen(port, change))
    if port.signed:
        yield _fault("sign", name, "has no sign", "sign", _seen(port, words.unsigned))
    for few in range(max(1, port.bits // 2), port.bits) if port.bits <= NARROW else ():
        change = partial(words.extended if port.signed else words.low, few)
        says = f"has {few} of its {port.bits} bits"
        yield _fault("narrowed", name, says, "width", _seen(port, change), f"/{few}", bits=few)
    if port.bits > 1:
        order = list(range(port.bits))[::-1]
        change = partial(bits.permuted, order)
        yield _fault("mirrored", name, "has its bits reversed", "bit_swap", _seen(port, change), permutation=order)


def _ordered(name: str, port: Port) -> Iterator[Fault]:
    """Lanes in another order, and dead ones."""
    for key, says, order in lanes.usual(port.count):
        change = partial(_permuted, name, order)
        yield _fault(key, name, f": {says}", "lane_permutation", change, permutation=order.tolist())
    for lane in range(port.count) if 1 < port.count <= DEAD else ():
        id, says = f"dead/in.{name}/{lane}", f"lane {lane} of in.{name} is always 0"
        change = partial(_dead, name, lane)
        yield Fault(id, says, "lane", {"port": name, "value": 0}, 3, stimulus=change, lanes=(lane,))


def _tampered(name: str, port: Port) -> Iterator[Fault]:
    """Bits of all lanes that are stuck or inverted."""
    for bit in range(port.bits) if port.bits <= FEW else (port.bits - 1, 0):
        for value in (0, 1):
            says, change = f"has bit {bit} stuck at {value}", _seen(port, partial(bits.held, (bit,), value))
            yield _fault(f"stuck_at_{value}", name, says, "bit_stuck", change, f"/{bit}", bit=bit, value=value)
        change = _seen(port, partial(bits.flipped, 1 << bit))
        yield _fault("inverted", name, f"has bit {bit} inverted", "bit_inverted", change, f"/{bit}", bit=bit)


def _seen(port: Port, change: Change) -> Any:
    return partial(changed, port, change)


def changed(port: Port, change: Change, inputs: Inputs, before: np.ndarray) -> Inputs:
    """Inputs in which the words of a port are changed."""
    codes = fields.encode(inputs[port.name], port, port.name)
    mask = codes.dtype.type(fields.mask_of(port.bits))
    return {**inputs, port.name: fields.decode(np.asarray(change(codes, port) & mask, codes.dtype), port)}


def _zero(name: str, inputs: Inputs, before: np.ndarray) -> Inputs:
    return {**inputs, name: np.zeros_like(inputs[name])}


def _delayed(name: str, event: bool, inputs: Inputs, before: np.ndarray) -> Inputs:
    """The input in the row before, 0 where there is none."""
    array = inputs[name]
    late = np.zeros_like(array)
    if event:
        late[:, 1:] = array[:, :-1]
    else:
        late[before >= 0] = array[before[before >= 0]]
    return {**inputs, name: late}


def _permuted(name: str, order: np.ndarray, inputs: Inputs, before: np.ndarray) -> Inputs:
    return {**inputs, name: inputs[name][..., order]}


def _dead(name: str, lane: int, inputs: Inputs, before: np.ndarray) -> Inputs:
    array = inputs[name].copy()
    array[..., lane] = 0
    return {**inputs, name: array}


def _exchanged(left: str, right: str, inputs: Inputs, before: np.ndarray) -> Inputs:
    first, second = inputs[left], inputs[right]  # a vector of one lane has an axis that a scalar lacks
    return {**inputs, left: second.reshape(first.shape), right: first.reshape(second.shape)}
