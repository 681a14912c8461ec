"""Variants of the decisions of harmonia_core_clocked, and those of the core that are its parameters."""

from dataclasses import replace
from typing import Any

from refemu.units.declaration import Changes
from refemu.units.harmonia.harmonia_core import Rates, Schedule, Timeline
from refemu.units.harmonia.harmonia_core import variants as harmonia_core
from refemu.units.harmonia.harmonia_core_clocked import HarmoniaCoreClocked
from refemu.units.variant import Variant, choices

PARAMETERS = ("D-harmonia-29", "D-harmonia-46", "D-harmonia-48")  #: decisions that are parameters of the core


class Serial(Timeline):
    """A part begins when all others are done."""

    def _take(self, part: str, ready: int, clocks: int) -> tuple[int, int]:
        return super()._take(part, max(ready, *self.free.values()), clocks)


class OneAfterTheOther(HarmoniaCoreClocked):
    """Nothing overlaps."""

    def timeline(self) -> Timeline:
        return Serial()


class Wide(HarmoniaCoreClocked):
    """The vector unit and the K-offset generator take sixteen values in a clock."""

    def timeline(self) -> Timeline:
        return Timeline(Rates(lanes=16))


class Slow(HarmoniaCoreClocked):
    """Operands and results move at 1 GB/s."""

    def timeline(self) -> Timeline:
        return Timeline(Rates(bytes_per_second=10**9))


class Registered(HarmoniaCoreClocked):
    """Columns leave through a register: a clock later."""

    def planned(self, operands: Any) -> Schedule:
        planned = super().planned(operands)
        leaving = {clock + 1: column for clock, column in planned.leaving.items()}
        return replace(planned, leaving=leaving, length=max(planned.length, 1 + max(leaving)))


class Sent(HarmoniaCoreClocked):
    """A product is closed with the last column that leaves, without waiting for writes."""

    def planned(self, operands: Any) -> Schedule:
        planned = super().planned(operands)
        return replace(planned, length=1 + max(planned.leaving))


class Restarted(HarmoniaCoreClocked):
    """A start ends the product under way and begins another one."""

    def begins(self, go: int) -> bool:
        return bool(go)


class Lasting(HarmoniaCoreClocked):
    """`valid` stays 1 until the next product begins."""

    def idle(self) -> Changes:
        """Advance a clock without a product under way."""
        return {"valid": self.state.valid}


VARIANTS: tuple[Variant, ...] = (
    Variant("D-arith-19", "go while busy begins another product", unit_class=Restarted),
    Variant("D-arith-21", "valid stays 1 until the next product begins", unit_class=Lasting),
    Variant("D-harmonia-49", "nothing overlaps", unit_class=OneAfterTheOther),
    Variant("D-harmonia-50", "the vector unit takes sixteen values in a clock", unit_class=Wide),
    Variant("D-harmonia-50", "the memory has a 256th of the rate", unit_class=Slow),
    *choices("D-harmonia-64", "pitch", "adjacent", "drain", "overlap"),
    Variant("D-harmonia-54", "columns leave a clock later", unit_class=Registered),
    Variant("D-harmonia-55", "a product is closed with its last column", unit_class=Sent),
    *(each for each in harmonia_core.VARIANTS if each.decision in PARAMETERS and each.unit_class is None),
)
