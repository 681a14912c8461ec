"""Least and largest values of words, as their operations show."""

from refemu.prove.terms import Term

DEPTH = 60  #: operations that a range is read from

Known = dict[int, tuple[int, int]]  #: by the number of a word; by its inverse, without sign


def signed(term: Term, known: Known | None = None, depth: int = DEPTH) -> tuple[int, int]:
    """Range of a word in two's complement."""
    memory: Known = {} if known is None else known
    if term.number not in memory:
        half = 1 << (term.width - 1)
        low, high = _range(term, memory, depth) if depth else (-half, half - 1)
        memory[term.number] = (low, high) if -half <= low and high < half else (-half, half - 1)
    return memory[term.number]


def _range(term: Term, known: Known, depth: int) -> tuple[int, int]:
    half = 1 << (term.width - 1)
    if term.op == "const":
        value = term.name - ((term.name & half) << 1)
        return value, value
    if term.op == "zext":
        return unsigned(term, known, depth)
    masks = [each.name for each in term.args if term.op == "and" and each.op == "const" and each.name < half]
    if masks:
        return 0, min(masks)
    if term.op == "extract":
        low, high = signed(term.args[0], known, depth - 1)
        return low >> term.name, high >> term.name
    if term.op == "shl":
        (low, high), (least, most) = signed(term.args[0], known, depth - 1), unsigned(term.args[1], known, depth - 1)
        places = least, min(most, term.width)
        return min(low << each for each in places), max(high << each for each in places)
    if term.op == "concat":
        (low, high), shift = signed(term.args[0], known, depth - 1), term.args[1].width
        least, most = unsigned(term.args[1], known, depth - 1)
        return (low << shift) + least, (high << shift) + most
    if term.op in ("sext", "ite", "add", "sub", "mul"):
        ends = [signed(each, known, depth - 1) for each in term.args[term.op == "ite" :]]
        low, high = ends[0]
        for a, b in ends[1:]:
            if term.op == "ite":
                low, high = min(low, a), max(high, b)
            elif term.op == "mul":
                corners = [low * a, low * b, high * a, high * b]
                low, high = min(corners), max(corners)
            else:
                low, high = (low + a, high + b) if term.op == "add" else (low - b, high - a)
        return low, high
    return -half, half - 1


def unsigned(term: Term, known: Known | None = None, depth: int = DEPTH) -> tuple[int, int]:
    """Range of a word without sign."""
    memory: Known = {} if known is None else known
    if depth and term.op == "zext":
        return unsigned(term.args[0], memory, depth - 1)
    if depth and term.op in ("add", "ite"):
        if ~term.number not in memory:
            (a, b), (c, d) = (unsigned(each, memory, depth - 1) for each in term.args[-2:])
            memory[~term.number] = (a + c, b + d) if term.op == "add" else (min(a, c), max(b, d))
        if memory[~term.number][1] < 1 << term.width:
            return memory[~term.number]
    if term.op == "const":
        return term.name, term.name
    inner = term.args[0] if term.op == "extract" and not term.name else term
    low, high = signed(inner, memory, depth)
    return (low, high) if low >= 0 and high < 1 << term.width else (0, (1 << term.width) - 1)


__all__ = ["Known", "signed", "unsigned"]
