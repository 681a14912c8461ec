"""The controller of the flexible data generation flow: which tiles are fetched when, and the dispatchers' addresses.

Paper: [harmonia §IV-D, Fig. 15]. A is M x N, B is N x K, C is M x K, in tiles of m rows of A and k columns of B.
Decisions: D-harmonia-30 (part of a tile is fetched whole; the formula's fraction on request), D-harmonia-31 (which
dataflow wins follows the formula).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

from refemu.arith.checks import Refused, require_choice, require_int
from refemu.units import fdgf_cases, unit
from refemu.units.unit import Cases, Config, Port, Ports, Stepped, Unit, admit_events, collect
from refemu.units.unit_cases import Seeds

COLUMN_MAJOR, ROW_MAJOR = 1, 2  #: dataflow 1: a tile of B stays; dataflow 2: a tile of A stays [harmonia §IV-D]
EVENTS = ("idle", "start", "fetch_a", "fetch_b", "compute", "read", "store", "done")
IDLE, START, FETCH_A, FETCH_B, COMPUTE, READ, STORE, DONE = range(8)
PASS_ROWS, PASS_COLUMNS, LANES = 8, 16, 32  #: of the array, and elements of a group
SIZE_BITS = 17  #: of M, N and K: the widest layer of the paper's models has 16,384 columns
A_BITS = Fraction(293, 32)  #: stored bits of an element of A, 8-bit mantissas
B_BITS = {"int4": Fraction(33, 8), "bfp8": Fraction(293, 32), "bfp4": Fraction(165, 32)}


@dataclass(frozen=True)
class State:
    """Ports and registers after one event, and what happened since reset."""

    event: str  #: one of EVENTS
    index: int  #: -1 for the reset
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
    fetches: int
    computes: int
    reads: int
    stores: int


COUNTERS = tuple(State.__dataclass_fields__)[-4:]


@dataclass(frozen=True, eq=False)
class Result(unit.Result):
    """What the controller does, event by event; arrays (..., events), counters as in State."""

    code: np.ndarray
    dataflow: np.ndarray
    mt: np.ndarray
    kt: np.ndarray
    count: np.ndarray
    a_address: np.ndarray
    b_address: np.ndarray
    fetched: np.ndarray
    fetches: int
    computes: int
    reads: int
    stores: int


class Tile(NamedTuple):
    """A fetch, a computation or a store of a product."""

    code: int  #: FETCH_A, FETCH_B, COMPUTE or STORE
    dataflow: int
    mt: int
    kt: int
    elements: int


class FdgfController(Stepped):
    """The controller of [harmonia §IV-D]. One event starts a product or is the next step of it."""

    name = "fdgf"

    def __init__(self, m: int = 64, k: int = 64, ema_unit: str = "elements", b_type: str = "int4") -> None:
        """m, k: rows and columns of a tile, multiples of 32. ema_unit: what the choice of a dataflow counts,
        "elements" as the paper does, or stored "bits", for which b_type is "int4", "bfp8" or "bfp4".
        """
        for name, value in (("m", m), ("k", k)):
            require_int(value, 32, 1 << 13, self.name, name)
            if value % LANES:
                raise Refused(f"{self.name}: {name} must be a multiple of {LANES}, got {value}")
        require_choice(ema_unit, ("elements", "bits"), self.name, "ema_unit")
        require_choice(b_type, B_BITS, self.name, "b_type")
        self.m, self.k, self.ema_unit, self.b_type = m, k, ema_unit, b_type
        self.ports = ports({})
        self.state = State("idle", -1, *(0,) * 14, (0, 0, 0), *(0,) * 7)

    def ema(self, rows: int, inner: int, columns: int, dataflow: int, literal: bool = False) -> Fraction:
        """External accesses to A and B in units of `ema_unit`: dataflow 1 fetches A for every tile of columns.

        [harmonia §IV-D] K/k * M*N + N*K, and M/m * N*K + M*N for dataflow 2; number of tiles rounded up, or with
        `literal` the fraction (D-harmonia-30).
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
        """The dataflow with fewer accesses, on a tie dataflow 1 (D-harmonia-31)."""
        first, second = (self.ema(rows, inner, columns, dataflow) for dataflow in (COLUMN_MAJOR, ROW_MAJOR))
        return COLUMN_MAJOR if first <= second else ROW_MAJOR

    @property
    def busy(self) -> bool:
        """Never: every event takes the inputs, of which `start` says whether they count."""
        return False

    def step(self, start: int, rows: int, inner: int, columns: int, force: int, v: int) -> State:
        """With start=1 begin a product; with 0 the next event of the one under way, `done` after the last.

        force: 0 choose, else the dataflow. v: 1 if C is grouped along rows, so that blocks are 32 x 16, not 8 x 32.
        Refused: sizes of 0 at a start.
        """
        start, rows, inner, columns, force, v = self.accept(start, rows, inner, columns, force, v)
        if start:
            require_sizes(self.name, rows, inner, columns)
        inputs = {"start": start, "rows": rows, "inner": inner, "columns": columns, "forced": force, "v": v}
        before = replace(self.state, **inputs, index=self.state.index + 1, count=0, a_address=0, b_address=0)
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
        """Yield the States of one whole product from its start to its last store, on a controller of its own."""
        device = FdgfController(self.m, self.k, self.ema_unit, self.b_type)
        yield device.step(1, rows, inner, columns, dataflow, v)
        while device.step(0, 0, 0, 0, 0, 0).code != DONE:
            yield device.state

    def tiles(self, rows: int, inner: int, columns: int, dataflow: int = 0) -> Iterator[Tile]:
        """The events of `plan` but its start and its reads, without a step for each of those.

        Two nested loops over tiles, of columns and of rows in dataflow 1, of rows and of columns in dataflow 2.
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

    def steps(self, start: Any, rows: Any, inner: Any, columns: Any, force: Any, v: Any) -> Iterator[State]:
        """Yield the State after every event of one device; the arguments, (events,) or scalars, broadcast."""
        arrays = admit_events(self.name, self.ports.inputs, (start, rows, inner, columns, force, v))
        if arrays[0].ndim != 1:
            raise Refused(f"{self.name}: steps takes one sequence of events, got shape {arrays[0].shape}")
        for event in zip(*(array.tolist() for array in arrays), strict=True):
            yield self.step(*event)

    def __repr__(self) -> str:
        return f"FdgfController(m={self.m}, k={self.k}, ema_unit={self.ema_unit!r}, b_type={self.b_type!r})"


@cache
def passes(high: int, wide: int, dataflow: int, v: int) -> tuple[tuple[int, int], ...]:
    """(row8, col16) of the array passes of a tile: by blocks of the converter, blocks in the dataflow's order.

    A block is 1 x 2 passes, of V 4 x 1; blocks go down the columns in dataflow 1, along the rows in dataflow 2.
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


def require_sizes(name: str, rows: Any, inner: Any, columns: Any) -> None:
    """Refuse a product without elements."""
    for letter, size in (("M", rows), ("N", inner), ("K", columns)):
        if size < 1:
            raise Refused(f"{name}: {letter} must be at least 1, got {size}")


def run(
    start: Any,
    rows: Any,
    inner: Any,
    columns: Any,
    force: Any = 0,
    v: Any = 0,
    *,
    m: int = 64,
    k: int = 64,
    ema_unit: str = "elements",
    b_type: str = "int4",
) -> Result:
    """Every event of one controller or of many.

    start: 1 where a product begins. rows, inner, columns: M, N, K, below 2**17, read at a start. force: 0, or the
    dataflow. v: as for `step`. All (..., events), and they broadcast; each device starts from reset. m, k, ema_unit,
    b_type: as for FdgfController. Returns the Result. Refuses sizes of 0 at a start. Paper: [harmonia §IV-D].
    """
    device = FdgfController(m, k, ema_unit, b_type)
    arrays = admit_events(device.name, device.ports.inputs, (start, rows, inner, columns, force, v))
    shape = arrays[0].shape
    reset, states = device.state, list[State]()
    counts: dict[str, Any] = dict.fromkeys(COUNTERS, 0)
    for one in zip(*(array.reshape(prod(shape[:-1]), shape[-1]) for array in arrays), strict=True):
        device.state = reset
        states += list(device.steps(*one))
        counts = {name: count + getattr(device.state, name) for name, count in counts.items()}
    return Result(**collect(states, device.ports.outputs + device.ports.state, shape), **counts)


def ports(config: Mapping[str, Any]) -> Ports:
    """Widths; the same in every configuration."""
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
        state=(Port("fetched", 48, meaning="elements fetched since the start"),),
    )


def cases(config: Config, kind: str, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind; see fdgf_cases.py."""
    return fdgf_cases.cases(config, kind, seed)


def legal(config: Mapping[str, Any], inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """`inputs` with sizes of at least 1."""
    sizes = ("rows", "inner", "columns")
    return {**inputs, **{name: np.maximum(inputs[name], np.asarray(1, inputs[name].dtype)) for name in sizes}}


UNIT = Unit(
    name="fdgf",
    paper="harmonia §IV-D, Fig. 15",
    meaning="dataflow controller: tiles, their order, read addresses",
    configs={
        "paper": Config(m=64, k=64, ema_unit="elements", b_type="int4"),
        "small": Config(m=32, k=32, ema_unit="elements", b_type="int4"),
    },
    ports=ports,
    run=run,
    twin="refemu.units.fdgf_jit:run",
    unit_class=FdgfController,
    cases=cases,
    timing="event",
    arguments={"forced": "force"},
    legal=legal,
)
