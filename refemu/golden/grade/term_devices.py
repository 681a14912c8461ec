"""Faulty devices as terms: outputs and next registers of one event, from the terms of the right unit or their own."""

import copy
import linecache
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from refemu.arith import checks, fp16, scalar32
from refemu.arith.checks import Refused
from refemu.arith.integers import limits
from refemu.golden.faults import symbols, use, width
from refemu.golden.faults.fault import Fault, exchanged
from refemu.golden.files import fields
from refemu.golden.grade import model, reimport
from refemu.golden.grade.answers import Answers
from refemu.golden.grade.mutations import Mutation
from refemu.prove import terms
from refemu.prove.arrays import Array
from refemu.prove.equivalence import lanes_of
from refemu.prove.forms import HANDLERS
from refemu.prove.interpreter import Interpreter
from refemu.prove.lift import Lift, lift
from refemu.prove.sequential import reset_words
from refemu.prove.terms import Term, substitute
from refemu.prove.values import made, truth, truth_of
from refemu.units import parameters
from refemu.units import variant as other
from refemu.units.declaration import Declared
from refemu.units.ports import Port
from refemu.units.unit import AnyUnit

Lanes = Mapping[str, Sequence[Term]]  #: by port
#: functions that call nothing that a fault exchanges: words and values of numbers, float32, checks
EXACT = (
    *(scalar32.value16, scalar32.value32, scalar32.pattern32, scalar32.f32, fp16.values, fp16.bits, fp16.canonical),
    *(fp16.to_f32, fp16.order_key, fp16.narrow, checks.at, checks.first_index),
)


@dataclass(frozen=True)
class Device:
    """One event of a device, in the variables of the lift of the right unit."""

    outputs: Lanes
    after: Lanes  #: registers after the event: ports of the unit; of one whose registers are right, those of the unit
    legal: Term = terms.TRUE  #: where it has answers
    invariant: Term = terms.TRUE  #: holds for its registers at reset, and is to hold after each event
    demands: Sequence[tuple[Term, str]] = ()  #: as of a lift
    equal: Term = terms.FALSE  #: where this holds at each event, nothing differs
    runs: bool = True  #: whether these terms are those of the device, not only equal to it where nothing differs
    rejects: bool = True  #: whether it differs where it has no answers
    inputs: Lanes = field(default_factory=dict)  #: what reaches the unit, if the device is one with other inputs


def right(lifted: Lift) -> Device:
    """The unit itself."""
    outputs = {port.name: lifted.terms[port.name] for port in lifted.device.ports.outputs}
    return Device(outputs, lifted.terms, lifted.legal)


def counted(lifted: Lift) -> Mapping[str, Sequence[Term]]:
    """Where each lane of an output counts, of a unit without registers that leaves some open."""
    care, ports = lifted.unit.care, lifted.device.ports
    if care is None or lifted.before:
        return {}
    inputs, outputs = (
        {port.name: Array([_value(port, lane) for lane in lanes[port.name]], port.result_dtype) for port in group}
        for group, lanes in ((ports.inputs, lifted.inputs), (ports.outputs + ports.state, lifted.terms))
    )
    run = Interpreter()
    with run.running():
        masks = run.call(care, lifted.config, inputs, SimpleNamespace(**outputs))
    names = {f"out.{port.name}": port.name for port in ports.outputs}
    return {
        names[key]: [truth(lane) for lane in array.values.ravel()]
        for key, array in masks.items()
        if array.dtype == np.bool_
    }


def _value(port: Port, lane: Term) -> Any:
    """The integer of a lane, a truth value where its port has such."""
    if port.result_dtype == np.bool_:
        return truth_of(lane)
    low, high = limits(port.bits, port.signed)
    return made(lane if port.signed else terms.zext(lane, port.bits + 1), low, high)


def of_fault(lifted: Lift, answers: Answers, fault: Fault) -> Device:
    """The device of a fault. Refused: it has no terms, or other ports."""
    if fault.variants:
        return _variant(lifted, fault)
    if isinstance(fault.program, partial) and fault.program.func is model.wrong:
        return _mutant(lifted, *fault.program.args)
    if fault.arithmetic:
        with exchanged(fault.arithmetic), _texts():
            return _lifted(lifted, _outputs(lifted.unit, lifted.config))
    hold = fault.registers.hold if fault.registers else None
    if isinstance(hold, partial) and hold.func is width.held:
        return _narrowed(lifted, *hold.args)
    if fault.stimulus is not None and not fault.remembers:
        return _tampered(lifted, fault.stimulus)
    if not fault.runs and not fault.remembers:
        return _rewired(lifted, answers, fault)
    if fault.remembers and fault.stimulus is None:
        return _constant(lifted, answers, fault)
    if fault.registers and fault.registers.start:
        return _retained(lifted, fault)
    raise Refused("it has none")


def _constant(lifted: Lift, answers: Answers, fault: Fault) -> Device:
    """Outputs of another row: nothing differs where they are constant, 0 if zeros come first."""
    alone = fault.parameters.get("port")
    zeros = fault.parameters.get("rows", 0) > 0 and not fault.id.startswith("frozen")
    outputs = {port.name: list(lifted.terms[port.name]) for port in lifted.device.ports.outputs}
    for name, port in answers.ports.items():
        for lane in fault.lanes or range(port.count):
            if alone in (None, port.name):
                word = 0 if zeros else int(answers.outputs[name][0, lane])
                outputs[port.name][lane] = terms.const(word, port.bits)
    return Device(outputs, lifted.terms, lifted.legal, runs=False)


def _retained(lifted: Lift, fault: Fault) -> Device:
    """Registers of the case before: nothing differs where they never change."""
    names = [fault.parameters["port"]] if "port" in fault.parameters else list(lifted.before)
    if unknown := [name for name in names if name not in lifted.before]:
        raise Refused(f"register {unknown[0]} has none")
    read, start = registers_read(lifted), at_reset(lifted)
    matter = {name: start[name] for name in names if name in read}
    return Device(right(lifted).outputs, {**lifted.terms, **matter}, lifted.legal, runs=False)


def registers_read(lifted: Lift) -> list[str]:
    """Registers on which outputs or registers after an event depend."""
    read = {each.number for each in terms.order(lifted.roots) if each.op == "var"}
    return [name for name, lanes in lifted.before.items() if any(lane.number in read for lane in lanes)]


def at_reset(lifted: Lift) -> dict[str, list[Term]]:
    """Outputs and registers at reset."""
    words, ports = reset_words(lifted), lifted.device.ports
    return {port.name: lanes_of(words[port.name], port) for port in ports.outputs + ports.state}


def _rewired(lifted: Lift, answers: Answers, fault: Fault) -> Device:
    """Other words at the outputs; the registers are right."""
    words: Any = {name: symbols.of_port(lifted.terms[port.name], port) for name, port in answers.ports.items()}
    new: Any = fault.applied(answers, words)
    outputs = {port.name: symbols.lanes_of(new[name], port) for name, port in answers.ports.items()}
    return Device(outputs, lifted.terms, lifted.legal)


def _tampered(lifted: Lift, stimulus: Any) -> Device:
    """Other inputs: the terms of the unit with changed words in the place of the variables."""
    ports = {port.name: port for port in lifted.device.ports.inputs}
    words: Any = {name: symbols.of_port(lanes, ports[name]) for name, lanes in lifted.inputs.items()}
    if isinstance(stimulus, partial) and stimulus.func is use.changed:
        port, change = stimulus.args
        mask = words[port.name].dtype.type(fields.mask_of(port.bits))
        new = {**words, port.name: change(words[port.name], port) & mask}
    else:
        new = stimulus(words, None)
    inputs = {name: symbols.lanes_of(new[name], port) for name, port in ports.items()}
    values = {
        variable.number: term
        for name, lanes in inputs.items()
        for variable, term in zip(lifted.inputs[name], lanes, strict=True)
    }
    changed = iter(substitute([lifted.legal, *lifted.roots], values))
    legal = next(changed)
    after = {name: [next(changed) for _ in lanes] for name, lanes in lifted.terms.items()}
    outputs = {port.name: after[port.name] for port in lifted.device.ports.outputs}
    same = (terms.eq(*pair) for name, lanes in inputs.items() for pair in zip(lifted.inputs[name], lanes, strict=True))
    equal = terms.or_(terms.not_(legal), terms.all_of(same))
    return Device(outputs, after, legal, equal=equal, rejects=False, inputs=inputs)


def _narrowed(lifted: Lift, port: Port, bits: int) -> Device:
    """A register of fewer bits after each event, of those within an operation too."""

    def low(lane: Any) -> Any:
        word = lane & (1 << bits) - 1
        sign = 1 << bits >> 1
        return (word ^ sign) - sign if port.signed else word

    unchanged: list[Term] = []

    def after(event: Any, run: Any, device: Any, *inputs: Any) -> Any:
        state = copy.copy(event(run, device, *inputs))
        value = getattr(state, port.name)
        lanes = value if isinstance(value, tuple) else (value,)
        same = terms.all_of(truth(low(lane) == lane) for lane in lanes)
        unchanged.append(terms.or_(terms.not_(run.now()), same))
        vars(state)[port.name] = tuple(map(low, lanes)) if isinstance(value, tuple) else low(value)
        device.state = state
        return state

    known = {method: HANDLERS[method] for method in (Declared._open, Declared._continue)}
    HANDLERS.update({method: partial(after, event) for method, event in known.items()})
    try:
        device = _lifted(lifted, lift(lifted.unit, lifted.config))
    finally:
        HANDLERS.update(known)
    if not unchanged:
        raise Refused("its events have none")
    fits = terms.all_of(_fits(lane, port, bits) for lane in lifted.before.get(port.name, ()))
    return replace(device, invariant=fits, equal=terms.all_of(unchanged))


def _fits(lane: Term, port: Port, bits: int) -> Term:
    """Whether a lane is its low bits."""
    if bits == 0:
        return terms.eq(lane, terms.const(0, lane.width))
    return terms.eq(lane, _resized(terms.extract(lane, 0, bits), port, lane.width))


def _variant(lifted: Lift, fault: Fault) -> Device:
    """A unit in another configuration, or of another class."""
    device = other.device(lifted.unit, lifted.unit.config(parameters.text(lifted.unit, lifted.config)), fault.variants)
    if device is None or device.answer is not None:
        raise Refused("it is a function on outputs")
    unit: Any = device.readable
    return _lifted(lifted, _outputs(unit, device.config))


def _mutant(lifted: Lift, path: Path, mutation: Mutation) -> Device:
    text = mutation.apply(path.read_text())
    with _source(path, text), reimport.mutated(lifted.unit, path, compile(text, str(path), "exec")) as unit:
        return _lifted(lifted, _outputs(unit, unit.config(parameters.text(lifted.unit, lifted.config))))


@contextmanager
def _texts() -> Iterator[None]:
    """Run the texts of functions of refemu.arith, which may call an exchanged one, in the place of their forms."""
    forms = {
        each: HANDLERS[each]
        for each in HANDLERS
        if str(getattr(each, "__module__", "")).startswith("refemu.arith.") and each not in EXACT
    }
    for each in forms:
        del HANDLERS[each]
    try:
        yield
    finally:
        HANDLERS.update(forms)


class _Outside(Interpreter):
    """Runs a device of which only outputs, and registers, matter."""

    inside = False


def _outputs(unit: AnyUnit, config: Mapping[str, Any]) -> Lift:
    return lift(unit, config, interpreter=_Outside)


def _lifted(lifted: Lift, device: Lift) -> Device:
    """A device with a lift of its own, whose ports may have other widths: the values count."""
    ours, theirs = (
        [port for port in each.device.ports.all if port in each.device.ports.inputs or port.name in device.terms]
        for each in (lifted, device)
    )
    if [(port.name, port.lanes) for port in ours] != [(port.name, port.lanes) for port in theirs]:
        raise Refused("it has other ports")
    bits = {port.name: (port, new) for port, new in zip(ours, theirs, strict=True)}
    values, taken = {}, []
    for here, there in ((lifted.inputs, device.inputs), (lifted.before, device.before)):
        for name in here.keys() & there.keys() & bits.keys():
            port, new = bits[name]
            for lane, variable in zip(here[name], there[name], strict=True):
                values[variable.number] = _resized(lane, port, new.bits)
                taken.append(terms.eq(lane, _resized(values[variable.number], new, port.bits)))
    changed = iter(substitute([device.legal, *(each for each, _ in device.demands), *device.roots], values))
    legal, demands = next(changed), [(next(changed), what) for _, what in device.demands]
    after = {}
    for name in device.terms:
        port, new = bits[name]
        lanes = [next(changed) for _ in device.terms[name]]
        after[name] = [_resized(lane, new, port.bits) for lane in lanes]
        fits = (terms.eq(lane, _resized(cut, port, new.bits)) for lane, cut in zip(lanes, after[name], strict=True))
        demands.append((terms.all_of(fits), "a value of its port"))
    outputs = {port.name: after[port.name] for port in lifted.device.ports.outputs}
    same = all(port.bits == new.bits for port, new in bits.values())
    return Device(outputs, after, terms.and_(legal, terms.all_of(taken)), demands=demands, runs=same)


def _resized(lane: Term, port: Port, bits: int) -> Term:
    """The value of a lane of a port in another number of bits, modulo its size."""
    if bits <= lane.width:
        return terms.extract(lane, 0, bits)
    return (terms.sext if port.signed else terms.zext)(lane, bits)


@contextmanager
def _source(path: Path, text: str) -> Iterator[None]:
    """Another text of a file, as seen by what reads the source of a function."""
    name, before = str(path), linecache.cache.get(str(path))
    linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
    try:
        yield
    finally:
        linecache.cache.pop(name)
        if before is not None:
            linecache.cache[name] = before
