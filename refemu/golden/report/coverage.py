"""Coverage of a set: toggled bits, flags, decisions, kinds of cases, and detected faults by class."""

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
from refemu.golden.grade import device, entry, grading
from refemu.golden.grade.answers import Answers
from refemu.golden.grade.grade import Grade
from refemu.golden.report import places

Grading: TypeAlias = Literal["fast", "all", "none"]
GRADINGS: tuple[Grading, ...] = get_args(Grading)
CLASSES: Mapping[Grading, tuple[FaultClass, ...]] = {"fast": FAST, "all": QUICK, "none": ()}


@dataclass(frozen=True)
class Coverage:
    """What the rows of a set reach, and the faults that they detect."""

    #: by output and register: bits of all lanes; seen 0, 1, rising, falling where they count
    toggle: Mapping[str, Mapping[str, int]]
    flags: Mapping[str, int]  #: rows with each flag
    kinds: Mapping[str, int]  #: rows of each kind of case
    decisions: Mapping[str, int]  #: rows of the cases about each decision
    #: rows of each kind of case that complete an operation; empty if each row is one
    completed: Mapping[str, int]
    grade: Grade | None  #: None if not requested, or if the set cannot be graded
    reason: str = ""  #: why the set cannot be graded

    @property
    def share(self) -> tuple[int, int]:
        """Number of bits seen 0 plus bits seen 1, and twice the number of bits."""
        seen = bits = 0
        for counts in self.toggle.values():
            seen += counts["0"] + counts["1"]
            bits += 2 * counts["bits"]
        return seen, bits

    @property
    def detected(self) -> tuple[int, int]:
        """Detected faults of all classes, and detected plus missed faults; 0, 0 without a grade."""
        detected = known = 0
        for counts in self.grade.classes.values() if self.grade else ():
            detected += counts.detected
            known += counts.detected + counts.missed
        return detected, known


def coverage(folder: Path, golden: Golden, classes: tuple[FaultClass, ...]) -> Coverage:
    """Coverage of the set in `folder`. classes: classes of faults, () for no grade."""
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
    for block, inputs in device.stimuli(answers):
        closing = unit.closing(config, inputs, unit.evaluate(config, inputs))
        if closing is None:
            return {}
        rows[block.cases.kind] = rows.get(block.cases.kind, 0) + int(np.count_nonzero(closing))
    return rows


def uncompleted(completed: Mapping[str, int]) -> str:
    """A remark if no random row completes an operation; else empty."""
    if completed.get("random", 1):
        return ""
    return "no random row completes an operation: faults at its end are untested"


def _known(folder: Path, golden: Golden) -> Golden:
    """Require a set of a unit of this refemu. Refused: an unknown unit or configuration, or other ports."""
    unit = units.find(golden.manifest["unit"])
    ports = unit.ports(unit.config(golden.config))
    needed = {*(f"in.{port.name}" for port in ports.inputs), *(f"out.{port.name}" for port in ports.outputs)}
    if lost := sorted(needed - set(golden.arrays)):
        raise Refused(f"{folder}: lacks {lost[0]}, which {unit.name} has in this version of refemu; regenerate the set")
    return golden
