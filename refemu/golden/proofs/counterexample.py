"""Counterexamples: replayed on the readable unit and on the design, then written as a golden set and two waveforms."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from refemu.arith.checks import Refused
from refemu.golden.files import sets, store, vcd
from refemu.golden.make import build
from refemu.golden.make.regenerate import MISSING
from refemu.prove import terms
from refemu.prove.design import Design
from refemu.prove.equivalence import Part
from refemu.prove.lift import Lift
from refemu.prove.selfcheck import Disagrees
from refemu.prove.sequential import Timing
from refemu.prove.terms import substitute
from refemu.units import parameters
from refemu.units.ports import Port
from refemu.units.unit import Cases


@dataclass(frozen=True)
class Counterexample:
    """Inputs for which the design differs, and what both answer."""

    inputs: Mapping[str, np.ndarray]  #: by port: (1,), or (1, events)
    states: Sequence[Any]  #: States of the readable unit
    answers: Sequence[Mapping[str, int]]  #: words of the outputs of the design, after each event
    event: int  #: the first that differs
    port: str  #: the first output that differs
    expected: int  #: word of the unit
    got: int  #: word of the design
    says: str = ""  #: in words, if no answer differs


def replay(lift: Lift, design: Design, timing: Timing, part: Part, kind: str) -> Counterexample:
    """Run both sides on the values of a refuted part. Raises Disagrees if the readable unit does not confirm them."""
    rows, answers = _shaken(lift, design, timing, part) if kind == "shaken" else ([], [])
    rows = rows if kind == "shaken" else _rows(lift, design, part, kind)
    inputs = {port.name: _array(port, [row[port.name] for row in rows], kind) for port in lift.device.ports.inputs}
    device = lift.unit.unit_class(**lift.config)
    try:
        values = {name: array[0] if kind == "events" else array for name, array in inputs.items()}
        states = list(device.steps(**values)) if rows else []
    except Refused as error:
        raise Disagrees(f"{lift.unit.name}: the counterexample is illegal for the readable unit: {error}") from error
    ended = [state for at, state in enumerate(states) if at + 1 == len(states) or states[at + 1].index != state.index]
    answers = answers if kind == "shaken" else _answers(lift, design, timing, part, kind, rows)
    extra = len(answers) - len(ended)
    ended, answers = ended[: len(answers)], answers[: len(ended)]
    for event, (state, answer) in enumerate(zip(ended, answers, strict=True)):
        for port in lift.device.ports.outputs:
            if timing.compared is not None and port.name not in timing.compared:
                continue
            expected = word(port, getattr(state, port.name))
            if expected != answer[port.name]:
                return Counterexample(inputs, ended, answers, event, port.name, expected, answer[port.name])
    if extra > 0:
        says = f"{len(answers) + extra} answers to {len(ended)} accepted rows"
        return Counterexample(inputs, ended, answers, len(ended), "", 0, 0, says)
    raise Disagrees(f"{lift.unit.name}: the counterexample of the solver does not differ when it is replayed")


def word(port: Port, value: Any) -> int:
    """Value of a port as a word, lane 0 lowest."""
    lanes = value if port.lanes else (value,)
    return sum((int(lane) & ((1 << port.bits) - 1)) << (port.bits * at) for at, lane in enumerate(lanes))


def lanes_of(port: Port, code: int) -> Any:
    """Value of a port from its word."""
    mask, half = (1 << port.bits) - 1, 1 << (port.bits - 1)
    lanes = tuple(code >> (port.bits * at) & mask for at in range(port.count))
    signed = tuple(each - ((each & half) << 1) for each in lanes) if port.signed else lanes
    return signed if port.lanes else signed[0]


def _rows(lift: Lift, design: Design, part: Part, kind: str) -> list[dict[str, int]]:
    """Words of the inputs of each event."""
    ports = lift.device.ports.inputs
    if kind == "row":
        return [
            {
                port.name: sum(
                    part.values.get(lane.name, 0) << (port.bits * at) for at, lane in enumerate(lift.inputs[port.name])
                )
                for port in ports
            }
        ]
    edges = [int(name.rpartition("@")[2]) for name in part.values if "@" in name]
    last = max(edges, default=0)
    if kind == "pipelined":
        return [{port.name: part.values.get(f"{design.prefix}{port.name}@0", 0) for port in ports}]
    events = range(1, last + 1)
    known = [port.name for port in ports]
    rows = [{name: part.values.get(f"{design.prefix}{name}@{event}", 0) for name in known} for event in events]
    return rows[: int(part.what.split()[1])]


def _array(port: Port, words: Sequence[int], kind: str) -> np.ndarray:
    values = np.array([lanes_of(port, each) for each in words], np.int64 if port.bits < 64 else object)
    return (values[None] if kind == "events" else values).astype(port.dtype)


def _answers(
    lift: Lift, design: Design, timing: Timing, part: Part, kind: str, rows: Sequence[Mapping[str, int]]
) -> list[dict[str, int]]:
    """Words of the outputs of the design after each event."""
    values = dict(part.values)

    def constants(inputs: Mapping[str, int], edge: int, reset: bool) -> dict[str, terms.Term]:
        entries = {
            name: terms.const(inputs.get(name, values.get(f"{design.prefix}{name}@{edge}", 0)), variable.width)
            for name, variable in design.inputs.items()
        }
        if timing.reset:
            entries[timing.reset] = terms.const(int(reset != timing.low), 1)
        return entries

    registers = {
        name: terms.const(values.get(each.variable.name, 0), each.variable.width)
        for name, each in design.registers.items()
    }
    if kind == "row":
        outputs, _ = design.stepped(constants(rows[0], 0, False), registers)
        return [{name: _number(each) for name, each in outputs.items()}]
    edge, answers = 0, []
    if kind == "events" and timing.reset:
        _, registers = design.stepped(constants({}, 0, True), registers)
        edge = 1
    pending = list(rows) + [{}] * (timing.latency - 1)
    for row in pending:
        _, registers = design.stepped(constants(row, edge, False), registers)
        edge += 1
        outputs, _ = design.stepped(constants({}, edge, False), registers)
        answers.append({name: _number(each) for name, each in outputs.items()})
    return answers[timing.latency - 1 :][: len(rows)]


def _shaken(
    lift: Lift, design: Design, timing: Timing, part: Part
) -> tuple[list[dict[str, int]], list[dict[str, int]]]:
    """Words of the rows that a design with a handshake accepts, and of its answers."""
    registers = {
        name: terms.const(part.values.get(each.variable.name, 0), each.variable.width)
        for name, each in design.registers.items()
    }
    rows, answers = [], []
    cycles = int(part.what.split()[1])
    for edge in range(cycles + 1):
        inputs = {
            name: terms.const(part.values.get(f"{design.prefix}{name}@{edge}", 0), variable.width)
            for name, variable in design.inputs.items()
        }
        if timing.reset:
            inputs[timing.reset] = terms.const(int((edge == 0) != timing.low), 1)
        outputs, registers = design.stepped(inputs, registers)
        if edge == 0:
            continue
        signals = {name: bool(_number(each)) for name, each in {**inputs, **outputs}.items()}
        on = {ours: signals[theirs] if theirs else True for ours, theirs in timing.handshake.items()}
        if on["in_valid"] and on["in_ready"]:
            rows.append({port.name: _number(inputs[port.name]) for port in lift.device.ports.inputs})
        if on["out_valid"] and on["out_ready"]:
            answers.append({name: _number(each) for name, each in outputs.items()})
    return rows, answers


def _number(term: terms.Term) -> int:
    """Value of a term without variables; a variable that the solver left out is 0."""
    free = {each.number: terms.const(0, each.width) for each in terms.order([term]) if each.op == "var"}
    (value,) = substitute([term], free)
    return int(value.name)


def write(entries: Counterexample, lift: Lift, config: str, why: str, folder: Path) -> Path:
    """Write the golden set and the waveforms of a counterexample to `folder`/<unit>-<configuration>; return it."""
    unit = lift.unit
    target = folder / parameters.set_name(unit, config)
    store.require_replaceable(target)
    cases = [Cases("model", why, dict(entries.inputs))]
    generator = {"model": {"function": MISSING, "seed": 0}}
    manifest, arrays = build.build(unit, config, cases, generator=generator, lead=False)
    files = sets.render(manifest, arrays)
    ports = lift.device.ports
    clocked = bool(lift.before)
    mine, events = vcd.dump(unit.name, ports, entries.states, clocked)
    theirs, _ = vcd.dump(unit.name, ports, _shown(lift, entries), clocked)
    store.sweep(target.parent)
    store.replace(target, files)
    waves = folder / f"{target.name}-waves"
    waves.mkdir(parents=True, exist_ok=True)
    store.write_files({waves / "unit.vcd": mine, waves / "design.vcd": theirs, waves / "events.txt": events})
    return target


def _shown(lift: Lift, entries: Counterexample) -> list[Any]:
    """States with the outputs of the design."""
    states = []
    for state, answer in zip(entries.states, entries.answers, strict=True):
        changed = copy.copy(state)
        vars(changed).update({port.name: lanes_of(port, answer[port.name]) for port in lift.device.ports.outputs})
        states.append(changed)
    return states
