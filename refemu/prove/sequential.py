"""Designs with registers: induction over one event, events from reset, rows through a pipeline."""

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from refemu.arith.checks import Refused
from refemu.prove import terms
from refemu.prove.design import Design
from refemu.prove.equivalence import (
    Part,
    Proof,
    ask,
    differs_in,
    lanes_of,
    require_fit,
    together,
    variables_of,
    word_of,
)
from refemu.prove.inner.sums import equal
from refemu.prove.lift import Lift
from refemu.prove.terms import Term, substitute
from refemu.units.ports import Port

HANDSHAKE = ("in_valid", "in_ready", "out_valid", "out_ready")


@dataclass(frozen=True)
class Timing:
    """How a design is driven."""

    reset: str = "rst"  #: input; "" if it has none
    low: bool = False  #: whether the reset is active low
    latency: int = 1  #: edges from the inputs of a row to its outputs
    valid: bool = False  #: whether it has valid and ready on both sides
    handshake: Mapping[str, str] = field(default_factory=lambda: {name: name for name in HANDSHAKE})
    registers: Mapping[str, str] = field(default_factory=dict)  #: register of the unit -> name in the design
    compared: Sequence[str] | None = None  #: outputs, by default all


class Run:
    """A design over several edges: its registers, and fresh inputs at each."""

    def __init__(self, design: Design, timing: Timing) -> None:
        self.design: Design = design
        self.timing: Timing = timing
        self.edge: int = 0
        self.registers: dict[str, Term] = {name: each.variable for name, each in design.registers.items()}

    def inputs(self, reset: bool) -> dict[str, Term]:
        """Inputs at the next edge: free, but for the reset."""
        answer = {
            name: terms.variable(f"{variable.name}@{self.edge}", variable.width)
            for name, variable in self.design.inputs.items()
        }
        if self.timing.reset:
            answer[self.timing.reset] = terms.const(int(reset != self.timing.low), 1)
        return answer

    def edge_with(self, inputs: Mapping[str, Term]) -> dict[str, Term]:
        """Step over an edge; return the outputs before it."""
        outputs, self.registers = self.design.stepped(inputs, self.registers)
        self.edge += 1
        return outputs

    def outputs(self, inputs: Mapping[str, Term]) -> dict[str, Term]:
        """Outputs for the present registers."""
        return self.design.stepped(inputs, self.registers)[0]

    def reset(self) -> None:
        """One edge with the reset, from any state; a design without reset starts from its initial values."""
        if self.timing.reset:
            self.edge_with(self.inputs(True))
        else:
            self.registers = {
                name: each.initial if each.initial is not None else each.variable
                for name, each in self.design.registers.items()
            }


def require_reset(design: Design, timing: Timing) -> None:
    """Require the reset that a design is to have."""
    if timing.reset and timing.reset not in design.inputs:
        raise Refused(
            f"{design.top}: input {timing.reset} is missing, the reset; name yours in a port map, see docs/port-map.md"
        )


def ties(lift: Lift, design: Design, timing: Timing) -> tuple[dict[str, Term], list[str]]:
    """Words of the design that are registers of the unit, and registers that nothing ties."""
    ports = lift.device.ports
    answer: dict[str, Term] = {}
    for port in ports.outputs:
        if timing.compared is None or port.name in timing.compared:
            answer[port.name] = design.outputs[port.name]
    for port in ports.state + ports.inputs:
        word = _register(design, port, timing.registers.get(port.name, ""))
        if word is not None:
            answer[port.name] = word
    read = {each.name for each in terms.order([*lift.roots, lift.legal]) if each.op == "var"}
    untied = [
        name for name, lanes in lift.before.items() if name not in answer and read & {each.name for each in lanes}
    ]
    return answer, untied


def _register(design: Design, port: Port, text: str) -> Term | None:
    """The word of a register: as a port map names it, or the only register of its name and width."""
    width = port.bits * port.count
    if text:
        return _expression(design, port, text, width)
    names = [name for name in design.registers if re.fullmatch(rf"(.*\.)?{re.escape(port.name)}(_q|_r|_reg)?", name)]
    words = [design.registers[name].variable for name in names]
    fitting = [word for word in words if word.width == width]
    return fitting[0] if len(fitting) == 1 else None


PART = re.compile(r"([A-Za-z_][\w.$]*)(?:\[(\d+)(?::(\d+))?\])?|(\d+)'d(\d+)")


def _expression(design: Design, port: Port, text: str, width: int) -> Term:
    """The word of names, slices and constants: "lane.acc_q", "{29'd0, lane.q[2:0]}"."""
    word: Term | None = None
    for part in text.strip().removeprefix("{").removesuffix("}").split(","):
        match = PART.fullmatch(part.strip())
        if match is None:
            raise Refused(f"register {port.name}: prove reads names, slices and constants, got {part.strip()!r}")
        name, high, low, size, value = match.groups()
        if name is None:
            part_word = terms.const(int(value), int(size))
        else:
            known = [known for known in (name, f"core.{name}") if known in design.registers]
            if not known:
                raise Refused(
                    f"register {port.name}: {name} is not a register of {design.top}, "
                    f"got {', '.join(sorted(design.registers)[:8]) or 'none'}"
                )
            part_word = design.registers[known[0]].variable
            if high is not None:
                first = int(low if low is not None else high)
                part_word = terms.extract(part_word, first, int(high) - first + 1)
        word = part_word if word is None else terms.concat(word, part_word)
    assert word is not None
    if word.width != width:
        raise Refused(f"register {port.name}: must have {width} bits, got {word.width} in {text!r}")
    return word


def reset_words(lift: Lift) -> dict[str, Term]:
    """Outputs and registers of the unit at reset, as words."""
    answer = {}
    for port in lift.device.ports.all:
        value = getattr(lift.device.state, port.name)
        lanes = value if port.lanes else (value,)
        answer[port.name] = word_of([terms.const(int(each), port.bits) for each in lanes])
    return answer


class Reference:
    """The unit over several events."""

    def __init__(self, lift: Lift, words: Mapping[str, Term], count: int | None = None) -> None:
        self.lift: Lift = lift
        self.words: dict[str, Term] = dict(words)
        self.count: int | None = count  # number of the event, if it is known
        self.ports: dict[str, Port] = {port.name: port for port in lift.device.ports.all}

    def event(self, inputs: Mapping[str, Term]) -> tuple[Term, dict[str, Term]]:
        """Whether inputs, as words, are legal now, and the words after the event."""
        values: dict[int, Term] = {}
        for name, lanes in self.lift.inputs.items():
            values |= variables_of(self.ports[name], lanes, inputs[name])
        for name, lanes in self.lift.before.items():
            if name in self.words:
                values |= variables_of(self.ports[name], lanes, self.words[name])
        names = list(self.lift.terms)
        number = self.lift.device.number
        if number in self.lift.before and self.count is not None:
            (counted,) = self.lift.before[number]
            values[counted.number] = terms.const(int(self.count > 0), 1)
        legal, *answer = substitute([self.lift.legal, *(word_of(self.lift.terms[name]) for name in names)], values)
        return legal, {**inputs, **dict(zip(names, answer, strict=True))}


@dataclass(frozen=True)
class Step:
    """One event from equal registers, whose other registers are free."""

    legal: Term
    tied: Mapping[str, Term]  #: words of the design, by register of the unit
    now: Mapping[str, Term]  #: before the event
    after: Mapping[str, Term]  #: of the unit
    then: Mapping[str, Term]  #: of the design
    inputs: Mapping[str, Term]


def step(lift: Lift, design: Design, timing: Timing) -> Step:
    """Both sides of one event."""
    tied, _ = ties(lift, design, timing)
    run = Run(design, timing)
    first = run.inputs(False)
    now = dict(zip(tied, _words(run, tied, first), strict=True))
    legal, after = Reference(lift, now).event(first)
    run.edge_with(first)
    then = dict(zip(tied, _words(run, tied, run.inputs(False)), strict=True))
    return Step(legal, tied, now, {each: after[each] for each in tied}, then, first)  # latched inputs among them


def induction(lift: Lift, design: Design, timing: Timing, seconds: float, name: str = "") -> Proof:
    """One event from any registers that are equal, and the reset. A failed step refutes nothing: "undecided"."""
    require_fit(lift, design)
    require_reset(design, timing)
    if timing.latency != 1 or not timing.reset:
        return Proof("undecided", [], "induction", untied=ties(lift, design, timing)[1])
    both, ports = step(lift, design, timing), {port.name: port for port in lift.device.ports.all}
    differs = terms.any_of(
        differs_in(*lanes)
        for each in both.tied
        for lanes in zip(*(lanes_of(words[each], ports[each]) for words in (both.after, both.then)), strict=True)
        if not equal(*lanes)
    )
    stepped = ask("one event from equal registers", [both.legal, differs], seconds, name)
    start = Run(design, timing)
    start.reset()
    words = dict(zip(both.tied, _words(start, both.tied, start.inputs(False)), strict=True))
    initial = reset_words(lift)
    wrong = terms.any_of(differs_in(initial[each], words[each]) for each in both.tied)
    reset = ask("registers after a reset", [wrong], seconds, name)
    outcome = together([stepped, reset])
    untied = [] if outcome == "proved" else ties(lift, design, timing)[1]
    return Proof("proved" if outcome == "proved" else "undecided", [stepped, reset], "induction", untied=untied)


def _words(run: Run, tied: Mapping[str, Term], inputs: Mapping[str, Term]) -> list[Term]:
    values = {variable.number: inputs[name] for name, variable in run.design.inputs.items()}
    values |= {each.variable.number: run.registers[name] for name, each in run.design.registers.items()}
    return substitute(list(tied.values()), values)


def bounded(lift: Lift, design: Design, timing: Timing, depth: int, seconds: float, name: str = "") -> Proof:
    """The first events after a reset; outputs are compared after each."""
    require_fit(lift, design)
    require_reset(design, timing)
    run = Run(design, timing)
    run.reset()
    words, assumed, parts = reset_words(lift), list[Term](), list[Part]()
    compared = [
        each.name for each in lift.device.ports.outputs if timing.compared is None or each.name in timing.compared
    ]
    waiting: list[dict[str, Term]] = []
    end = time.monotonic() + seconds
    for event in range(depth):
        inputs = run.inputs(False)
        legal, words = Reference(lift, words, event).event(inputs)
        assumed.append(legal)
        waiting.append(words)
        run.edge_with(inputs)
        if len(waiting) < timing.latency:
            continue
        outputs = run.outputs(run.inputs(False))
        due = waiting.pop(0)
        differs = terms.any_of(differs_in(due[each], outputs[each]) for each in compared)
        left = end - time.monotonic()
        what = f"event {event + 2 - timing.latency} after a reset"
        if left <= 0:
            parts.append(Part(what, "undecided", 0.0, "not asked: out of time"))
            break
        parts.append(ask(what, [*assumed, differs], left, name))
        if parts[-1].outcome != "proved":
            break
    return Proof(together(parts), parts, "bounded", depth=sum(part.outcome == "proved" for part in parts))


def pipelined(lift: Lift, design: Design, timing: Timing, seconds: float, name: str = "") -> Proof:
    """A unit without registers in a pipeline of fixed latency: a row that enters in any state comes out right."""
    require_fit(lift, design)
    run = Run(design, timing)
    first = run.inputs(False)
    legal, due = Reference(lift, {}).event(first)
    inputs = first
    for _ in range(timing.latency):
        run.edge_with(inputs)
        inputs = run.inputs(False)
    outputs = run.outputs(inputs)
    compared = [
        each.name for each in lift.device.ports.outputs if timing.compared is None or each.name in timing.compared
    ]
    differs = terms.any_of(differs_in(due[each], outputs[each]) for each in compared)
    part = ask(f"a row and its outputs {timing.latency} edges later", [legal, differs], seconds, name)
    return Proof(part.outcome, [part], "induction" if part.outcome == "proved" else "miter")


__all__ = ["Timing", "bounded", "induction", "lanes_of", "pipelined", "ties"]
