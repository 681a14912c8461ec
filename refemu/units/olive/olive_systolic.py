"""The output-stationary systolic array with pair decoders on two borders.

Paper: [olive §4.3, Fig. 8, Tbl. 11]. A row of A enters each array row at the west border, a column of B each array
column at the north border, K in order. Composed of ovp_decoder. An element of the grid adds the exact product of two
exponent-integer pairs to its accumulator and reduces the sum to 32 bits as olive_mac does. With 8-bit types an element
of the grid stands for four 4-bit elements; their partial products and the extra adder are modelled in olive_pe8 alone.

Decisions: D-olive-14 (8-bit outliers), D-olive-33 (an accumulator that leaves 32 bits), D-olive-38 (a decoder gives two
elements, one a cycle), D-olive-39 (skew and drain).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from refemu.arith.checks import Refused, plain
from refemu.units.olive.cases import olive_systolic as olive_systolic_cases
from refemu.units.olive.olive_edp import OPERANDS, WIDE, require_types
from refemu.units.olive.olive_edp import Operand as OperandType
from refemu.units.olive.olive_mac import ACC_BITS, OverflowMode, reduce, require_overflow
from refemu.units.olive.ovp_decoder import OvpDecoder
from refemu.units.ports import Lanes, Port, Ports, fields, lanes
from refemu.units.stepped import Result, Stepped
from refemu.units.unit import Config, Flag, RunFunction, Unit

__all__ = ["UNIT", "OliveSystolic", "Operand", "Pe", "State", "run"]


class Operand(NamedTuple):
    """Exponent-integer pair on its way between elements, with a valid bit."""

    valid: int  #: 1 if there is an element
    exponent: int  #: shift of the integer
    integer: int  #: signed integer


class Pe(NamedTuple):
    """Registers of one element; they change together at the end of a cycle."""

    a: Operand  #: as its east neighbour reads it
    b: Operand  #: as its south neighbour reads it
    acc: int  #: accumulator, 32 signed bits
    overflow: int  #: some step of this accumulator left 32 bits


class Border(NamedTuple):
    """Output and register of a border decoder in one cycle."""

    drives: Operand  #: into the array
    holds: Operand  #: for the next cycle
    decodes: int
    illegal: int


NOTHING = Operand(0, 0, 0)
IDLE = Pe(NOTHING, NOTHING, 0, 0)


@dataclass(frozen=True)
class State:
    """Ports and registers after one cycle, and counts since reset. Matrices are row-major."""

    #: "reset": no operation yet; "compute": operands move one element east and south, pairs enter at the west and north
    #: borders, and every element with two operands adds their product; "drain": accumulators move one row south, and
    #: the bottom row leaves
    event: str
    index: int  #: number of the cycle in its operation, from 0; -1 at reset
    a_pairs: Lanes
    b_pairs: Lanes
    bias_a: int
    bias_b: int
    d: Lanes
    overflow: Lanes
    illegal: int
    #: registers of the elements, row by row: operand for the east and for the south neighbour (each a valid bit,
    #: exponent, integer), accumulator, and 1 if it ever left 32 bits
    pes: tuple[Pe, ...]
    #: right element of the last pair, which the decoder of each array row holds for the next cycle: valid bit,
    #: exponent, integer
    west: tuple[Operand, ...]
    #: right element of the last pair, which the decoder of each array column holds for the next cycle: valid bit,
    #: exponent, integer
    north: tuple[Operand, ...]
    cycles: int  #: cycles since reset
    compute_cycles: int  #: cycles with event "compute"
    drain_cycles: int  #: cycles with event "drain"
    decodes: int  #: pairs decoded at both borders
    macs: int  #: products added to an accumulator
    idle: int  #: cycles of "compute" in which an element had no product to add, summed over the elements
    overflows: int  #: products that made an accumulator leave 32 bits


COUNTERS = ("cycles", "compute_cycles", "drain_cycles", "decodes", "macs", "idle", "overflows")


class OliveSystolic(Stepped[State]):
    """Output-stationary array: an operation is D = A x B of declared size, one event a cycle.

    References
    ----------
    [olive §4.3, Fig. 8]
    """

    name = "olive_systolic"
    a: OperandType
    b: OperandType

    def __init__(
        self,
        rows: int = 64,
        cols: int = 64,
        m: int = 64,
        n: int = 64,
        k: int = 64,
        a: OperandType = "int4",
        b: OperandType = "int4",
        overflow: OverflowMode = "wrap",
    ) -> None:
        """Configure the array and the product.

        Parameters
        ----------
        rows, cols : int
            Rows and columns of 4-bit elements; 8-bit types use quads of them, half as many either way.
        m, n, k : int
            Sizes of the product: A is m x k, B is k x n; k is even.
        a, b : {"int4", "flint4", "int8", "int8_repo"}
            Types of the operands, of one width.
        overflow : {"wrap", "saturate"}
            Rule for an accumulator that leaves 32 bits (D-olive-33).

        Raises
        ------
        Refused
            A size is out of range or odd where it must be even, a type is unknown, or the widths differ.
        """
        self.a, self.b = require_types(self.name, OPERANDS, WIDE, a=a, b=b)
        self.overflow = require_overflow(overflow, self.name)
        self.rows: int = plain(rows)
        self.cols: int = plain(cols)
        self.m: int = plain(m)
        self.n: int = plain(n)
        self.k: int = plain(k)
        quad = 2 if a in WIDE else 1
        if min(rows, cols) < 1 or rows % quad or cols % quad:
            raise Refused(f"{self.name}: rows and cols must be at least 1, and even for int8, got {rows}, {cols}")
        if min(m, n) < 1 or k < 2 or k % 2:
            raise Refused(f"{self.name}: m and n must be at least 1, k even and at least 2, got {m}, {n}, {k}")
        #: rows and columns of elements as wide as the operands
        self.grid: tuple[int, int] = self.rows // quad, self.cols // quad
        self.pes: int = self.rows * self.cols  #: 4-bit elements
        self.decoders: int = self.grid[0] + self.grid[1]  #: on the borders [olive §4.3]
        self._decoders = [OvpDecoder(*OPERANDS[kind]) for kind in (self.a, self.b)]
        self.ports: Ports = ports({name: getattr(self, name) for name in ("m", "n", "k", "a", "b")})
        lines, columns = self.grid
        pes, west, north = (IDLE,) * (lines * columns), (NOTHING,) * lines, (NOTHING,) * columns
        self.state: State = self.reset(State, pes=pes, west=west, north=north)

    @property
    def tiles(self) -> tuple[int, int]:
        """Output tiles of an operation, down and across."""
        return -(-self.m // self.grid[0]), -(-self.n // self.grid[1])

    @property
    def compute(self) -> int:
        """Cycles until the last element has its last product, whatever the size of the tile (D-olive-39)."""
        return self.k + self.grid[0] + self.grid[1] - 2

    @property
    def tile_cycles(self) -> int:
        """Cycles of one output tile: compute, then one of drain for every row of the grid; tiles do not overlap."""
        return self.compute + self.grid[0]

    @property
    def busy(self) -> bool:
        """Whether cycles of the operation are left."""
        return 0 <= self.state.index < self.tiles[0] * self.tiles[1] * self.tile_cycles - 1

    def step(
        self,
        a_pairs: Sequence[int] | None = None,
        b_pairs: Sequence[int] | None = None,
        bias_a: int | None = None,
        bias_b: int | None = None,
    ) -> State:
        """Run the first cycle of an operation; without inputs, the next one.

        `a_pairs` holds the rows of A one after the other, `b_pairs` the columns of B; an int where there is one pair.
        """
        return self._stepped(a_pairs=a_pairs, b_pairs=b_pairs, bias_a=bias_a, bias_b=bias_b)

    def _open(self, a_pairs: Lanes, b_pairs: Lanes, bias_a: int, bias_b: int) -> State:
        zeros = lanes([0] * (self.m * self.n))
        return self._cycle(self.latched(a_pairs, b_pairs, bias_a, bias_b, d=zeros, overflow=zeros, illegal=0), 0)

    def _continue(self) -> State:
        return self._cycle(self.state, self.state.index + 1)

    def _cycle(self, before: State, index: int) -> State:
        tile, t = divmod(index, self.tile_cycles)
        down, across = divmod(tile, self.tiles[1])
        top, left = down * self.grid[0], across * self.grid[1]
        before = replace(before, index=index, cycles=before.cycles + 1)
        self.state = self._compute(before, t, top, left) if t < self.compute else self._drain(before, t, top, left)
        return self.state

    def _compute(self, before: State, t: int, top: int, left: int) -> State:
        """Every element reads its neighbours' registers of the last cycle, or its border, and writes its own."""
        (rows, cols), reduced = self.grid, []
        west = [self._border(0, before, t - i, top + i, before.west[i]) for i in range(rows)]
        north = [self._border(1, before, t - j, left + j, before.north[j]) for j in range(cols)]
        for i in range(rows):
            for j in range(cols):
                a = before.pes[i * cols + j - 1].a if j else west[i].drives
                b = before.pes[(i - 1) * cols + j].b if i else north[j].drives
                reduced.append(self._multiplied(before.pes[i * cols + j], a, b))
        macs = len([pe for pe, _ in reduced if pe.a.valid and pe.b.valid])
        decoded = [border for border in (*west, *north) if border.decodes]
        return replace(
            before,
            event="compute",
            pes=tuple(pe for pe, _ in reduced),
            west=tuple(border.holds for border in west),
            north=tuple(border.holds for border in north),
            decodes=before.decodes + len(decoded),
            illegal=before.illegal | int(any(border.illegal for border in decoded)),
            compute_cycles=before.compute_cycles + 1,
            macs=before.macs + macs,
            idle=before.idle + len(reduced) - macs,
            overflows=before.overflows + len([over for _, over in reduced if over]),
        )

    def _multiplied(self, pe: Pe, a: Operand, b: Operand) -> tuple[Pe, int]:
        """An element with the operands of a cycle, and 1 if its accumulator left 32 bits in it."""
        if not (a.valid and b.valid):
            return Pe(a, b, pe.acc, pe.overflow), 0
        acc, over = reduce(pe.acc + (a.integer * b.integer << (a.exponent + b.exponent)), self.overflow)
        return Pe(a, b, acc, pe.overflow | over), over

    def _border(self, side: int, before: State, k: int, line: int, held: Operand) -> Border:
        """The decoder of an array row (side 0) or column (1) at element k of its line; works at even k (D-olive-38)."""
        pairs, bias, lines = ((before.a_pairs, before.bias_a, self.m), (before.b_pairs, before.bias_b, self.n))[side]
        if not (0 <= k < self.k and line < lines):
            return Border(NOTHING, NOTHING, 0, 0)
        if k % 2:
            return Border(held, NOTHING, 0, 0)
        state = self._decoders[side].step(fields(pairs)[(line * self.k + k) // 2], bias)
        first, second = (Operand(1, e, i) for e, i in zip(state.exponent, state.base_int, strict=True))
        return Border(first, second, 1, state.illegal)

    def _drain(self, before: State, t: int, top: int, left: int) -> State:
        """The bottom row leaves, every row moves down by one, zeros enter at the top."""
        rows, cols = self.grid
        row = top + rows - 1 - (t - self.compute)
        d, overflow = list(fields(before.d)), list(fields(before.overflow))
        for j, pe in enumerate(before.pes[-cols:]):
            if row < self.m and left + j < self.n:
                d[row * self.n + left + j], overflow[row * self.n + left + j] = pe.acc, pe.overflow
        return replace(
            before,
            event="drain",
            pes=(IDLE,) * cols + before.pes[:-cols],
            d=lanes(d),
            overflow=lanes(overflow),
            drain_cycles=before.drain_cycles + 1,
        )


def ports(config: Mapping[str, Any]) -> Ports:
    """Ports in one configuration."""
    bits, (m, n, k) = 16 if config["a"] in WIDE else 8, (config[name] for name in "mnk")
    return Ports(
        inputs=(
            Port("a_pairs", bits, m * k // 2, encoding=f"ovp_{config['a']}", meaning="pairs of A, by rows"),
            Port("b_pairs", bits, n * k // 2, encoding=f"ovp_{config['b']}", meaning="pairs of B, by columns"),
            Port("bias_a", 4, meaning="outlier bias of A"),
            Port("bias_b", 4, meaning="outlier bias of B"),
        ),
        outputs=(
            Port("d", ACC_BITS, m * n, signed=True, meaning="D, row-major"),
            Port("overflow", 1, m * n, meaning="some step of the element left 32 signed bits"),
            Port("illegal", 1, meaning="some pair is illegal; it contributes 0"),
        ),
    )


SIZE = {"rows": 4, "cols": 4, "m": 5, "n": 6, "k": 6}  #: of the ready configurations: four tiles, three of them partial

UNIT: Unit[State, Result] = Unit(
    name="olive_systolic",
    paper="olive §4.3, Fig. 8, Tbl. 11",
    meaning="output-stationary array, decoders on two borders",
    configs={
        "int4": Config(**SIZE, a="int4", b="int4", overflow="wrap"),
        "flint4": Config(**SIZE, a="flint4", b="flint4", overflow="wrap"),
        "int4_flint4": Config(**SIZE, a="int4", b="flint4", overflow="wrap"),
        "flint4_int4": Config(**SIZE, a="flint4", b="int4", overflow="wrap"),
        "int8": Config(**SIZE, a="int8", b="int8", overflow="wrap"),
        "int8_saturate": Config(**SIZE, a="int8", b="int8", overflow="saturate"),
    },
    ports=ports,
    unit_class=OliveSystolic,
    cases=olive_systolic_cases.cases,
    counters=COUNTERS,
    mark=olive_systolic_cases.mark,
    flags={
        "OVERFLOW": Flag(0, "some element left 32 bits: wrapped or saturated by configuration (D-olive-33)"),
        "ILLEGAL": Flag(1, "some pair is an identifier beside magnitude 0; it contributes 0 (D-olive-18)"),
    },
)
run: RunFunction[Result] = UNIT.run
