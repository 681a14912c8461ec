"""`prove`: read a design, lift the unit, check the lift, ask the solver, and replay what it finds."""

import dataclasses
import hashlib
import inspect
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from refemu.arith.checks import Refused
from refemu.golden.proofs import counterexample, decided
from refemu.golden.proofs.counterexample import Counterexample
from refemu.golden.proofs.question import Question
from refemu.golden.rtl import mapping, wrapper
from refemu.prove import design, equivalence, handshake, lift, selfcheck, sequential, terms
from refemu.prove.design import Design
from refemu.prove.equivalence import Proof
from refemu.prove.inner import comparison
from refemu.prove.lift import Lift
from refemu.prove.sequential import Timing
from refemu.units import parameters
from refemu.units.unit import AnyUnit

DIRECT, MOST = 4, 15.0  #: the first question gets this part of the time, at most these seconds


@dataclass(frozen=True)
class Report:
    """Answer, and everything that it rests on."""

    question: Question
    target: str  #: name of the unit and configuration, with the variants of decisions
    proof: Proof
    design: Design
    checked: int  #: rows of the self-check
    assumptions: Sequence[str]
    masks: Sequence[str]  #: bits that do not count
    reset: Mapping[str, str]  #: register -> hex word at reset
    digest: str  #: SHA-256 of the readable text of the unit
    seconds: float
    counterexample: Counterexample | None = None
    diagnosis: Sequence[str] = ()
    decided: Sequence[str] = field(default_factory=tuple)  #: parts that are proved, of an undecided question


def prove(question: Question) -> Report:
    """Prove that a design equals a unit, or find inputs for which it does not.

    Parameters
    ----------
    question : Question
        Unit, design and limits.

    Returns
    -------
    Report
        Outcome, with assumptions; a counterexample was replayed on the readable unit.

    Raises
    ------
    Refused
        Sources, port map or unit cannot be read or lifted.
    Disagrees
        The terms and the unit differ: an error inside refemu.
    """
    began = time.monotonic()
    unit, config, text = decided.chosen(question.unit, question.config, question.decisions)
    lifted = lift.lift(unit, config)
    checked = selfcheck.check(lifted)
    exact = equivalence.demands(lifted, question.seconds, question.solver)
    if exact.outcome != "proved":
        failed = next(part for part in exact.parts if part.outcome != "proved")
        raise Refused(f"{unit.name}: {lift.short(failed.what)}: not shown to be impossible; the unit cannot be proved")
    read, timing = _design(question, unit, config)
    proof, runs = _proved(question, lifted, read, timing)
    answer, diagnosis = None, list[str]()
    if proof.refuted is not None:
        answer = counterexample.replay(lifted, read, timing, proof.refuted, runs)
        if not answer.says:
            diagnosis = decided.diagnosis(question, lifted, answer, lambda other: _again(question, other, read, timing))
    return Report(
        question,
        text,
        proof,
        read,
        checked,
        [*_assumptions(lifted, read, timing, proof, question)],
        _masks(unit),
        _reset(lifted),
        _digest(unit),
        time.monotonic() - began,
        answer,
        diagnosis,
        [part.what for part in proof.parts if part.outcome == "proved"] if proof.outcome == "undecided" else (),
    )


def _again(question: Question, other: Lift, read: Design, timing: Timing) -> str:
    """Outcome of the same question with another unit."""
    return _proved(question, other, read, timing)[0].outcome


def _design(question: Question, unit: AnyUnit, config: Mapping[str, Any]) -> tuple[Design, Timing]:
    """The design inside its port map, and how it is driven."""
    ports = unit.ports(config)  # type: ignore[arg-type]
    sequential_ = unit.timing == "event"
    latency = question.latency if question.latency is not None else int(sequential_)
    if not question.map:
        read = design.read(question.sources, question.top or unit.name)
        registers = latency > 0 or question.valid
        reset = "rst" if "rst" in read.inputs and registers else ""
        return read, Timing(reset, False, latency, question.valid)
    map_ = mapping.read(question.map, unit.name, ports)
    valid = question.valid or map_.handshake is not None
    with tempfile.TemporaryDirectory(prefix="refemu-prove-") as folder:
        shell = Path(folder) / f"{wrapper.MODULE}.v"
        chosen = dataclasses.replace(map_, top=question.top) if question.top else map_
        shell.write_text(wrapper.for_yosys(unit, question.config, chosen, latency > 0 or valid, valid))
        read = design.read([*question.sources, shell], wrapper.MODULE)
    read.top = chosen.top or unit.name
    files = [Path(each) for each in question.sources if not each.startswith(design.INCLUDE)]
    read.digest = hashlib.sha256(b"".join(each.read_bytes() for each in files)).hexdigest()
    compared = [port.name for port in ports.outputs if port.name not in map_.unused]
    names = {name: wrapper.OUTSIDE[name] for name in wrapper.OUTSIDE}
    clocked = latency > 0 or valid
    return read, Timing("rst" if clocked else "", False, latency, valid, names, map_.registers, compared)


def _proved(question: Question, lifted: Lift, read: Design, timing: Timing) -> tuple[Proof, str]:
    """The proof, and the kind of run that a counterexample shows."""
    limits = question.seconds, question.solver
    if timing.valid:
        if lifted.before:
            raise Refused(f"{lifted.unit.name}: prove reads valid and ready of units without registers only")
        return handshake.shaken(lifted, read, timing, question.depth, *limits), "shaken"
    if not lifted.before and not timing.latency:
        return _row(lifted, read, timing, *limits), "row"
    if not lifted.before:
        return sequential.pipelined(lifted, read, timing, *limits), "pipelined"
    proof = _event(lifted, read, timing, *limits)
    if proof.outcome == "proved":
        return proof, "events"
    bounded = sequential.bounded(lifted, read, timing, question.depth, *limits)
    untied = proof.untied or [f"{part.what}: {part.outcome}" for part in proof.parts if part.outcome != "proved"]
    return dataclasses.replace(bounded, untied=untied, outcome=_of_bounded(bounded)), "events"


def _row(lifted: Lift, read: Design, timing: Timing, seconds: float, solver: str) -> Proof:
    """All outputs at once; if that takes more than a part of the time, by inner words."""
    direct = min(seconds / DIRECT, MOST)
    plain = equivalence.combinational(lifted, read, direct, (), solver, timing.compared)
    if plain.outcome != "undecided":
        return plain
    proof = comparison.by_inner_words(lifted, read, seconds - direct, solver, timing.compared)
    return dataclasses.replace(proof, parts=[*plain.parts, *proof.parts])


def _event(lifted: Lift, read: Design, timing: Timing, seconds: float, solver: str) -> Proof:
    """One event from equal registers at once; if that takes more than a part of the time, by inner words."""
    direct = min(seconds / DIRECT, MOST)
    proof = sequential.induction(lifted, read, timing, direct, solver)
    if [part.outcome for part in proof.parts] != ["undecided", "proved"]:
        return proof
    swept = comparison.step_by_inner_words(lifted, read, timing, seconds - direct, solver)
    outcome: equivalence.Outcome = "proved" if swept.outcome == "proved" else "undecided"
    return dataclasses.replace(proof, outcome=outcome, parts=[*swept.parts, proof.parts[1]])


def _of_bounded(proof: Proof) -> Any:
    """Events from reset alone prove nothing about later ones."""
    return "undecided" if proof.outcome == "proved" else proof.outcome


def _assumptions(lifted: Lift, read: Design, timing: Timing, proof: Proof, question: Question) -> Sequence[str]:
    answer = ["the design is what yosys reads of it; undriven and x bits are free"]
    if lifted.legal is not terms.TRUE:
        answer.append(f"inputs are legal: {lifted.unit.name} does not reject them")
    answer += [f"{name} stays below {most + 1}: no more is counted" for name, most in lifted.assumed.items()]
    if timing.reset:
        answer.append(f"reset {timing.reset} is active across one edge before the first event, and never later")
    if proof.method == "induction" and lifted.before:
        answer.append("these are equal before an event: " + ", ".join(sequential.ties(lifted, read, timing)[0]))
    if proof.method == "bounded":
        answer.append(
            f"bounded: {proof.depth} of {question.depth} {'cycles' if timing.valid else 'events'} after a reset"
        )
    if timing.valid:
        answer.append("answers that never come are not looked for")
    return answer


def _masks(unit: AnyUnit) -> list[str]:
    if unit.care is None:
        return []
    return [f"every bit of {unit.name} is compared, also those that golden sets mask"]


def _reset(lifted: Lift) -> dict[str, str]:
    if not lifted.before:
        return {}
    return {name: f"{term.name:#x}" for name, term in sequential.reset_words(lifted).items() if name in lifted.terms}


def _digest(unit: AnyUnit) -> str:
    """SHA-256 of the source of the unit's module."""
    module = inspect.getmodule(unit.unit_class)
    return hashlib.sha256(inspect.getsource(module).encode()).hexdigest() if module else ""


def set_name(question: Question) -> str:
    """Name of the golden set of a counterexample."""
    return parameters.set_name(question.unit, question.config)
