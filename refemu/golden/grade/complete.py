"""Rows that make a set complete: each fault that its cases miss gets a case of the pool that detects it."""

from collections.abc import Sequence

from refemu.arith.checks import Refused
from refemu.golden.faults.fault import QUICK, FaultClass
from refemu.golden.grade import covering
from refemu.golden.grade.answers import Answers
from refemu.golden.grade.grading import Grading
from refemu.golden.grade.pool import Pool
from refemu.golden.make.rows import evaluate, led
from refemu.units.unit import AnyUnit, Cases

ROUNDS = 4  #: tries to add the cases around a case too


def added(
    unit: AnyUnit,
    config: str,
    cases: Sequence[Cases],
    seed: int,
    classes: Sequence[FaultClass] = QUICK,
    prove: float = 0,
) -> list[Cases]:
    """Blocks of kind "fault" after which a set of `cases` misses no fault of `classes`.

    seed: of its random cases. prove: seconds of a solver for each fault that no row tried detects. Refused: no added
    cases detect a fault.
    """
    grading = Grading("", _answers(unit, config, cases), Pool(unit, config, seed), classes, prove=prove)
    blocks: list[Cases] = []
    missed = grading.missed
    for around in range(ROUNDS):
        if not missed:
            return blocks
        blocks += covering.cases(missed, "fault", around=around)
        stimulus = _answers(unit, config, [*cases, *blocks])
        missed = [each for each in missed if not covering.wrong(each.fault, stimulus).any()]
    if missed:
        raise Refused(
            f"generate --complete: added cases must detect every missed fault of {unit.name}, got none for "
            f"{missed[0].fault.id}; leave out its class"
        )
    return blocks


def _answers(unit: AnyUnit, config: str, cases: Sequence[Cases]) -> Answers:
    """The rows of a set with these cases."""
    whole = unit.config(config)
    return Answers(unit, whole, led(unit, whole, [evaluate(unit, whole, each) for each in cases]))
