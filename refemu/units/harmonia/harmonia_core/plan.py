"""The plan of harmonia_core: the steps of [harmonia §IV-A, Fig. 12] in order, block by block."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias

from refemu.units.harmonia.fdgf import COMPUTE, FETCH_A, FETCH_B, PASS_COLUMNS, PASS_ROWS, FdgfController, passes

LANES = 32
HEADS = ("q", "k")  #: kinds whose groups end with their heads

Kind: TypeAlias = Literal["q", "k", "v", "score", "context", "linear", "final"]  #: of C
Activation: TypeAlias = Literal["none", "silu", "relu", "gelu_erf", "gelu_tanh"]  #: activation of the vector unit
Bias: TypeAlias = Literal["none", "after", "accumulator"]  #: bias added after FP2Half in FP16, or before it in FP32
Rotation: TypeAlias = Literal["half", "interleaved", "none"]  #: pairs (i, i + d / 2), (2i, 2i + 1), or none
Block: TypeAlias = tuple[int, int, int, int]  #: row, column, rows, columns


class Shape(NamedTuple):
    """Parameters of the plan."""

    kind: Kind  #: of C
    rows: int  #: M
    inner: int  #: N
    columns: int  #: K
    tile_m: int  #: rows of a tile
    tile_k: int  #: columns of a tile
    head_dim: int  #: channels of a head of q and k
    force: int  #: 1 B stays, 2 A stays, 0 what FDGF chooses
    activation: Activation  #: of kinds "linear" and "final"
    rotation: Rotation  #: of q and k
    bias_add: Bias  #: where a bias is added
    shifted: bool  #: whether offsets are subtracted from keys
    tracked: int  #: first rows: keys that choose the offsets and wait for them


class Action(NamedTuple):
    """One event: a rectangle of C, or what is fetched."""

    event: str  #: "load", "dispatch", "compute", "fp2half", "bias", "vector", "offset", "convert" or "store"
    row: int  #: first row; in a load the tile of rows
    column: int  #: first column; in a load the tile of columns
    rows: int
    columns: int
    number: int  #: elements loaded, stored or biased, tiles of the array, columns converted


@lru_cache(maxsize=32)
def plan(shape: Shape) -> tuple[Action, ...]:
    """Every event of one product. Vector unit, offsets and converter follow as soon as their inputs are computed."""
    controller, actions, planner = FdgfController(shape.tile_m, shape.tile_k), list[Action](), Planner(shape)
    for tile in controller.tiles(shape.rows, shape.inner, shape.columns, shape.force):
        if tile.code in (FETCH_A, FETCH_B):
            actions.append(
                Action("load", tile.mt, tile.kt, int(tile.code == FETCH_A), int(tile.code == FETCH_B), tile.elements)
            )
        if tile.code == COMPUTE:
            for block in _blocks(shape, tile.mt, tile.kt, tile.dataflow):
                actions += planner.computed(block)
    return tuple(actions)


def _blocks(shape: Shape, mt: int, kt: int, dataflow: int) -> list[Block]:
    """Rectangles of a tile, 8 x 32 or for V 32 x 16, in the order of the passes."""
    top, left = mt * shape.tile_m, kt * shape.tile_k
    height, width = min(shape.tile_m, shape.rows - top), min(shape.tile_k, shape.columns - left)
    v = shape.kind == "v"
    tall, broad = (4, 1) if v else (1, 2)
    order = passes(-(-height // PASS_ROWS), -(-width // PASS_COLUMNS), dataflow, int(v))
    corners = dict.fromkeys(
        (row // tall * tall * PASS_ROWS, column // broad * broad * PASS_COLUMNS) for row, column in order
    )
    return [
        (top + row, left + column, min(tall * PASS_ROWS, height - row), min(broad * PASS_COLUMNS, width - column))
        for row, column in corners
    ]


class Parts:
    """C divided into parts of some rows and the columns between two edges, with counts of missing elements."""

    def __init__(self, rows: int, height: int, edges: list[int]) -> None:
        """edges: column numbers, ascending, from 0 to the number of columns."""
        self.rows: int = rows
        self.height: int = height
        self.edges: list[int] = edges
        self._missing: dict[tuple[int, int], int] = {}

    def fill(self, block: Block) -> list[Block]:
        """Parts that a new block completes, row by row."""
        row, column, rows, columns = block
        complete, edges = list[Block](), self.edges
        for top in range(row // self.height * self.height, row + rows, self.height):
            high = min(self.height, self.rows - top)
            tall = min(top + high, row + rows) - max(top, row)
            for place in range(bisect_right(edges, column) - 1, bisect_left(edges, column + columns)):
                left, right = edges[place : place + 2]
                broad = min(right, column + columns) - max(left, column)
                missing = self._missing.pop((top, left), high * (right - left)) - tall * broad
                if missing:
                    self._missing[top, left] = missing
                else:
                    complete.append((top, left, high, right - left))
        return complete


class Planner:
    """Parts of C that are computed, and the contents of the temporary SRAM."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        width = vector_width(shape)
        self.vectors: Parts | None = Parts(shape.rows, PASS_ROWS, _multiples(shape.columns, width)) if width else None
        tall = LANES if shape.kind == "v" else PASS_ROWS
        self.groups: Parts = Parts(shape.rows, tall, group_edges(shape))
        self.shifted: int = 0  #: rows that went through the offsets, in order
        self.left: int = 0  #: rows of keys that left the temporary SRAM
        self.waiting: dict[int, list[Block]] = {}  #: groups of keys before the offsets, by their first row

    def computed(self, block: Block) -> Iterator[Action]:
        """Events of a block, and of everything whose last missing part it was."""
        _, _, rows, columns = block
        high = -(-rows // PASS_ROWS)
        tiles = high * -(-columns // PASS_COLUMNS)
        numbers = {"dispatch": tiles, "compute": tiles, "fp2half": high * columns, "bias": rows * columns}
        order = {"none": ("fp2half",), "after": ("fp2half", "bias"), "accumulator": ("bias", "fp2half")}
        for event in ("dispatch", "compute", *order[self.shape.bias_add]):
            yield Action(event, *block, numbers[event])
        ready = self.vectors.fill(block) if self.vectors else [block]
        for part in ready if self.vectors else ():
            yield Action("vector", *part, part[2] * part[3])
        for group in [group for part in ready for group in self.groups.fill(part)]:
            if self.shape.shifted:
                self.waiting.setdefault(group[0], []).append(group)
            else:
                yield from self._leave(group)
        if self.shape.shifted:
            yield from self._keys()

    def _keys(self) -> Iterator[Action]:
        """Tokens whose heads are complete, in order; those of the window leave after the last of them."""
        shape, whole = self.shape, len(self.groups.edges) - 1
        while self.shifted < shape.rows and len(self.waiting.get(self.shifted, ())) == whole:
            rows = min(PASS_ROWS, shape.rows - self.shifted)
            yield Action("offset", self.shifted, 0, rows, shape.columns, rows * shape.columns)
            self.shifted += rows
            while self.shifted >= shape.tracked and self.left < self.shifted:
                for group in self.waiting.pop(self.left):
                    yield from self._leave(group)
                self.left += PASS_ROWS

    def _leave(self, group: Block) -> Iterator[Action]:
        if self.shape.kind != "final":
            yield Action("convert", *group, group[3])
        yield Action("store", *group, group[2] * group[3])


def vector_width(shape: Shape) -> int:
    """Columns of 8 rows that the vector unit takes at once: a head, whole rows of scores, a block; 0: none."""
    if shape.kind in HEADS:
        return shape.head_dim if shape.rotation != "none" else 0
    return shape.columns if shape.kind == "score" else LANES * (shape.activation != "none")


def group_edges(shape: Shape) -> list[int]:
    """Edges of groups of columns; for V, of the columns that its converter takes at once. [harmonia §IV-C]"""
    if shape.kind == "v":
        return _multiples(shape.columns, PASS_COLUMNS)
    if shape.kind not in HEADS:
        return _multiples(shape.columns, LANES)
    heads = range(0, shape.columns, shape.head_dim)
    return [head + edge for head in heads for edge in _multiples(shape.head_dim, LANES)[:-1]] + [shape.columns]


def _multiples(length: int, width: int) -> list[int]:
    return [*range(0, length, width), length]


def group_shape(kind: Kind, rows: int, columns: int, head_dim: int) -> tuple[int, int]:
    """Shape of the exponents of C: groups along the rows of V, along each head of queries and keys, else along rows."""
    if kind == "v":
        return -(-rows // LANES), columns
    width = head_dim if kind in HEADS else columns
    return rows, columns // width * -(-width // LANES)
