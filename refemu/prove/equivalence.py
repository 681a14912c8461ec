"""Questions about lifts and designs: are outputs equal for all legal inputs, and if not, for which do they differ?"""

import functools
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from refemu.arith.checks import Refused
from refemu.prove import solver, terms
from refemu.prove.design import Design
from refemu.prove.lift import Lift, name_of
from refemu.prove.terms import Term, substitute
from refemu.units.ports import Port

Outcome = Literal["proved", "refuted", "undecided"]


@dataclass(frozen=True)
class Part:
    """One question and its answer."""

    what: str
    outcome: Outcome
    seconds: float
    solver: str
    values: Mapping[str, int] = field(default_factory=dict)  #: of the variables, if it is refuted


@dataclass(frozen=True)
class Proof:
    """Answers to all questions."""

    outcome: Outcome
    parts: Sequence[Part]
    method: str = ""  #: "miter", "induction" or "bounded"
    depth: int = 0  #: events from reset, of a bounded proof
    assumptions: Sequence[str] = ()
    untied: Sequence[str] = ()  #: registers that nothing ties

    @property
    def seconds(self) -> float:
        """Time of the solver."""
        return functools.reduce(lambda total, part: total + part.seconds, self.parts, 0.0)

    @property
    def refuted(self) -> Part | None:
        """The first part that is refuted."""
        return next((part for part in self.parts if part.outcome == "refuted"), None)


VERDICTS: dict[str, Outcome] = {"unsat": "proved", "sat": "refuted", "unknown": "undecided"}


def ask(what: str, conditions: Sequence[Term], seconds: float, name: str = "") -> Part:
    """Whether some conditions never hold together."""
    answer = solver.solve(conditions, seconds, name)
    return Part(what, VERDICTS[answer.verdict], answer.seconds, answer.solver, answer.values)


def together(parts: Sequence[Part]) -> Outcome:
    """Outcome of several parts."""
    outcomes = [part.outcome for part in parts]
    return "refuted" if "refuted" in outcomes else "undecided" if "undecided" in outcomes else "proved"


def equivalent(
    left: Lift, right: Lift, seconds: float = 60, cases: Sequence[tuple[str, Term]] = (), name: str = ""
) -> Proof:
    """Compare two lifts of one unit, such as a mutant: all outputs and next registers, for all that `left` accepts.

    Parameters
    ----------
    left, right : Lift
        Lifts with equal ports; equal registers have equal values before the event.
    seconds : float
        Time limit of the solver, for all outputs together.
    cases : sequence of (str, Term)
        Conditions that are asked one by one; by default one question.
    name : str
        Solver.

    Returns
    -------
    Proof
        "proved", "refuted" with the values of the variables, or "undecided".

    Raises
    ------
    Refused
        Different ports.
    """
    if {key: len(lanes) for key, lanes in left.terms.items()} != {
        key: len(lanes) for key, lanes in right.terms.items()
    }:
        raise Refused(f"{left.unit.name}: lifts must have the same outputs and registers")
    pairs = [(a, b) for port, lanes in left.terms.items() for a, b in zip(lanes, right.terms[port], strict=True)]
    differs = terms.any_of(terms.not_(terms.eq(a, b)) for a, b in pairs if a is not b)
    differs = terms.or_(differs, terms.not_(right.legal))
    return miter([left.legal], differs, seconds, cases, name)


def miter(
    assumed: Sequence[Term], differs: Term, seconds: float, cases: Sequence[tuple[str, Term]] = (), name: str = ""
) -> Proof:
    """Ask whether outputs differ under assumptions, case by case within one time limit."""
    parts: list[Part] = []
    end = time.monotonic() + seconds
    for what, case in cases or [("all inputs", terms.TRUE)]:
        left = end - time.monotonic()
        if left <= 0:
            parts.append(Part(what, "undecided", 0.0, "not asked: out of time"))
            continue
        parts.append(ask(what, [*assumed, case, differs], left, name))
        if parts[-1].outcome == "refuted":
            break
    return Proof(together(parts), parts, "miter")


def demands(lift: Lift, seconds: float, name: str = "") -> Proof:
    """Prove that a lift is exact: that no legal inputs reach what its text or library cannot do."""
    if not lift.demands:
        return Proof("proved", [])
    broken = terms.not_(terms.all_of(condition for condition, _ in lift.demands))
    proof = miter([lift.legal], broken, seconds, name=name)
    if proof.outcome == "proved":
        return proof
    parts = [ask(what, [lift.legal, terms.not_(condition)], seconds, name) for condition, what in lift.demands]
    return Proof(together(parts), parts, "miter")


def word_of(lanes: Sequence[Term]) -> Term:
    """Lanes as one word, lane 0 lowest."""
    word = lanes[0]
    for lane in lanes[1:]:
        word = terms.concat(lane, word)
    return word


def lanes_of(word: Term, port: Port) -> list[Term]:
    """Lanes of a word."""
    return [terms.extract(word, port.bits * lane, port.bits) for lane in range(port.count)]


def variables_of(port: Port, lanes: Sequence[Term], word: Term) -> dict[int, Term]:
    """A word in the place of the variables of a port."""
    return {lane.number: part for lane, part in zip(lanes, lanes_of(word, port), strict=True)}


def require_fit(lift: Lift, design: Design) -> None:
    """Require ports of a unit in a design, by name and width."""
    ports = lift.device.ports
    for kind, group, known in (("input", ports.inputs, design.inputs), ("output", ports.outputs, design.outputs)):
        for port in group:
            bits = port.bits * port.count
            if port.name not in known:
                raise Refused(
                    f"{design.top}: {kind} {port.name} of unit {lift.unit.name} is missing, got "
                    f"{', '.join(known) or 'none'}; write a port map, see docs/port-map.md"
                )
            if known[port.name].width != bits:
                raise Refused(
                    f"{design.top}: {kind} {port.name} must have {bits} bits, got {known[port.name].width}; "
                    "give the module the parameters of this configuration"
                )


def combinational(
    lift: Lift,
    design: Design,
    seconds: float,
    cases: Sequence[tuple[str, Term]] = (),
    name: str = "",
    compared: Sequence[str] | None = None,
    masks: Mapping[str, Term] | None = None,
) -> Proof:
    """Compare a design without registers with a unit, for all legal inputs.

    compared: outputs, by default all. masks: bits of an output that count, by default all.
    """
    require_fit(lift, design)
    ports = lift.device.ports
    values = {design.inputs[port.name].number: word_of(lift.inputs[port.name]) for port in ports.inputs}
    outputs = dict(zip(design.outputs, substitute(list(design.outputs.values()), values), strict=True))
    differs = terms.any_of(
        differs_in(word_of(lift.terms[port.name]), outputs[port.name], (masks or {}).get(port.name))
        for port in ports.outputs
        if compared is None or port.name in compared
    )
    return miter([lift.legal], differs, seconds, cases, name)


def differs_in(a: Term, b: Term, mask: Term | None = None) -> Term:
    """Whether two words differ in a bit that counts."""
    if mask is not None:
        a, b = terms.and_(a, mask), terms.and_(b, mask)
    return terms.not_(terms.eq(a, b))


__all__ = ["Part", "Proof", "ask", "combinational", "demands", "equivalent", "miter", "name_of", "together"]
