"""Sums of records of work: cycles, seconds, bytes, busy cycles, bound, energy, share of the peak."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from refemu.models.machine.schedule import Placed, length
from refemu.models.machine.system import MEMORY, System
from refemu.models.machine.work import Work


@dataclass(frozen=True)
class Section:
    """Equal blocks of a model, or its head."""

    layer: int  #: first block, from 0; -1 is the head
    count: int  #: blocks
    works: tuple[Work, ...]  #: operations of one of them


@dataclass(frozen=True)
class Measure:
    """Sums over operations."""

    cycles: int | None  #: None: nothing of it has a clock
    bytes: dict[str, int]
    busy: dict[str, int]
    macs: int
    priced: dict[str, int]

    def with_memory(self, system: System) -> "Measure":
        """These sums with the cycles in which all their bytes pass the port of the memory, which come first."""
        size = sum(int(each) for each in self.bytes.values())
        others = {name: cycles for name, cycles in self.busy.items() if name != MEMORY}
        return replace(self, busy=({MEMORY: system.transfer(size)} if size else {}) | others)

    def as_json(self, system: System) -> dict[str, Any]:
        """Return the sums, and what follows from them on a machine, as JSON has them."""
        energy = {part: self.energy(part, system) for part in self.priced}
        used = system.peak * (self.cycles or 0)
        return {
            "cycles": self.cycles,
            "seconds": None if self.cycles is None else system.seconds(self.cycles),
            "bytes": self.bytes,
            "busy": self.busy,
            "bound": bound(self.busy) if self.cycles else None,
            "energy_pj": energy,
            "peak_share": self.macs / used if used else None,
        }

    def energy(self, part: str, system: System) -> float | None:
        """Picojoules of a part; None without a price."""
        price = system.prices.get(part)
        return None if price is None else float(price.picojoules * self.priced[part])


def bound(busy: Mapping[str, int]) -> str | None:
    """The resource that works for most cycles, the first of equal ones; None if none works."""
    return max(busy, key=lambda name: busy[name], default=None)


def of_works(works: Iterable[Work], line: Sequence[Placed], system: System) -> Measure:
    """The sum over some operations of a block. line: the operations of the block that have cycles."""
    names = {work.name for work in works}
    mine = [each for each in line if each.work.name in names]
    cycles = added([{"": each.cycles} for each in mine]).get("") if mine else None
    return _sum([each.work for each in mine], cycles, system)


def _sum(works: Sequence[Work], cycles: int | None, system: System) -> Measure:
    return Measure(
        cycles,
        added([work.bytes for work in works]),
        added([_occupied(work) for work in works]),
        added([{"": work.macs} for work in works]).get("", 0),
        added([_priced(work) for work in works]),
    ).with_memory(system)


def of_sections(sections: Sequence[Section], lines: Sequence[Sequence[Placed]], system: System) -> Measure:
    """The sum over a model, whose sections follow each other. lines: the operations of each on the schedule."""
    cycles, parts = 0, []
    for section, line in zip(sections, lines, strict=True):
        cycles += section.count * length(line)
        parts += [(section.count, _sum([each.work for each in line], None, system))]
    return Measure(
        cycles if any(lines) else None,
        added([times(part.bytes, count) for count, part in parts]),
        added([times(part.busy, count) for count, part in parts]),
        added([{"": count * part.macs} for count, part in parts]).get("", 0),
        added([times(part.priced, count) for count, part in parts]),
    ).with_memory(system)


def total(
    sections: Sequence[Section], lines: Sequence[Sequence[Placed]], system: System, tokens: int
) -> dict[str, Any]:
    """The "total" of a report. tokens: that the work computes."""
    sums = of_sections(sections, lines, system).as_json(system)
    seconds = sums["seconds"]
    return {**sums, "tokens_per_second": tokens / seconds if seconds else None}


def _occupied(work: Work) -> dict[str, int]:
    return {name: cycles for name, cycles in work.busy.items() if cycles}


def _priced(work: Work) -> dict[str, int]:
    return {part: number for part, number in work.priced().items() if number}


def times(counts: Mapping[str, int], number: int) -> dict[str, int]:
    """Every count, `number` times."""
    return {name: number * count for name, count in counts.items()}


def added(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Sums by name, in the order in which names come."""
    sums: dict[str, int] = {}
    for each in counts:
        for name, count in each.items():
            sums[name] = sums.get(name, 0) + count
    return sums
