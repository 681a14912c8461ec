"""Equal inner words of a unit and a design: found on rows, proved one by one, and then shared by both.

A word that both compute becomes one term. Later questions first take such a word as free, which proves more than is
asked, and look into it only if that fails.
"""

import dataclasses
import hashlib
import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from refemu.prove import selfcheck, terms
from refemu.prove.design import Design
from refemu.prove.equivalence import Part, Proof, ask, differs_in, together, word_of
from refemu.prove.floats.lowering import has_numbers, lowered
from refemu.prove.inner.sums import ordered
from refemu.prove.lift import Lift
from refemu.prove.sequential import Timing, step
from refemu.prove.terms import REAL, Term, rebuilt, substitute
from refemu.units.config import Config

LEAST = 1  #: bits of a word that is worth a question
FREE = 8  #: bits of a shared word that a question takes as free
SECONDS = 3.0  #: most seconds of a question on a short word; a wide one gets a third of the rest
ROWS = 200  #: of each block of golden cases
CASES = 3  #: bits of all short inputs whose values are cases
TRIES = 3  #: candidates for a word


@dataclass
class Shared:
    """What is known to be equal, and what that took."""

    assumed: Sequence[Term]
    solver: str = ""
    points: dict[int, Term] = field(default_factory=dict)  #: words of the unit that the design computes too
    asked: int = 0
    seconds: float = 0.0

    def ask(self, what: str, condition: Term, seconds: float) -> Part:
        """Whether a condition never holds: over free shared words, else over the inputs."""
        began = time.monotonic()
        part = None
        for points in self._cuts():
            free = {number: terms.variable(f"shared{number}", each.width) for number, each in points.items()}
            roots = substitute([*self.assumed, condition], free)
            left = seconds - (time.monotonic() - began)
            part = ask(what, roots, max(left / (2 if points else 1), 0.05), self.solver)
            self.asked += 1
            if part.outcome == "proved":
                break
        assert part is not None
        self.seconds += time.monotonic() - began
        return part

    def _cuts(self) -> Iterator[Mapping[int, Term]]:
        wide = {number: each for number, each in self.points.items() if each.width >= FREE}
        products = {number: each for number, each in wide.items() if each.op == "mul"}
        yield from (each for each in (wide, products if len(products) < len(wide) else {}) if each)
        yield {}


def swept(
    left: Sequence[Term],
    right: Sequence[Term],
    assumed: Sequence[Term],
    rows: Mapping[str, np.ndarray],
    seconds: float,
    solver: str = "",
) -> tuple[list[Term], Shared]:
    """The terms `right`, in which words that are equal to words of `left` are these.

    Parameters
    ----------
    left, right : sequence of Term
        Terms of a unit and of a design over the same inputs.
    assumed : sequence of Term
        Conditions on inputs.
    rows : Mapping
        Values of all variables, for which the conditions hold.
    seconds : float
        Time limit.
    solver : str
        Name.

    Returns
    -------
    tuple of list of Term and Shared
        Terms that equal `right` wherever the conditions hold, and the shared words.
    """
    end = time.monotonic() + seconds
    shared = Shared(assumed, solver)
    nodes = [each for each in terms.order(left) if _asks(each)]
    count = len(next(iter(rows.values())))
    by_values: dict[bytes, list[Term]] = {}
    for each, values in zip(nodes, terms.evaluate(nodes, rows, count), strict=True):
        for key in _keys(values, each.width):
            by_values.setdefault(key, []).append(each)
    inner = [each for each in terms.order(right) if each.args]
    wanted = [each for each in inner if _asks(each)]
    values_of = {each.number: values for each, values in zip(wanted, terms.evaluate(wanted, rows, count), strict=True)}
    known: dict[int, Term] = {}
    for term in inner:
        args = [known.get(each.number, each) for each in term.args]
        same = all(new is old for new, old in zip(args, term.args, strict=True))
        new = term if same else rebuilt(term, args)
        if term.number in values_of and time.monotonic() < end:
            new = _equal(new, _candidates(by_values, values_of[term.number], term.width), shared, end)
        known[term.number] = new
    return [known.get(each.number, each) for each in right], shared


def by_inner_words(
    lift: Lift, design: Design, seconds: float, solver: str = "", compared: Sequence[str] | None = None
) -> Proof:
    """Compare a design without registers with a unit, as `combinational`, by the words that both compute."""
    whole = lowered(lift) if has_numbers(lift.roots) else lift
    ports = [port for port in lift.device.ports.outputs if compared is None or port.name in compared]
    words = {design.inputs[port.name].number: word_of(lift.inputs[port.name]) for port in lift.device.ports.inputs}
    theirs = substitute([design.outputs[port.name] for port in ports], words)
    pairs = {
        f"output {port.name}": (word_of(whole.terms[port.name]), other)
        for port, other in zip(ports, theirs, strict=True)
    }
    return compared_by_words(pairs, [whole.legal], _rows(lift, {}), seconds, solver, narrow(lift))


def step_by_inner_words(lift: Lift, design: Design, timing: Timing, seconds: float, solver: str = "") -> Proof:
    """One event from equal registers, as in `induction`, by the words that both compute."""
    whole = lowered(lift) if has_numbers(lift.roots) else lift
    both = step(whole, design, timing)
    given = {each.name: word_of(lift.inputs[name]) for name, each in both.inputs.items() if name in lift.inputs}
    given |= {
        name: word
        for register, word_in in both.now.items()
        if register in lift.before
        for name, word in _placed(word_in, word_of(lift.before[register]))
    }
    pairs = {f"register {name}": (both.after[name], both.then[name]) for name in both.tied}
    split = [both.inputs[name] for name in both.inputs if lift.inputs.get(name, [None])[0] in narrow(lift)]
    return compared_by_words(pairs, [both.legal], _rows(lift, given), seconds, solver, split)


def _placed(term: Term, word: Term) -> Iterator[tuple[str, Term]]:
    """Variables of a term and the parts of a word that they are, where it consists of variables."""
    if term.op == "var":
        yield term.name, word
    elif term.op == "concat":
        high, low = term.args
        yield from _placed(high, terms.extract(word, low.width, high.width))
        yield from _placed(low, terms.extract(word, 0, low.width))
    elif term.op in ("zext", "sext"):
        yield from _placed(term.args[0], terms.extract(word, 0, term.args[0].width))


def compared_by_words(
    pairs: Mapping[str, tuple[Term, Term]],
    assumed: Sequence[Term],
    rows: Mapping[str, np.ndarray],
    seconds: float,
    solver: str = "",
    split: Sequence[Term] = (),
) -> Proof:
    """Compare words of a unit and of a design by the words that both compute.

    rows: values of variables; others are 0. Rows for which the assumptions do not hold are left out.
    split: short inputs; each of their values is a question of its own.
    """
    end = time.monotonic() + seconds
    parts: list[Part] = []
    cases = list(itertools.product(*(range(1 << each.width) for each in split)))
    for number, case in enumerate(cases):
        fixed = {each.number: terms.const(value, each.width) for each, value in zip(split, case, strict=True)}
        given, *words = substitute([terms.all_of(assumed), *itertools.chain(*pairs.values())], fixed)
        if given is terms.FALSE:
            continue
        here = dict(zip(pairs, zip(words[::2], words[1::2], strict=True), strict=True))
        name = ", ".join(f"{each.name} = {value}" for each, value in zip(split, case, strict=True))
        left = max(end - time.monotonic(), 0.1) / (len(cases) - number)
        for part in _compared(here, [given], rows, left, solver):
            parts.append(dataclasses.replace(part, what=f"{part.what}{f' if {name}' if name else ''}"))
            if part.outcome == "refuted":
                return Proof("refuted", parts, "miter")
    return Proof(together(parts), parts, "miter")


def _compared(
    pairs: Mapping[str, tuple[Term, Term]],
    assumed: Sequence[Term],
    rows: Mapping[str, np.ndarray],
    seconds: float,
    solver: str,
) -> Iterator[Part]:
    """Answers for one case."""
    end = time.monotonic() + seconds
    left, theirs = ([pair[side] for pair in pairs.values()] for side in (0, 1))
    count = len(next(iter(rows.values())))
    every = [each.name for each in terms.order([*left, *theirs, *assumed]) if each.op == "var"]
    rows = {name: rows.get(name, np.zeros(count, np.uint64)) for name in every}
    if not rows:
        return
    holds = np.all([values == 1 for values in terms.evaluate(assumed, rows, count)], axis=0)
    rows = {name: values[holds] for name, values in rows.items()}
    right, shared = swept(left, theirs, assumed, rows, seconds / 2, solver)
    left, again = swept(right, left, assumed, rows, seconds / 4, solver)  # words of the unit that are equal
    shared.points |= again.points
    what = f"{len(shared.points)} inner words that both compute"
    yield Part(what, "proved", shared.seconds + again.seconds, f"{shared.asked + again.asked} questions")
    for name, ours, other in zip(pairs, left, right, strict=True):
        differs = differs_in(*ordered([ours, other]))
        yield shared.ask(name, differs, max(end - time.monotonic(), 0.1))


def narrow(lift: Lift) -> list[Term]:
    """Inputs of few values, of which each is a case."""
    answer: list[Term] = []
    for port in lift.device.ports.inputs:
        if port.count == 1 and port.bits + sum(each.width for each in answer) <= CASES:
            answer.append(lift.inputs[port.name][0])
    return answer


def _rows(lift: Lift, given: Mapping[str, Term]) -> dict[str, np.ndarray]:
    """Values of the variables of a lift for golden cases, and of words of them by the names of more variables."""
    blocks = []
    for kind in selfcheck.KINDS:
        for block in lift.unit.stimuli(Config(**lift.config), kind, 0):
            inputs = {name: array[:ROWS] for name, array in block.inputs.items()}
            blocks.append(selfcheck.variables(lift, inputs, lift.unit.evaluate(lift.config, inputs)))
    rows = {name: np.concatenate([each[name] for each in blocks]) for name in blocks[0]}
    words = terms.evaluate(list(given.values()), rows, len(next(iter(rows.values()))))
    return rows | dict(zip(given, words, strict=True))


def _asks(term: Term) -> bool:
    return bool(term.args) and term.width != REAL and term.width >= LEAST and term.op not in ("extract", "zext", "sext")


def _keys(values: Any, width: int) -> list[bytes]:
    """Digests of words, as unsigned and as signed numbers."""
    numbers = [int(each) for each in values]
    half, whole = 1 << (width - 1), 1 << width
    signed = [each - whole if each & half else each for each in numbers]
    return list(dict.fromkeys(hashlib.sha256(repr(each).encode()).digest() for each in (numbers, signed)))


def _candidates(by_values: Mapping[bytes, list[Term]], values: Any, width: int) -> list[Term]:
    equal = [each for key in _keys(values, width) for each in by_values.get(key, [])]
    return list(dict.fromkeys(sorted(equal, key=lambda each: (each.width != width, each.number))))[:TRIES]


def _equal(term: Term, candidates: Sequence[Term], shared: Shared, end: float) -> Term:
    """A word of the unit that a word of the design equals, in its width; the word itself if none is found."""
    for each in candidates:
        for other in dict.fromkeys(_sized(each, term.width)):
            if other is term:
                shared.points.setdefault(each.number, each)
                return term
            left = end - time.monotonic()
            left = left / 3 if term.width >= FREE else min(SECONDS, left)
            if left <= 0:
                return term
            if shared.ask("an inner word", terms.not_(terms.eq(other, term)), left).outcome == "proved":
                shared.points.setdefault(each.number, each)
                return other
    return term


def _sized(term: Term, width: int) -> list[Term]:
    """A word in another width, as an unsigned and as a signed number."""
    if width < term.width:
        return [terms.extract(term, 0, width)]
    return [terms.zext(term, width), terms.sext(term, width)]


__all__ = ["Shared", "by_inner_words", "compared_by_words", "step_by_inner_words", "swept"]
