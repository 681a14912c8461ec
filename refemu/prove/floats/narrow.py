"""Words of more than 128 bits in fewer, where their upper bits are copies of a sign: C has no wider integers."""

from collections.abc import Sequence

from refemu.prove import terms
from refemu.prove.terms import Term

WIDE = 128  #: bits of the widest integer in C
SIGNED = {"add": terms.add, "sub": terms.sub, "mul": terms.mul, "and": terms.and_, "xor": terms.xor}
DEPTH = 8  #: operations that a range is read from
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


def signed(term: Term, depth: int = DEPTH) -> tuple[int, int]:
    """Least and largest value of a word in two's complement, as its operations show."""
    half = 1 << (term.width - 1)
    low, high = -half, half - 1
    if term.op == "const":
        low = high = term.name - ((term.name & half) << 1)
    elif depth and term.op in ("sext", "ite", "add"):
        ends = [signed(each, depth - 1) for each in term.args[term.op == "ite" :]]
        joined = (sum, sum) if term.op == "add" else (min, max)
        low, high = (join(values) for join, values in zip(joined, zip(*ends, strict=True), strict=True))
    elif depth and term.op == "zext":
        low, high = unsigned(term, depth)
    return (low, high) if -half <= low and high < half else (-half, half - 1)


def unsigned(term: Term, depth: int = DEPTH) -> tuple[int, int]:
    """Least and largest value of a word without sign."""
    if depth and term.op == "zext":
        return unsigned(term.args[0], depth - 1)
    inner = term.args[0] if term.op == "extract" and not term.name else term
    low, high = signed(inner, depth)
    return (low, high) if 0 <= low and high < 1 << term.width else (0, (1 << term.width) - 1)
