"""Terms without binary64 numbers: each operation as integers, and lifts and names that have such terms."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from refemu.prove import terms
from refemu.prove.floats import number, operations
from refemu.prove.floats.narrow import narrowed
from refemu.prove.floats.number import FORMATS, Number
from refemu.prove.lift import Lift
from refemu.prove.naming import Names
from refemu.prove.terms import REAL, Term, rebuilt

NUMBERS: dict[str, Callable[..., Number]] = {
    "fadd": operations.total,
    "fsub": lambda a, b: operations.total(a, operations.negated(b)),
    "fmul": operations.product,
    "fdiv": operations.quotient,
    "fneg": operations.negated,
    "fabs": lambda a: replace(a, sign=terms.FALSE),
    "frint": lambda a: operations.whole(a, False),
    "ffloor": lambda a: operations.whole(a, True),
    "f32": lambda a: number.rounded(a, FORMATS[32]),
    "value16": number.of_word,
    "value32": number.of_word,
    "value64": number.of_word,
    "integer": operations.of_integer,
}
TESTS: dict[str, Callable[..., Term]] = {
    "flt": operations.less,
    "fle": lambda a, b: terms.or_(operations.less(a, b), operations.equal(a, b)),
    "feq": operations.equal,
    "isnan": lambda a: a.nan,
    "isinf": lambda a: terms.and_(a.inf, terms.not_(a.nan)),
    "pattern16": lambda a: number.to_word(a, 16),
    "pattern32": lambda a: number.to_word(a, 32),
    "pattern64": lambda a: number.to_word(a, 64),
}


class Lowering:
    """Terms by the numbers of those that they replace."""

    def __init__(self) -> None:
        self.words: dict[int, Term] = {}
        self.numbers: dict[int, Number] = {}
        self.rounded: dict[tuple[int, int], Number] = {}  #: numbers of patterns

    def of(self, roots: Sequence[Term]) -> list[Term]:
        """Bit vectors without binary64 numbers. Raises KeyError for a square root."""
        for term in terms.order(roots):
            if term.number in self.words or term.number in self.numbers:
                continue
            if term.width == REAL:
                self.numbers[term.number] = self._number(term)
            else:
                self.words[term.number] = self._word(term)
        return [self.words[each.number] for each in roots]

    def _number(self, term: Term) -> Number:
        if term.op == "const":
            return number.constant(term.name)
        if term.op == "ite":
            test, a, b = term.args
            return number.merged(self.words[test.number], self._below(test, True, a), self._below(test, False, b))
        (first, *_) = term.args
        if term.op.startswith("value") and first.op == f"pattern{term.op[5:]}":  # its rounding, packed and unpacked
            return number.rounded(self.numbers[first.args[0].number], FORMATS[first.width])
        return NUMBERS[term.op](*(self._any(each) for each in term.args))

    def _word(self, term: Term) -> Term:
        args = [self._any(each) for each in term.args]
        if term.op in TESTS:
            return TESTS[term.op](*args)
        if term.op == "truncate":
            return operations.to_integer(args[0], term.width)  # type: ignore[arg-type]
        if not term.args:
            return term
        short = narrowed(term, args)  # type: ignore[arg-type]
        return rebuilt(term, args) if short is None else short  # type: ignore[arg-type]

    def _below(self, test: Term, holds: bool, term: Term) -> Number:
        """A number, with the bound that a test has shown: `c < x` does not hold, or `x < c` does."""
        x = self.numbers[term.number]
        order = test.args[::-1] if holds else test.args
        if test.op != "flt" or order[1] is not term or order[0].op != "const" or x.sign is not terms.FALSE:
            return x
        return number.bounded(x, self.numbers[order[0].number].top)

    def _any(self, term: Term) -> "Term | Number":
        return self.numbers[term.number] if term.width == REAL else self.words[term.number]


def lowered(lift: Lift, names: Names | None = None) -> Lift:
    """A lift whose terms have no binary64 numbers; `names` gets those of the new terms.

    Raises
    ------
    KeyError
        A square root.
    """
    lowering = Lowering()
    by_port = {name: lowering.of(terms.expanded(lanes)) for name, lanes in lift.terms.items()}
    legal, invariant = lowering.of(terms.expanded([lift.legal, lift.invariant]))
    demands = list(
        zip(
            lowering.of(terms.expanded([each for each, _ in lift.demands])),
            (what for _, what in lift.demands),
            strict=True,
        )
    )
    if names is not None:
        for old, (_, name) in list(names.known.items()):
            new = lowering.words.get(old)
            if new is not None and new.args:
                names.known.setdefault(new.number, (new, name))
    return replace(lift, terms=by_port, legal=legal, invariant=invariant, demands=demands)


def has_numbers(roots: Iterable[Term]) -> bool:
    """Whether some term is, or is made of, a binary64 number."""
    return any(each.width == REAL for each in terms.order(terms.expanded(list(roots))))
