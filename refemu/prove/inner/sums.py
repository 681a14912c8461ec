"""Sums in one order: words that are equal sums, modulo a power of two, become one term.

A sum in one of two ways, such as `s ? p - x : p + x`, is a sum of both ways' words: `p + x - 2 * (s ? x : 0)`.
"""

from collections.abc import Iterator, Sequence

from refemu.prove import terms
from refemu.prove.floats import ranges
from refemu.prove.terms import Term

SIGNED = {"add", "sub", "mul"}
SUMS = ("add", "sub", "and")
LEAST = 3  #: terms of a sum that gets another order
MOST = 400  #: words of a sum

Addends = dict[int, tuple[Term, int]]  #: words in two's complement and their factors


def ordered(roots: Sequence[Term], limits: ranges.Known | None = None) -> list[Term]:
    """Terms whose sums of several words have one order, and no wider words than they show.

    limits: ranges of variables, by their numbers.
    """
    known: dict[int, Term] = {}
    for term in terms.order(roots):
        args = [known[each.number] for each in term.args]
        same = all(new is old for new, old in zip(args, term.args, strict=True))
        new = term if same or term.width < 0 else terms.rebuilt(term, args)
        summed = new.op in ("add", "sub") or (new.op == "extract" and not new.name and new.args[0].op in SUMS)
        known[term.number] = _sum(new, limits) if summed else _chosen(new, limits)
    return [known[each.number] for each in roots]


def equal(a: Term, b: Term) -> bool:
    """Whether two words are the same sum, as far as the order, signs and choices of its words show."""
    if not {each.op for word in (a, b) for each in _below(word)} & SIGNED:
        return False
    sums = Sums(a.width)
    return sums.of(a) == sums.of(b)


def long(roots: Sequence[Term]) -> list[Term]:
    """Sums of several words, each as a whole."""
    addends, parts = dict[int, int](), set[int]()
    every = [each for each in terms.order(roots) if each.op in ("add", "sub")]
    for each in every:
        addends[each.number] = sum(int(addends.get(part.number, 1)) for part in each.args)
        parts |= {part.number for part in each.args}
    return [each for each in every if addends[each.number] >= LEAST and each.number not in parts]


def _below(term: Term) -> Iterator[Term]:
    """A word without extensions, and the ways that it is chosen from."""
    while term.op in ("sext", "zext") or (term.op == "extract" and not term.name):
        (term,) = term.args
    yield term
    if term.op == "ite":
        yield from term.args[1:]


def _chosen(term: Term, limits: ranges.Known | None) -> Term:
    """The low bits of one of two words, which may be the same sum."""
    if term.op != "extract" or term.name or term.args[0].op != "ite":
        return term
    _, *ways = term.args[0].args
    first, second = (_sum(_chosen(terms.extract(each, 0, term.width), limits), limits) for each in ways)
    return first if first is second else term


def _sum(term: Term, limits: ranges.Known | None) -> Term:
    """The sum of the same addends in the order of their numbers, those of each factor on their own."""
    sums = Sums(term.width, choices=False, limits=limits)
    addends, constant = sums.of(term)
    if len(addends) < LEAST:
        return term
    constant -= constant >> (term.width - 1) << term.width
    groups: dict[int, list[tuple[Term, bool]]] = {1: []} if constant else {}
    for _, (each, factor) in sorted(addends.items()):
        negative = (1 << term.width) - factor
        sign = negative.bit_count() == 1
        groups.setdefault(negative if sign else factor, []).append((each, sign))
    answer = terms.const(0, term.width)
    for factor, words in sorted(groups.items()):
        part = _group(words, constant if factor == 1 else 0, term.width, sums)
        answer = terms.add(answer, part if factor == 1 else terms.mul(part, terms.const(factor, term.width)))
    return answer


def _group(words: Sequence[tuple[Term, bool]], constant: int, width: int, sums: "Sums") -> Term:
    """The sum of a constant and words, of which some are subtracted, as short as its range, and extended."""
    ranges_of = [(*ranges.signed(each, sums.ranges), sign) for each, sign in words]
    low, high = (
        constant + sum(int(-each[1 - side] if each[2] else each[side]) for each in ranges_of) for side in (0, 1)
    )
    bits = min(width, max(low.bit_length(), high.bit_length()) + 1)
    answer = terms.const(constant, bits)
    for each, sign in words:
        word = terms.sext(each, bits) if each.width <= bits else terms.extract(each, 0, bits)
        answer = terms.sub(answer, word) if sign else terms.add(answer, word)
    return terms.sext(answer, width)


class Sums:
    """Addends of words modulo 2**width. choices: whether a choice of sums is a sum of choices."""

    def __init__(self, width: int, choices: bool = True, limits: ranges.Known | None = None) -> None:
        self.width, self.choices = width, choices
        self.known: dict[int, tuple[Addends, int]] = {}
        self.ranges: ranges.Known = dict(limits or {})

    def of(self, root: Term) -> tuple[Addends, int]:
        """Words with factors that are not 0, and a constant."""
        if root.number not in self.known:
            answer: Addends = {}
            constant, stack = 0, [(root, 1)]
            while stack:
                term, factor = stack.pop()
                parts = self._parts(term, self.width - _zeros(factor, self.width))
                if parts is not None:
                    stack += [(each, factor * sign) for each, sign in parts]
                elif term.op == "const":
                    constant += factor * (term.name - ((term.name >> (term.width - 1)) << term.width))
                elif self.choices and (chosen := self._choice(term)) is not None:
                    words, more = chosen
                    constant += factor * more
                    for word, each in words.values():
                        _add(answer, word, factor * each)
                else:
                    _add(answer, *self._word(term, factor))
            mask = (1 << self.width) - 1
            kept = {number: (word, factor & mask) for number, (word, factor) in answer.items() if factor & mask}
            self.known[root.number] = kept, constant & mask
        return self.known[root.number]

    def _parts(self, term: Term, width: int) -> list[tuple[Term, int]] | None:
        """Words of which a word is the sum, and their factors. width: low bits that count."""
        if term.op in ("add", "sub") and (term.width >= width or self._exact(term)):
            first, second = term.args
            return [(first, 1), (second, 1 if term.op == "add" else -1)]
        if term.op == "extract" and term.name == 0 and (term.width >= width or self._holds(term)):
            return [(term.args[0], 1)]
        if (masked := _masked(term, width)) is not None:
            return [(masked, 1)]
        if term.op == "concat" and term.args[1] is terms.const(0, term.args[1].width):
            return [(term.args[0], 1 << term.args[1].width)]
        if term.op == "zext" and term.args[0].op == "add" and self._whole(term.args[0]):
            return [(terms.zext(each, term.width), 1) for each in term.args[0].args]
        if term.op == "sext" or (term.op == "zext" and self._signless(term.args[0], width)):
            (inner,) = term.args
            if inner.width > width and (masked := _masked(inner, width)) is not None:
                return [(masked, 1)]
            return [(inner, 1)]
        return None

    def _signless(self, term: Term, width: int) -> bool:
        """Whether a word is the same number with zeros above."""
        return term.width >= width or ranges.signed(term, self.ranges)[0] >= 0

    def _holds(self, term: Term) -> bool:
        """Whether the low bits of a word are its number."""
        low, high = ranges.signed(term.args[0], self.ranges)
        return -(1 << (term.width - 1)) <= low and high < 1 << (term.width - 1)

    def _exact(self, term: Term) -> bool:
        """Whether a shorter sum does not overflow, so that its words can be extended."""
        (a, b), (c, d) = (ranges.signed(each, self.ranges) for each in term.args)
        low, high = (a + c, b + d) if term.op == "add" else (a - d, b - c)
        return -(1 << (term.width - 1)) <= low and high < 1 << (term.width - 1)

    def _whole(self, term: Term) -> bool:
        """Whether a sum without sign does not overflow."""
        return sum(ranges.unsigned(each, self.ranges)[1] for each in term.args) < 1 << term.width

    def _choice(self, term: Term) -> tuple[Addends, int] | None:
        """Addends of a choice, one of whose ways is a sum or a product."""
        if term.op == "zext" and term.args[0].op == "ite":
            test, *ways = term.args[0].args
            term = terms.ite(test, *(terms.zext(each, term.width) for each in ways))
        if term.op != "ite" or not any(each.op in SIGNED for way in term.args[1:] for each in _below(way)):
            return None
        test, first, second = term.args
        (ours, more), (others, base) = self.of(first), self.of(second)
        if len(ours) + len(others) > MOST:
            return None
        answer = dict(others)
        for number in ours.keys() | others.keys():
            word = (ours.get(number) or others[number])[0]
            factor = ours.get(number, (word, 0))[1] - others.get(number, (word, 0))[1]
            if factor:
                _add(answer, terms.ite(test, word, terms.const(0, word.width)), factor)
        if more != base:
            _add(answer, terms.zext(test, 2), more - base)
        return answer, base

    def _word(self, term: Term, factor: int) -> tuple[Term, int]:
        """A word that is not a sum, in two's complement and as short as it can be."""
        term = terms.extract(term, 0, self.width) if term.width > self.width else term
        if term.op == "mul":
            return self._product(term, factor)
        if term.op == "zext":
            return terms.zext(term.args[0], term.args[0].width + 1), factor
        return term, factor

    def _product(self, term: Term, factor: int) -> tuple[Term, int]:
        """A product of magnitudes, and its factor with the signs of its words; unchanged where it may overflow."""
        words, sign = [], 1
        for each in term.args:
            word = each.args[0] if each.op == "sext" else each
            if word.op == "sub" and word.args[0] is terms.const(0, word.width) and word.args[1].op == "zext":
                word, sign = word.args[1], -sign
            elif ranges.signed(each, self.ranges)[0] < 0:
                return term, factor
            bits = max(ranges.signed(word, self.ranges)[1].bit_length(), 1)
            words.append(terms.extract(word.args[0] if word.op == "zext" else word, 0, bits))
        width = words[0].width + words[1].width
        if term.width <= width:
            return term, factor
        return terms.zext(terms.mul(*(terms.zext(each, width) for each in words)), width + 1), factor * sign


def _add(addends: Addends, word: Term, factor: int) -> None:
    before = addends.get(word.number, (word, 0))[1]
    addends[word.number] = (word, before + factor)


def _masked(term: Term, width: int) -> Term | None:
    """What a mask leaves in the low bits, if it leaves all of them."""
    if term.op == "extract" and term.name == 0:
        return _masked(term.args[0], width)
    if term.op != "and" or term.width < width:
        return None
    masks = [each for each in term.args if each.op == "const" and each.name & ((1 << width) - 1) == (1 << width) - 1]
    return next((each for each in term.args if masks and each is not masks[0]), None)


def _zeros(number: int, most: int) -> int:
    """Zeros below the lowest 1 of a number, at most `most`."""
    return min((number & -number).bit_length() - 1, most) if number else most
