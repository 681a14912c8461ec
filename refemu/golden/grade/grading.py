"""Fault simulation: every fault of the library is tried on the stimulus, and undetected faults on the rows of a pool.

A fault is detected if a bit that counts differs in some row. Otherwise it is missed if a row of the pool detects it:
legal edge, exhaustive and random cases outside the set, or all inputs where they are few. If no row of the pool does,
it is equivalent if the pool has all inputs, else undecided. A fault is untested if no case of the stimulus is valid for
its device.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import get_args

import numpy as np

from refemu.arith.checks import Refused, RefusedType
from refemu.golden.faults.fault import CLASSES, QUICK, Fault, FaultClass, Faults, known
from refemu.golden.faults.library import STRUCTURE
from refemu.golden.files import fields
from refemu.golden.grade import decisions, model
from refemu.golden.grade.answers import Answers
from refemu.golden.grade.decider import Decider
from refemu.golden.grade.grade import Counts, Grade, Outcome, Survivor
from refemu.golden.grade.pool import Pool
from refemu.units.ports import Port

LIBRARY: Mapping[FaultClass, Faults] = {**STRUCTURE, "decisions": decisions.faults, "model": model.faults}


@dataclass(frozen=True)
class Missed:
    """A missed fault, and the rows of a pool that show it."""

    fault: Fault
    answers: Answers  #: the pool
    rows: np.ndarray  #: bool per row


class Grading:
    """A stimulus, and a pool of rows for the faults that it does not detect."""

    def __init__(
        self,
        name: str,
        stimulus: Answers,
        pool: Pool,
        classes: Sequence[str] | None = None,
        every: bool = False,
        prove: float = 0,
    ) -> None:
        """Try every fault of `classes`, by default of QUICK.

        name: of the set. every: try all mutants of class model, not a sample. prove: seconds of a solver for each fault
        that no row tried detects; 0: none. Refused: an unknown class.
        """
        self.stimulus, self.pool = stimulus, pool
        self._library: dict[FaultClass, Faults] = dict(LIBRARY)
        if every:
            self._library["model"] = partial(model.faults, sample=sys.maxsize)
        self._decisions: dict[str, np.ndarray] = {}  #: a bit per row, in bytes: detects some variant of the decision
        self.missed: list[Missed] = []
        self._decider = Decider(pool.unit, stimulus.config, prove) if prove else None
        chosen = [known(each) for each in classes] if classes else QUICK
        with np.errstate(all="ignore"):  # a faulty device may divide by 0
            graded = {klass: self._graded(klass) for klass in CLASSES if klass in chosen}
        self.grade = Grade(
            name,
            pool.unit.name,
            pool.config,
            stimulus.rows,
            pool.rows,
            pool.every.count if pool.rows else 0,
            {klass: counts for klass, (counts, _) in graded.items()},
            [survivor for _, survivors in graded.values() for survivor in survivors],
            toggles(stimulus),
            {each: int(np.count_nonzero(np.unpackbits(rows))) for each, rows in sorted(self._decisions.items())},
            flags(stimulus),
        )

    def _graded(self, klass: FaultClass) -> tuple[Counts, list[Survivor]]:
        tried = [self._tried(klass, fault) for fault in self._library[klass](self.stimulus)]
        survivors = [survivor for survivor in tried if survivor is not None]
        of = [survivor.outcome for survivor in survivors]
        counts = [of.count(each) for each in get_args(Outcome)]
        return Counts(len(tried), len(tried) - len(of), *counts), survivors

    def _tried(self, klass: FaultClass, fault: Fault) -> Survivor | None:
        """The record of an undetected fault, None if it is detected."""
        try:
            if fault.decision:
                detecting = np.packbits(fault.wrong(self.stimulus))
                self._decisions[fault.decision] = detecting | self._decisions.get(fault.decision, np.uint8(0))
            if detecting.any() if fault.decision else fault.detected(self.stimulus):
                return None
        except (Refused, RefusedType) as error:
            return Survivor(klass, fault.id, fault.says, "raised", None, str(error))
        outcome, row, reason = self._undetected(fault)
        return Survivor(klass, fault.id, fault.says, outcome, row, reason)

    def _undetected(self, fault: Fault) -> tuple[Outcome, Mapping[str, Sequence[str]] | None, str]:
        """Result of a fault that the stimulus does not detect, a row that shows it, and why."""
        others = self.pool.of(fault)
        which = f"{fault.tried(others)} other rows" if not others.inputs else f"all {others.inputs} inputs"
        try:
            wrong = fault.wrong(others)
        except (Refused, RefusedType) as error:
            outcome: Outcome = "raised" if others.inputs else "undecided"
            return outcome, None, f"{_all(which)} are invalid for the device: {error}"
        shown_by = np.flatnonzero(wrong)
        if shown_by.size:
            self.missed.append(Missed(fault, others, wrong))
            least = "at least " * fault.runs  # it stops at the first part of the rows that shows it
            reason = f"{least}{shown_by.size} of {which} detect{'s' * (shown_by.size == 1)} it"
            if others.inputs and fault.remembers:
                reason = f"a sequence of {which} detects it"
            return "missed", others.stimulus(int(shown_by[0])), reason
        if others.inputs and not (fault.remembers and others.unit.care):
            return "equivalent", None, f"{'no sequence' if fault.remembers else 'none'} of {which} detects it"
        steps = f", at most {others.steps} steps from reset," * (others.unit.timing == "event")
        reason = f"none of {which}{steps} detects it"
        if self._decider is None:
            return "undecided", None, reason
        decision = self._decider.decide(fault, self.stimulus)
        if decision.rows is None:
            return (
                ("equivalent", None, decision.reason)
                if decision.equivalent
                else ("undecided", None, f"{reason}; {decision.reason}")
            )
        wrong = fault.wrong(decision.rows)
        self.missed.append(Missed(fault, decision.rows, wrong))
        return "missed", decision.rows.stimulus(int(np.argmax(wrong))), decision.reason


def _all(which: str) -> str:
    return which if which.startswith("all") else f"all {which}"


def toggles(answers: Answers) -> dict[str, dict[str, int]]:
    """By output and register: the number of bits (of all lanes) seen 0, 1, rising and falling where they count.

    Registers that the rows lack, as in old sets, are omitted.
    """
    bits: dict[str, int] = {}
    seen: dict[tuple[str, str], np.ndarray] = {}
    for _, here, piece in answers.pieces():
        follows, rows = piece.before[here] >= 0, np.arange(piece.rows)[here]
        rows = rows[follows]
        for name, port, codes, care in _seen(piece):
            now, last, both = codes[rows], codes[piece.before[rows]], care[rows] & care[piece.before[rows]]
            bits[name] = port.bits * port.count
            for column, codes_seen in (
                ("0", ~codes[here] & care[here]),
                ("1", codes[here] & care[here]),
                ("rising", ~last & now & both),
                ("falling", last & ~now & both),
            ):
                words = np.bitwise_or.reduce(codes_seen, axis=0)
                seen[name, column] = words | seen.get((name, column), words)
    columns = ("0", "1", "rising", "falling")
    return {
        name: {"bits": count} | {each: _count(seen[name, each]) for each in columns} for name, count in bits.items()
    }


def _seen(answers: Answers) -> Iterator[tuple[str, Port, np.ndarray, np.ndarray]]:
    """Name, port, bit patterns and bits that count of every output and register."""
    for name, port in answers.ports.items():
        yield name, port, answers.outputs[name], answers.care[name]
    for name, port in answers.registers.items():
        codes = answers.held[name]
        yield name, port, codes, np.broadcast_to(codes.dtype.type(fields.mask_of(port.bits)), codes.shape)


def flags(answers: Answers) -> dict[str, int]:
    """Rows with each flag of the unit, and with each pair of flags, "a+b"."""
    words = np.concatenate([block.flags.reshape(-1) for block in answers.blocks])
    rows = {name: words & words.dtype.type(1 << flag.bit) != 0 for name, flag in answers.unit.flags.items()}
    table = {name: int(np.count_nonzero(there)) for name, there in rows.items()}
    pairs = combinations(rows, 2)
    return table | {f"{a}+{b}": int(np.count_nonzero(rows[a] & rows[b])) for a, b in pairs}


def _count(seen: np.ndarray) -> int:
    """Bits of all lanes that are set."""
    count = 0
    for word in seen:
        count += int(word).bit_count()
    return count
