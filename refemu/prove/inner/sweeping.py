"""Equal inner words of a unit and a design: found on rows, proved one by one, and then shared by both.

A word that both compute becomes one term. Later questions first take such a word as free, which proves more than is
asked, and look into it only if that fails.
"""

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from refemu.prove import terms
from refemu.prove.inner import sums
from refemu.prove.inner.shared import FREE, Shared
from refemu.prove.terms import REAL, Term, rebuilt

Extend = Callable[[Term, int], Term]
LEAST = 1  #: bits of a word that is worth a question
SECONDS = 3.0  #: most seconds of a question on a short word; a wide one gets a quarter of the rest
BIT = 1.0  #: most seconds of a question on one bit
TRIES = 3  #: candidates for a word


def swept(
    left: Sequence[Term],
    right: Sequence[Term],
    assumed: Sequence[Term],
    rows: Mapping[str, np.ndarray],
    seconds: float,
    solver: str = "",
) -> tuple[list[Term], Shared]:
    """The terms `right`, in which words that equal words of `left` wherever `assumed` holds are these; what is shared.

    rows: values of all variables, for which the conditions hold. solver: name.
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


__all__ = ["swept"]
