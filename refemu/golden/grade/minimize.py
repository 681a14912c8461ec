"""The smallest subset found of a unit's cases with the coverage of all: for gate-level simulation."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from refemu import units as find_units
from refemu.arguments import checked
from refemu.arith.checks import Refused, RefusedType, require_choice
from refemu.golden.faults.fault import QUICK, Fault
from refemu.golden.files import sets, store
from refemu.golden.grade import answers as answers_of
from refemu.golden.grade import covering
from refemu.golden.grade.answers import Answers, values
from refemu.golden.grade.grading import LIBRARY
from refemu.golden.make import build
from refemu.golden.make.generate import collect
from refemu.golden.make.regenerate import MINIMAL
from refemu.units import parameters
from refemu.units.unit import KINDS, AnyUnit, Cases, Config, Kind


@dataclass(frozen=True)
class Minimal:
    """Set of few rows with the coverage of many."""

    name: str  #: name of the set
    path: str  #: its directory
    rows_of_all: int  #: rows of the cases to choose from
    rows: int  #: rows of the set


@checked
def generate_minimal(
    out: str | Path, units: Sequence[str | AnyUnit], kinds: Sequence[Kind] | None = None, seed: int = 0
) -> list[Minimal]:
    """Write the smallest subset found of a unit's cases that detects every fault that the full set detects.

    Parameters
    ----------
    out : str or Path
        Folder of the sets, `out`/<unit>-<configuration>/.
    units : sequence of str or Unit
        Units in all their ready configurations or in one, as for `generate`.
    kinds : sequence of str, optional
        Kinds of cases to choose from; by default all except "model".
    seed : int
        Seed of the random cases.

    Returns
    -------
    list of Minimal
        Sets that were written.

    Raises
    ------
    Refused
        A name is unknown, cases of a model are requested, or a folder has files that refemu did not write.
    """
    wanted = list(kinds or KINDS[:-1])
    for kind in wanted:
        require_choice(kind, KINDS[:-1], "generate --minimal", "kinds")
    written = []
    for unit, texts in [find_units.configurations(spec) for spec in units]:
        for config in texts:
            cases, _ = collect(unit, config, wanted, seed, ())
            few = subset(unit, unit.config(config), cases)
            written.append(_write(Path(out) / parameters.set_name(unit, config), unit, config, cases, few))
    return written


def _write(target: Path, unit: AnyUnit, config: str, cases: Sequence[Cases], few: Sequence[Cases]) -> Minimal:
    generator = {"model": {"function": MINIMAL, "seed": 0}}
    manifest, arrays = build.build(unit, config, few, generator=generator)
    store.replace(target, sets.render(manifest, arrays))
    return Minimal(target.name, str(target), _count(unit, cases), manifest["rows"])


def _count(unit: AnyUnit, cases: Sequence[Cases]) -> int:
    rows = 0
    for block in cases:
        shape = next(iter(block.inputs.values())).shape
        rows += shape[0] * (shape[1] if unit.timing == "event" else 1)
    return rows


def subset(unit: AnyUnit, config: Config, cases: Sequence[Cases]) -> list[Cases]:
    """A few of `cases` with the same coverage in every quick class.

    A greedy cover of the faults by cases. Since faults of order and reset need neighbours, cases and their predecessors
    are then added that detect what the cover lost, until nothing is lost.
    """
    whole = answers_of.of_cases(unit, config, cases)
    tells = {fault: by_case for fault in _faults(whole) if (by_case := _by_case(fault, whole)).any()}
    if not tells:
        return list(cases)
    chosen = set(covering.cover(np.array(list(tells.values()))))
    count = len(next(iter(tells.values())))
    while len(chosen) < count:
        few = _picked(whole, chosen)
        lost = [fault for fault in tells if not _is_detected(fault, few)]
        if not lost:
            break
        for fault in lost:
            chosen |= _neighbours(np.flatnonzero(tells[fault]), chosen, count)
    return [block.cases for block in _picked(whole, chosen).blocks]


def _faults(answers: Answers) -> list[Fault]:
    return [fault for klass in QUICK for fault in LIBRARY[klass](answers)]


def _by_case(fault: Fault, answers: Answers) -> np.ndarray:
    """Whether some row of a case detects the fault: bool (cases,)."""
    starts = np.flatnonzero(np.diff(answers.cases, prepend=-1))
    try:
        return np.asarray(np.logical_or.reduceat(fault.wrong(answers), starts))
    except (Refused, RefusedType):
        return np.zeros(len(starts), np.bool_)


def _is_detected(fault: Fault, answers: Answers) -> bool:
    try:
        return bool(fault.wrong(answers).any())
    except (Refused, RefusedType):
        return False


def _neighbours(telling: np.ndarray, chosen: set[int], count: int) -> set[int]:
    """The first detecting case not yet chosen with its predecessor, and that predecessor; else the next case."""
    pairs = ({case, max(case - 1, 0)} for case in telling.tolist())
    spare = {next((case for case in range(count) if case not in chosen), 0)}
    return next((pair for pair in pairs if not pair <= chosen), spare)


def _picked(answers: Answers, chosen: set[int]) -> Answers:
    blocks, first = [], 0
    for block in answers.blocks:
        count = block.shape[0]
        some = np.array([case - first for case in sorted(chosen) if first <= case < first + count], np.int64)
        first += count
        if some.size:
            picked = block.pick(some)
            inputs = values(answers.unit, answers.config, picked)
            cases = Cases("model", f"{block.cases.kind}: {block.cases.why}", inputs, block.cases.decision)
            blocks.append(type(block)(cases, picked.arrays, picked.flags, picked.care))
    return Answers(answers.unit, answers.config, blocks)
