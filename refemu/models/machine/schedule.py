"""Schedule of the operations of a block: the start and the end of each.

`none` and `tiles`: one after the other. `operations`: an operation starts when the results that it reads are there and
its engines are free; of those that could start, the first in the list. The port of the memory serves operations in the
order in which they start.
"""

import bisect
import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from refemu.arith.checks import Refused
from refemu.models.machine.system import MEMORY, System
from refemu.models.machine.work import Work


@dataclass(frozen=True)
class Placed:
    """An operation on the machine."""

    work: Work
    start: int  #: first cycle
    end: int  #: cycle after the last
    port: int  #: first cycle of its transfer
    transfer: int  #: cycles of its transfer

    @property
    def cycles(self) -> int:
        """Cycles from start to end."""
        return self.end - self.start


def placed(works: Sequence[Work], system: System) -> list[Placed]:
    """Place the operations of a block that have cycles, in the order of their starts.

    Parameters
    ----------
    works : sequence of Work
        Operations; `after` names earlier ones.
    system : System
        Machine.

    Returns
    -------
    list of Placed
        Starts and ends, from cycle 0.

    Raises
    ------
    Refused
        An operation reads the result of one that is not before it.
    """
    timed = [work for work in works if work.cycles is not None]
    if system.overlap != "operations":
        return _in_sequence(timed, system)
    before = _dependencies(works)
    return _greedy(timed, [before[work.name] for work in timed], system)


def _in_sequence(works: Sequence[Work], system: System) -> list[Placed]:
    line, clock = [], 0
    for work in works:
        end = clock + (work.length(system) or 0)
        line.append(Placed(work, clock, end, clock, work.transfer(system)))
        clock = end
    return line


Waits: TypeAlias = dict[str, tuple[int | None, int]]  #: operation -> cycles after its start (None: after its end), tail


def _dependencies(works: Sequence[Work]) -> dict[str, Waits]:
    """Operations with cycles that each operation waits for; those without cycles pass their own on."""
    waits: dict[str, Waits] = {}
    passed: dict[str, Waits] = {}
    last: tuple[str, ...] = ()
    for work in works:
        if work.name in waits:
            raise Refused(f"schedule: operations must have different names, got {work.name} twice")
        named = last if work.after is None else work.after
        asked: Waits = dict.fromkeys(named, (None, 0)) | dict(work.streams)
        mine: Waits = {}
        for name, wait in asked.items():
            if name not in waits:
                raise Refused(f"schedule: {work.name} must read the results of operations before it, got {name}")
            mine |= passed.get(name, {name: wait})
        waits[work.name] = mine
        if work.cycles is None:
            passed[work.name] = dict.fromkeys(mine, (None, 0))
        last = (work.name,)
    return waits


def _greedy(works: Sequence[Work], before: Sequence[Waits], system: System) -> list[Placed]:
    """Start the first operation that can start, at every time at which one may."""
    free: dict[str, int] = {}
    done: dict[str, Placed] = {}
    readers: dict[str, list[int]] = {}
    for at, waits in enumerate(before):
        for name in waits:
            readers.setdefault(name, []).append(at)
    missing = [len(waits) for waits in before]
    known = [at for at, number in enumerate(missing) if not number]  # those whose operands have their places
    times, clock = [0], 0
    while known:
        ready = [at for at in known if _ready(works[at], before[at], free, done, clock)]
        if not ready:
            while times[0] <= clock:
                heapq.heappop(times)
            clock = times[0]
            continue
        at = ready[0]
        known.remove(at)
        name, placed = works[at].name, _placed(works[at], before[at], free, done, clock, system)
        done[name] = placed
        free |= dict.fromkeys(works[at].engines, placed.end)
        free |= {MEMORY: placed.port + placed.transfer} if placed.transfer else {}
        heapq.heappush(times, placed.end)
        for reader in readers.get(name, ()):
            heapq.heappush(times, clock + (before[reader][name][0] or 0))
            missing[reader] -= 1
            if not missing[reader]:
                bisect.insort(known, reader)
    return sorted(done.values(), key=lambda each: each.start)


def _placed(
    work: Work, before: Waits, free: Mapping[str, int], done: Mapping[str, Placed], clock: int, system: System
) -> Placed:
    """An operation that starts now: it ends after its transfer, and after what it reads while it comes."""
    transfer = work.transfer(system)
    port = max(clock, free.get(MEMORY, 0)) if transfer else clock
    tails = [done[name].end + tail for name, (lead, tail) in before.items() if lead is not None]
    return Placed(work, clock, max(clock + (work.length(system) or 0), port + transfer, *tails), port, transfer)


def _ready(work: Work, before: Waits, free: Mapping[str, int], done: Mapping[str, Placed], clock: int) -> bool:
    """Whether an operation can start: its operands are there, its engines free."""
    for name, (lead, _) in before.items():
        if name not in done or clock < (done[name].end if lead is None else done[name].start + lead):
            return False
    return all(free.get(engine, 0) <= clock for engine in work.engines)


def length(line: Sequence[Placed]) -> int:
    """Cycles until the last operation ends."""
    return max((each.end for each in line), default=0)
