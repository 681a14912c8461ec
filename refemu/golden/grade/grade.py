"""Grade of a stimulus: faults counted by class and verdict, and every one that it lets pass."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from refemu.golden.faults.fault import FaultClass

GATES: Mapping[FaultClass, float] = {"model": 0.97}  #: share convicted of a class that passes, where not all must be

Outcome: TypeAlias = Literal["missed", "undecided", "raised"]  #: of a fault that is not convicted


@dataclass(frozen=True)
class Survivor:
    """A fault that no row of the stimulus convicts."""

    klass: FaultClass  #: class of the fault
    id: str  #: stable
    fault: str  #: what the device does
    outcome: Outcome  #: "missed": another legal row tells it; "undecided": none does; "raised": it takes no case
    row: Mapping[str, Sequence[str]] | None  #: of a hole: words at every input up to the row that tells, in hex
    reason: str  #: why that verdict


@dataclass(frozen=True)
class Counts:
    """Faults of one class by verdict."""

    faults: int  #: tried
    detected: int  #: of them, seen by some row
    missed: int  #: not seen, though another legal row shows them
    undecided: int  #: shown by no row that was tried
    raised: int  #: their device takes no case

    @property
    def grade(self) -> float | None:
        """Share convicted of what is known to be wrong, 0 to 1; None where nothing is."""
        known = self.detected + self.missed
        return self.detected / known if known else None


@dataclass(frozen=True)
class Grade:
    """Grade of a stimulus."""

    set: str  #: name of the set, or of the file
    unit: str  #: name of the unit
    config: str  #: name of the configuration
    rows: int  #: of the stimulus
    pool: int  #: rows that decided between holes and undecided faults; 0 if none was needed
    classes: Mapping[FaultClass, Counts]  #: in the order of the library
    survivors: Sequence[Survivor]  #: faults that are not convicted, class by class
    #: by output and register: bits of all lanes; seen 0, 1, rising, falling where they count
    toggle: Mapping[str, Mapping[str, int]]
    decisions: Mapping[str, int]  #: by decision with alternatives: rows that tell some of them, at least
    flags: Mapping[str, int]  #: rows with each flag, and with every two of them, "a+b"

    @property
    def passes(self) -> bool:
        """Whether every class reaches its gate: no hole, or the share of GATES."""
        return all(
            not counts.missed or (klass in GATES and (counts.grade or 0) >= GATES[klass])
            for klass, counts in self.classes.items()
        )
