"""The controller of the flexible data generation flow: the order of fetches, and the dispatchers' addresses.

Paper: [harmonia §IV-D, Fig. 15]. A is M x N, B is N x K, C is M x K, in tiles of m rows of A and k columns of B.
Decisions: D-harmonia-30 (part of a tile is fetched whole; the formula's fraction on request), D-harmonia-31 (which
dataflow wins follows the formula).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from math import prod
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith.checks import Refused, at, first_index, require_choice, require_int
from refemu.units.harmonia.cases import fdgf as fdgf_cases
from refemu.units.ports import Port, Ports
from refemu.units.stepped import Clocked, Result
from refemu.units.unit import Config, RunFunction, Unit

__all__ = [
    "B_BITS",
    "COLUMN_MAJOR",
    "COUNTERS",
    "EMA_UNITS",
    "EVENTS",
    "ROW_MAJOR",
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
IDLE, START, FETCH_A, FETCH_B, COMPUTE, READ, STORE, DONE = range(8)
PASS_ROWS, PASS_COLUMNS, LANES = 8, 16, 32  #: of the array, and elements of a group
SIZE_BITS = 17  #: of M, N and K: the widest layer of the paper's models has 16,384 columns
GROUP_BITS = 12  #: of the number of a group, as so many columns have
A_BITS = Fraction(293, 32)  #: stored bits of an element of A, 8-bit mantissas
EmaUnit = Literal["elements", "bits"]  #: Unit of external memory access
EMA_UNITS: tuple[EmaUnit, ...] = ("elements", "bits")  #: The choices of `EmaUnit`
BType = Literal["int4", "bfp8", "bfp4"]  #: Type of B
#: Stored bits of an element of B
B_BITS: dict[BType, Fraction] = {"int4": Fraction(33, 8), "bfp8": Fraction(293, 32), "bfp4": Fraction(165, 32)}


@dataclass(frozen=True)
class State:
    """Ports and registers after one event, and what happened since reset."""

    #: "idle": no product yet, also at reset; "start": a product begins, and its dataflow is chosen; "fetch_a",
    #: "fetch_b": a tile of A or of B is fetched; "compute": a tile of C is to be computed; "read": both dispatchers
    #: read a group for it; "store": the tile is stored; "done": the product is complete
    event: str
    index: int  #: number of the event since reset, from 0; -1 at reset
    start: int
    rows: int  #: M
    inner: int  #: N
    columns: int  #: K
    forced: int
    v: int
    code: int  #: place of `event` in EVENTS
    dataflow: int
    mt: int
    kt: int
    count: int
    a_address: int
    b_address: int
    fetched: int
    sizes: tuple[int, int, int]  #: M, N, K of the product under way
    blocks_v: int  #: `v` of the product under way
    place: int  #: array pass of the tile
    group: int  #: of the pass
    fetches: int  #: tiles of A and B fetched
    computes: int  #: tiles of C computed
    reads: int  #: groups read by each dispatcher
    stores: int  #: tiles of C stored


COUNTERS = ("fetches", "computes", "reads", "stores")  #: Counters of a run


class Tile(NamedTuple):
    """Fetch, computation or store of a product."""

    code: int  #: FETCH_A, FETCH_B, COMPUTE or STORE
    dataflow: int  #: 1 column-major, 2 row-major
    mt: int  #: tile of rows
    kt: int  #: tile of columns
    elements: int  #: elements fetched, computed or stored


class FdgfController(Clocked[State]):
    """Dataflow controller: one event starts a product or is the next step of it.

    References
    ----------
    [harmonia §IV-D, Fig. 15]
    """

    name = "fdgf"
    m: int
    k: int

    def __init__(self, m: int = 64, k: int = 64, ema_unit: EmaUnit = "elements", b_type: BType = "int4") -> None:
        """Configure the controller.

        Parameters
        ----------
        m, k : int
            Rows and columns of a tile, multiples of 32 up to 8192.
        ema_unit : {"elements", "bits"}
            Count that decides the dataflow: elements as in the paper, or stored bits.
        b_type : {"int4", "bfp8", "bfp4"}
            Type of B, for "bits".

        Raises
        ------
        Refused
            A size is out of range or an option unknown.
        """
        self.m, self.k = (require_int(value, 32, 1 << 13, self.name, name) for name, value in (("m", m), ("k", k)))
        for name, value in (("m", self.m), ("k", self.k)):
            if value % LANES:
                raise Refused(f"{self.name}: {name} must be a multiple of {LANES}, got {value}")
        self.ema_unit = require_choice(ema_unit, EMA_UNITS, self.name, "ema_unit")
        self.b_type = require_choice(b_type, B_BITS, self.name, "b_type")
        self.ports: Ports = ports({"m": self.m, "k": self.k})
        self.state: State = self.reset(State, event="idle")

    def ema(self, rows: int, inner: int, columns: int, dataflow: int, literal: bool = False) -> Fraction:
        """External accesses to A and B in units of `ema_unit`; dataflow 1 fetches A for every tile of columns.

        Dataflow 1 takes K/k * M*N + N*K [harmonia §IV-D], dataflow 2 M/m * N*K + M*N.

        Parameters
        ----------
        rows, inner, columns : int
            M, N and K.
        dataflow : int
            1 column-major, 2 row-major.
        literal : bool
            Keep the fraction of tiles, rather than round it up (D-harmonia-30).

        Returns
        -------
        Fraction
            Accesses.

        Raises
        ------
        Refused
            A size is 0 or the dataflow unknown.
        """
        require_choice(dataflow, (COLUMN_MAJOR, ROW_MAJOR), self.name, "dataflow")
        require_sizes(self.name, rows, inner, columns)
        bits = self.ema_unit == "bits"
        a = rows * inner * (A_BITS if bits else Fraction(1))
        b = inner * columns * (B_BITS[self.b_type] if bits else Fraction(1))
        times = Fraction(columns, self.k) if dataflow == COLUMN_MAJOR else Fraction(rows, self.m)
        times = times if literal else Fraction(-(-times.numerator // times.denominator))
        return times * a + b if dataflow == COLUMN_MAJOR else times * b + a

    def choose(self, rows: int, inner: int, columns: int) -> int:
        """Choose the dataflow with fewer accesses, on a tie dataflow 1 (D-harmonia-31).

        Parameters
        ----------
        rows, inner, columns : int
            M, N and K.

        Returns
        -------
        int
            1 column-major, 2 row-major.
        """
        first, second = (self.ema(rows, inner, columns, dataflow) for dataflow in (COLUMN_MAJOR, ROW_MAJOR))
        return COLUMN_MAJOR if first <= second else ROW_MAJOR

    def step(self, start: int, rows: int, inner: int, columns: int, forced: int, v: int) -> State:
        """Begin a product with start=1; with 0 execute the next event of the one under way, `done` after the last."""
        return self._open(*self.accept(start, rows, inner, columns, forced, v))

    def _require(self, *inputs: np.ndarray) -> None:
        """Refuse sizes of 0 at a start."""
        start, rows, inner, columns, *_ = inputs
        require_sizes(self.name, rows, inner, columns, start)

    def admitted(
        self,
        start: ArrayLike,
        rows: ArrayLike,
        inner: ArrayLike,
        columns: ArrayLike,
        forced: ArrayLike = 0,
        v: ArrayLike = 0,
    ) -> list[np.ndarray]:
        """Check the inputs of many events, (..., events); sizes of 0 at a start are refused."""
        return super().admitted(start, rows, inner, columns, forced, v)

    def _open(self, start: int, *inputs: int) -> State:
        before = self.latched(start, *inputs, count=0, a_address=0, b_address=0)
        self.state = self._start(before) if start else self._next(before)
        return self.state

    def _start(self, before: State) -> State:
        sizes = before.rows, before.inner, before.columns
        return replace(
            before,
            event="start",
            code=START,
            dataflow=before.forced or self.choose(*sizes),
            mt=0,
            kt=0,
            fetched=0,
            sizes=sizes,
            blocks_v=before.v,
            place=0,
            group=0,
        )

    def _next(self, before: State) -> State:
        """The event that follows the last one: fetch what stays, fetch what passes, compute, read, store."""
        column = before.dataflow == COLUMN_MAJOR
        if before.code in (IDLE, DONE):
            return before
        if before.code == START:
            return self._fetch(before, FETCH_B if column else FETCH_A)
        if before.code == (FETCH_B if column else FETCH_A):
            return self._fetch(before, FETCH_A if column else FETCH_B)
        if before.code in (FETCH_A, FETCH_B):
            return self._event(before, COMPUTE, count=prod(self._extent(before)), computes=before.computes + 1)
        return self._stored(before) if before.code == STORE else self._read(before)

    def _event(self, before: State, code: int, **changes: Any) -> State:
        return replace(before, event=EVENTS[code], code=code, **changes)

    def _extent(self, before: State) -> tuple[int, int]:
        """Rows and columns of the tile, fewer at the edge."""
        rows, _, columns = before.sizes
        return min(self.m, rows - before.mt * self.m), min(self.k, columns - before.kt * self.k)

    def _fetch(self, before: State, code: int) -> State:
        height, width = self._extent(before)
        count = before.sizes[1] * (height if code == FETCH_A else width)
        return self._event(before, code, count=count, fetched=before.fetched + count, fetches=before.fetches + 1)

    def _read(self, before: State) -> State:
        """The next addresses of both dispatchers, group by group, or the store when all passes are through."""
        height, width = self._extent(before)
        order = passes(-(-height // PASS_ROWS), -(-width // PASS_COLUMNS), before.dataflow, before.blocks_v)
        if before.place == len(order):
            return self._event(before, STORE, count=height * width, place=0, stores=before.stores + 1)
        groups = -(-before.sizes[1] // LANES)
        row8, col16 = order[before.place]
        last = before.group == groups - 1
        return self._event(
            before,
            READ,
            count=1,
            a_address=row8 * groups + before.group,
            b_address=col16 * groups + before.group,
            place=before.place + last,
            group=0 if last else before.group + 1,
            reads=before.reads + 1,
        )

    def _stored(self, before: State) -> State:
        """The next tile: of what passes, else of what stays."""
        rows, _, columns = before.sizes
        more_rows, more_columns = (before.mt + 1) * self.m < rows, (before.kt + 1) * self.k < columns
        if before.dataflow == COLUMN_MAJOR:
            if more_rows:
                return self._fetch(replace(before, mt=before.mt + 1), FETCH_A)
            if more_columns:
                return self._fetch(replace(before, mt=0, kt=before.kt + 1), FETCH_B)
        elif more_columns:
            return self._fetch(replace(before, kt=before.kt + 1), FETCH_B)
        elif more_rows:
            return self._fetch(replace(before, mt=before.mt + 1, kt=0), FETCH_A)
        return self._event(before, DONE)

    def plan(self, rows: int, inner: int, columns: int, dataflow: int = 0, v: int = 0) -> Iterator[State]:
        """Yield the States of one whole product, from its start to its last store, on a controller of its own.

        Parameters
        ----------
        rows, inner, columns : int
            M, N and K.
        dataflow : int
            0 to choose, else the dataflow.
        v : int
            1 if C is grouped along rows, so that blocks are 32 x 16, not 8 x 32.

        Returns
        -------
        iterator of State
            States in order.
        """
        device = FdgfController(self.m, self.k, self.ema_unit, self.b_type)
        yield device.step(1, rows, inner, columns, dataflow, v)
        while device.step(0, 0, 0, 0, 0, 0).code != DONE:
            yield device.state

    def tiles(self, rows: int, inner: int, columns: int, dataflow: int = 0) -> Iterator[Tile]:
        """Yield the events of `plan` but its start and its reads, without a step for each of those.

        Two nested loops over tiles: of columns and of rows in dataflow 1, of rows and of columns in dataflow 2.

        Parameters
        ----------
        rows, inner, columns : int
            M, N and K.
        dataflow : int
            0 to choose, else the dataflow.

        Returns
        -------
        iterator of Tile
            Fetches, computations and stores in order.

        Raises
        ------
        Refused
            A size is 0.
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


@cache
def passes(high: int, wide: int, dataflow: int, v: int) -> tuple[tuple[int, int], ...]:
    """Array passes of a tile: by blocks of the converter, in the dataflow's order.

    A block is 1 x 2 passes, of V 4 x 1. Blocks go down the columns in dataflow 1, along the rows in dataflow 2.

    Parameters
    ----------
    high, wide : int
        Passes of the tile, down and across.
    dataflow : int
        1 column-major, 2 row-major.
    v : int
        1 for blocks of V.

    Returns
    -------
    tuple of (int, int)
        Row of 8 and column of 16 of every pass.

    References
    ----------
    [harmonia §IV-D]
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
    """Refuse a product without elements, where one starts."""
    for letter, size in (("M", np.asarray(rows)), ("N", np.asarray(inner)), ("K", np.asarray(columns))):
        empty = (size < 1) & (np.asarray(start) == 1)
        if empty.any():
            index = first_index(empty)
            raise Refused(f"{name}: {letter} must be at least 1, got {int(size[index])}{at(index)}")


def ports(config: Mapping[str, Any]) -> Ports:
    """Widths in one configuration."""
    most = config.get("m", 64) // PASS_ROWS * (config.get("k", 64) // PASS_COLUMNS)
    return Ports(
        inputs=(
            Port("start", 1, meaning="begin a product of these sizes"),
            Port("rows", SIZE_BITS, meaning="M, rows of A"),
            Port("inner", SIZE_BITS, meaning="N, the reduction"),
            Port("columns", SIZE_BITS, meaning="K, columns of B"),
            Port("forced", 2, most=2, meaning="0 the dataflow with fewer accesses; 1 column-major, 2 row-major"),
            Port("v", 1, meaning="blocks of 32 x 16, for V, not of 8 x 32"),
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


UNIT: Unit[State, Result] = Unit(
    name="fdgf",
    paper="harmonia §IV-D, Fig. 15",
    meaning="dataflow controller: tiles, their order, read addresses",
    configs={
        "paper": Config(m=64, k=64, ema_unit="elements", b_type="int4"),
        "small": Config(m=32, k=32, ema_unit="elements", b_type="int4"),
    },
    ports=ports,
    unit_class=FdgfController,
    cases=fdgf_cases.cases,
    counters=COUNTERS,
    legal=fdgf_cases.legal,
    closes=fdgf_cases.closes,
)
run: RunFunction[Result] = UNIT.run
