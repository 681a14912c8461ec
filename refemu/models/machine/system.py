"""Resources of a machine and the prices of their work: what a record of work is measured with."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal, TypeAlias

MEMORY = "memory"  #: the external memory, among the resources
STREAMS = ("weights", "activations", "keys", "values", "outputs", "metadata")  #: what moves over its port
Overlap: TypeAlias = Literal["none", "tiles", "operations"]  #: what the schedule overlaps
OVERLAPS: tuple[Overlap, ...] = ("none", "tiles", "operations")


@dataclass(frozen=True)
class Price:
    """Energy of one event of a part of the machine."""

    picojoules: Fraction  #: of one event
    event: str  #: the event: "bit of the external memory", "cycle of the counters"
    source: str  #: place in the paper


@dataclass(frozen=True)
class System:
    """A machine: its clock, the port of its memory, its engines, and what an event of each part costs."""

    name: str  #: of the accelerator
    clock: int  #: hertz
    rate: Fraction  #: bytes of the external memory a cycle
    peak: int  #: multiply-accumulates a cycle of all its engines
    overlap: Overlap  #: what the schedule overlaps
    sources: Mapping[str, str] = field(default_factory=dict)  #: clock, rate, peak -> place in the paper
    prices: Mapping[str, Price] = field(default_factory=dict)  #: part -> price; a part without one has no energy
    no_price: str = ""  #: why parts without a price have none

    def seconds(self, cycles: int) -> float:
        """Seconds of some cycles."""
        return cycles / self.clock

    def transfer(self, size: int) -> int:
        """Cycles in which `size` bytes pass the port of the memory."""
        return -(-size * self.rate.denominator // self.rate.numerator)
