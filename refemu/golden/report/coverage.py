"""Coverage of a set: bits that are seen, flags, decisions, kinds of cases, and its grade by classes of faults."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import numpy as np

from refemu import units
from refemu.arith.checks import Refused
from refemu.golden.compare.waivers import FAST
from refemu.golden.faults.fault import QUICK, FaultClass
from refemu.golden.files.sets import Golden
from refemu.golden.grade import answers as answers_of
from refemu.golden.grade import entry, grading
from refemu.golden.grade.answers import Answers
from refemu.golden.grade.grade import Grade
from refemu.golden.report import places

Grading: TypeAlias = Literal["fast", "all", "none"]
GRADINGS: tuple[Grading, ...] = get_args(Grading)
CLASSES: Mapping[Grading, tuple[FaultClass, ...]] = {"fast": FAST, "all": QUICK, "none": ()}


@dataclass(frozen=True)
class Coverage:
    """What the rows of a set reach, and the wrong devices that they convict."""

    #: by output and register: bits of all lanes; seen 0, 1, rising, falling where they count
    toggle: Mapping[str, Mapping[str, int]]
    flags: Mapping[str, int]  #: rows with each flag
    kinds: Mapping[str, int]  #: rows of each kind of case
    decisions: Mapping[str, int]  #: by decision that a case is about: its rows
    #: rows of each kind of case that complete an operation; empty if each row is one
    completed: Mapping[str, int]
    grade: Grade | None  #: None where none was asked for, or the set cannot be graded
    reason: str = ""  #: why not

    @property
    def share(self) -> tuple[int, int]:
        """Bits that are seen 0 and bits that are seen 1, of twice the number of bits."""
        seen = bits = 0
        for counts in self.toggle.values():
            seen += counts["0"] + counts["1"]
            bits += 2 * counts["bits"]
        return seen, bits

    @property
    def detected(self) -> tuple[int, int]:
        """Faults of all classes that are convicted, and those that are known to be wrong devices; 0, 0 ungraded."""
        detected = known = 0
        for counts in self.grade.classes.values() if self.grade else ():
            detected += counts.detected
            known += counts.detected + counts.missed
        return detected, known


def coverage(folder: Path, golden: Golden, classes: tuple[FaultClass, ...]) -> Coverage:
    """Coverage of the set in `folder`. classes: of faults, () for no grade."""
    kinds = places.rows_by_kind(golden)
    decisions: dict[str, int] = {}
    for case in golden.manifest["cases"]:
        if "decision" in case:
            decisions[case["decision"]] = decisions.get(case["decision"], 0) + case["cases"] * case["rows"]
    try:
        rows_of = answers_of.of_set(_known(folder, golden))
    except Refused as refusal:
        return Coverage({}, {}, kinds, decisions, {}, None, str(refusal))
    completed = completions(rows_of)
    toggle, flags = grading.toggles(rows_of), grading.flags(rows_of)
    single = {name: count for name, count in flags.items() if "+" not in name}
    grade = entry.grade_set(folder, classes) if classes else None
    return Coverage(toggle, single, kinds, decisions, completed, grade)


def completions(answers: Answers) -> dict[str, int]:
    """Rows of each kind of case that complete an operation (`Unit.closing`); empty if each row is one."""
    unit, config, rows = answers.unit, answers.config, dict[str, int]()
    for block in answers.blocks:
        inputs = answers_of.values(unit, config, block)
        closing = unit.closing(config, inputs, unit.evaluate(config, inputs))
        if closing is None:
            return {}
        rows[block.cases.kind] = rows.get(block.cases.kind, 0) + int(np.count_nonzero(closing))
    return rows


def uncompleted(completed: Mapping[str, int]) -> str:
    """What to print if no random row completes an operation; else empty."""
    if completed.get("random", 1):
        return ""
    return "no random row completes an operation: faults that show only at its end are not tried"


def _known(folder: Path, golden: Golden) -> Golden:
    """A set of a unit as this refemu has it. Refused: an unknown unit or configuration, or other ports."""
    unit = units.find(golden.manifest["unit"])
    ports = unit.ports(unit.config(golden.config))
    needed = {*(f"in.{port.name}" for port in ports.inputs), *(f"out.{port.name}" for port in ports.outputs)}
    if lost := sorted(needed - set(golden.arrays)):
        raise Refused(f"{folder}: has no {lost[0]}, which {unit.name} of this refemu has")
    return golden
