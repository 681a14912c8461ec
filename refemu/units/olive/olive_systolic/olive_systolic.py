"""The output-stationary systolic array with pair decoders on two borders.

Paper: [olive §4.3, Fig. 8, Tbl. 11]. A row of A enters each array row at the west border, a column of B each array
column at the north border, K in order. Composed of ovp_decoder. An element of the grid adds the exact product of two
exponent-integer pairs to its accumulator and reduces the sum to 32 bits as olive_mac does. With 8-bit types an element
of the grid represents four 4-bit elements; olive_pe8 alone models their partial products and the extra adder.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

from refemu.arith.checks import Refused
from refemu.units import AnyUnit, Changes, Combinational, Config, Flag, Lanes, Port, Ports, Unit, constant, decides
from refemu.units.olive.olive_edp import OPERANDS, WIDE
from refemu.units.olive.olive_edp import Operand as OperandType
from refemu.units.olive.olive_edp.olive_edp import require_one_width
from refemu.units.olive.olive_mac import ACC_BITS, BEYOND, OverflowMode, reduce
from refemu.units.olive.ovp_decoder import OvpDecoder
from refemu.units.unit import DeclaredState, Result, RunFunction

__all__ = ["UNIT", "OliveSystolic", "Operand", "Pe", "State", "run"]


class Operand(NamedTuple):
    """Exponent-integer pair in transit between elements, with a valid bit."""

    valid: int  #: 1 if there is an element
    exponent: int  #: shift of the integer
    integer: int  #: signed integer


class Pe(NamedTuple):
    """Registers of one element; they change together at the end of a cycle."""

    a: Operand  #: as its east neighbour reads it
    b: Operand  #: as its south neighbour reads it
    acc: int  #: accumulator, 32 signed bits
    overflow: int  #: a step of this accumulator exceeded 32 bits


class Border(NamedTuple):
    """Output and register of a border decoder in one cycle."""

    drives: Operand  #: into the array
    holds: Operand  #: for the next cycle
    decodes: int
    illegal: int


NOTHING = Operand(0, 0, 0)
IDLE = Pe(NOTHING, NOTHING, 0, 0)


class OliveSystolic(Combinational):
    """Output-stationary array: an operation is D = A x B of declared size, one event a cycle.

    `a_pairs` holds the rows of A one after the other, `b_pairs` the columns of B; each is an int if it has one pair.
    """

    name = "olive_systolic"
    events: ClassVar[tuple[str, ...]] = ("compute", "drain")
    counters: ClassVar[dict[str, str]] = {
        "cycles": "cycles since reset",
        "compute_cycles": 'cycles with event "compute"',
        "drain_cycles": 'cycles with event "drain"',
        "decodes": "pairs decoded at both borders",
        "macs": "products added to an accumulator",
        "idle": 'cycles of "compute" in which an element had no product to add, summed over the elements',
        "overflows": "products that made an accumulator exceed 32 bits",
    }
    registers: ClassVar[dict[str, str]] = {
        "cycle": "number of the last cycle in its operation, from 0",
        "pes": "registers of the elements, row by row: operand for the east and for the south neighbour (each a valid "
        "bit, exponent, integer), accumulator, and 1 if it ever exceeded 32 bits",
        "west": "right element of the last pair, which the decoder of each array row holds for the next cycle: valid "
        "bit, exponent, integer",
        "north": "right element of the last pair, which the decoder of each array column holds for the next cycle: "
        "valid bit, exponent, integer",
    }
    rows: int = 64  #: rows of 4-bit elements; 8-bit types use quads of them, half as many either way
    cols: int = 64  #: columns of 4-bit elements
    m: int = 64  #: rows of A
    n: int = 64  #: columns of B
    k: int = 64  #: columns of A and rows of B; even
    a: OperandType = "int4"  #: type of A
    b: OperandType = "int4"  #: type of B, of the same width
    overflow: OverflowMode = "wrap"  #: rule for an accumulator that exceeds 32 bits (D-olive-33)

    def check(self) -> None:
        require_one_width(self.name, WIDE, a=self.a, b=self.b)
        rows, cols, m, n, k, quad = self.rows, self.cols, self.m, self.n, self.k, self.quad
        if min(rows, cols) < 1 or rows % quad or cols % quad:
            raise Refused(f"{self.name}: rows and cols must be at least 1, and even for int8, got {rows}, {cols}")
        if min(m, n) < 1 or k < 2 or k % 2:
            raise Refused(f"{self.name}: m and n must be at least 1, k even and at least 2, got {m}, {n}, {k}")

    @constant
    def ports(self) -> Ports:
        bits, m, n, k = 16 if self.a in WIDE else 8, self.m, self.n, self.k
        return Ports(
            inputs=(
                Port("a_pairs", bits, m * k // 2, encoding=f"ovp_{self.a}", meaning="pairs of A, by rows"),
                Port("b_pairs", bits, n * k // 2, encoding=f"ovp_{self.b}", meaning="pairs of B, by columns"),
                Port("bias_a", 4, meaning="outlier bias of A"),
                Port("bias_b", 4, meaning="outlier bias of B"),
            ),
            outputs=(
                Port("d", ACC_BITS, m * n, signed=True, meaning="D, row-major"),
                Port("overflow", 1, m * n, meaning="a step of the element exceeded 32 signed bits"),
                Port("illegal", 1, meaning="a pair is illegal; it contributes 0"),
            ),
        )

    @constant
    def quad(self) -> int:
        """4-bit elements per 8-bit element, in either direction."""
        return 2 if self.a in WIDE else 1

    @constant
    def grid(self) -> tuple[int, int]:
        """Rows and columns of elements as wide as the operands."""
        return self.rows // self.quad, self.cols // self.quad

    @constant
    def initial(self) -> Mapping[str, Any]:
        """Clear what is in transit between elements."""
        rows, cols = self.grid
        return {"pes": (IDLE,) * (rows * cols), "west": (NOTHING,) * rows, "north": (NOTHING,) * cols}

    @constant
    def _decoders(self) -> list[OvpDecoder]:
        return [OvpDecoder(*OPERANDS[kind]) for kind in (self.a, self.b)]

    @constant
    def pes(self) -> int:
        """4-bit elements."""
        return self.rows * self.cols

    @constant
    def decoders(self) -> int:
        """Decoders on the borders [olive §4.3]."""
        return self.grid[0] + self.grid[1]

    @constant
    def tiles(self) -> tuple[int, int]:
        """Output tiles of an operation, down and across."""
        return -(-self.m // self.grid[0]), -(-self.n // self.grid[1])

    @constant
    @decides("D-olive-39")
    def compute_time(self) -> int:
        """Cycles until the last element has its last product, whatever the size of the tile."""
        return self.k + self.grid[0] + self.grid[1] - 2

    @constant
    def tile_cycles(self) -> int:
        """Cycles of one output tile: compute, then one of drain for every row of the grid; tiles do not overlap."""
        return self.compute_time + self.grid[0]

    @property
    def busy(self) -> bool:
        """Whether cycles of the operation remain."""
        return self.state.index >= 0 and self.state.cycle < self.tiles[0] * self.tiles[1] * self.tile_cycles - 1

    def follows(self) -> str:
        return "compute" if self._place(self.state.cycle + 1)[0] < self.compute_time else "drain"

    def _place(self, cycle: int) -> tuple[int, int, int]:
        """The number of a cycle in its tile; first row and column of the tile."""
        tile, t = divmod(cycle, self.tile_cycles)
        down, across = divmod(tile, self.tiles[1])
        return t, down * self.grid[0], across * self.grid[1]

    def compute(self, *inputs: int | Lanes) -> Changes:
        """Move operands one element east and south, let pairs enter at both borders, and add products.

        Every element reads its neighbours' registers of the last cycle, or its border, and writes its own.
        """
        before, (rows, cols), reduced = self.state, self.grid, []
        cycle, illegal, cleared = before.cycle + 1, before.illegal, {}
        if inputs:
            zeros = (0,) * (self.m * self.n)
            cycle, illegal, cleared = 0, 0, {"d": zeros, "overflow": zeros}
        operands: Any = inputs or (before.a_pairs, before.b_pairs, before.bias_a, before.bias_b)
        a_pairs, b_pairs, bias_a, bias_b = operands
        sides = (a_pairs, bias_a, self.m), (b_pairs, bias_b, self.n)
        t, top, left = self._place(cycle)
        west = [self._border(0, sides[0], t - i, top + i, before.west[i]) for i in range(rows)]
        north = [self._border(1, sides[1], t - j, left + j, before.north[j]) for j in range(cols)]
        for i in range(rows):
            for j in range(cols):
                a = before.pes[i * cols + j - 1].a if j else west[i].drives
                b = before.pes[(i - 1) * cols + j].b if i else north[j].drives
                reduced.append(self._multiplied(before.pes[i * cols + j], a, b))
        macs = len([pe for pe, _ in reduced if pe.a.valid and pe.b.valid])
        decoded = [border for border in (*west, *north) if border.decodes]
        return {
            **cleared,
            "cycle": cycle,
            "illegal": illegal | int(any(border.illegal for border in decoded)),
            "pes": tuple(pe for pe, _ in reduced),
            "west": tuple(border.holds for border in west),
            "north": tuple(border.holds for border in north),
            "cycles": 1,
            "compute_cycles": 1,
            "decodes": len(decoded),
            "macs": macs,
            "idle": len(reduced) - macs,
            "overflows": len([over for _, over in reduced if over]),
        }

    def _multiplied(self, pe: Pe, a: Operand, b: Operand) -> tuple[Pe, int]:
        """An element with the operands of a cycle, and 1 if its accumulator exceeded 32 bits in this cycle."""
        if not (a.valid and b.valid):
            return Pe(a, b, pe.acc, pe.overflow), 0
        acc, over = reduce(pe.acc + (a.integer * b.integer << (a.exponent + b.exponent)), self.overflow)
        return Pe(a, b, acc, pe.overflow | over), over

    @decides("D-olive-38")
    def _border(self, side: int, operand: tuple[Any, int, int], k: int, line: int, held: Operand) -> Border:
        """The decoder of an array row (side 0) or column (1) at element k of its line; works at even k."""
        pairs, bias, lines = operand
        if not (0 <= k < self.k and line < lines):
            return Border(NOTHING, NOTHING, 0, 0)
        if k % 2:
            return Border(held, NOTHING, 0, 0)
        decoded = self._decoders[side].decode(pairs[(line * self.k + k) // 2], bias)
        first, second = (Operand(1, e, i) for e, i in zip(decoded["exponent"], decoded["base_int"], strict=True))
        return Border(first, second, 1, decoded["illegal"])

    def drain(self) -> Changes:
        """Move accumulators one row south; the bottom row leaves, zeros enter at the top."""
        before, (rows, cols) = self.state, self.grid
        t, top, left = self._place(before.cycle + 1)
        row = top + rows - 1 - (t - self.compute_time)
        d, overflow = list(before.d), list(before.overflow)
        for j, pe in enumerate(before.pes[-cols:]):
            if row < self.m and left + j < self.n:
                d[row * self.n + left + j], overflow[row * self.n + left + j] = pe.acc, pe.overflow
        pes = (IDLE,) * cols + before.pes[:-cols]
        moved = {"cycle": before.cycle + 1, "pes": pes, "d": tuple(d), "overflow": tuple(overflow)}
        return {**moved, "cycles": 1, "drain_cycles": 1}


SIZE = {"rows": 4, "cols": 4, "m": 5, "n": 6, "k": 6}  #: of the ready configurations: four tiles, three of them partial

UNIT: AnyUnit = Unit(
    unit_class=OliveSystolic,
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
    flags={
        "OVERFLOW": Flag(0, f"an element {BEYOND}", "overflow"),
        "ILLEGAL": Flag(1, "a pair is an identifier next to magnitude 0; it contributes 0 (D-olive-18)", "illegal"),
    },
)
State: type[DeclaredState] = OliveSystolic.State
run: RunFunction[Result] = UNIT.run
