"""A unit and a design compared by the words that both compute."""

import dataclasses
import itertools
import time
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from refemu.arith import prng
from refemu.prove import selfcheck, terms
from refemu.prove.design import Design
from refemu.prove.equivalence import Part, Proof, ask, differs_in, together, word_of
from refemu.prove.floats.lowering import has_numbers, lowered
from refemu.prove.inner.sums import ordered
from refemu.prove.inner.sweeping import swept
from refemu.prove.lift import Lift
from refemu.prove.sequential import Timing, step
from refemu.prove.terms import Term, substitute
from refemu.units.config import Config

ROWS = 200  #: of each block of golden cases
CASES = 3  #: bits of all short inputs whose values are cases
MIXED = 600  #: rows whose variables are those of several golden rows
SECONDS = 3.0  #: of the solver


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
    return compared_by_words(pairs, [whole.legal], _of_cases(lift, {}), seconds, solver, _narrow(lift))


def step_by_inner_words(lift: Lift, design: Design, timing: Timing, seconds: float, solver: str = "") -> Proof:
    """One event from equal registers, as in `induction`, by the words that both compute."""
    whole = lowered(lift) if has_numbers(lift.roots) else lift
    both = step(whole, design, timing)
    words = {each.name: word_of(lift.inputs[name]) for name, each in both.inputs.items() if name in lift.inputs}
    words |= {
        name: word
        for register, word_in in both.now.items()
        if register in lift.before
        for name, word in _placed(word_in, word_of(lift.before[register]))
    }
    pairs = {f"register {name}": (both.after[name], both.then[name]) for name in both.tied}
    split = [both.inputs[name] for name in both.inputs if lift.inputs.get(name, [None])[0] in _narrow(lift)]
    return compared_by_words(pairs, [both.legal], _of_cases(lift, words), seconds, solver, split)


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
        legal, *words = substitute([terms.all_of(assumed), *itertools.chain(*pairs.values())], fixed)
        if legal is terms.FALSE:
            continue
        here = dict(zip(pairs, zip(words[::2], words[1::2], strict=True), strict=True))
        name = ", ".join(
            f"{each.name.removeprefix('d.').partition('@')[0]} = {value}"
            for each, value in zip(split, case, strict=True)
        )
        left = max(end - time.monotonic(), 0.1) / (len(cases) - number)
        for part in _compared(here, [legal], rows, left, solver):
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
    rows = _mixed(_holding(rows, assumed, count), assumed)
    fixed = _zeros([*left, *theirs], assumed, rows, solver)
    left, theirs = substitute(left, fixed), substitute(theirs, fixed)
    right, shared = swept(left, theirs, assumed, rows, seconds / 2, solver)
    left, again = swept(right, left, assumed, rows, seconds / 4, solver)  # words of the unit that are equal
    shared.points |= again.points
    what = f"{len(shared.points)} inner words that both compute"
    yield Part(what, "proved", shared.seconds + again.seconds, f"{shared.asked + again.asked} questions")
    for name, ours, other in zip(pairs, left, right, strict=True):
        differs = differs_in(*ordered([ours, other]))
        yield shared.settle(name, differs, max(end - time.monotonic(), 0.1))


def _holding(rows: Mapping[str, np.ndarray], assumed: Sequence[Term], count: int) -> dict[str, np.ndarray]:
    """Rows for which the assumptions hold."""
    holds = np.all([values == 1 for values in terms.evaluate(assumed, rows, count)], axis=0)
    return {name: values[holds] for name, values in rows.items()}


def _mixed(rows: Mapping[str, np.ndarray], assumed: Sequence[Term]) -> dict[str, np.ndarray]:
    """More rows, each variable from a row of its own: words that are equal by chance in few rows differ in these."""
    count = len(next(iter(rows.values())))
    more = MIXED if count else 0
    places = prng.words_of(range(len(rows)), 0, more) % max(count, 1)
    drawn = {name: values[at] for (name, values), at in zip(rows.items(), places, strict=True)}
    drawn = _holding(drawn, assumed, more)
    return {name: np.concatenate([values, drawn[name]]) for name, values in rows.items()}


def _zeros(
    roots: Sequence[Term], assumed: Sequence[Term], rows: Mapping[str, np.ndarray], solver: str
) -> dict[int, Term]:
    """Slices of inputs whose upper bits are 0 in all rows, and wherever the assumptions hold, without these bits."""
    answer: dict[int, Term] = {}
    for name, values in rows.items():
        ones = int(np.bitwise_or.reduce(values)) if len(values) else -1
        slices = [each for each in terms.order(roots) if _reads(each, name)]
        short = {
            each: (ones >> (each.name if each.args else 0) & (1 << each.width) - 1).bit_length() for each in slices
        }
        short = {each: bits for each, bits in short.items() if bits < each.width}
        above = terms.any_of(
            terms.not_(terms.eq(terms.extract(each, bits, each.width - bits), terms.const(0, each.width - bits)))
            for each, bits in short.items()
        )
        if short and ask("upper bits", [*assumed, above], SECONDS, solver).outcome == "proved":
            answer |= {
                each.number: terms.zext(terms.extract(each, 0, bits), each.width)
                if bits
                else terms.const(0, each.width)
                for each, bits in short.items()
            }
    return answer


def _reads(term: Term, name: str) -> bool:
    """Whether a term is a variable, or a slice of it."""
    return (term.op == "var" and term.name == name) or (
        term.op == "extract" and term.args[0].op == "var" and term.args[0].name == name
    )


def _narrow(lift: Lift) -> list[Term]:
    """Inputs of few values, of which each is a case."""
    answer: list[Term] = []
    bits = 0
    for port in lift.device.ports.inputs:
        if port.count == 1 and port.bits + bits <= CASES:
            bits += port.bits
            answer.append(lift.inputs[port.name][0])
    return answer


def _of_cases(lift: Lift, more: Mapping[str, Term]) -> dict[str, np.ndarray]:
    """Values of the variables of a lift for golden cases, and of words of them by the names of more variables."""
    blocks = []
    for kind in selfcheck.KINDS:
        for block in lift.unit.stimuli(Config(**lift.config), kind, 0):
            inputs = {name: array[:ROWS] for name, array in block.inputs.items()}
            blocks.append(selfcheck.variables(lift, inputs, lift.unit.evaluate(lift.config, inputs)))
    rows = {name: np.concatenate([each[name] for each in blocks]) for name in blocks[0]}
    words = terms.evaluate(list(more.values()), rows, len(next(iter(rows.values()))))
    return rows | dict(zip(more, words, strict=True))


__all__ = ["by_inner_words", "compared_by_words", "step_by_inner_words"]
