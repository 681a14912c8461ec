"""Terms of a unit: what its readable text computes, one term for each lane of an output and of a next register."""

import copy
import dataclasses
import gc
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from refemu.arith.checks import Refused
from refemu.prove import container_forms as container_forms  # registers its forms
from refemu.prove import event_forms, merging, terms
from refemu.prove import number_forms as number_forms  # registers its forms
from refemu.prove.frames import OutOfTime, Unseen
from refemu.prove.interpreter import Interpreter
from refemu.prove.merging import NEVER, Choice, merge
from refemu.prove.terms import TRUE, Term, substitute
from refemu.prove.values import Int, Unsupported, fit, integer, truth, word
from refemu.units.cycle_accurate import CycleAccurate
from refemu.units.declaration import Sequential
from refemu.units.ports import Port
from refemu.units.unit import AnyUnit

HIDDEN = 62  #: bits of a register that no port shows
COUNTING = 32  #: bits of a register that is assumed not to overflow
MOST_EVENTS = 4096  #: events of an operation
MOST_VALUES = 128  #: values of a variable that is split
MOST_SPLITS = 2048  #: values tried in all
SECONDS = 60.0


class NotLifted(Refused):
    """A unit whose text has no terms; the message names the line."""


@dataclass
class Lift:
    """Terms of one operation of a unit: the first event with its inputs, and those that follow."""

    unit: AnyUnit
    config: Mapping[str, Any]
    device: Any  #: at reset
    terms: dict[str, list[Term]]  #: one for each lane of an output or register, by its name
    inputs: dict[str, list[Term]]  #: variables of the inputs, `a_0` for lane 0 of a
    before: dict[str, list[Term]] = field(default_factory=dict)  #: variables of the registers, `q_acc`
    legal: Term = TRUE  #: condition on inputs and registers that the text accepts
    invariant: Term = TRUE  #: condition on registers that holds from reset on
    assumed: dict[str, int] = field(default_factory=dict)  #: registers that count, and the most that they may reach
    demands: list[tuple[Term, str]] = field(default_factory=list)  #: must hold for legal values; else the lift is void

    @property
    def roots(self) -> list[Term]:
        """Every term of an output or register."""
        return [each for lanes in self.terms.values() for each in lanes]

    @property
    def nodes(self) -> int:
        """Number of nodes of all terms."""
        return sum(1 for _ in terms.order(self.roots))


def lift(
    unit: AnyUnit, config: Mapping[str, Any], seconds: float = SECONDS, interpreter: type[Interpreter] = Interpreter
) -> Lift:
    """Run the readable text of a unit on variables.

    Parameters
    ----------
    unit : Unit
        Descriptor.
    config : Mapping
        Parameters of the unit.
    seconds : float
        Time limit of splits into values of one variable.
    interpreter : type
        What runs the text; a subclass may record what it sees.

    Returns
    -------
    Lift
        Terms.

    Raises
    ------
    NotLifted
        A line has no terms, or a value may not fit its port.
    """
    end, collects = time.monotonic() + seconds, gc.isenabled()
    gc.disable()  # terms have no cycles
    try:
        whole = _split(unit, config, {}, end, [MOST_SPLITS], interpreter)
    finally:
        if collects:
            gc.enable()
    if whole.invariant is not terms.TRUE:
        whole.demands.append((_preserved(whole), "the invariant of the registers, after an event"))
        if not whole.device.invariant(whole.device.state):
            raise NotLifted(f"{unit.name}: the invariant of the registers does not hold at reset")
    return whole


def _split(
    unit: AnyUnit,
    config: Mapping[str, Any],
    fixed: Mapping[str, int],
    end: float,
    left: list[int],
    interpreter: type[Interpreter],
) -> "Lift":
    """The lift with some variables fixed; where a line needs a number, each value of one more variable in turn."""
    device = unit.unit_class(**config)
    run = interpreter()
    run.late = lambda: time.monotonic() > end
    try:
        with run.running():
            return _lifted(unit, config, device, run, fixed)
    except Unsupported as error:
        answer = _splitting(device, error.term, fixed)
        left[0] -= len(answer[1]) if answer else 0
        if answer is None or left[0] < 0 or time.monotonic() > end:
            line = error.line or run.line
            if answer is None and any(name.startswith("q_") for name in fixed) and error.__cause__ is not None:
                return _unreachable(unit, config, device, fixed, f"{line}: {error}")
            raise NotLifted(f"{unit.name}: {short(line)}: {error}") from error
    except OutOfTime as error:
        raise NotLifted(f"{unit.name}: {short(str(error))}: the time limit of the lift") from error
    except RecursionError as error:
        raise NotLifted(f"{unit.name}: {short(run.line)}: a recursion that is too deep") from error
    variable, values = answer
    parts = [(value, _split(unit, config, {**fixed, variable.name: value}, end, left, interpreter)) for value in values]
    return _joined(variable, parts)


def _preserved(lift: "Lift") -> Term:
    """The invariant after an event, which latches the inputs."""
    latest = {**lift.before, **lift.inputs, **lift.terms}
    values = {
        before.number: after
        for name, lanes in lift.before.items()
        for before, after in zip(lanes, latest[name], strict=True)
    }
    return substitute([lift.invariant], values)[0]


def _splitting(device: Any, term: Term | None, fixed: Mapping[str, int]) -> tuple[Term, Sequence[int]] | None:
    """A variable on which a term depends, and its values, if these are few."""
    known = {
        name_of(port, lane, prefix): port
        for prefix, group in (("", device.ports.inputs), ("q_", [_reached(device, port) for port in device.ports.all]))
        for port in group
        for lane in range(port.count)
    }
    known |= {f"q_{device.number}": Port(device.number, 1)}
    answer = []
    for each in terms.order([term] if term is not None else []):
        if each.op == "var" and each.name in known and each.name not in fixed:
            low, high = known[each.name].limits
            if high - low < MOST_VALUES:
                answer.append((high - low, each.name, each, range(low, high + 1)))
    return min(answer)[2:] if answer else None


def _joined(variable: Term, parts: Sequence[tuple[int, "Lift"]]) -> "Lift":
    """One lift from those of each value of a variable."""
    whole = parts[-1][1]
    legal, demands = terms.FALSE, list[tuple[Term, str]]()
    tests = [terms.eq(variable, terms.const(value, variable.width)) for value, _ in parts]
    for test, (_, part) in zip(tests, parts, strict=True):
        legal = terms.or_(legal, terms.and_(test, part.legal))
        demands += [(terms.or_(terms.not_(test), condition), what) for condition, what in part.demands]
    for test, (_, part) in list(zip(tests, parts, strict=True))[-2::-1]:
        for name, lanes in part.terms.items():
            whole.terms[name] = [terms.ite(test, a, b) for a, b in zip(lanes, whole.terms[name], strict=True)]
    invariants = {part.invariant.number for _, part in parts}
    if len(invariants) > 1:
        whole.invariant = terms.any_of(
            terms.and_(test, part.invariant) for test, (_, part) in zip(tests, parts, strict=True)
        )
    whole.legal, whole.demands = legal, demands
    whole.assumed |= {name: most for _, part in parts for name, most in part.assumed.items()}
    return whole


def short(line: str) -> str:
    """A file from refemu on, and its line."""
    return "refemu/" + line.rpartition("refemu/")[2] if "refemu/" in line else line


def _lifted(unit: AnyUnit, config: Mapping[str, Any], device: Any, run: Interpreter, fixed: Mapping[str, int]) -> Lift:
    ports = device.ports
    conditions: list[Term] = []
    inputs = {port.name: _variables(port, "", conditions, fixed) for port in ports.inputs}
    lifted = Lift(unit, dict(config), copy.copy(device), {}, {name: lanes for name, (lanes, _) in inputs.items()})
    if isinstance(device, Sequential):
        registers = {port.name: _variables(_reached(device, port), "q_", conditions, fixed) for port in ports.all}
        registers |= _hidden(device, fixed)
        lifted.before = {name: lanes for name, (lanes, _) in registers.items() if lanes}
        state = copy.copy(device.state)
        vars(state).update({name: value for name, (_, value) in registers.items()})
        if isinstance(device, CycleAccurate):
            vars(state)["event"], steady = _traced(device, registers["phase"][1])
            vars(state).update({port.name: getattr(device.state, port.name) for port in steady})
            busy_, (phase,) = registers["busy"][0][0], registers["phase"][0]
            last = terms.const(device.edges - 1, phase.width)
            lifted.invariant = terms.or_(terms.not_(busy_), terms.ult(phase, last))
            for port in steady:
                at_reset = merging.equal(registers[port.name][1], getattr(device.state, port.name))
                lifted.invariant = terms.and_(lifted.invariant, at_reset)
            for each in (busy_, inputs["start"][0][0]):
                if each.name not in fixed:
                    raise Unsupported("whether an operation begins", each)
            known = {
                each.number: terms.const(fixed[each.name], each.width) for each in (busy_, phase) if each.name in fixed
            }
            if substitute([lifted.invariant], known)[0] is terms.FALSE:
                return _illegal(lifted)
        invariant = run.call(device.invariant, state)
        lifted.invariant = terms.and_(lifted.invariant, truth(invariant))
        if lifted.invariant is terms.FALSE:
            return _illegal(lifted)
        event_forms.restore(run, device, state)
    run.guard = terms.TRUE
    values = [value for _, value in inputs.values()]
    if run.alive(lambda: event_forms.require(run, device, values)) is NEVER:
        return _illegal(lifted)
    if not operation(run, device, values):
        return _illegal(lifted)
    state = run.attribute(device, "state")
    for port in ports.outputs + (ports.state if run.inside or isinstance(device, Sequential) else ()):
        if isinstance(device, Sequential):
            conditions += _counted(lifted, port, getattr(state, port.name))
        lifted.terms[port.name] = _lanes(_reached(device, port), getattr(state, port.name), run)
    conditions = _needed(lifted, conditions, run)
    lifted.legal = terms.and_(terms.all_of([*conditions, lifted.invariant]), terms.not_(run.illegal))
    lifted.demands = [(condition, what) for condition, what in run.obligations if condition is not terms.TRUE]
    _require_ports(lifted, ports)
    return lifted


def operation(run: Interpreter, device: Any, inputs: Sequence[Any]) -> bool:
    """Run all events of an operation; False if no inputs are legal."""
    always = run.guard
    if run.alive(lambda: run.call(device._open, *inputs)) is NEVER:
        return False
    going, count = busy(run, device), 0
    while going is not terms.FALSE:
        count += 1
        if count > MOST_EVENTS:
            raise Unsupported(f"an operation of more than {MOST_EVENTS} events")
        before, run.guard = device.state, terms.and_(always, going)
        after = run.alive(lambda: run.call(device._continue))
        device.state = merge(going, after, before)
        going, run.guard = terms.and_(going, busy(run, device)), always
    return True


def _reached(device: Any, port: Port) -> Port:
    """A port of a register, with the values that the unit says it reaches: each event must stay within them."""
    most = device.reaches.get(port.name)
    return port if most is None else dataclasses.replace(port, most=most)


def _counted(lifted: Lift, port: Port, value: Any) -> list[Term]:
    """That a register that counts on does not pass its last bit: an assumption about the number of events."""
    number, most = integer(value), (1 << port.bits) - 1
    if port.lanes or port.signed or port.bits < COUNTING or port.limits[1] < most or not isinstance(number, Int):
        return []
    if number.high <= most:
        return []
    lifted.assumed[port.name] = most
    return [truth(number <= most)]


def _needed(lifted: Lift, conditions: list[Term], run: Interpreter) -> list[Term]:
    """Limits of inputs, and of registers that something reads."""
    roots = [*lifted.roots, run.illegal, lifted.invariant, *(condition for condition, _ in run.obligations)]
    read = {each.number for each in terms.order(roots)}
    unread = {each.number for lanes in lifted.before.values() for each in lanes} - read
    return [each for each in conditions if not unread & {part.number for part in terms.order([each])}]


def _illegal(lifted: Lift) -> Lift:
    """A lift that accepts no inputs."""
    lifted.terms = {
        port.name: [terms.const(0, port.bits)] * port.count
        for port in lifted.device.ports.outputs + lifted.device.ports.state
    }
    lifted.legal = terms.FALSE
    return lifted


def _unreachable(unit: AnyUnit, config: Mapping[str, Any], device: Any, fixed: Mapping[str, int], what: str) -> Lift:
    """A lift for values of registers with which the text fails, so that they must never occur."""
    conditions: list[Term] = []
    inputs = {port.name: _variables(port, "", conditions, fixed)[0] for port in device.ports.inputs}
    before = {port.name: _variables(port, "q_", conditions, fixed)[0] for port in device.ports.all}
    before |= {name: lanes for name, (lanes, _) in _hidden(device, fixed).items() if lanes}
    lifted = _illegal(Lift(unit, dict(config), unit.unit_class(**config), {}, inputs, before))
    lifted.legal = terms.all_of(conditions)
    lifted.demands = [(terms.FALSE, what)]
    return lifted


def _traced(device: CycleAccurate, phase: Any) -> tuple[Any, list[Port]]:
    """What an operation on zeros shows of a cycle-accurate unit: its last event, that of its phase, and constants.

    A register that is not 0 at reset, and that no event changes, gets an invariant, which must last as any other.
    """
    inner = type(device.inner)(**{name: getattr(device, name) for name in device._names})
    states = list(inner.operations([np.zeros((1, *port.shape), port.dtype) for port in inner.ports.inputs]))
    names = [state.event for state in states]
    steady = [
        port
        for port in device.inner.ports.state
        for value in [getattr(device.state, port.name)]
        if value != port.filled(0) and all(getattr(state, port.name) == value for state in states)
    ]
    ways = {
        name: terms.any_of(merging.equal(phase, at) for at, each in enumerate(names) if each == name)
        for name in dict.fromkeys(names[:-1])
        if name != names[-1]
    }
    pairs = [*((ways[name], name) for name in ways), (terms.not_(terms.any_of(ways.values())), names[-1])]
    return merging.choice(pairs), steady


def busy(run: Interpreter, device: Any) -> Term:
    """Whether events of the operation remain."""
    answer = run.attribute(device, "busy")
    return truth(answer)


def _variables(port: Port, prefix: str, conditions: list[Term], fixed: Mapping[str, int]) -> tuple[list[Term], Any]:
    """Variables of a port, and its value; conditions get its limits where these are narrower than its bits."""
    low, high = port.limits
    natural = (-(1 << (port.bits - 1)), (1 << (port.bits - 1)) - 1) if port.signed else (0, (1 << port.bits) - 1)
    lanes, values = [], []
    for lane in range(port.count):
        term = terms.variable(name_of(port, lane, prefix), port.bits)
        value = Int(term if port.signed else terms.zext(term, port.bits + 1), *natural)
        if low > natural[0]:
            conditions.append(truth(value >= low))
        if high < natural[1]:
            conditions.append(truth(value <= high))
        lanes.append(term)
        values.append(fixed.get(term.name, low if low == high else Int(value.term, low, high)))
    return lanes, tuple(values) if port.lanes else values[0]


def name_of(port: Port, lane: int, prefix: str = "") -> str:
    """Name of the variable of a lane."""
    return f"{prefix}{port.name}" + (f"_{lane}" if port.lanes else "")


def _hidden(device: Any, fixed: Mapping[str, int]) -> dict[str, tuple[list[Term], Any]]:
    """Variables of registers that no port shows; a port that depended on one would be rejected.

    Of the number of the last event, only whether there was one is followed.
    """
    shown = {port.name for port in device.ports.all}
    after, number = terms.variable(f"q_{device.number}", 1), terms.variable("q_number", HIDDEN)
    count = Int(terms.zext(number, HIDDEN + 1), 0, (1 << HIDDEN) - 1)
    value = {0: -1, 1: count}.get(fixed.get(after.name, -1), merge(after, count, -1))
    answer: dict[str, tuple[list[Term], Any]] = {device.number: ([after], value)}
    for name in type(device).registers:
        value = getattr(device.state, name)
        if name in shown:
            continue
        if isinstance(value, bool) or not isinstance(value, int):
            answer[name] = [], Unseen(name)
            continue
        term = terms.variable(f"q_{name}", HIDDEN)
        answer[name] = [term], Int(terms.zext(term, HIDDEN + 1), 0, (1 << HIDDEN) - 1)
    return answer


def _lanes(port: Port, value: Any, run: Interpreter) -> list[Term]:
    """Terms of the lanes of a port, whose values must fit it."""
    if isinstance(value, Choice):
        raise Unsupported(f"port {port.name}, whose value has several shapes", value.ways[0][0])
    lanes = list(value) if port.lanes else [value]
    if len(lanes) != port.count:
        raise Unsupported(f"port {port.name}, which has {len(lanes)} lanes and not {port.count}")
    low, high = port.limits
    answer = []
    for each in lanes:
        number = integer(each)
        if number is None:
            raise Unsupported(f"port {port.name}, whose value is not an integer")
        if isinstance(number, int) and not low <= number <= high:
            run.line = f"port {port.name}"
            run.obligations.append((terms.not_(run.now()), f"port {port.name}: its value {number} is out of range"))
        if isinstance(number, Int) and (number.low < low or number.high > high):
            run.line = f"port {port.name}"
            run.demand(terms.and_(truth(number >= low), truth(number <= high)), "a value out of range")
        answer.append(
            fit(word(number, max(port.bits, number.term.width)), port.bits)
            if isinstance(number, Int)
            else terms.const(number, port.bits)
        )
    return answer


def _require_ports(lifted: Lift, ports: Any) -> None:
    """Refuse ports that depend on a register that no port shows."""
    shown = {each.name for lanes in (*lifted.inputs.values(),) for each in lanes}
    registers = {port.name for port in ports.all} | {lifted.device.number}
    shown |= {each.name for name in registers for each in lifted.before.get(name, [])}
    for each in terms.order([*lifted.roots, lifted.legal]):
        if each.op == "var" and each.name not in shown:
            raise Unsupported(f"register {each.name.removeprefix('q_')}, which no port shows, changes outputs")


__all__ = ["Lift", "NotLifted", "lift"]
