"""Sums in one order: words that are equal sums, modulo a power of two, become one term."""

from collections.abc import Sequence

from refemu.prove import terms
from refemu.prove.terms import Term

SUMS = ("add", "sub", "and")
LEAST = 3  #: terms of a sum that gets another order


def ordered(roots: Sequence[Term]) -> list[Term]:
    """Terms whose sums of several words have one order, and no wider words than they show."""
    known: dict[int, Term] = {}
    for term in terms.order(roots):
        args = [known[each.number] for each in term.args]
        same = all(new is old for new, old in zip(args, term.args, strict=True))
        new = term if same or term.width < 0 else terms.rebuilt(term, args)
        summed = new.op in ("add", "sub") or (new.op == "extract" and not new.name and new.args[0].op in SUMS)
        known[term.number] = _sum(new) if summed else _chosen(new)
    return [known[each.number] for each in roots]


def _chosen(term: Term) -> Term:
    """The low bits of one of two words, which may be the same sum."""
    if term.op != "extract" or term.name or term.args[0].op != "ite":
        return term
    _, *ways = term.args[0].args
    first, second = (_sum(_chosen(terms.extract(each, 0, term.width))) for each in ways)
    return first if first is second else term


def _sum(term: Term) -> Term:
    """The sum of the same addends in the order of their numbers."""
    addends, constant = _addends(term, term.width)
    if len(addends) < LEAST:
        return term
    answer = terms.const(constant, term.width)
    for number in sorted(addends):
        each, factor = addends[number]
        factor &= (1 << term.width) - 1
        word = terms.sext(each, term.width) if each.width <= term.width else terms.extract(each, 0, term.width)
        if factor == (1 << term.width) - 1:
            answer = terms.sub(answer, word)
        elif factor:
            answer = terms.add(answer, word if factor == 1 else terms.mul(word, terms.const(factor, term.width)))
    return answer


def _addends(root: Term, width: int) -> tuple[dict[int, tuple[Term, int]], int]:
    """Words and their factors, modulo 2**width, and a constant."""
    answer: dict[int, tuple[Term, int]] = {}
    constant, stack = 0, [(root, 1)]
    while stack:
        term, factor = stack.pop()
        if term.op == "const":
            constant += factor * (term.name - ((term.name >> (term.width - 1)) << term.width))
        elif term.op in ("add", "sub") and term.width >= width:
            first, second = term.args
            stack += [(first, factor), (second, factor if term.op == "add" else -factor)]
        elif term.op == "extract" and term.name == 0 and term.width >= width:
            stack.append((term.args[0], factor))
        elif (masked := _masked(term, width)) is not None:
            stack.append((masked, factor))
        elif term.op in ("sext", "zext") and term.args[0].width >= width:
            stack.append((term.args[0], factor))
        else:
            inner = term.args[0] if term.op == "sext" else term
            inner = terms.extract(inner, 0, width) if inner.width > width else inner
            if (masked := _masked(inner, width)) is not None:
                stack.append((masked, factor))
                continue
            inner = terms.zext(inner, width) if inner.width < width and term.op not in ("sext", "zext") else inner
            before = answer.get(inner.number, (inner, 0))[1]
            answer[inner.number] = (inner, before + factor)
    return answer, constant


def _masked(term: Term, width: int) -> Term | None:
    """What a mask leaves in the low bits, if it leaves all of them."""
    if term.op == "extract" and term.name == 0:
        return _masked(term.args[0], width)
    if term.op != "and" or term.width < width:
        return None
    masks = [each for each in term.args if each.op == "const" and each.name & ((1 << width) - 1) == (1 << width) - 1]
    return next((each for each in term.args if masks and each is not masks[0]), None)
