"""Splits of the inputs of a unit into cases that a solver decides one by one."""

from refemu.prove import terms
from refemu.prove.lift import Lift
from refemu.prove.terms import Term


def of_unit(lift: Lift) -> list[tuple[str, Term]]:
    """Conditions that together cover all inputs; none where one question is faster."""
    return []


def covers(cases: list[tuple[str, Term]]) -> Term:
    """Whether some case holds."""
    return terms.any_of(condition for _, condition in cases)
