"""Words that a unit and a design share, and questions that first take such a word as free."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from refemu.prove import terms
from refemu.prove.equivalence import Part, ask
from refemu.prove.floats import ranges
from refemu.prove.inner import sums
from refemu.prove.terms import Term, substitute

FREE = 8  #: bits of a shared word that a question takes as free
PRODUCTS = 4  #: products of a question that has no cut
AMOUNT = 7  #: most bits of an amount of shifts whose values are cases
INNER = "an inner word"
BRIEF = 16  #: part of the time that each way of a question gets first


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
        """Whether a condition never holds: over free shared words and few assumptions, else over the inputs and all.

        All ways are tried briefly before one gets most of the time.
        """
        began, part, ways = time.monotonic(), None, list(self._ways(condition))
        for share in (BRIEF, 2):
            for way in list(ways):
                last, left = way is ways[-1], max(seconds - (time.monotonic() - began), 0.05)
                if last and part is not None and part.outcome == "refuted" and what == INNER and self._large(condition):
                    break  # a question of its own is not worth its time
                part = ask(what, way, left if last and share == 2 else max(left / share, 0.05), self.solver)
                self.asked += 1
                if part.outcome == "refuted" and not last:
                    ways.remove(way)
                elif part.outcome != "undecided":
                    break
            if part is not None and part.outcome != "undecided":
                break
        self.seconds += time.monotonic() - began
        assert part is not None
        return part

    def settle(self, what: str, condition: Term, seconds: float) -> Part:
        """As `ask`; if that takes more than a part of the time, for each value of a word that all shifts depend on."""
        word, end = _amount(condition), time.monotonic() + seconds
        part = self.ask(what, condition, seconds / BRIEF if word else seconds)
        if word is None or part.outcome != "undecided":
            return part
        began = time.monotonic()
        for value in range(1 << word.width):
            fixed = terms.const(value, word.width)
            (case,) = sums.ordered(substitute([condition], {word.number: fixed}))
            last = self.ask(what, terms.and_(terms.eq(word, fixed), case), max(end - time.monotonic(), 0.05))
            if last.outcome != "proved":
                return last
        how = f"{1 << word.width} amounts of shifts"
        return Part(what, "proved", part.seconds + time.monotonic() - began, how)

    def _ways(self, condition: Term) -> Iterator[list[Term]]:
        """Conditions that must not hold together: words free, then none, then with all assumptions."""
        for points in self._cuts():
            free = {number: terms.variable(f"shared{number}", each.width) for number, each in points.items()}
            (root,) = substitute([condition], free)
            near = self._near(root)
            if points or near != self.conditions:
                yield [*near, *self.bounds(root, points, free), root]
        yield [*self.conditions, condition]

    def __post_init__(self) -> None:
        self.conditions: list[Term] = list(conjuncts(self.assumed))
        self.reads: dict[int, set[int]] = {
            each.number: {leaf.number for leaf in terms.order([each]) if leaf.op == "var"} for each in self.conditions
        }

    def extended(self, term: Term) -> Term:
        """A short word that is extended, as the wider word of the unit that it equals."""
        whole = self.whole.get((term.op, term.args[0].number)) if term.args else None
        if whole is None:
            return term
        return terms.extract(whole, 0, term.width) if term.width <= whole.width else terms.rebuilt(term, [whole])

    def bounds(self, root: Term, points: Mapping[int, Term], free: Mapping[int, Term]) -> list[Term]:
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


def _amount(condition: Term) -> Term | None:
    """A short word without which no amount of a shift depends on inputs."""
    nodes = terms.order([condition])
    amounts = [each.args[1] for each in nodes if each.op in ("shl", "lshr", "ashr") and each.args[1].op != "const"]
    for word in terms.order(amounts):
        if word.width <= AMOUNT and word.op in ("var", "add", "sub"):
            left = terms.order(substitute(amounts, {word.number: terms.const(0, word.width)}))
            if not any(each.op == "var" for each in left):
                return word
    return None


def conjuncts(conditions: Sequence[Term]) -> Iterator[Term]:
    """Conditions, each without an `and` at its top."""
    for each in conditions:
        if each.op == "and":
            yield from conjuncts(each.args)
        else:
            yield each


__all__ = ["FREE", "Shared", "conjuncts"]
