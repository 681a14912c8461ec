"""The output-stationary systolic array with pair decoders on two borders.

Paper: [olive §4.3, Fig. 8, Tbl. 11]. A row of A enters each array row at the west border, a column of B each array
column at the north border, K in order. Composed of ovp_decoder; an element does what olive_mac (8-bit types: olive_pe8)
does.
Decisions: D-olive-33 (an accumulator that leaves 32 bits), D-olive-38 (a decoder gives two elements, one a cycle),
D-olive-39 (skew and drain).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from refemu.arith.checks import Refused, require_choice
from refemu.arith.integers import Overflow
from refemu.units import olive_systolic_cases, unit
from refemu.units.olive_edp import OUTLIER
from refemu.units.olive_mac import ACC_BITS, reduce
from refemu.units.ovp_decoder import OvpDecoder
from refemu.units.unit import Cases, Config, Flag, Port, Ports, Stepped, Unit, admit, choices, collect, fields, lanes
from refemu.units.unit_cases import Seeds


class Operand(NamedTuple):
    """What travels between elements: an exponent-integer pair and whether it is one."""

    valid: int
    exponent: int
    integer: int


class Pe(NamedTuple):
    """Registers of one element; they change together at the end of a cycle."""

    a: Operand  #: as its east neighbour reads it
    b: Operand  #: as its south neighbour reads it
    acc: int
    overflow: int  #: some step of this accumulator left 32 bits


NOTHING = Operand(0, 0, 0)
IDLE = Pe(NOTHING, NOTHING, 0, 0)


@dataclass(frozen=True)
class State:
    """Ports and registers after one cycle, and what happened since reset. Matrices are row-major."""

    event: str  #: "reset", "compute" or "drain"
    index: int  #: cycle of the operation, -1 for the reset
    a_pairs: Any  #: a tuple of lanes; an int where a port has one lane, here and below
    b_pairs: Any
    bias_a: int
    bias_b: int
    d: Any
    overflow: Any
    illegal: int
    pes: tuple[Pe, ...]  #: of the grid
    west: tuple[Operand, ...]  #: right element that the decoder of each array row holds
    north: tuple[Operand, ...]  #: and of each array column
    cycles: int
    compute_cycles: int
    drain_cycles: int
    decodes: int  #: pairs decoded
    macs: int
    idle: int  #: element-cycles of `compute` without a product
    overflows: int  #: products that made an accumulator leave 32 bits


COUNTERS = tuple(State.__dataclass_fields__)[-7:]


@dataclass(frozen=True, eq=False)
class Result(unit.Result):
    """What leaves the array, one product of matrices per operation."""

    d: np.ndarray  #: int32, (..., m * n) row-major
    overflow: np.ndarray  #: bool, the same
    illegal: np.ndarray  #: bool: some pair was illegal; it contributes 0
    cycles: int
    compute_cycles: int
    drain_cycles: int
    decodes: int
    macs: int
    idle: int
    overflows: int


class OliveSystolic(Stepped):
    """The array of [olive Fig. 8]: an operation is D = A x B of declared size, one event a cycle."""

    name = "olive_systolic"

    def __init__(
        self,
        rows: int = 64,
        cols: int = 64,
        m: int = 64,
        n: int = 64,
        k: int = 64,
        a: str = "int4",
        b: str = "int4",
        overflow: str = "wrap",
    ) -> None:
        """rows, cols: 4-bit elements; 8-bit types use quads of them, half as many either way. m, n, k: A is m x k, B is
        k x n. a, b: "int4", "flint4" or "int8", of one width. overflow: "wrap" or "saturate".
        """
        for name, kind in (("a", a), ("b", b)):
            require_choice(kind, OUTLIER, self.name, name)
        if (a == "int8") != (b == "int8"):
            raise Refused(f"{self.name}: a and b must have one width, got {a} and {b}")
        quad = 2 if a == "int8" else 1
        if min(rows, cols) < 1 or rows % quad or cols % quad:
            raise Refused(f"{self.name}: rows and cols must be at least 1, and even for int8, got {rows}, {cols}")
        if min(m, n) < 1 or k < 2 or k % 2:
            raise Refused(f"{self.name}: m and n must be at least 1, k even and at least 2, got {m}, {n}, {k}")
        self.overflow = Overflow(require_choice(str(overflow), ("wrap", "saturate"), self.name, "overflow"))
        self.rows, self.cols = rows // quad, cols // quad  #: of the grid
        self.m, self.n, self.k, self.a, self.b = m, n, k, a, b
        self.pes = rows * cols  #: 4-bit elements
        self.decoders = self.rows + self.cols  #: on the borders [olive §4.3]
        self._decoders = [OvpDecoder(kind, OUTLIER[kind]) for kind in (a, b)]
        self.ports = ports({"m": m, "n": n, "k": k, "a": a, "b": b})
        a_pairs, b_pairs, tile = (lanes([0] * count) for count in (m * k // 2, n * k // 2, m * n))
        registers = (IDLE,) * (self.rows * self.cols), (NOTHING,) * self.rows, (NOTHING,) * self.cols
        self.state = State("reset", -1, a_pairs, b_pairs, 0, 0, tile, tile, 0, *registers, 0, 0, 0, 0, 0, 0, 0)

    @property
    def tiles(self) -> tuple[int, int]:
        """Output tiles of an operation, down and across."""
        return -(-self.m // self.rows), -(-self.n // self.cols)

    @property
    def compute(self) -> int:
        """Cycles until the last element has its last product, whatever the size of the tile (D-olive-39)."""
        return self.k + self.rows + self.cols - 2

    @property
    def tile_cycles(self) -> int:
        """Cycles of one output tile: compute, then `rows` of drain; tiles do not overlap."""
        return self.compute + self.rows

    @property
    def busy(self) -> bool:
        """Whether cycles of the operation are left."""
        return 0 <= self.state.index < self.tiles[0] * self.tiles[1] * self.tile_cycles - 1

    def step(self, *inputs: Any) -> State:
        """With inputs (a_pairs, b_pairs, bias_a, bias_b): the first cycle of an operation. Without: the next one.

        Refused: inputs while an operation is on its way, none while there is none.
        """
        if bool(inputs) == self.busy:
            wanted = f"no inputs: cycle {self.state.index} came last" if self.busy else "the inputs of an operation"
            raise Refused(f"{self.name}: step takes {wanted}")
        if not inputs:
            return self._cycle(self.state, self.state.index + 1)
        a_pairs, b_pairs, bias_a, bias_b = self.accept(*inputs)
        zeros = lanes([0] * (self.m * self.n))
        begun = replace(
            self.state,
            a_pairs=a_pairs,
            b_pairs=b_pairs,
            bias_a=bias_a,
            bias_b=bias_b,
            d=zeros,
            overflow=zeros,
            illegal=0,
        )
        return self._cycle(begun, 0)

    def _cycle(self, before: State, index: int) -> State:
        tile, t = divmod(index, self.tile_cycles)
        down, across = divmod(tile, self.tiles[1])
        top, left = down * self.rows, across * self.cols
        before = replace(before, index=index, cycles=before.cycles + 1)
        self.state = self._compute(before, t, top, left) if t < self.compute else self._drain(before, t, top, left)
        return self.state

    def _compute(self, before: State, t: int, top: int, left: int) -> State:
        """Every element reads its neighbours' registers of the last cycle, or its border, and writes its own."""
        west = [self._border(0, before, t - i, top + i, before.west[i]) for i in range(self.rows)]
        north = [self._border(1, before, t - j, left + j, before.north[j]) for j in range(self.cols)]
        pes, macs, overflows = [], 0, 0
        for i in range(self.rows):
            for j in range(self.cols):
                a = before.pes[i * self.cols + j - 1].a if j else west[i].drives
                b = before.pes[(i - 1) * self.cols + j].b if i else north[j].drives
                acc, sticky = before.pes[i * self.cols + j][2:]
                if a.valid and b.valid:
                    acc, over = reduce(acc + (a.integer * b.integer << (a.exponent + b.exponent)), self.overflow)
                    macs, overflows, sticky = macs + 1, overflows + over, sticky | over
                pes.append(Pe(a, b, acc, sticky))
        decoded = [border for border in (*west, *north) if border.decodes]
        return replace(
            before,
            event="compute",
            pes=tuple(pes),
            west=tuple(border.holds for border in west),
            north=tuple(border.holds for border in north),
            decodes=before.decodes + len(decoded),
            illegal=before.illegal | int(any(border.illegal for border in decoded)),
            compute_cycles=before.compute_cycles + 1,
            macs=before.macs + macs,
            idle=before.idle + len(pes) - macs,
            overflows=before.overflows + overflows,
        )

    def _border(self, side: int, before: State, k: int, line: int, held: Operand) -> "Border":
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
        row = top + self.rows - 1 - (t - self.compute)
        d, overflow = list(fields(before.d)), list(fields(before.overflow))
        for j, pe in enumerate(before.pes[-self.cols :]):
            if row < self.m and left + j < self.n:
                d[row * self.n + left + j], overflow[row * self.n + left + j] = pe.acc, pe.overflow
        return replace(
            before,
            event="drain",
            pes=(IDLE,) * self.cols + before.pes[: -self.cols],
            d=lanes(d),
            overflow=lanes(overflow),
            drain_cycles=before.drain_cycles + 1,
        )

    def steps(self, a_pairs: Any, b_pairs: Any, bias_a: Any, bias_b: Any) -> Iterator[State]:
        """Yield the State after every cycle of every operation, in C order; arguments broadcast beside their lanes."""
        arrays = admit(self.name, self.ports.inputs, (a_pairs, b_pairs, bias_a, bias_b))
        flat = [array.reshape(arrays[2].size, *array.shape[arrays[2].ndim :]).tolist() for array in arrays]
        for operation in zip(*flat, strict=True):
            yield self.step(*operation)
            while self.busy:
                yield self.step()

    def __repr__(self) -> str:
        quad = 2 if self.a == "int8" else 1
        return (
            f"OliveSystolic(rows={self.rows * quad}, cols={self.cols * quad}, m={self.m}, n={self.n}, k={self.k}, "
            f"a={self.a!r}, b={self.b!r}, overflow={self.overflow.value!r})"
        )


class Border(NamedTuple):
    """What a border decoder does in one cycle."""

    drives: Operand  #: into the array
    holds: Operand  #: for the next cycle
    decodes: int
    illegal: int


def run(
    a_pairs: Any,
    b_pairs: Any,
    bias_a: Any,
    bias_b: Any,
    *,
    rows: int = 64,
    cols: int = 64,
    m: int = 64,
    n: int = 64,
    k: int = 64,
    a: str = "int4",
    b: str = "int4",
    overflow: str = "wrap",
) -> Result:
    """D = A x B for operations of any shape.

    a_pairs: (..., m * k / 2) pairs of A row by row, bytes or (int8) words of 16 bits. b_pairs: (..., n * k / 2) pairs
    of B column by column. bias_a, bias_b: unsigned, below 16. They broadcast beside their lanes. rows, cols, m, n,
    k, a, b, overflow: as for OliveSystolic. Returns the Result. Refuses a value outside its port. Paper: [olive §4.3].
    """
    array = OliveSystolic(rows, cols, m, n, k, a, b, overflow)
    inputs = admit(array.name, array.ports.inputs, (a_pairs, b_pairs, bias_a, bias_b))
    last = array.tiles[0] * array.tiles[1] * array.tile_cycles - 1
    outputs = collect([s for s in array.steps(*inputs) if s.index == last], array.ports.outputs, inputs[2].shape)
    return Result(**outputs, **{name: getattr(array.state, name) for name in COUNTERS})


def ports(config: Mapping[str, Any]) -> Ports:
    """Widths in one configuration."""
    bits, (m, n, k) = 16 if config["a"] == "int8" else 8, (config[name] for name in "mnk")
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


def cases(config: Config, kind: str, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind; see olive_systolic_cases.py."""
    return olive_systolic_cases.cases(config, ports(config).inputs, kind, seed)


SIZE = {"rows": 4, "cols": 4, "m": 5, "n": 6, "k": 6}  #: of the ready configurations: four tiles, three of them partial

UNIT = Unit(
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
    run=run,
    twin="refemu.units.olive_systolic_jit:run",
    unit_class=OliveSystolic,
    cases=cases,
    mark=olive_systolic_cases.mark,
    flags={
        "OVERFLOW": Flag(0, "some element left 32 bits: wrapped or saturated by configuration (D-olive-33)"),
        "ILLEGAL": Flag(1, "some pair is an identifier beside magnitude 0; it contributes 0 (D-olive-18)"),
    },
    alternatives=choices("D-olive-33", "overflow", "wrap", "saturate"),
)
