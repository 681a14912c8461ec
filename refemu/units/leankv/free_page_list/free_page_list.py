"""The circular list of free pages: ids leave at its start and come back at its end. [leankv §5.2, Fig. 5]"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, ClassVar

import numpy as np

from refemu.arith.checks import Refused, RefusedType
from refemu.units import AnyUnit, Config, Port, Ports, Result, RunFunction, Unit
from refemu.units.declaration import DeclaredState, InPlace, constant, decides

__all__ = ["ALLOCATE", "RECYCLE", "UNIT", "FreePageList", "OutOfPages", "State", "run"]

ALLOCATE, RECYCLE = 0, 1  #: Operations of the port `op`


class OutOfPages(Refused):
    """Error of a call that needs more pages than are free; nothing has changed (D-leankv-53)."""


class FreePageList(InPlace):
    """List of free pages. `allocate` and `recycle` are its two events; `step` does the same by ports.

    After a reset all pages are free, in ascending order. Head and tail are counters that never wrap (D-leankv-37), so
    an empty list and a full one differ; `start` and `end` are the closed interval of places that the paper draws.
    [leankv §5.2, Fig. 5]
    """

    name = "free_page_list"
    events: ClassVar[tuple[str, ...]] = ("allocate", "recycle")
    counters: ClassVar[dict[str, str]] = {
        "allocated": "pages that left the list",
        "recycled": "pages that came back to the list",
        "wraps": "times that the start or the end of the list passed the end of the ring",
    }
    pages: Annotated[int, 1, 1 << 24] = 32  #: size of the ring, 1 to 2**24; ids are 0 to pages - 1

    @constant
    def ports(self) -> Ports:
        pages = self.pages
        return Ports(
            inputs=(
                Port("op", 1, meaning="0 allocate, 1 recycle"),
                Port("count", 32, most=pages, meaning="pages that leave or come back"),
                Port("ids", 32, pages, most=pages - 1, meaning="ids that come back, in the first `count` lanes"),
            ),
            outputs=(
                Port("taken", 32, pages, signed=True, least=-1, most=pages - 1, meaning="ids that leave, then -1"),
                Port("list_start", 32, meaning="place of the next id in the ring"),
                Port("list_end", 32, meaning="place of the last id in the ring"),
                Port("free", 32, meaning="free pages: distinguishes an empty list from a full one"),
            ),
            state=(
                Port("ring", 32, pages, meaning="ids"),
                Port("head", 48, meaning="ids that have left since reset"),
                Port("tail", 48, meaning="ids that have come since reset"),
            ),
        )

    @constant
    def initial(self) -> Mapping[str, Any]:
        return {"taken": (-1,) * self.pages}

    @constant
    def reaches(self) -> Mapping[str, int]:
        """No more than all pages are free."""
        return {"ring": self.pages - 1, "free": self.pages}

    def invariant(self, state: DeclaredState) -> bool:
        """As many ids have come as have left and are free; no id is free twice."""
        places = [(state.head + i) % self.pages for i in range(self.pages)]
        twice = any(state.ring[places[i]] == state.ring[places[j]] for i in range(state.free) for j in range(i))
        return state.tail == state.head + state.free and not twice

    def _reset(self) -> None:
        super()._reset()
        self._ring = list(range(self.pages))
        self._owned = bytearray(self.pages)  # pages that are not free: only for error messages
        self.head: int = 0
        self.tail: int = self.pages
        self.allocated: int = 0
        self.recycled: int = 0
        self.wraps: int = 0

    @property
    def free(self) -> int:
        """Number of free pages."""
        return self.tail - self.head

    @property
    def start(self) -> int:
        """Place of the next id that leaves."""
        return self.head % self.pages

    @property
    @decides("D-leankv-37")
    def end(self) -> int:
        """Place of the last id; without a free page, the place before `start`."""
        return (self.tail - 1) % self.pages

    @property
    def ring(self) -> list[int]:
        """Copy all places, including those without a free page."""
        return list(self._ring)

    def free_ids(self) -> list[int]:
        """Free pages in the order in which they will leave."""
        return [self._ring[(self.head + i) % self.pages] for i in range(min(self.free, self.pages))]

    def allocate(self, count: int | np.integer) -> list[int]:
        """Take ids from the list.

        Raises OutOfPages: fewer pages are free. Raises Refused: `count` is negative. Raises RefusedType: `count` is not
        an int.
        """
        amount = whole(count, "FreePageList: count")
        if amount < 0:
            raise Refused(f"FreePageList: count must be at least 0, got {amount}")
        self.require_free(amount)
        taken = [self._ring[(self.head + i) % self.pages] for i in range(amount)]
        for page in taken:
            self._owned[page] = 1
        self._note("allocate", op=ALLOCATE, count=amount, taken=list(taken))
        self.allocated += amount
        self.wraps += (self.head + amount) // self.pages - self.head // self.pages
        self.head += amount
        return taken

    @decides("D-leankv-37")
    def recycle(self, ids: Iterable[int]) -> None:
        """Give ids back, in this order.

        Raises Refused: an id is free already, occurs twice in `ids`, or is not an id of the list. Raises RefusedType:
        an id is not an int.
        """
        pages = [whole(page, "FreePageList: id") for page in ids]
        self.require_owned(pages)
        for place, page in enumerate(pages, self.tail):
            self._ring[place % self.pages] = page
            self._owned[page] = 0
        self._note("recycle", op=RECYCLE, count=len(pages), ids=pages)
        self.recycled += len(pages)
        self.wraps += (self.tail + len(pages)) // self.pages - self.tail // self.pages
        self.tail += len(pages)

    def require_free(self, count: int) -> None:
        """Check that pages are free."""
        if count > self.free:
            raise OutOfPages(f"FreePageList: count must be at most {self.free}, the free pages, got {count}")

    def require_owned(self, pages: Sequence[int]) -> None:
        """Check that pages can come back."""
        owned = bytearray(self._owned)
        for page in pages:
            if not 0 <= page < self.pages:
                raise Refused(f"FreePageList: page must be in [0, {self.pages}), got {page}")
            if not owned[page]:
                raise Refused(f"FreePageList: page {page} is already free")
            owned[page] = 0

    def _open(self, *inputs: Any) -> DeclaredState:
        op, count, ids = inputs
        if op == ALLOCATE:
            self.allocate(count)
        else:
            self.recycle(ids[:count])
        self._last["ids"] = ids
        return self.state

    def _registers(self) -> dict[str, Any]:
        bounds = {"list_start": self.start, "list_end": self.end, "free": self.free}
        memory = {"ring": self._ring, "head": self.head, "tail": self.tail}
        return bounds | memory | {name: getattr(self, name) for name in self.counters}

    def load(self, state: DeclaredState) -> None:
        """Restore a State: pages between tail and head of the ring are owned; a pool's State does not count wraps."""
        self._ring, self.head, self.tail = list(state.ring), state.head, state.tail
        self.allocated, self.recycled = state.allocated, state.recycled
        self.wraps = vars(state).get("wraps", 0)
        self._owned = bytearray(b"\1") * self.pages
        for page in self.free_ids():
            self._owned[page] = 0


def whole(value: Any, thing: str) -> int:
    """Convert `value`, an int of Python or NumPy, to a Python int; reject everything else."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise RefusedType(f"{thing} must be an int, got {value!r}")
    return int(value)


UNIT: AnyUnit = Unit(
    unit_class=FreePageList,
    paper="leankv §5.2, Fig. 5",
    meaning="circular list of the ids of free pages",
    configs={"paper": Config(pages=32), "small": Config(pages=5)},
)
State: type[DeclaredState] = FreePageList.State
run: RunFunction[Result] = UNIT.run
