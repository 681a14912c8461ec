"""The controller of the flexible data generation flow: the order of fetches, and the dispatchers' addresses.

Paper: [harmonia §IV-D, Fig. 15]. A is M x N, B is N x K, C is M x K, in tiles of m rows of A and k columns of B.
"""

from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from math import prod
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith.checks import Refused, reject, require_choice
from refemu.units import AnyUnit, Changes, Config, DeclaredState, Port, Ports, Sequential, Unit, constant, decides
from refemu.units.stepping import Result
from refemu.units.unit import RunFunction

__all__ = [
    "B_BITS",
    "COLUMN_MAJOR",
    "COMPUTE",
    "EVENTS",
    "FETCH_A",
    "FETCH_B",
    "PASS_COLUMNS",
    "PASS_ROWS",
    "ROW_MAJOR",
    "SIZE_BITS",
    "UNIT",
    "BType",
    "EmaUnit",
    "FdgfController",
    "State",
    "Tile",
    "passes",
    "run",
]


COLUMN_MAJOR, ROW_MAJOR = 1, 2  #: Dataflow 1: a tile of B stays; dataflow 2: a tile of A stays [harmonia §IV-D]
EVENTS = ("idle", "start", "fetch_a", "fetch_b", "compute", "read", "store", "done")  #: Events by the port `code`
IDLE, START, FETCH_A, FETCH_B, COMPUTE, READ, STORE, DONE = range(8)  #: codes of the events, in the order of EVENTS
PASS_ROWS, PASS_COLUMNS, LANES = 8, 16, 32  #: rows and columns of the array, elements of a group
SIZE_BITS = 17  #: bits of M, N and K: the widest layer of the paper's models has 16,384 columns
GROUP_BITS = 12  #: bits of the number of a group
A_BITS = Fraction(293, 32)  #: stored bits of an element of A, 8-bit mantissas
EmaUnit = Literal["elements", "bits"]  #: Unit of external memory access
BType = Literal["int4", "bfp8", "bfp4"]  #: Type of B
#: Stored bits of an element of B
B_BITS: dict[BType, Fraction] = {"int4": Fraction(33, 8), "bfp8": Fraction(293, 32), "bfp4": Fraction(165, 32)}


class Tile(NamedTuple):
    """Fetch, computation or store of a product."""

    code: int  #: FETCH_A, FETCH_B, COMPUTE or STORE
    dataflow: int  #: 1 column-major, 2 row-major
    mt: int  #: tile of rows
    kt: int  #: tile of columns
    elements: int  #: elements fetched, computed or stored


class FdgfController(Sequential):
    """Dataflow controller: one event starts a product or is the next step of it."""

    name = "fdgf"
    events: ClassVar[tuple[str, ...]] = EVENTS
    counters: ClassVar[dict[str, str]] = {
        "fetches": "tiles of A and B fetched",
        "computes": "tiles of C computed",
        "reads": "groups read by each dispatcher",
        "stores": "tiles of C stored",
    }
    initial: ClassVar[dict[str, Any]] = {"event": "idle"}
    m: Annotated[int, 32, 1 << 13] = 64  #: rows of a tile, a multiple of 32 up to 8192
    k: Annotated[int, 32, 1 << 13] = 64  #: columns of a tile, a multiple of 32 up to 8192
    ema_unit: EmaUnit = "elements"  #: count that decides the dataflow: elements as in the paper, or stored bits
    b_type: BType = "int4"  #: type of B, for "bits"

    def check(self) -> None:
        for name, value in (("m", self.m), ("k", self.k)):
            if value % LANES:
                raise Refused(f"{self.name}: {name} must be a multiple of {LANES}, got {value}")

    @constant
    def ports(self) -> Ports:
        most = self.m // PASS_ROWS * (self.k // PASS_COLUMNS)
        return Ports(
            inputs=(
                Port("start", 1, meaning="begin a product of these sizes"),
                Port("rows", SIZE_BITS, meaning="M, rows of A"),
                Port("inner", SIZE_BITS, meaning="N, the reduction"),
                Port("columns", SIZE_BITS, meaning="K, columns of B"),
                Port("forced", 2, most=2, meaning="0 the dataflow with fewer accesses; 1 column-major, 2 row-major"),
                Port("v", 1, meaning="blocks of 32 x 16, for V, instead of 8 x 32"),
            ),
            outputs=(
                Port("code", 3, meaning="0 idle, 1 start, 2 fetch A, 3 fetch B, 4 compute, 5 read, 6 store, 7 done"),
                Port("dataflow", 2, meaning="1 column-major, 2 row-major"),
                Port("mt", 12, meaning="tile of rows"),
                Port("kt", 12, meaning="tile of columns"),
                Port("count", 30, meaning="elements fetched, computed or stored"),
                Port("a_address", 24, meaning="read: group of A, row8 * G + g"),
                Port("b_address", 24, meaning="read: group of B, col16 * G + g"),
            ),
            state=(
                Port("fetched", 48, meaning="elements fetched since the start"),
                Port("sizes", SIZE_BITS, 3, meaning="M, N, K of the product under way"),
                Port("blocks_v", 1, meaning="its v"),
                Port("place", most.bit_length(), meaning="array pass of the tile that is read next"),
                Port("group", GROUP_BITS, meaning="group of the pass that is read next"),
            ),
        )

    def ema(self, rows: int, inner: int, columns: int, dataflow: int, literal: bool = False) -> Fraction:
        """Count external accesses to A and B in units of `ema_unit`; dataflow 1 fetches A for every tile of columns.

        Dataflow 1 takes K/k * M*N + N*K [harmonia §IV-D], dataflow 2 M/m * N*K + M*N. literal: keep the fraction of
        tiles, rather than round it up (D-harmonia-30).
        """
        require_choice(dataflow, (COLUMN_MAJOR, ROW_MAJOR), self.name, "dataflow")
        require_sizes(self.name, rows, inner, columns)
        return Fraction(self._accesses(rows, inner, columns, dataflow, literal)) / 32

    def _accesses(self, rows: int, inner: int, columns: int, dataflow: int, literal: bool = False) -> Any:
        """The accesses of `ema` in 32nds: an integer unless `literal`."""
        bits = self.ema_unit == "bits"
        a = rows * inner * (int(32 * A_BITS) if bits else 32)
        b = inner * columns * (int(32 * B_BITS[self.b_type]) if bits else 32)
        many, once, length, size = (a, b, columns, self.k) if dataflow == COLUMN_MAJOR else (b, a, rows, self.m)
        return (Fraction(length, size) if literal else -(-length // size)) * many + once

    @decides("D-harmonia-30", "D-harmonia-31")
    def choose(self, rows: int, inner: int, columns: int) -> int:
        """The dataflow with fewer accesses; dataflow 1 on a tie."""
        first, second = (self._accesses(rows, inner, columns, dataflow) for dataflow in (COLUMN_MAJOR, ROW_MAJOR))
        return COLUMN_MAJOR if first <= second else ROW_MAJOR

    def invariant(self, state: DeclaredState) -> bool:
        """A product has a dataflow, and a tile that begins inside it; passes and groups advance in reads only."""
        rows, inner, columns = state.sizes
        high, wide = extent(rows, state.mt, self.m), extent(columns, state.kt, self.k)
        left = -(-high // PASS_ROWS) * -(-wide // PASS_COLUMNS) - state.place
        advances = left >= 0 and state.group < (-(-inner // LANES) if left else 1)
        inside = state.mt * self.m < rows and state.kt * self.k < columns and inner > 0
        reads = advances if state.code == READ else state.place == 0 and state.group == 0
        return state.code == IDLE or (state.dataflow in (COLUMN_MAJOR, ROW_MAJOR) and inside and reads)

    def _require(self, *inputs: np.ndarray) -> None:
        """Reject sizes of 0 at a start."""
        start, rows, inner, columns, *_ = inputs
        require_sizes(self.name, rows, inner, columns, start)

    def validated(
        self,
        start: ArrayLike,
        rows: ArrayLike,
        inner: ArrayLike,
        columns: ArrayLike,
        forced: ArrayLike = 0,
        v: ArrayLike = 0,
    ) -> list[np.ndarray]:
        """Check the inputs of many events, (..., events); reject sizes of 0 at a start."""
        return super().validated(start, rows, inner, columns, forced, v)

    def opens(self, start: int, *product: int) -> str:
        """The next event: fetch the operand that stays, fetch the one that passes, compute, read, store."""
        before = self.state
        if start:
            return "start"
        stays, passing = ("fetch_b", "fetch_a") if before.dataflow == COLUMN_MAJOR else ("fetch_a", "fetch_b")
        if before.code == STORE:
            more_rows, more_columns = self._left()
            more, others = (more_rows, more_columns) if before.dataflow == COLUMN_MAJOR else (more_columns, more_rows)
            return passing if more else stays if others else "done"
        if before.code in (COMPUTE, READ):
            return "store" if before.place == len(self._passes()) else "read"
        if before.code == START:
            return stays
        return passing if EVENTS[before.code] == stays else {IDLE: "idle", DONE: "done"}.get(before.code, "compute")

    def idle(self, *product: int) -> Changes:
        """Do nothing: no product has begun."""
        return _shown(IDLE)

    def start(self, start: int, rows: int, inner: int, columns: int, forced: int, v: int) -> Changes:
        """Begin a product and choose its dataflow."""
        dataflow = forced or self.choose(rows, inner, columns)
        registers = {"fetched": 0, "sizes": (rows, inner, columns), "blocks_v": v, "place": 0, "group": 0}
        return {**_shown(START), "dataflow": dataflow, "mt": 0, "kt": 0, **registers}

    def fetch_a(self, *product: int) -> Changes:
        """Fetch a tile of A."""
        return self._fetch(FETCH_A)

    def fetch_b(self, *product: int) -> Changes:
        """Fetch a tile of B."""
        return self._fetch(FETCH_B)

    def compute(self, *product: int) -> Changes:
        """Begin to compute a tile of C."""
        return {**_shown(COMPUTE, prod(self._extent(self.state.mt, self.state.kt))), "computes": 1}

    def read(self, *product: int) -> Changes:
        """Read a group of the tile with both dispatchers."""
        before = self.state
        groups = -(-before.sizes[1] // LANES)
        row8, col16 = self._passes()[before.place]
        last = before.group == groups - 1
        return {
            **_shown(READ, 1),
            "a_address": row8 * groups + before.group,
            "b_address": col16 * groups + before.group,
            "place": before.place + last,
            "group": 0 if last else before.group + 1,
            "reads": 1,
        }

    def store(self, *product: int) -> Changes:
        """Store the tile."""
        return {**_shown(STORE, prod(self._extent(self.state.mt, self.state.kt))), "place": 0, "stores": 1}

    def done(self, *product: int) -> Changes:
        """Do nothing: the product is complete."""
        return _shown(DONE)

    def _left(self) -> tuple[bool, bool]:
        """Whether there are more tiles of rows, and of columns."""
        before, (rows, _, columns) = self.state, self.state.sizes
        return (before.mt + 1) * self.m < rows, (before.kt + 1) * self.k < columns

    def _fetch(self, code: int) -> Changes:
        """The event after a store: the next tile of the operand that passes, else of the one that stays."""
        before = self.state
        mt, kt = before.mt, before.kt
        if before.code == STORE:
            more_rows, more_columns = self._left()
            if before.dataflow == COLUMN_MAJOR:
                mt, kt = (mt + 1, kt) if more_rows else (0, kt + 1)
            else:
                mt, kt = (mt, kt + 1) if more_columns else (mt + 1, 0)
        count = before.sizes[1] * self._side(code, mt, kt)
        return {**_shown(code, count), "mt": mt, "kt": kt, "fetched": before.fetched + count, "fetches": 1}

    def _extent(self, mt: int, kt: int) -> tuple[int, int]:
        """Rows and columns of a tile, fewer at the edge."""
        rows, _, columns = self.state.sizes
        return extent(rows, mt, self.m), extent(columns, kt, self.k)

    @decides("D-harmonia-30")
    def _side(self, code: int, mt: int, kt: int) -> int:
        """Rows of A or columns of B that are fetched."""
        return self._extent(mt, kt)[code == FETCH_B]

    def _passes(self) -> tuple[tuple[int, int], ...]:
        """Array passes of the tile."""
        height, width = self._extent(self.state.mt, self.state.kt)
        return passes(-(-height // PASS_ROWS), -(-width // PASS_COLUMNS), self.state.dataflow, self.state.blocks_v)

    def plan(self, rows: int, inner: int, columns: int, dataflow: int = 0, v: int = 0) -> Iterator[DeclaredState]:
        """Yield the States of one whole product, from its start to its last store, on a new controller.

        dataflow: 0 to choose. v: 1 if C is grouped along rows, so that blocks are 32 x 16, not 8 x 32.
        """
        device = FdgfController(self.m, self.k, self.ema_unit, self.b_type)
        yield device.step(1, rows, inner, columns, dataflow, v)
        while device.step(0, 0, 0, 0, 0, 0).code != DONE:
            yield device.state

    def tiles(self, rows: int, inner: int, columns: int, dataflow: int = 0) -> Iterator[Tile]:
        """Yield the events of `plan` except its start and its reads, without stepping through the reads.

        Two nested loops over tiles: of columns and of rows in dataflow 1, of rows and of columns in dataflow 2.
        """
        require_sizes(self.name, rows, inner, columns)
        way = dataflow or self.choose(rows, inner, columns)
        a, b = (
            [(tile, min(size, length - tile * size)) for tile in range(-(-length // size))]
            for length, size in ((rows, self.m), (columns, self.k))
        )
        (outer, stays), (passing, passes_by) = (
            ((b, FETCH_B), (a, FETCH_A)) if way == COLUMN_MAJOR else ((a, FETCH_A), (b, FETCH_B))
        )
        for kept, long in outer:
            for tile, short in passing:
                mt, kt = (tile, kept) if way == COLUMN_MAJOR else (kept, tile)
                if tile == 0:
                    yield Tile(stays, way, mt, kt, inner * long)
                yield Tile(passes_by, way, mt, kt, inner * short)
                yield Tile(COMPUTE, way, mt, kt, long * short)
                yield Tile(STORE, way, mt, kt, long * short)


def extent(length: int, tile: int, size: int) -> int:
    """Rows or columns of a tile of `size`, fewer at the edge."""
    return max(min(size, length - tile * size), 0)


def _shown(code: int, count: int = 0) -> dict[str, Any]:
    """Ports that every event sets."""
    return {"code": code, "count": count, "a_address": 0, "b_address": 0}


@cache
def passes(high: int, wide: int, dataflow: int, v: int) -> tuple[tuple[int, int], ...]:
    """Array passes of a tile: by blocks of the converter, in the dataflow's order. [harmonia §IV-D]

    A block is 1 x 2 passes, of V 4 x 1. Blocks go down the columns in dataflow 1, along the rows in dataflow 2.
    """
    tall, broad = (4, 1) if v else (1, 2)
    corners = [(row, column) for row in range(0, high, tall) for column in range(0, wide, broad)]
    if dataflow == COLUMN_MAJOR:
        corners = sorted(corners, key=lambda corner: (corner[1], corner[0]))
    return tuple(
        (row, column)
        for top, left in corners
        for row in range(top, min(top + tall, high))
        for column in range(left, min(left + broad, wide))
    )


def require_sizes(name: str, rows: ArrayLike, inner: ArrayLike, columns: ArrayLike, start: ArrayLike = 1) -> None:
    """Reject a product without elements."""
    for letter, size in (("M", np.asarray(rows)), ("N", np.asarray(inner)), ("K", np.asarray(columns))):
        empty = (size < 1) & (np.asarray(start) == 1)
        reject(empty, f"{name}: {letter} must be at least 1", size)


UNIT: AnyUnit = Unit(
    unit_class=FdgfController,
    paper="harmonia §IV-D, Fig. 15",
    meaning="dataflow controller: tiles, their order, read addresses",
    configs={
        "paper": Config(m=64, k=64, ema_unit="elements", b_type="int4"),
        "small": Config(m=32, k=32, ema_unit="elements", b_type="int4"),
    },
)
State: type[DeclaredState] = FdgfController.State
run: RunFunction[Result] = UNIT.run
