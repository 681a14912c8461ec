"""Variants of the decisions of harmonia_core_clocked, and those of the core that are its parameters."""

from dataclasses import replace
from typing import Any

from refemu.units.harmonia.harmonia_core import Rates, Schedule, Timeline
from refemu.units.harmonia.harmonia_core import variants as harmonia_core
from refemu.units.harmonia.harmonia_core_clocked import HarmoniaCoreClocked
from refemu.units.variant import Variant, choices, overriding

PARAMETERS = ("D-harmonia-29", "D-harmonia-46", "D-harmonia-48")  #: decisions that are parameters of the core


class Serial(Timeline):
    """A part begins when all others are done."""

    def _take(self, part: str, ready: int, clocks: int) -> tuple[int, int]:
        return super()._take(part, max(ready, *self.free.values()), clocks)


def _registered(old: HarmoniaCoreClocked, self: HarmoniaCoreClocked, operands: Any) -> Schedule:
    planned = old.planned(operands)
    leaving = {clock + 1: column for clock, column in planned.leaving.items()}
    return replace(planned, leaving=leaving, length=max(planned.length, 1 + max(leaving)))


def _sent(old: HarmoniaCoreClocked, self: HarmoniaCoreClocked, operands: Any) -> Schedule:
    planned = old.planned(operands)
    return replace(planned, length=1 + max(planned.leaving))


_device = overriding(HarmoniaCoreClocked)
VARIANTS: tuple[Variant, ...] = (
    _device("D-arith-19: go while busy begins another product", begins=lambda self, go: bool(go)),
    _device("D-arith-21: valid stays 1 until the next product begins", idle=lambda self: {"valid": self.state.valid}),
    _device("D-harmonia-49: nothing overlaps", timeline=lambda self: Serial()),
    _device(
        "D-harmonia-50: the vector unit takes sixteen values in a clock",
        timeline=lambda self: Timeline(Rates(lanes=16)),
    ),
    _device(
        "D-harmonia-50: the memory has a 256th of the rate",
        timeline=lambda self: Timeline(Rates(bytes_per_second=10**9)),
    ),
    *choices("D-harmonia-64", "pitch", "adjacent", "drain", "overlap"),
    _device("D-harmonia-54: columns leave a clock later", planned=_registered),
    _device("D-harmonia-55: a product is closed with its last column", planned=_sent),
    *(each for each in harmonia_core.VARIANTS if each.decision in PARAMETERS and each.unit_class is None),
)
