"""Input lanes that are alike wherever a device has answers: equal words, or zeros whose sign changes no answer.

A device that permutes the lanes of an ascending vector has answers only where the permuted lanes ascend too.
"""

from collections.abc import Callable, Mapping, Sequence

from refemu.golden.files import fields
from refemu.prove import terms
from refemu.prove.equivalence import ask
from refemu.prove.inner.shared import conjuncts
from refemu.prove.lift import Lift
from refemu.prove.terms import Term, substitute
from refemu.units.ports import Port

SECONDS = 60.0  #: of the solver, for a question about zeros


class Alike:
    """Input vectors of a unit without registers whose lanes some rule relates."""

    def __init__(self, lifted: Lift) -> None:
        self.lifted = lifted
        self.known: dict[Term, bool] = {}  #: questions about zeros, in variables of their own
        ports = [port for port in lifted.device.ports.inputs if self._related(port)]
        self.signless = {
            port.name: fields.holds_floats(port) and all(map(self._signless, lifted.inputs[port.name]))
            for port in ports
        }

    def lanes(
        self, assumed: Sequence[Term], changed: Mapping[str, Sequence[Term]], never: Callable[[Sequence[Term]], bool]
    ) -> dict[int, Term]:
        """Lanes that are like the one before them, as the first of those; none if the changed inputs are not alike too.

        never: whether conditions never hold together.
        """
        same: dict[int, Term] = {}
        known = list(assumed)
        for name in self.signless:
            lanes = self.lifted.inputs[name]
            plain = [self._plain(name, lane) for lane in lanes]
            first = 0
            for at in range(1, len(lanes)):
                if never([*known, _differ(plain[at - 1], plain[at])]):
                    same[lanes[at].number] = lanes[first]
                    known.append(terms.eq(plain[first], plain[at]))
                else:
                    first = at
        put = {
            lane.number: self._plain(name, same.get(lane.number, lane))
            for name in self.signless
            for lane in self.lifted.inputs[name]
        }
        words = [self._plain(name, word) for name, lanes in changed.items() for word in lanes]
        kept = zip(words, substitute(words, put), strict=True)
        return same if same and all(never([*known, _differ(*each)]) for each in kept) else {}

    def _related(self, port: Port) -> bool:
        """Whether a condition of legal inputs reads several lanes."""
        lanes = {lane.number for lane in self.lifted.inputs[port.name]}
        read = ({each.number for each in terms.order([part])} for part in conjuncts([self.lifted.legal]))
        return any(len(lanes & numbers) > 1 for numbers in read)

    def _plain(self, name: str, word: Term) -> Term:
        """A word, 0 in the place of a -0 whose sign changes no answer."""
        if not self.signless.get(name):
            return word
        zero, negative = _zeros(word.width)
        return terms.ite(terms.eq(word, negative), zero, word)

    def _signless(self, lane: Term) -> bool:
        """Whether 0 and -0 in a lane give the same outputs, and are both legal or not; registers are proved first."""
        roots = [self.lifted.legal, *(each for lanes in reversed(self.lifted.terms.values()) for each in lanes)]
        right, other = (substitute(roots, {lane.number: zero}) for zero in _zeros(lane.width))
        equal: dict[int, Term] = {}
        for new, old in zip(right, other, strict=True):
            if not self._never(_cut(new, *substitute([old], equal))):
                return False
            equal |= {old.number: new} if old.args else {}
        return True

    def _never(self, condition: Term) -> bool:
        """Whether a condition never holds; asked once for conditions that differ in their variables."""
        variables = [each for each in terms.order([condition]) if each.op == "var"]
        names = {each.number: terms.variable(f"any{at}", each.width) for at, each in enumerate(variables)}
        (renamed,) = substitute([condition], names)
        if renamed not in self.known:
            self.known[renamed] = ask("", [renamed], SECONDS).outcome == "proved"
        return self.known[renamed]


def _zeros(bits: int) -> tuple[Term, Term]:
    """0 and -0."""
    return terms.const(0, bits), terms.const(1 << (bits - 1), bits)


def _differ(a: Term, b: Term) -> Term:
    return terms.not_(terms.eq(a, b))


def _cut(a: Term, b: Term) -> Term:
    """Whether two words differ, where words that both are made of may have any value."""
    below = {each.number for each in terms.order([a])}
    both = [each for each in terms.order([b]) if each.number in below and each.args and each.width > 0]
    return _differ(
        *substitute([a, b], {each.number: terms.variable(f"both{each.number}", each.width) for each in both})
    )


__all__ = ["Alike"]
