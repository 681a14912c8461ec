"""Equal inner words of a unit and a design: found on rows, proved one by one, and then shared by both.

A word that both compute becomes one term. Later questions first take such a word as free, which proves more than is
asked, and look into it only if that fails.
"""

import dataclasses
import hashlib
import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from refemu.arith import prng
from refemu.prove import selfcheck, terms
from refemu.prove.design import Design
from refemu.prove.equivalence import Part, Proof, ask, differs_in, together, word_of
from refemu.prove.floats import ranges
from refemu.prove.floats.lowering import has_numbers, lowered
from refemu.prove.inner import sums
from refemu.prove.inner.sums import ordered
from refemu.prove.lift import Lift
from refemu.prove.sequential import Timing, step
from refemu.prove.terms import REAL, Term, rebuilt, substitute
from refemu.units.config import Config

Extend = Callable[[Term, int], Term]
LEAST = 1  #: bits of a word that is worth a question
FREE = 8  #: bits of a shared word that a question takes as free
SECONDS = 3.0  #: most seconds of a question on a short word; a wide one gets a quarter of the rest
BIT = 1.0  #: most seconds of a question on one bit
ROWS = 200  #: of each block of golden cases
CASES = 3  #: bits of all short inputs whose values are cases
MIXED = 600  #: rows whose variables are those of several golden rows
PRODUCTS = 4  #: products of a question that has no cut
INNER = "an inner word"
TRIES = 3  #: candidates for a word


@dataclass
class Shared:
    """What is known to be equal, and what that took."""

    assumed: Sequence[Term]
    solver: str = ""
    points: dict[int, Term] = field(default_factory=dict)  #: words of the unit that the design computes too
    whole: dict[tuple[str, int], Term] = field(default_factory=dict)  #: wider words, by extension and short word
    heavy: dict[int, bool] = field(default_factory=dict)
    limits: ranges.Known = field(default_factory=dict)
    asked: int = 0
    seconds: float = 0.0

    def ask(self, what: str, condition: Term, seconds: float) -> Part:
        """Whether a condition never holds: over free shared words and few assumptions, else over the inputs and all."""
        began = time.monotonic()
        part = None
        for points in self._cuts():
            free = {number: terms.variable(f"shared{number}", each.width) for number, each in points.items()}
            (root,) = substitute([condition], free)
            bounds = self._bounds(root, points, free)
            left = seconds - (time.monotonic() - began)
            if not points and self._near(root) == self.conditions:
                continue  # the last question
            part = ask(what, [*self._near(root), *bounds, root], max(left / 2, 0.05), self.solver)
            self.asked += 1
            if part.outcome == "proved":
                break
        else:
            if part is not None and part.outcome == "refuted" and what == INNER and self._large(condition):
                return part  # a question of its own is not worth its time
            left = seconds - (time.monotonic() - began)
            part = ask(what, [*self.conditions, condition], max(left, 0.05), self.solver)
            self.asked += 1
        self.seconds += time.monotonic() - began
        return part

    def __post_init__(self) -> None:
        self.conditions: list[Term] = list(_conjuncts(self.assumed))
        self.reads: dict[int, set[int]] = {
            each.number: {leaf.number for leaf in terms.order([each]) if leaf.op == "var"} for each in self.conditions
        }

    def extended(self, term: Term) -> Term:
        """A short word that is extended, as the wider word of the unit that it equals."""
        whole = self.whole.get((term.op, term.args[0].number)) if term.args else None
        if whole is None:
            return term
        return terms.extract(whole, 0, term.width) if term.width <= whole.width else terms.rebuilt(term, [whole])

    def _bounds(self, root: Term, points: Mapping[int, Term], free: Mapping[int, Term]) -> list[Term]:
        """Ranges of the free words of a condition, as the words show them."""
        inputs = {each.number for each in terms.order([root]) if each.op == "var"}
        answer = []
        for number, word in free.items():
            low, high = ranges.signed(points[number], self.limits)
            if word.number in inputs and high - low < (1 << word.width) - 1:
                least, most = (terms.const(each, word.width) for each in (low, high))
                answer += [terms.not_(terms.slt(word, least)), terms.not_(terms.slt(most, word))]
        return answer

    def _near(self, root: Term) -> list[Term]:
        """Assumptions about nothing but inputs of a condition: what is left out makes a proof stronger."""
        inputs = {each.number for each in terms.order([root]) if each.op == "var"}
        return [each for each in self.conditions if self.reads[each.number] <= inputs]

    def _large(self, condition: Term) -> bool:
        """Whether a condition has many products."""
        return sum(each.op == "mul" for each in terms.order([condition])) > PRODUCTS

    def _multiplies(self, term: Term) -> bool:
        """Whether a sum or a product has a product below it."""
        if term.number not in self.heavy:
            heavy = term.op in sums.SIGNED and any(each.op == "mul" for each in terms.order([term]))
            self.heavy[term.number] = heavy
        return self.heavy[term.number]

    def same(self, a: Term, b: Term, seconds: float) -> bool:
        """Whether two words are proved to be equal."""
        return self.ask(INNER, terms.not_(terms.eq(a, b)), seconds).outcome == "proved"

    def _cuts(self) -> Iterator[Mapping[int, Term]]:
        wide = {number: each for number, each in self.points.items() if each.width >= FREE}
        arithmetic = {number: each for number, each in wide.items() if self._multiplies(each)}
        products = {number: each for number, each in wide.items() if each.op == "mul"}
        cuts = [wide, arithmetic, products]
        yield from (each for at, each in enumerate(cuts) if each and each not in cuts[:at])
        yield {}


def _conjuncts(conditions: Sequence[Term]) -> Iterator[Term]:
    for each in conditions:
        if each.op == "and":
            yield from _conjuncts(each.args)
        else:
            yield each


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
    by_values: dict[tuple[bool, bytes], list[Term]] = {}
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
        new = shared.extended(term if same else rebuilt(term, args))
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
    words = {each.name: word_of(lift.inputs[name]) for name, each in both.inputs.items() if name in lift.inputs}
    words |= {
        name: word
        for register, word_in in both.now.items()
        if register in lift.before
        for name, word in _placed(word_in, word_of(lift.before[register]))
    }
    pairs = {f"register {name}": (both.after[name], both.then[name]) for name in both.tied}
    split = [both.inputs[name] for name in both.inputs if lift.inputs.get(name, [None])[0] in narrow(lift)]
    return compared_by_words(pairs, [both.legal], _rows(lift, words), seconds, solver, split)


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
        yield shared.ask(name, differs, max(end - time.monotonic(), 0.1))


def _holding(rows: Mapping[str, np.ndarray], assumed: Sequence[Term], count: int) -> dict[str, np.ndarray]:
    """Rows for which the assumptions hold."""
    holds = np.all([values == 1 for values in terms.evaluate(assumed, rows, count)], axis=0)
    return {name: values[holds] for name, values in rows.items()}


def _mixed(rows: Mapping[str, np.ndarray], assumed: Sequence[Term]) -> dict[str, np.ndarray]:
    """More rows, each variable from a row of its own: words that are equal by chance in few rows differ in these."""
    count = len(next(iter(rows.values())))
    more = MIXED if count else 0
    places = prng.words_of(range(len(rows)), 0, more) % max(count, 1)
    mixed = {name: values[at] for (name, values), at in zip(rows.items(), places, strict=True)}
    mixed = _holding(mixed, assumed, more)
    return {name: np.concatenate([values, mixed[name]]) for name, values in rows.items()}


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


def narrow(lift: Lift) -> list[Term]:
    """Inputs of few values, of which each is a case."""
    answer: list[Term] = []
    bits = 0
    for port in lift.device.ports.inputs:
        if port.count == 1 and port.bits + bits <= CASES:
            bits += port.bits
            answer.append(lift.inputs[port.name][0])
    return answer


def _rows(lift: Lift, more: Mapping[str, Term]) -> dict[str, np.ndarray]:
    """Values of the variables of a lift for golden cases, and of words of them by the names of more variables."""
    blocks = []
    for kind in selfcheck.KINDS:
        for block in lift.unit.stimuli(Config(**lift.config), kind, 0):
            inputs = {name: array[:ROWS] for name, array in block.inputs.items()}
            blocks.append(selfcheck.variables(lift, inputs, lift.unit.evaluate(lift.config, inputs)))
    rows = {name: np.concatenate([each[name] for each in blocks]) for name in blocks[0]}
    words = terms.evaluate(list(more.values()), rows, len(next(iter(rows.values()))))
    return rows | dict(zip(more, words, strict=True))


def _asks(term: Term) -> bool:
    return bool(term.args) and term.width != REAL and term.width >= LEAST and term.op not in ("extract", "zext", "sext")


def _keys(values: Any, width: int) -> list[tuple[bool, bytes]]:
    """Whether a digest is that of signed numbers, and the digest."""
    numbers = [int(each) for each in values]
    half, whole = 1 << (width - 1), 1 << width
    both = numbers, [each - whole if each & half else each for each in numbers]
    return [(bool(sign), hashlib.sha256(repr(each).encode()).digest()) for sign, each in enumerate(both)]


def _candidates(
    by_values: Mapping[tuple[bool, bytes], list[Term]], values: Any, width: int
) -> list[tuple[Term, Extend]]:
    """Words that have the same values, as unsigned or as signed numbers, and how the shorter one is extended."""
    equal: dict[int, tuple[Term, Extend]] = {
        each.number: (each, terms.sext if key[0] else terms.zext)
        for key in reversed(_keys(values, width))
        for each in by_values.get(key, [])
    }
    return sorted(equal.values(), key=lambda each: (each[0].width != width, each[0].number))[:TRIES]


def _equal(term: Term, candidates: Sequence[tuple[Term, Extend]], shared: Shared, end: float) -> Term:
    """A word of the unit that a word of the design equals, in its width; the word itself if none is found."""
    for each, extend in candidates:
        other, wide = (extend(each, term.width), term) if each.width <= term.width else (each, extend(term, each.width))
        left = end - time.monotonic()
        left = left / 4 if term.width >= FREE else min(SECONDS if term.width > 1 else BIT, left)
        if other is wide or sums.equal(other, wide) or (left > 0 and shared.same(other, wide, left)):
            shared.points.setdefault(each.number, each)
            if wide is term:
                return other
            short = terms.extract(each, 0, term.width)
            shared.whole[wide.op, short.number] = each
            return short
    return term


__all__ = ["Shared", "by_inner_words", "compared_by_words", "step_by_inner_words", "swept"]
