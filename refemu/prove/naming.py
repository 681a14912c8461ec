"""Names of the readable text for terms: a lift that records what functions return and what their locals hold."""

from collections.abc import Mapping, Sequence
from typing import Any

from refemu.prove import terms
from refemu.prove.arrays import Array
from refemu.prove.interpreter import Interpreter
from refemu.prove.lift import SECONDS, Lift, lift
from refemu.prove.terms import REAL, Term
from refemu.prove.values import Real, Symbolic
from refemu.units.unit import AnyUnit

MOST = 64  #: elements of a list that get names


class Names:
    """Names by numbers of terms; the first that a term gets is the innermost."""

    def __init__(self) -> None:
        self.known: dict[int, tuple[Term, str]] = {}
        self.real: dict[int, tuple[Term, str]] = {}  #: lines that compute binary64 numbers

    def give(self, name: str, value: Any, depth: int = 2) -> None:
        """Name the terms of a value; elements and fields get their place or name after it."""
        if isinstance(value, Symbolic):
            self._term(name, getattr(value, "term", None))
        elif isinstance(value, Array) and depth:
            self.give(name, value.values.reshape(-1).tolist(), depth)
        elif isinstance(value, list | tuple) and depth and len(value) <= MOST:
            for at, each in enumerate(value):
                self.give(f"{name}_{at}", each, depth - 1)

    def _term(self, name: str, term: Term | None) -> None:
        while term is not None and term.op in ("zext", "sext"):
            (term,) = term.args
        if term is not None and term.args and term.width != REAL:
            self.known.setdefault(term.number, (term, name))

    def line(self, value: Any, line: str) -> None:
        """Remember the line of a binary64 number."""
        if isinstance(value, Real) and value.term.args:
            self.real.setdefault(value.term.number, (value.term, line))


def named_lift(unit: AnyUnit, config: Mapping[str, Any], seconds: float = SECONDS) -> tuple[Lift, Names]:
    """Lift a unit, and record the names of its text.

    Parameters
    ----------
    unit : Unit
        Descriptor.
    config : Mapping
        Parameters of the unit.
    seconds : float
        Time limit of the lift.

    Returns
    -------
    tuple of Lift and Names
        Terms, equal to those of `lift`, and their names.

    Raises
    ------
    NotLifted
        A line has no terms.
    """
    names = Names()

    class Recording(Interpreter):
        composes = False

        def _run(self, tree: Any, *args: Any) -> Any:
            answer = super()._run(tree, *args)
            if hasattr(tree, "name"):
                names.give(tree.name.strip("_"), answer)
            return answer

        def store(self, target: Any, value: Any) -> None:
            super().store(target, value)
            self._named([getattr(target, "id", "")], value)

        def operate(self, *args: Any) -> Any:
            answer = super().operate(*args)
            names.line(answer, self.line)
            return answer

        def call(self, function: Any, *args: Any, **named: Any) -> Any:
            answer = super().call(function, *args, **named)
            names.line(answer, self.line)
            return answer

        def _joined(self, before: dict[str, Any], ways: Sequence[Any], changed: frozenset[str]) -> dict[str, Any]:
            answer = super()._joined(before, ways, changed)
            for name in sorted(changed & set(answer)):
                self._named([name], answer[name])
            return answer

        def _named(self, local: list[str], value: Any) -> None:
            function = self.frames[-1].function
            called = getattr(function, "__name__", None) or getattr(getattr(function, "tree", None), "name", "")
            if local[0] and called:
                names.give(f"{called.strip('_')}_{local[0].strip('_')}", value)

    return lift(unit, config, seconds, Recording), names


def real_line(names: Names, roots: Sequence[Term]) -> str | None:
    """The line of the first binary64 number below some terms; "" if it is unknown, None if there is no such number."""
    real = [each for each in terms.order(roots) if each.op in terms.FP or each.op == "truncate" or each.width == REAL]
    lines = [names.real[each.number][1] for each in real if each.number in names.real]
    return (lines or [""])[0] if real else None
