"""Grade of a stimulus: faults counted by class and result, and every fault that it does not detect."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from refemu.golden.faults.fault import FaultClass

GATES: Mapping[FaultClass, float] = {"model": 0.97}  #: least coverage of a class, if not 1

Outcome: TypeAlias = Literal["missed", "equivalent", "undecided", "raised"]  #: of a fault that is not detected


@dataclass(frozen=True)
class Survivor:
    """A fault that no row of the stimulus detects."""

    klass: FaultClass  #: class of the fault
    id: str  #: stable
    fault: str  #: what the device does
    #: "missed": another legal row shows it; "equivalent": no legal row does; "undecided": none that was tried does;
    #: "raised": the device rejects all cases
    outcome: Outcome
    row: (
        Mapping[str, Sequence[str]] | None
    )  #: of a missed fault: words at every input up to the row that shows it, in hex
    reason: str  #: why


@dataclass(frozen=True)
class Counts:
    """Numbers of faults of one class by result."""

    faults: int  #: tried
    detected: int  #: detected by some row
    missed: int  #: missed: only another legal row detects them
    equivalent: int  #: equivalent: no legal row detects them
    undecided: int  #: unknown: no row tried detects them
    raised: int  #: untested: no case is valid for their device

    @property
    def grade(self) -> float | None:
        """Coverage: detected among detected and missed faults, 0 to 1; None if there are none."""
        known = self.detected + self.missed
        return self.detected / known if known else None


@dataclass(frozen=True)
class Grade:
    """Grade of a stimulus."""

    set: str  #: name of the set, or of the file
    unit: str  #: name of the unit
    config: str  #: name of the configuration
    rows: int  #: rows of the stimulus
    pool: int  #: other rows that distinguish missed from equivalent faults; 0 if none was needed
    inputs: int  #: number of all legal inputs, if they are the other rows; else 0
    classes: Mapping[FaultClass, Counts]  #: in the order of the library
    survivors: Sequence[Survivor]  #: faults that are not detected, class by class
    #: by output and register: bits of all lanes; seen 0, 1, rising, falling where they count
    toggle: Mapping[str, Mapping[str, int]]
    decisions: Mapping[str, int]  #: by decision with variants: least number of rows that detect some of them
    flags: Mapping[str, int]  #: rows with each flag, and with each pair of flags, "a+b"

    @property
    def passes(self) -> bool:
        """Whether every class meets its threshold: no missed fault, or the coverage of GATES."""
        return all(
            not counts.missed or (klass in GATES and (counts.grade or 0) >= GATES[klass])
            for klass, counts in self.classes.items()
        )
