"""Terms without binary64 numbers: each operation as integers, and lifts and names that have such terms."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from refemu.prove import terms
from refemu.prove.floats import number, operations
from refemu.prove.floats.narrow import narrowed
from refemu.prove.floats.number import FORMATS, Format, Number
from refemu.prove.lift import Lift
from refemu.prove.naming import Names
from refemu.prove.terms import REAL, Term, rebuilt

EXACT = 32  #: sums of formats of fewer bits are exact in binary64, in few bits
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
        self.read: dict[int, Number] = {}  #: numbers of words

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
        if term.op == "f32" and (once := self._once(first, FORMATS[32])) is not None:
            return once
        if term.op.startswith("value"):
            return self._read(first)
        return NUMBERS[term.op](*(self._any(each) for each in term.args))

    def _read(self, word: Term) -> Number:
        """The number of a word: of a pattern its rounding, of one of two words one of two numbers."""
        if word.number not in self.read:
            self.read[word.number] = self._packed(_whole(word))
        return self.read[word.number]

    def _packed(self, word: Term) -> Number:
        if word.op == "ite":
            test, a, b = word.args
            return number.merged(self.words[test.number], self._read(a), self._read(b))
        if word.op == f"pattern{word.width}":
            form, inner = FORMATS[word.width], self.numbers[word.args[0].number]
            return self._once(word.args[0], form) or (
                inner if number.fits(inner, form) else number.rounded(inner, form)
            )
        return number.of_word(self._word(word))

    def _word(self, term: Term) -> Term:
        if term.number in self.words:
            return self.words[term.number]
        args = [self._any(each) for each in term.args]
        if term.op in ("pattern16", "pattern32"):
            once = self._once(term.args[0], FORMATS[term.width])
            args = args if once is None else [once]
        if term.op in TESTS:
            return TESTS[term.op](*args)
        if term.op == "truncate":
            return operations.to_integer(args[0], term.width)  # type: ignore[arg-type]
        if not term.args:
            return term
        short = narrowed(term, args)  # type: ignore[arg-type]
        return rebuilt(term, args) if short is None else short  # type: ignore[arg-type]

    def _once(self, term: Term, form: Format) -> Number | None:
        """A sum of numbers of a format of at most half the bits, rounded to it; None for another term."""
        if term.op not in ("fadd", "fsub") or form.bits < EXACT:
            return None
        a, b = (self.numbers[each.number] for each in term.args)
        if not all(each.format == form or number.fits(each, form) for each in (a, b)):
            return None
        a, b = (number.rounded(each, form) for each in (a, b))
        return operations.rounded_once(a, b if term.op == "fadd" else operations.negated(b))

    def _below(self, test: Term, holds: bool, term: Term) -> Number:
        """A number, with the bound that a test has shown: `c < x` does not hold, or `x < c` does."""
        x = self.numbers[term.number]
        order = test.args[::-1] if holds else test.args
        if test.op != "flt" or order[1] is not term or order[0].op != "const" or x.sign is not terms.FALSE:
            return x
        return number.bounded(x, self.numbers[order[0].number].top)

    def _any(self, term: Term) -> "Term | Number":
        return self.numbers[term.number] if term.width == REAL else self.words[term.number]


def _whole(word: Term) -> Term:
    """A word without the zeros above it that an extract drops again."""
    if word.op != "extract" or word.name:
        return word
    (inner,) = word.args
    if inner.op == "ite":
        test, a, b = inner.args
        ways = [_whole(terms.extract(each, 0, word.width)) for each in (a, b)]
        if not any(each.op == "extract" for each in ways):
            return terms.ite(test, *ways)
    return word


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
