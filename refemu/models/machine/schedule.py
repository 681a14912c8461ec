"""When each operation of a block starts and ends.

`none` and `tiles`: one after the other. `operations`: an operation starts when the results that it reads are there and
its engines are free; of those that could start, the first in the list. The port of the memory serves operations in the
order in which they start.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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


def _dependencies(works: Sequence[Work]) -> dict[str, tuple[str, ...]]:
    """Operations with cycles that each operation waits for; those without cycles pass their own on."""
    waits: dict[str, tuple[str, ...]] = {}
    last: tuple[str, ...] = ()
    for work in works:
        if work.name in waits:
            raise Refused(f"schedule: operations must have different names, got {work.name} twice")
        names = last if work.after is None else work.after
        for name in names:
            if name not in waits:
                raise Refused(f"schedule: {work.name} must read the results of operations before it, got {name}")
        through = [other for name in names for other in (waits[name][1:] if waits[name][:1] == ("",) else (name,))]
        waits[work.name] = ("", *through) if work.cycles is None else tuple(through)
        last = (work.name,)
    return waits


def _greedy(works: Sequence[Work], before: Sequence[tuple[str, ...]], system: System) -> list[Placed]:
    """Start the first operation that can start, at every time at which one ends."""
    free: dict[str, int] = {}
    ends: dict[str, int] = {}
    line: list[Placed] = []
    waiting, clock = list(range(len(works))), 0
    while waiting:
        ready = (at for at in waiting if _ready(works[at], before[at], free, ends, clock))
        at = next(ready, None)
        if at is None:
            clock = min(end for end in ends.values() if end > clock)
            continue
        waiting.remove(at)
        work, transfer = works[at], works[at].transfer(system)
        port = max(clock, free.get(MEMORY, 0)) if transfer else clock
        end = max(clock + (work.length(system) or 0), port + transfer)
        free |= dict.fromkeys(work.engines, end) | ({MEMORY: port + transfer} if transfer else {})
        ends[work.name] = end
        line.append(Placed(work, clock, end, port, transfer))
    return line


def _ready(work: Work, before: Sequence[str], free: Mapping[str, int], ends: Mapping[str, int], clock: int) -> bool:
    """Whether an operation can start: its operands are there, its engines free."""
    there = all(name in ends and ends[name] <= clock for name in before)
    return there and all(free.get(engine, 0) <= clock for engine in work.engines)


def length(line: Sequence[Placed]) -> int:
    """Cycles until the last operation ends."""
    return max((each.end for each in line), default=0)
