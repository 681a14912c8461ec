"""Clocks of a product on Harmonia's accelerator [harmonia §IV-A, Fig. 12]: every clock every part looks for work.

clocks(product, given)                  -> when every event ends, who works, which columns leave
changes(product, a, b, given, operands) -> what each clock writes
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from tests.oracles.harmonia import core, units
from tests.oracles.harmonia.core import Part
from tests.oracles.harmonia.core_values import (
    Given,
    Product,
    behind,
    encoded,
    halves,
    stages,
    summed,
    tracked,
    with_bias,
)

PARTS = ("load", "array", "fp2half", "vector", "offset", "compare", "align")
OF = {"load": "load", "compute": "array", "fp2half": "fp2half", "bias": "vector", "vector": "vector"}
OF |= {"offset": "offset", "convert": "compare"}
ORDER = ("load", "offset", "vector", "compare", "fp2half", "array")  #: a part may wait for those before it


@dataclass
class Job:
    """An event and its part."""

    event: str
    place: Part
    clocks: int  #: that it takes if nothing comes late
    part: str = ""
    passes: int = 1
    held: int = -1  #: clocks until the part takes the next one; -1: all
    early: int = 0  #: clocks until the first column, of passes that overlap
    sources: list[int] = field(default_factory=list)  #: numbers of the events that made what it reads
    begun: int = -1
    aligned: int = -1  #: clock to which the aligner works on it

    @property
    def first(self) -> int:
        """Clock from which its first column is there."""
        return self.begun + (self.early or (self.clocks // self.passes - 15 if self.event == "compute" else 1))


@dataclass
class Machine:
    """Parts at a clock."""

    p: Product
    jobs: list[Job]
    ends: dict[int, int] = field(default_factory=dict)  #: of every event whose last clock is known
    late: dict[str, int] = field(default_factory=dict)  #: clocks for which a part is stalled after its last event
    clock: int = 0

    def __post_init__(self) -> None:
        self.queues = {part: [n for n, job in enumerate(self.jobs) if job.part == part] for part in OF.values()}
        self.done: dict[str, int] = dict.fromkeys(PARTS, 0)  #: events begun
        self.converts = self.queues["compare"]
        self.writes = [n for n, job in enumerate(self.jobs) if job.event == "store"]
        self.written: list[int] = []
        self.left = 0
        self.direct = self.p.kind not in ("q", "k", "score") or not (self.p.shifted or core.vector_parts(self.p))
        self.direct = self.direct and not core.vector_parts(self.p) and not self.p.shifted

    def run(self) -> None:
        """All clocks, until everything is done and written."""
        while len(self.written) < len(self.writes) or any(self.done[part] < len(q) for part, q in self.queues.items()):
            for part in ORDER:
                begun = -1
                while begun < self.done[part]:  # loads may take no clock
                    begun = self.done[part]
                    self._look(part)
            self._resolve()
            self._write()
            self.clock += 1

    def _look(self, part: str) -> None:
        """Begin the next event of a part, if it is free and all is there."""
        queue, at = self.queues[part], self.done[part]
        if at == len(queue):
            return
        number = queue[at]
        before = self._free(queue[at - 1]) if at else 0
        if before is None or before + self.late.get(part, 0) > self.clock:
            return
        if self._ready(number):
            self.jobs[number].begun = self.clock
            if part == "array" and self.jobs[number].held >= 0:  # it waited only to know for how long columns stall
                loads = [self.ends[n] for n in range(number) if self.jobs[n].event == "load"]
                self.jobs[number].begun = max(before + self.late.get(part, 0), *loads)
            self.done[part] += 1
            self.late[part] = 0
            if part == "compare" and self.direct:
                for stopped in ("array", "fp2half"):
                    self.late[stopped] = self.late.get(stopped, 0) + self.clock - self._source(number)
            self._resolve()

    def _free(self, number: int) -> int | None:
        """Clock at which the part of an event that has begun takes the next."""
        job = self.jobs[number]
        return self.ends.get(number) if job.held < 0 else job.begun + job.held

    def _ready(self, number: int) -> bool:
        job, now = self.jobs[number], self.clock
        if job.event == "load":
            return all(self._ended(n) for n in self._computes(self._tile(number) - 2))
        if job.event == "compute":
            loads = all(self._ended(n) for n in range(number) if self.jobs[n].event == "load")
            held = self.direct and any(self.jobs[n].begun < 0 for n in self.converts if n < number)
            return loads and not held
        sources = [self.jobs[n] for n in job.sources]
        if job.event in ("vector", "offset"):
            return all(self._ended(n) for n in job.sources)
        if job.event != "convert":
            return any(source.begun >= 0 and source.first <= now for source in sources)
        at = self.converts.index(number)
        free = at < 2 or 0 <= self.jobs[self.converts[at - 2]].aligned <= now
        there = [source.begun >= 0 and source.first <= now for source in sources]
        return free and (any(there) if self.direct else all(there))

    def _ended(self, number: int) -> bool:
        return self.ends.get(number, self.clock + 1) <= self.clock

    def _source(self, number: int) -> int:
        """Clock from which the converter could have taken columns."""
        return min(job.first for job in (self.jobs[n] for n in self.jobs[number].sources) if job.begun >= 0)

    def _tile(self, number: int) -> int:
        """Number of the tile of operands that is loaded with a load, or read by a computation."""
        runs = 0
        for n in range(number + 1):
            runs += self.jobs[n].event == "load" and (n == 0 or self.jobs[n - 1].event != "load")
        return runs

    def _computes(self, tile: int) -> list[int]:
        return [n for n, job in enumerate(self.jobs) if job.event == "compute" and self._tile(n) == tile]

    def _resolve(self) -> None:
        """Ends that are known by now: of what takes columns, once the last one of its sources is."""
        for number, job in enumerate(self.jobs):
            if job.begun < 0 or number in self.ends or any(n not in self.ends for n in job.sources):
                continue
            end = job.begun + job.clocks
            if job.event in ("fp2half", "bias", "convert"):
                end = max(end, *(self.ends[n] + 1 for n in job.sources))
            self.ends[number] = end
            if job.event == "convert":
                at = self.converts.index(number)
                before = self.jobs[self.converts[at - 1]].aligned if at else 0
                job.aligned = max(before, end) + job.clocks

    def _write(self) -> None:
        """A clock of the memory: reads come first, then results in order."""
        if len(self.written) == len(self.writes):
            return
        job = self.jobs[self.writes[len(self.written)]]
        reads = [n for n in self.queues["load"] if 0 <= self.jobs[n].begun <= self.clock < self.ends[n]]
        if reads or not 0 <= self.stored(job) <= self.clock:
            return
        self.left = (self.left or job.clocks) - 1
        if not self.left:
            self.written.append(self.clock + 1)

    def stored(self, job: Job) -> int:
        """Clock from which a result may be written, -1 where it is not known."""
        if any(n not in self.ends for n in job.sources):
            return -1
        return max(max(self.jobs[n].aligned, self.ends[n]) for n in job.sources)


@dataclass(frozen=True)
class Clocks:
    """What happens when."""

    events: list[tuple[str, Part]]
    ends: list[int]  #: of every event
    working: list[list[int]]  #: by clock, a bit for each part
    leaving: dict[int, tuple[int, int, int]]  #: by clock: row, column, rows


def clocks(p: Product, given: Given, pitch: str = "adjacent") -> Clocks:
    """All clocks of a product. pitch: when a pass of the array begins."""
    jobs = list(planned(p, given, pitch))
    machine = Machine(p, jobs)
    machine.run()
    leaving: dict[int, tuple[int, int, int]] = {}
    free = 0
    for job in jobs:
        top, left, bottom, right = job.place
        if job.event == "store" and p.kind == "final":
            begin = max(machine.stored(job), free)
        elif job.event == "convert":
            begin = job.aligned - job.clocks
        else:
            continue
        for row in range(top, bottom, 8):
            for column in range(left, right):
                loop = 16 * ((row - top) // 8)
                leaving[begin + loop + column - left] = (row, column, min(8, bottom - row))
        free = begin + right - left
    ends = [machine.ends.get(n, -1) for n in range(len(jobs))]
    for number, end in zip(machine.writes, machine.written, strict=True):
        ends[number] = end
    for number, job in enumerate(jobs):
        if job.event == "dispatch":
            ends[number] = ends[number + 1]
    length = max(*ends, *(job.aligned for job in jobs), *(clock + 1 for clock in leaving))
    working = [[0] * len(PARTS) for _ in range(length)]
    for number, job in enumerate(jobs):
        for clock in range(job.begun, ends[number]) if job.part else ():
            working[clock][PARTS.index(job.part)] = 1
        for clock in range(job.aligned - job.clocks, job.aligned) if job.aligned >= 0 else ():
            working[clock][PARTS.index("align")] = 1
    return Clocks([(job.event, job.place) for job in jobs], ends, working, leaving)


def passing(job: Job, cycles: int, passes: int, pitch: str) -> None:
    """Clocks of equal passes, which take `cycles` if each begins as the last of 16 columns leaves the one before."""
    slots = cycles // passes - 15
    apart = {"adjacent": slots + 15, "drain": slots + 16, "overlap": max(slots, 16)}[pitch]
    job.clocks, job.passes = (passes - 1) * apart + slots + 15, passes
    if pitch != "adjacent":
        assert cycles == passes * (slots + 15), "passes of codes of both widths differ"
        job.held, job.early = passes * apart, slots


def planned(p: Product, given: Given, pitch: str = "adjacent") -> Iterator[Job]:
    """Jobs of all events, and where each takes what it reads from."""
    flow = p.force or units.choose(p.rows, p.inner, p.columns, p.tile_m, p.tile_k)
    fetches = [e for e in units.fdgf_events(p.rows, p.inner, p.columns, p.tile_m, p.tile_k, flow) if e[0] != "compute"]
    made: dict[tuple[int, int], int] = {}
    shifts: list[int] = []
    for number, (event, place, counts) in enumerate(core.plan(p, given)):
        job = Job(event, place, 0, OF.get(event, ""))
        size = core.area(place)
        if event == "load":
            fetch = fetches.pop(0)
            job.clocks = moved(bits(p)["b" if "b" in fetch[0] else "a"] * fetch[3])
        elif event == "compute":
            passing(job, counts["cycles"], counts["passes"], pitch)
            job.clocks = counts["cycles"] if pitch == "adjacent" else job.clocks
        elif event == "fp2half":
            job.clocks = counts["half_columns"]
        elif event == "convert":
            job.clocks = counts["align_cycles"]
        elif event == "store":
            job.clocks = moved(bits(p)["c"] * size)
        else:
            job.clocks = math.ceil(size / 8)
        if event in ("fp2half", "bias", "vector", "offset", "convert", "store"):
            job.sources = sorted({made[each] for each in core.inside(place)})
        if event == "convert" and shifts:
            job.sources = shifts[-1:]
        if event == "offset":
            shifts.append(number)
        if event not in ("load", "dispatch"):
            made |= dict.fromkeys(core.inside(place), number)
        yield job


def bits(p: Product) -> dict[str, Fraction]:
    """Of an element in the memory."""
    group = Fraction(5, 32)
    b = {"int4": 4 + Fraction(1, 8), "bfp4": 5 + group}.get(p.b_type, 9 + group)
    return {"a": 9 + group, "b": b, "c": Fraction(16) if p.kind == "final" else 1 + p.m + group}


def moved(count: Fraction) -> int:
    """Clocks of 1 / 300 MHz in which 256 GB/s move some bits."""
    return math.ceil(count / 8 / 256 * Fraction(3, 10))


def changes(
    p: Product, a: Sequence[Any], b: Sequence[Any], given: Given, operands: Mapping[str, Any], pitch: str = "adjacent"
) -> Iterator[tuple[dict[str, Any], dict[str, int]]]:
    """Registers that every clock writes, and what it adds to counters. operands: of the ports, by name."""
    plan = clocks(p, given, pitch)
    sums = summed(p, a, b, given)
    raw = halves(with_bias(sums, given.bias) if p.bias_add == "accumulator" else sums)
    ready = behind(raw, given.bias) if p.bias_add == "after" else raw
    turned, final, offset = stages(p, ready, given)
    sources = {"fp2half": raw, "vector": turned} | ({"bias": ready} if p.bias_add == "after" else {})
    codes, window = encoded(p, final), tracked(p, given)
    y = [[0] * p.columns for _ in range(p.rows)]
    shown = [0] * p.columns
    height = min(8, p.rows)
    for clock, working in enumerate(plan.working):
        ended = [event for event, end in zip(plan.events, plan.ends, strict=True) if end == clock + 1]
        for event, part in ended:
            top, _, bottom, _ = part
            if event == "offset" and bottom >= window:
                core.fill(y, final, (0 if top < window else top, 0, bottom, p.columns))
                shown = offset
            elif event in sources:
                core.fill(y, sources[event], part)
        row, column, count = plan.leaving.get(clock, (0, 0, 0))
        group = 0 if not count else column if p.kind == "v" else sum(end <= column for end in p.ends) - 1
        rows = range(row, row + count)
        out = {
            "sent": [1 for _ in rows],
            "sign": [codes[0][r][column] for r in rows],
            "mantissa": [codes[1][r][column] for r in rows],
            "exponent": [codes[2][r // 32 if p.kind == "v" else r][group] for r in rows],
            "word": [final[r][column] for r in rows],
        }
        written: dict[str, Any] = {name: values + [0] * (height - count) for name, values in out.items()}
        written |= {"row": row, "column": column, "working": working, "y": core.flat(y)}
        if p.shifted:
            written["offset"] = list(shown)
        if clock == 0:
            written |= {f"{name}_held": value for name, value in operands.items()}
        yield written, {"clocks": 1, "events": len(ended), "products": int(clock == len(plan.working) - 1)}
