"""Units without registers between valid and ready: a row chosen by a solver gets its answer, under any back-pressure.

A monitor next to the design counts the rows that it has accepted and not answered, and remembers one of them. Cycles
from reset are asked one by one. Then `_induction` asks whether a path of some cycles from any state ends in an error.
"""

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from refemu.arith.checks import Refused
from refemu.prove import terms
from refemu.prove.design import Design
from refemu.prove.equivalence import Part, Proof, ask, differs_in, require_fit, together
from refemu.prove.lift import Lift
from refemu.prove.sequential import HANDSHAKE, Reference, Run, Timing, require_reset
from refemu.prove.terms import Term

COUNT = 6  #: bits of the number of rows that a design holds
MOST_BITS = 14  #: registers and inputs that decide on valid and ready
MOST_STATES = 1 << 16


@dataclass(frozen=True)
class Monitor:
    """Its registers, or their values."""

    held: Mapping[str, Term]  #: inputs of the row that is watched
    rows: Term  #: accepted and not answered
    ahead: Term  #: of the watched row
    flying: Term  #: whether the watched row is accepted and not answered
    chosen: Term  #: whether a row is, or was, watched

    def words(self) -> list[Term]:
        """All registers."""
        return [*self.held.values(), self.rows, self.ahead, self.flying, self.chosen]


@dataclass(frozen=True)
class Cycle:
    """One cycle of the design and its monitor."""

    legal: Term
    wrong: Term  #: an answer differs, or comes without a row
    after: Monitor


def require_handshake(design: Design, timing: Timing) -> None:
    """Require the signals of a handshake in a design."""
    for ours in HANDSHAKE:
        theirs = timing.handshake.get(ours, "")
        kind, known = ("input", design.inputs) if ours in ("in_valid", "out_ready") else ("output", design.outputs)
        if theirs and (theirs not in known or known[theirs].width != 1):
            raise Refused(
                f"{design.top}: {kind} {theirs} of 1 bit is missing, the {ours}; "
                "name yours in a port map, see docs/port-map.md"
            )


def shaken(lift: Lift, design: Design, timing: Timing, depth: int, seconds: float, name: str = "") -> Proof:
    """Prove a handshake by induction; else compare the first `depth` cycles after a reset."""
    require_fit(lift, design)
    require_reset(design, timing)
    require_handshake(design, timing)
    end = time.monotonic() + seconds
    parts: list[Part] = []
    for what, conditions in _cycles(lift, design, timing, depth):
        left = end - time.monotonic()
        if left <= 0:
            parts.append(Part(what, "undecided", 0.0, "not asked: out of time"))
            break
        parts.append(ask(what, conditions, left, name))
        if parts[-1].outcome != "proved":
            break
    bounded = Proof(together(parts), parts, "bounded", depth=sum(part.outcome == "proved" for part in parts))
    if bounded.outcome != "proved":
        return bounded
    step = _induction(lift, design, timing, depth, end, name)
    if isinstance(step, Part):
        return Proof("proved", [*parts, step], "induction", depth=bounded.depth)
    return replace(bounded, outcome="undecided", untied=[step])


def _cycles(lift: Lift, design: Design, timing: Timing, depth: int) -> Iterator[tuple[str, list[Term]]]:
    """Conditions of an error in each cycle after a reset."""
    run = Run(design, timing)
    run.reset()
    zero = terms.const(0, COUNT)
    held = {port.name: terms.const(0, port.bits * port.count) for port in lift.device.ports.inputs}
    monitor = Monitor(held, zero, zero, terms.FALSE, terms.FALSE)
    assumed: list[Term] = []
    for number in range(1, depth + 1):
        cycle = _cycle(lift, run, monitor)
        assumed.append(cycle.legal)
        monitor = cycle.after
        yield f"cycle {number} after a reset", [*assumed, cycle.wrong]


def _cycle(lift: Lift, run: Run, now: Monitor) -> Cycle:
    """Step the design and its monitor."""
    inputs = run.inputs(False)
    choose = terms.variable(f"choose@{run.edge}", 1)
    outputs = run.edge_with(inputs)
    enters, leaves, taken, after = _counted(run.timing, {**inputs, **outputs}, now, choose)
    held = {each: terms.ite(taken, inputs[each], value) for each, value in now.held.items()}
    legal, _ = Reference(lift, {}).event(inputs)
    _, due = Reference(lift, {}).event(held)
    compared = run.timing.compared
    differs = terms.any_of(
        differs_in(due[port.name], outputs[port.name])
        for port in lift.device.ports.outputs
        if compared is None or port.name in compared
    )
    answered = terms.and_(terms.or_(now.flying, taken), terms.not_(after.flying))
    extra = terms.and_(leaves, terms.not_(terms.or_(enters, terms.not_(terms.eq(now.rows, terms.const(0, COUNT))))))
    wrong = terms.or_(terms.and_(answered, differs), extra)
    return Cycle(terms.or_(terms.not_(enters), legal), wrong, replace(after, held=held))


def _counted(
    timing: Timing, signals: Mapping[str, Term], now: Monitor, choose: Term
) -> tuple[Term, Term, Term, Monitor]:
    """Whether a row enters, whether an answer leaves, whether it is the watched row, and the monitor after that."""
    on = {ours: signals[timing.handshake[ours]] if timing.handshake.get(ours) else terms.TRUE for ours in HANDSHAKE}
    enters = terms.and_(on["in_valid"], on["in_ready"])
    leaves = terms.and_(on["out_valid"], on["out_ready"])
    taken = terms.all_of([enters, choose, terms.not_(now.chosen)])
    ahead = terms.ite(taken, now.rows, now.ahead)
    flying = terms.or_(now.flying, taken)
    answered = terms.all_of([leaves, flying, terms.eq(ahead, terms.const(0, COUNT))])
    rows = terms.sub(terms.add(now.rows, terms.zext(enters, COUNT)), terms.zext(leaves, COUNT))
    ahead = terms.sub(ahead, terms.zext(terms.all_of([leaves, flying, terms.not_(answered)]), COUNT))
    flying = terms.and_(flying, terms.not_(answered))
    return enters, leaves, taken, Monitor(now.held, rows, ahead, flying, terms.or_(now.chosen, taken))


def _induction(lift: Lift, design: Design, timing: Timing, depth: int, end: float, name: str) -> Part | str:
    """A proof from any state, or why there is none."""
    run = Run(design, timing)
    held = {port.name: terms.variable(f"held.{port.name}", port.bits * port.count) for port in lift.device.ports.inputs}
    first = Monitor(
        held,
        terms.variable("rows", COUNT),
        terms.variable("ahead", COUNT),
        terms.variable("flying", 1),
        terms.variable("chosen", 1),
    )
    reachable = _reachable(design, timing, first)
    if isinstance(reachable, str):
        return reachable
    states = [[*run.registers.values(), *first.words()]]
    assumed, monitor = [reachable], first
    for length in range(1, depth + 1):
        cycle = _cycle(lift, run, monitor)
        part = ask(f"a path of {length} cycles from any state", [*assumed, cycle.legal, cycle.wrong], _left(end), name)
        if part.outcome != "refuted":
            return part if part.outcome == "proved" else f"{part.what}: undecided"
        monitor = cycle.after
        states.append([*run.registers.values(), *monitor.words()])
        assumed += [cycle.legal, terms.not_(cycle.wrong)]
        assumed += [_different(earlier, states[-1]) for earlier in states[:-1]]  # the shortest path repeats no state
    return f"states of the design beyond {depth} cycles after a reset"


def _left(end: float) -> float:
    return max(end - time.monotonic(), 0.001)


def _different(a: Sequence[Term], b: Sequence[Term]) -> Term:
    return terms.any_of(terms.not_(terms.eq(x, y)) for x, y in zip(a, b, strict=True))


def _reachable(design: Design, timing: Timing, now: Monitor) -> Term | str:
    """Whether the registers that decide on valid and ready have values that some inputs lead to from reset.

    These registers are read by no others, so all their values are enumerated. Without data of rows there are few.
    """
    run = Run(design, timing)
    run.reset()
    inputs = {name: terms.variable(f"now.{name}", each.width) for name, each in design.inputs.items()}
    if timing.reset:
        inputs[timing.reset] = terms.const(int(timing.low), 1)
    present = {name: each.variable for name, each in design.registers.items()}
    outputs, nexts = design.stepped(inputs, present)
    choose = terms.variable("now.choose", 1)
    *_, after = _counted(timing, {**inputs, **outputs}, now, choose)
    later = dict(zip(map(_name, now.words()), after.words(), strict=True)) | {
        _name(present[name]): term for name, term in nexts.items()
    }
    deciding = _cone([_name(each) for each in (now.rows, now.ahead, now.flying, now.chosen)], later)
    registers = [each for each in (*present.values(), *now.words()) if _name(each) in deciding]
    free = {_name(each): each for name in deciding for each in terms.order([later[name]]) if each.op == "var"}
    chosen = [each for name, each in free.items() if name not in deciding]
    counters = COUNT * 2 + 2
    if sum(int(each.width) for each in (*registers, *chosen)) - counters > MOST_BITS:
        names = ", ".join(each.name.removeprefix(design.prefix) for each in (*registers, *chosen))
        return f"more than {MOST_BITS} bits decide on valid and ready: {names}"[:200]
    start = dict(zip((_name(each) for each in present.values()), run.registers.values(), strict=True))
    begins = _beginnings([start.get(each.name, terms.const(0, each.width)) for each in registers])
    if begins is None:
        return "registers that decide on valid and ready, which the reset does not set"
    known = _closure(registers, chosen, [later[each.name] for each in registers], begins)
    if known is None:
        return f"a design that holds {1 << (COUNT - 1)} rows or more"
    return terms.any_of(
        terms.all_of(
            terms.eq(each, terms.const(value, each.width)) for each, value in zip(registers, state, strict=True)
        )
        for state in sorted(known)
    )


def _name(term: Term) -> str:
    return str(term.name)


def _cone(names: Sequence[str], later: Mapping[str, Term]) -> set[str]:
    """Registers that some registers depend on, themselves included."""
    known, waiting = set[str](), list(names)
    while waiting:
        name = waiting.pop()
        if name not in known:
            known.add(name)
            waiting += [each.name for each in terms.order([later[name]]) if each.op == "var" and each.name in later]
    return known


def _beginnings(values: Sequence[Term]) -> list[tuple[int, ...]] | None:
    """States after a reset; None if some register is not a constant then."""
    return [tuple(each.name for each in values)] if all(each.op == "const" for each in values) else None


def _closure(
    registers: Sequence[Term], chosen: Sequence[Term], later: Sequence[Term], begins: Sequence[tuple[int, ...]]
) -> set[tuple[int, ...]] | None:
    """All states that some inputs lead to; None if rows pile up."""
    inputs = np.array([*itertools.product(*(range(1 << each.width) for each in chosen))], np.uint64)
    inputs = inputs.reshape(-1, len(chosen))
    at = [each.name for each in registers].index("rows")
    known, waiting = set(begins), list(begins)
    while waiting:
        state = np.array(waiting, np.uint64).reshape(-1, len(registers))
        rows = {each.name: np.repeat(state[:, place], len(inputs)) for place, each in enumerate(registers)}
        rows |= {each.name: np.tile(inputs[:, place], len(state)) for place, each in enumerate(chosen)}
        answer = terms.evaluate(later, rows, len(state) * len(inputs))
        reached = np.unique(np.stack([each.astype(np.uint64) for each in answer], axis=1), axis=0)
        waiting = [each for each in map(tuple, reached.tolist()) if each not in known]
        known |= set(waiting)
        if len(known) > MOST_STATES or any(each[at] >= 1 << (COUNT - 1) for each in waiting):
            return None
    return known


__all__ = ["require_handshake", "shaken"]
