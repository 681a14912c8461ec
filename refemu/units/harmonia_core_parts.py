"""The plan of harmonia_core: the steps of [harmonia §IV-A, Fig. 12] in order, block by block, and its operands."""

from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from refemu.units.fdgf import FETCH_A, FETCH_B, PASS_COLUMNS, PASS_ROWS, FdgfController, passes
from refemu.units.unit import fields

WINDOW = 32  #: tokens whose keys wait for the offsets [harmonia §III-C]
LANES = 32


class Shape(NamedTuple):
    """What the plan depends on."""

    kind: str
    rows: int  #: M
    inner: int  #: N
    columns: int  #: K
    tile_m: int
    tile_k: int
    head_dim: int
    force: int
    activation: str


class Action(NamedTuple):
    """One event: a rectangle of C, or what is fetched."""

    event: str  #: "load", "dispatch", "compute", "fp2half", "vector", "offset", "convert" or "store"
    row: int  #: of a load: tile of rows
    column: int  #: of a load: tile of columns
    rows: int
    columns: int
    number: int  #: elements loaded or stored, groups read by each dispatcher, array passes, columns converted


@cache
def plan(shape: Shape) -> tuple[Action, ...]:
    """Every event of one product. Vector unit, offsets and converter follow as soon as what they need is computed."""
    controller, actions, planner = FdgfController(shape.tile_m, shape.tile_k), list[Action](), Planner(shape)
    v = int(shape.kind == "v")
    for state in controller.plan(shape.rows, shape.inner, shape.columns, shape.force, v):
        if state.code in (FETCH_A, FETCH_B):
            actions.append(Action("load", state.mt, state.kt, int(state.code == FETCH_A), int(state.code == FETCH_B),
                                  state.count))
        if state.event == "compute":
            for block in _blocks(shape, state.mt, state.kt, state.dataflow):
                actions += planner.computed(*block)
    return tuple(actions)


def _blocks(shape: Shape, mt: int, kt: int, dataflow: int) -> list[tuple[int, int, int, int]]:
    """Rectangles (row, column, rows, columns) of a tile, 8 x 32 or for V 32 x 16, in the order of the passes."""
    top, left = mt * shape.tile_m, kt * shape.tile_k
    height, width = min(shape.tile_m, shape.rows - top), min(shape.tile_k, shape.columns - left)
    v = shape.kind == "v"
    tall, broad = (4, 1) if v else (1, 2)
    order = passes(-(-height // PASS_ROWS), -(-width // PASS_COLUMNS), dataflow, int(v))
    corners = dict.fromkeys((row // tall * tall * PASS_ROWS, column // broad * broad * PASS_COLUMNS)
                            for row, column in order)
    return [(top + row, left + column, min(tall * PASS_ROWS, height - row), min(broad * PASS_COLUMNS, width - column))
            for row, column in corners]


class Planner:
    """Which parts of C are computed, and what waits in the temporary SRAM."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.missing = np.ones((shape.rows, shape.columns), np.bool_)
        self.shifted = 0  #: rows that went through the offsets, in order
        self.waiting: list[tuple[int, int, int, int]] = []  #: blocks before their conversion
        self.pending = list(self._regions())  #: of the vector unit

    def _regions(self) -> Iterator[tuple[int, int, int, int]]:
        """What the vector unit takes at once: a head of 8 rows, 8 whole rows, a block."""
        shape = self.shape
        width = {"q": shape.head_dim, "k": shape.head_dim, "score": shape.columns}.get(shape.kind, LANES)
        if shape.kind in ("q", "k", "score") or shape.activation != "none":
            for row in range(0, shape.rows, PASS_ROWS):
                for column in range(0, shape.columns, width):
                    yield row, column, min(PASS_ROWS, shape.rows - row), min(width, shape.columns - column)

    def computed(self, row: int, column: int, rows: int, columns: int) -> Iterator[Action]:
        """The events of a block, and of all that it was the last missing part of."""
        count = -(-rows // PASS_ROWS) * -(-columns // PASS_COLUMNS)
        groups = -(-self.shape.inner // LANES)
        for event, number in (("dispatch", count * groups), ("compute", count),
                              ("fp2half", -(-rows // PASS_ROWS) * columns)):
            yield Action(event, row, column, rows, columns, number)
        self.missing[row:row + rows, column:column + columns] = False
        self.waiting.append((row, column, rows, columns))
        yield from self._vectors()
        if self.shape.kind == "k":
            yield from self._offsets()
        yield from self._conversions()

    def _vectors(self) -> Iterator[Action]:
        ready = [region for region in self.pending if not self._misses(*region)]
        self.pending = [region for region in self.pending if region not in ready]
        for row, column, rows, columns in ready:
            yield Action("vector", row, column, rows, columns, rows * columns)

    def _offsets(self) -> Iterator[Action]:
        """Keys of a token once all heads are there, tokens in order."""
        while self.shifted < self.shape.rows:
            rows = min(PASS_ROWS, self.shape.rows - self.shifted)
            if self._misses(self.shifted, 0, rows, self.shape.columns):
                return
            yield Action("offset", self.shifted, 0, rows, self.shape.columns, rows * self.shape.columns)
            self.shifted += rows

    def _conversions(self) -> Iterator[Action]:
        for block in [block for block in self.waiting if self._is_final(*block)]:
            self.waiting.remove(block)
            row, column, rows, columns = block
            if self.shape.kind != "final":
                yield Action("convert", row, column, rows, columns, columns)
            yield Action("store", row, column, rows, columns, rows * columns)

    def _is_final(self, row: int, column: int, rows: int, columns: int) -> bool:
        """Whether nothing happens to a block any more before its conversion."""
        if self.shape.kind == "k":  # the tokens of the window leave when all have been seen
            return self.shifted >= max(min(WINDOW, self.shape.rows), row + rows)
        return not any(_meet((row, column, rows, columns), region) for region in self.pending)

    def _misses(self, row: int, column: int, rows: int, columns: int) -> bool:
        return bool(self.missing[row:row + rows, column:column + columns].any())


def _meet(a: tuple[int, int, int, int], b: tuple[int, int, int, int]) -> bool:
    """Whether two rectangles share an element."""
    return a[0] < b[0] + b[2] and b[0] < a[0] + a[2] and a[1] < b[1] + b[3] and b[1] < a[1] + a[3]


def operands(shape: Shape, state: Any, row: int, column: int) -> list[Any]:
    """The array's operands for 8 rows of A and 16 columns of B from `row` and `column` on; what is beyond is 0."""
    groups = -(-shape.inner // LANES)
    rows, columns = min(PASS_ROWS, shape.rows - row), min(PASS_COLUMNS, shape.columns - column)

    def part(values: Any, width: int, full: int, first: int, count: int, places: int) -> tuple[int, ...]:
        """`count` of `places` rows of `width`, each filled up to `full`."""
        found = np.zeros((places, full), np.int64)
        found[:count, :width] = np.reshape(fields(values)[first * width:(first + count) * width], (count, width))
        return tuple(found.ravel().tolist())

    wide, narrow = (shape.inner, groups * LANES), (groups, groups)
    a = [part(values, *widths, row, rows, PASS_ROWS) for values, widths in
         ((state.a_sign, wide), (state.a_mag, wide), (state.a_exp, narrow))]
    b = [part(values, *widths, column, columns, PASS_COLUMNS) for values, widths in
         ((state.b, wide), (state.b_sign, wide), (state.b_exp, narrow), (state.w_scale, narrow))]
    masks = [tuple(int(i < count) for i in range(places))
             for count, places in ((rows, PASS_ROWS), (columns, PASS_COLUMNS))]
    return [*masks, *a, *b]


def group_shape(kind: str, rows: int, columns: int) -> tuple[int, int]:
    """Shape of the exponents of C."""
    return (-(-rows // LANES), columns) if kind == "v" else (rows, -(-columns // LANES))
