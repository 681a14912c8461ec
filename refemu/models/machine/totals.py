"""What the records of operations add up to: cycles, seconds, bytes, busy cycles, bound, energy, share of the peak."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from refemu.models.machine.schedule import Placed, length, placed
from refemu.models.machine.system import System
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


def of_work(each: Placed, system: System) -> Measure:
    """The measure of one placed operation."""
    work = each.work
    return Measure(each.cycles, work.bytes, work.occupied(system), work.macs, _priced(work))


def of_works(works: Iterable[Work], line: Sequence[Placed], system: System) -> Measure:
    """The sum over some operations of a block. line: the operations of the block that have cycles."""
    names = {work.name for work in works}
    mine = [each for each in line if each.work.name in names]
    cycles = added([{"": each.cycles} for each in mine]).get("") if mine else None
    return _sum([each.work for each in mine], cycles, system)


def of_untimed(works: Sequence[Work], system: System) -> Measure:
    """The sum over operations that have no clock: their bytes, and no cycles."""
    return _sum(works, None, system)


def _sum(works: Sequence[Work], cycles: int | None, system: System) -> Measure:
    return Measure(
        cycles,
        added([work.bytes for work in works]),
        added([work.occupied(system) for work in works]),
        added([{"": work.macs} for work in works]).get("", 0),
        added([_priced(work) for work in works]),
    )


def of_sections(sections: Sequence[Section], system: System) -> Measure:
    """The sum over a model: sections follow each other, operations of a block as the machine's schedule places them."""
    cycles, parts = 0, []
    for section in sections:
        line = placed(section.works, system)
        cycles += section.count * length(line)
        parts += [(section.count, _sum([each.work for each in line], None, system))]
    return Measure(
        cycles if parts else None,
        added([times(part.bytes, count) for count, part in parts]),
        added([times(part.busy, count) for count, part in parts]),
        added([{"": count * part.macs} for count, part in parts]).get("", 0),
        added([times(part.priced, count) for count, part in parts]),
    )


def total(sections: Sequence[Section], system: System, tokens: int) -> dict[str, Any]:
    """The "total" of a report. tokens: that the work computes."""
    sums = of_sections(sections, system).as_json(system)
    seconds = sums["seconds"]
    return {**sums, "tokens_per_second": tokens / seconds if seconds else None}


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
