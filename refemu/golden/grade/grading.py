"""Fault simulation: every fault of the library is tried on the stimulus, and undetected faults on the rows of a pool.

A fault is detected if a bit that counts differs in some row. Otherwise it is missed if a row of the pool detects it:
legal edge, exhaustive and random cases outside the set. If no row of the pool does, it is equivalent or unknown. A
fault is untested if no case of the stimulus is valid for its device.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations

import numpy as np

from refemu.arith.checks import Refused, RefusedType, lookup
from refemu.golden.faults.fault import CLASSES, QUICK, Fault, FaultClass, Faults
from refemu.golden.faults.library import STRUCTURE
from refemu.golden.grade import decisions, model
from refemu.golden.grade.answers import Answers
from refemu.golden.grade.grade import Counts, Grade, Survivor
from refemu.golden.grade.pool import Pool
from refemu.units.ports import Port

LIBRARY: Mapping[FaultClass, Faults] = {**STRUCTURE, "decisions": decisions.faults, "model": model.faults}


class Grading:
    """A stimulus, and a pool of rows for the faults that it does not detect."""

    def __init__(
        self, name: str, stimulus: Answers, pool: Pool, classes: Sequence[str] | None = None, every: bool = False
    ) -> None:
        """Try every fault of `classes`, by default of QUICK.

        name: of the set. every: try all mutants of class model, not a sample. Refused: an unknown class.
        """
        self.stimulus, self.pool = stimulus, pool
        self._library: dict[FaultClass, Faults] = dict(LIBRARY)
        if every:
            self._library["model"] = partial(model.faults, sample=sys.maxsize)
        self._decisions: dict[str, np.ndarray] = {}  #: bool per row: detects some variant of the decision
        self.shown_by: list[np.ndarray] = []  #: for every missed fault, bool per row of the pool
        chosen = [_known(each) for each in classes] if classes else QUICK
        with np.errstate(all="ignore"):  # a faulty device may divide by 0
            graded = {klass: self._graded(klass) for klass in CLASSES if klass in chosen}
        self.grade = Grade(
            name,
            pool.unit.name,
            pool.config,
            stimulus.rows,
            pool.rows,
            {klass: counts for klass, (counts, _) in graded.items()},
            [survivor for _, survivors in graded.values() for survivor in survivors],
            toggles(stimulus),
            {each: int(np.count_nonzero(rows)) for each, rows in sorted(self._decisions.items())},
            flags(stimulus),
        )

    def _graded(self, klass: FaultClass) -> tuple[Counts, list[Survivor]]:
        tried = [self._tried(klass, fault) for fault in self._library[klass](self.stimulus)]
        survivors = [survivor for survivor in tried if survivor is not None]
        of = [survivor.outcome for survivor in survivors]
        missed, undecided, raised = of.count("missed"), of.count("undecided"), of.count("raised")
        return Counts(len(tried), len(tried) - len(of), missed, undecided, raised), survivors

    def _tried(self, klass: FaultClass, fault: Fault) -> Survivor | None:
        """The record of an undetected fault, None if it is detected."""
        try:
            detecting = fault.wrong(self.stimulus)
            if fault.decision:
                self._decisions[fault.decision] = detecting | self._decisions.get(fault.decision, np.False_)
            if detecting.any():
                return None
        except (Refused, RefusedType) as error:
            return Survivor(klass, fault.id, fault.says, "raised", None, str(error))
        others = self.pool.answers
        try:
            wrong = fault.wrong(others)
        except (Refused, RefusedType) as error:
            reason = f"all {fault.tried(others)} other rows are invalid for the device: {error}"
            return Survivor(klass, fault.id, fault.says, "undecided", None, reason)
        shown_by = np.flatnonzero(wrong)
        if not shown_by.size:
            reason = f"none of {fault.tried(others)} other rows detects it"
            return Survivor(klass, fault.id, fault.says, "undecided", None, reason)
        self.shown_by.append(wrong)
        reason = f"{shown_by.size} of {fault.tried(others)} other rows detect it"
        return Survivor(klass, fault.id, fault.says, "missed", others.stimulus(int(shown_by[0])), reason)


def _known(name: str) -> FaultClass:
    """A class by its name. Refused: an unknown one, with the nearest."""
    return lookup("fault class", name, {str(each): each for each in CLASSES})


def toggles(answers: Answers) -> dict[str, dict[str, int]]:
    """By output and register: the number of bits (of all lanes) seen 0, 1, rising and falling where they count.

    Registers that the rows lack, as in old sets, are omitted.
    """
    table = {}
    follows = answers.before >= 0
    for name, port, codes, care in _seen(answers):
        now, last = codes[follows], codes[answers.before[follows]]
        both = care[follows] & care[answers.before[follows]]
        table[name] = {
            "bits": port.bits * port.count,
            "0": _count(~codes & care),
            "1": _count(codes & care),
            "rising": _count(~last & now & both),
            "falling": _count(last & ~now & both),
        }
    return table


def _seen(answers: Answers) -> Iterator[tuple[str, Port, np.ndarray, np.ndarray]]:
    """Name, port, bit patterns and bits that count of every output and register."""
    for name, port in answers.ports.items():
        yield name, port, answers.outputs[name], answers.care[name]
    for name, port in answers.registers.items():
        codes = answers.held[name]
        yield name, port, codes, np.full_like(codes, (1 << port.bits) - 1)


def flags(answers: Answers) -> dict[str, int]:
    """Rows with each flag of the unit, and with each pair of flags, "a+b"."""
    words = np.concatenate([block.flags.reshape(-1) for block in answers.blocks])
    rows = {name: (words >> flag.bit & 1) == 1 for name, flag in answers.unit.flags.items()}
    table = {name: int(np.count_nonzero(there)) for name, there in rows.items()}
    pairs = combinations(rows, 2)
    return table | {f"{a}+{b}": int(np.count_nonzero(rows[a] & rows[b])) for a, b in pairs}


def _count(seen: np.ndarray) -> int:
    """Bits of all lanes that are set in some row."""
    count = 0
    for word in np.bitwise_or.reduce(seen, axis=0) if len(seen) else ():
        count += int(word).bit_count()
    return count
