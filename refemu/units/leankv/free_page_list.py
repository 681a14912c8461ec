"""The circular list of free pages: ids leave where it starts and come back where it ends.

Paper: [leankv §5.2, Fig. 5]. Decisions: D-leankv-37 (what start and end mean), D-leankv-53 (too few pages).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from refemu.arith.checks import Refused, RefusedType, require_int
from refemu.units import free_page_list_cases, unit
from refemu.units.unit import Cases, Config, Port, Ports, Stepped, Unit, admit_events, collect, fields, lanes
from refemu.units.unit_cases import Seeds

ALLOCATE, RECYCLE = 0, 1  #: operations
COUNTERS = ("allocated", "recycled", "wraps")


class OutOfPages(Refused):
    """More pages are needed than are free; nothing has changed (D-leankv-53)."""


@dataclass(frozen=True)
class State:
    """Ports and registers after one event, and what happened since reset."""

    event: str  #: "reset", "allocate" or "recycle"
    index: int  #: number of the event, -1 for the reset
    op: int
    count: int
    ids: Any  #: an int where the list has one page, as every port of one lane
    taken: Any  #: ids that left, -1 behind them
    list_start: int
    list_end: int
    free: int
    ring: Any
    head: int  #: ids that ever left; the next one is at head modulo the size of the ring
    tail: int  #: ids that ever came, those at the reset included
    allocated: int
    recycled: int
    wraps: int  #: how often head or tail passed the end of the ring


@dataclass(frozen=True, eq=False)
class Result(unit.Result):
    """What leaves the unit and what it holds, one row per event; counters over all devices."""

    taken: np.ndarray  #: (..., pages) int32
    list_start: np.ndarray  #: uint32
    list_end: np.ndarray  #: uint32
    free: np.ndarray  #: uint32
    ring: np.ndarray  #: (..., pages) uint32
    head: np.ndarray  #: uint64
    tail: np.ndarray  #: uint64
    allocated: int
    recycled: int
    wraps: int


class FreePageList(Stepped):
    """The list. `allocate` and `recycle` are its two events; `step` is the same with the values of the ports.

    At the reset all pages are free, in ascending order. Head and tail are counters that never wrap (D-leankv-37), so an
    empty list and a full one differ; `start` and `end` are the closed interval of places that the paper draws.
    """

    name = "free_page_list"

    def __init__(self, pages: int = 32) -> None:
        """pages: size of the ring; ids are 0 to pages - 1."""
        require_int(pages, 1, 1 << 24, "FreePageList", "pages")
        self.pages = pages
        self._ring = list(range(pages))
        self._owned = bytearray(pages)  # who is not free: only for refusals
        self.head, self.tail = 0, pages
        self._last: Any = ("reset", ALLOCATE, 0, (), ())  # event, op, count, ids, taken
        self._index, self.allocated, self.recycled, self.wraps = -1, 0, 0, 0

    @property
    def ports(self) -> Ports:  # type: ignore[override]  # made on demand: pools of a model have thousands of pages
        """Ports of a list of this size."""
        return ports({"pages": self.pages})

    @property
    def free(self) -> int:
        """Pages that are free."""
        return self.tail - self.head

    @property
    def start(self) -> int:
        """Place of the next id that leaves."""
        return self.head % self.pages

    @property
    def end(self) -> int:
        """Place of the id that came last; with no free page it is the place before `start`."""
        return (self.tail - 1) % self.pages

    @property
    def ring(self) -> list[int]:
        """A copy of all places, those without a free page included."""
        return list(self._ring)

    def free_ids(self) -> list[int]:
        """Free pages in the order in which they will leave."""
        return [self._ring[place % self.pages] for place in range(self.head, self.tail)]

    def allocate(self, count: int | np.integer) -> list[int]:
        """Take `count` ids. Raises OutOfPages if fewer are free."""
        amount = whole(count, "FreePageList: count")
        if amount < 0:
            raise Refused(f"FreePageList: count must not be negative, got {amount}")
        self.require_free(amount)
        taken = self._ring[self.start : self.start + amount]
        taken += self._ring[: amount - len(taken)]  # past the end of the ring
        for page in taken:
            self._owned[page] = 1
        self._happened("allocate", ALLOCATE, amount, (), tuple(taken))
        self.allocated += amount
        self.wraps += (self.head + amount) // self.pages - self.head // self.pages
        self.head += amount
        return taken

    def recycle(self, ids: Iterable[int]) -> None:
        """Give ids back, in this order. Refused: an id that is free already, or twice in `ids`, or none of the list."""
        pages = [whole(page, "FreePageList: id") for page in ids]
        self.require_owned(pages)
        for place, page in enumerate(pages, self.tail):
            self._ring[place % self.pages] = page
            self._owned[page] = 0
        self._happened("recycle", RECYCLE, len(pages), pages, ())
        self.recycled += len(pages)
        self.wraps += (self.tail + len(pages)) // self.pages - self.tail // self.pages
        self.tail += len(pages)

    def require_free(self, count: int) -> None:
        """Raise OutOfPages unless `count` pages are free."""
        if count > self.free:
            raise OutOfPages(f"FreePageList: {count} pages needed, {self.free} free")

    def require_owned(self, pages: Sequence[int]) -> None:
        """Refuse pages that cannot come back."""
        seen = set[int]()
        for page in pages:
            if not 0 <= page < self.pages:
                raise Refused(f"FreePageList: page {page} is none of {self.pages}")
            if not self._owned[page] or page in seen:
                raise Refused(f"FreePageList: page {page} is free already")
            seen.add(page)

    def _happened(self, *event: Any) -> None:
        """Keep what `state` shows of the event; the State itself is made when somebody looks."""
        self._last, self._index = event, self._index + 1

    def step(self, op: int, count: int, ids: Any) -> State:
        """Allocate `count` pages (op 0), or recycle the first `count` of `ids` (op 1). Returns the State."""
        op, count, ids = self.accept(op, count, ids)
        if op == ALLOCATE:
            self.allocate(count)
        else:
            self.recycle(fields(ids)[:count])
        self._last = (*self._last[:3], fields(ids), self._last[4])
        return self.snapshot()

    def steps(self, op: Any, count: Any, ids: Any) -> Iterator[State]:
        """Yield the State after every event of one device; the arguments, (events,) beside lanes, broadcast."""
        arrays = admit_events(self.name, self.ports.inputs, (op, count, ids))
        if arrays[0].ndim != 1:
            raise Refused(f"{self.name}: steps takes one sequence of events, got shape {arrays[0].shape}")
        for event in zip(*(array.tolist() for array in arrays), strict=True):
            yield self.step(*event)

    def _padded(self, pages: Sequence[int], filler: int) -> tuple[int, ...]:
        return tuple(pages) + (filler,) * (self.pages - len(pages))

    @property
    def state(self) -> State:
        """All registers and the last event: made on demand, since a list of many pages is used, not looked at."""
        event, op, count, ids, taken = self._last
        return State(
            event,
            self._index,
            op,
            count,
            lanes(self._padded(ids, 0)),
            lanes(self._padded(taken, -1)),
            self.start,
            self.end,
            self.free,
            lanes(tuple(self._ring)),
            self.head,
            self.tail,
            self.allocated,
            self.recycled,
            self.wraps,
        )

    @state.setter
    def state(self, state: State) -> None:
        self.load(fields(state.ring), state.head, state.tail, state.allocated, state.recycled)
        self._last = state.event, state.op, state.count, fields(state.ids), fields(state.taken)
        self._index, self.wraps = state.index, state.wraps

    def load(self, ring: Sequence[int], head: int, tail: int, allocated: int = 0, recycled: int = 0) -> None:
        """Set the registers and counters; what is between tail and head of the ring is taken as owned."""
        self._ring, self.head, self.tail = list(ring), head, tail
        self.allocated, self.recycled = allocated, recycled
        self._owned = bytearray(b"\1") * self.pages
        for page in self.free_ids():
            self._owned[page] = 0

    def __repr__(self) -> str:
        return f"FreePageList(pages={self.pages})"


def whole(value: Any, thing: str) -> int:
    """`value`, an int of Python or NumPy, as Python's; refuses everything else."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise RefusedType(f"{thing} must be an int, got {value!r}")
    return int(value)


def run(op: Any, count: Any, ids: Any, *, pages: int = 32) -> Result:
    """Every event of one list or of many.

    op: 0 allocate, 1 recycle. count: pages. ids: (..., pages), of which a recycle takes the first `count`. All
    (..., events) beside the lanes; each device, an index of the leading axes, starts with all pages free.
    Returns the Result, arrays of the common shape. Raises OutOfPages; refuses pages that are free already.
    Paper: [leankv §5.2].
    """
    model = FreePageList(pages)
    arrays = admit_events(model.name, model.ports.inputs, (op, count, ids))
    shape = arrays[0].shape
    flat = prod(shape[:-1]), shape[-1]
    states, counters = list[State](), [0] * len(COUNTERS)
    columns = [array.reshape(*flat, *array.shape[len(shape) :]) for array in arrays]
    for device in range(flat[0]):
        one = FreePageList(pages)
        states += [one.step(*event) for event in zip(*(column[device].tolist() for column in columns), strict=True)]
        last = one.snapshot()
        counters = [count + getattr(last, name) for name, count in zip(COUNTERS, counters, strict=True)]
    allocated, recycled, wraps = counters
    return Result(
        **collect(states, model.ports.outputs + model.ports.state, shape),
        allocated=allocated,
        recycled=recycled,
        wraps=wraps,
    )


def ports(config: Mapping[str, Any]) -> Ports:
    """Widths in one configuration."""
    pages = config["pages"]
    return Ports(
        inputs=(
            Port("op", 1, meaning="0 allocate, 1 recycle"),
            Port("count", 32, most=pages, meaning="pages that leave or come"),
            Port("ids", 32, pages, most=pages - 1, meaning="ids that come, the first `count` lanes"),
        ),
        outputs=(
            Port("taken", 32, pages, signed=True, least=-1, most=pages - 1, meaning="ids that leave, then -1"),
            Port("list_start", 32, meaning="place of the next id"),
            Port("list_end", 32, meaning="place of the last id"),
            Port("free", 32, meaning="free pages: tells an empty list from a full one"),
        ),
        state=(
            Port("ring", 32, pages, meaning="ids"),
            Port("head", 48, meaning="ids that left, ever"),
            Port("tail", 48, meaning="ids that came, ever"),
        ),
    )


def legal(config: Mapping[str, Any], inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """`inputs` as events that a list admits: as many pages as are free, ids that are owned."""
    return free_page_list_cases.legal(config, inputs)


def cases(config: Config, kind: str, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind; see free_page_list_cases.py."""
    return free_page_list_cases.cases(config, ports(config).inputs, kind, seed)


UNIT = Unit(
    name="free_page_list",
    paper="leankv §5.2, Fig. 5",
    meaning="circular list of the ids of free pages",
    configs={"paper": Config(pages=32), "small": Config(pages=5)},
    ports=ports,
    run=run,
    twin="refemu.units.free_page_list_jit:run",
    unit_class=FreePageList,
    timing="event",
    cases=cases,
    legal=legal,
)
