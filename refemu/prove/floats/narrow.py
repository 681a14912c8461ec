"""Words of more than 128 bits in fewer, where their upper bits are copies of a sign: C has no wider integers."""

from collections.abc import Sequence

from refemu.prove import terms
from refemu.prove.terms import Term

WIDE = 128  #: bits of the widest integer in C
SIGNED = {"add": terms.add, "sub": terms.sub, "mul": terms.mul, "and": terms.and_, "xor": terms.xor}
TESTS = {"eq": terms.eq, "ult": terms.ult, "slt": terms.slt}


def inner(term: Term) -> Term:
    """A shorter word of which a word is the sign extension; itself if none is known."""
    if term.op == "sext":
        return term.args[0]
    if term.op == "zext":
        return terms.zext(term.args[0], term.args[0].width + 1)
    if term.op == "const":
        value = term.name - ((term.name >> (term.width - 1)) << term.width)
        return terms.const(value, min((value if value >= 0 else ~value).bit_length() + 1, term.width))
    return term


def narrowed(term: Term, args: Sequence[Term]) -> Term | None:
    """An operation on shorter words; None if it is none, or needs no shorter ones."""
    wide = max((each.width for each in args), default=0)
    if max(wide, term.width) <= WIDE or any(each.width < 0 for each in args):
        return None
    if term.op == "concat":
        high = inner(args[0])
        return None if high is args[0] else terms.sext(terms.concat(high, args[1]), term.width)
    short = [inner(each) for each in (args[1:] if term.op == "ite" else args)]
    width = max(each.width for each in short)
    if term.op == "mul":
        width = short[0].width + short[1].width
    elif term.op in ("add", "sub"):
        width += 1
    if width >= wide:
        return None
    equal = [terms.sext(each, width) for each in short]
    if term.op in TESTS:
        return TESTS[term.op](*equal)
    if term.op in SIGNED:
        return terms.sext(SIGNED[term.op](*equal), term.width)
    if term.op == "not":
        return terms.sext(terms.not_(equal[0]), term.width)
    if term.op == "ite":
        return terms.sext(terms.ite(args[0], *equal), term.width)
    if term.op == "shl":
        return _left(term, short[0], args[1])
    if term.op in ("ashr", "lshr") and args[1].op == "zext" and args[1].args[0].width < width:
        return _right(term, short[0], args[1])
    return None


def _left(term: Term, word: Term, places: Term) -> Term | None:
    """A shift to the left by an amount of few bits."""
    most = _most(places)
    width = word.width + most
    if most >= term.width or width > WIDE or places.op == "const":
        return None
    return terms.sext(terms.shl(terms.sext(word, width), terms.extract(places, 0, width)), term.width)


def _right(term: Term, word: Term, places: Term) -> Term | None:
    """A shift to the right of a word whose sign is copied."""
    width = max(word.width, places.args[0].width)
    if term.op == "lshr" and not (word.op == "zext" or word.op == "const"):
        return None  # zeros come in above a sign that may be 1
    return terms.sext(terms.ashr(terms.sext(word, width), terms.extract(places, 0, width)), term.width)


def _most(places: Term) -> int:
    """Largest value of a shift, as its width shows."""
    if places.op == "const":
        return int(places.name)
    return (1 << places.args[0].width) - 1 if places.op == "zext" else 1 << 30
