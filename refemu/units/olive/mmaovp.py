"""The instruction mmaovp: D = A x B + C on a tile of pairs, m8n8k32 for 4-bit and m8n8k16 for 8-bit types.

Paper: [olive §4.6]. Composed of olive_edp. Decisions: D-olive-21 (operands of the instruction, unsigned biases),
D-olive-33 (a result that leaves 32 bits), D-olive-34 (one reduction per dot product operation).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from refemu.arith.checks import Refused, RefusedType, require_choice, require_range
from refemu.arith.records import parameters
from refemu.units import mmaovp_cases, unit
from refemu.units.olive_edp import DotProductUnit
from refemu.units.olive_mac import ACC_BITS
from refemu.units.unit import Cases, Config, Flag, Port, Ports, Stepped, Unit, admit, choices, collect
from refemu.units.unit_cases import Seeds

TYPES = {"ovpi4": "int4", "ovpf4": "flint4", "ovpi8": "int8"}  #: operand types of the instruction
ROWS = COLUMNS = 8  #: of the tile of D
CHUNKS = 2  #: dot product operations that one element of D needs
EDPS = 16  #: of a tensor core: 2 octets of 8, so 16 operations a cycle [olive §4.1, Tbl. 5]
PRODUCTS = {4: 16, 8: 8, 16: 4}  #: of a dot product unit, by the bits of its operands [olive §4.1]


@dataclass(frozen=True)
class State:
    """Ports after one event, and what happened since reset."""

    event: str  #: "reset" or "edp", one dot product operation
    index: int  #: number of the operation in its tile: row, column, chunk of K, the last fastest; -1 for the reset
    a_pairs: tuple[int, ...]
    b_pairs: tuple[int, ...]
    bias_a: int
    bias_b: int
    c: tuple[int, ...]
    d: tuple[int, ...]
    overflow: tuple[int, ...]
    illegal: int
    operations: int  #: dot products
    macs: int
    decodes: int
    overflows: int  #: operations that left 32 bits
    illegal_operations: int
    cycles: int  #: of a tensor core


COUNTERS = tuple(State.__dataclass_fields__)[-6:]


@dataclass(frozen=True, eq=False)
class Result(unit.Result):
    """What leaves the unit, one tile per instruction."""

    d: np.ndarray  #: int32, (..., 64) row-major
    overflow: np.ndarray  #: bool, (..., 64): some chunk left 32 bits
    illegal: np.ndarray  #: bool: some pair was illegal; it contributes 0
    operations: int
    macs: int
    decodes: int
    overflows: int
    illegal_operations: int
    cycles: int


class MmaOvp(Stepped):
    """A tensor core that executes mmaovp: an instruction is 128 dot product operations, one event each."""

    name = "mmaovp"

    def __init__(self, a_type: str = "ovpi4", b_type: str = "ovpi4", overflow: str = "wrap") -> None:
        """a_type, b_type: "ovpi4", "ovpf4" or "ovpi8", of one width. overflow: "wrap" or "saturate"."""
        for name, kind in (("a_type", a_type), ("b_type", b_type)):
            require_choice(kind, TYPES, self.name, name)
        if (a_type == "ovpi8") != (b_type == "ovpi8"):
            raise Refused(f"{self.name}: a_type and b_type must have one width, got {a_type} and {b_type}")
        require_choice(str(overflow), ("wrap", "saturate"), self.name, "overflow")
        self.a_type, self.b_type, self.overflow = a_type, b_type, str(overflow)
        self._edp = DotProductUnit(TYPES[a_type], TYPES[b_type], overflow)
        self.chunk = self._edp.n // 2  #: pairs of one operation
        self.k = CHUNKS * self._edp.n
        self.ports = ports({"a_type": a_type, "b_type": b_type})
        pairs, tile = (0,) * (ROWS * CHUNKS * self.chunk), (0,) * (ROWS * COLUMNS)
        self.state = State("reset", -1, pairs, pairs, 0, 0, tile, tile, tile, 0, 0, 0, 0, 0, 0, 0)

    @property
    def mnemonic(self) -> str:
        """Types of D, A, B, C and of the biases (D-olive-21)."""
        return f"mmaovp.s32.{self.a_type}.{self.b_type}.s32.s4.s4"

    @property
    def busy(self) -> bool:
        """Whether operations of the tile are left."""
        return 0 <= self.state.index < ROWS * COLUMNS * CHUNKS - 1

    def step(self, *inputs: Any) -> State:
        """With inputs (a_pairs, b_pairs, bias_a, bias_b, c): the tile's first operation. Without: the next one.

        Refused: inputs while a tile is on its way, none while there is none.
        """
        if bool(inputs) == self.busy:
            wanted = f"no inputs: operation {self.state.index} came last" if self.busy else "the inputs of a tile"
            raise Refused(f"{self.name}: step takes {wanted}")
        if not inputs:
            return self._operate(self.state, self.state.index + 1)
        a_pairs, b_pairs, bias_a, bias_b, c = self.accept(*inputs)
        begun = replace(
            self.state,
            event="edp",
            a_pairs=a_pairs,
            b_pairs=b_pairs,
            bias_a=bias_a,
            bias_b=bias_b,
            c=c,
            d=c,
            overflow=(0,) * len(c),
            illegal=0,
        )
        return self._operate(begun, 0)

    def _operate(self, before: State, index: int) -> State:
        """Operation `index`: row i of A by column j of B over one chunk, onto the d of the chunk before."""
        tile, chunk = divmod(index, CHUNKS)
        i, j = divmod(tile, COLUMNS)
        left, right = ((side * CHUNKS + chunk) * self.chunk for side in (i, j))
        edp = self._edp.step(
            before.a_pairs[left : left + self.chunk],
            before.b_pairs[right : right + self.chunk],
            before.bias_a,
            before.bias_b,
            before.d[tile],
        )
        while self._edp.busy:
            edp = self._edp.step()
        cycle_ends = int(index % EDPS == EDPS - 1)
        self.state = replace(
            before,
            index=index,
            d=_put(before.d, tile, edp.d),
            overflow=_put(before.overflow, tile, before.overflow[tile] | edp.overflow),
            illegal=before.illegal | edp.illegal,
            operations=before.operations + 1,
            macs=before.macs + self._edp.n,
            decodes=before.decodes + self._edp.n,
            overflows=before.overflows + edp.overflow,
            illegal_operations=before.illegal_operations + edp.illegal,
            cycles=before.cycles + cycle_ends,
        )
        return self.state

    def steps(self, a_pairs: Any, b_pairs: Any, bias_a: Any, bias_b: Any, c: Any) -> Iterator[State]:
        """Yield the State after every operation of every tile, in C order; arguments broadcast beside their lanes."""
        yield from self.operations(admit(self.name, self.ports.inputs, (a_pairs, b_pairs, bias_a, bias_b, c)))

    def __repr__(self) -> str:
        return f"MmaOvp(a_type={self.a_type!r}, b_type={self.b_type!r}, overflow={self.overflow!r})"


def _put(values: tuple[int, ...], place: int, value: int) -> tuple[int, ...]:
    return (*values[:place], value, *values[place + 1 :])


@parameters
class Gpu:
    """How many of each block a GPU with these tensor cores has: [olive Tbl. 5, Tbl. 10], Turing by default.

    bits: 4 or 8, of the operands, or 16 for the tensor core without pairs: an EDP of four products of 16-bit floats.
    """

    bits: int = 4
    sms: int = 68  #: streaming multiprocessors
    cores_per_sm: int = 8

    def __post_init__(self) -> None:
        require_choice(self.bits, PRODUCTS, "Gpu", "bits")
        for name in ("sms", "cores_per_sm"):
            require_range(getattr(self, name), 1, 1 << 16, "Gpu", name)

    @property
    def tensor_cores(self) -> int:
        """Of all streaming multiprocessors."""
        return self.sms * self.cores_per_sm

    @property
    def edps(self) -> int:
        """Dot product units."""
        return self.tensor_cores * EDPS

    @property
    def multipliers(self) -> int:
        """Products that start in one cycle."""
        return self.edps * PRODUCTS[self.bits]

    @property
    def pair_decoders(self) -> int:
        """One for every pair of both operands of every EDP; none for 16-bit floats, which are not pairs."""
        return self.multipliers if self.bits < 16 else 0

    def operations_per_second(self, megahertz: int = 1545) -> int:
        """Multiplications and additions. The paper states no clock; 1,545 MHz gives its three figures [olive §4.1]."""
        return 2 * self.multipliers * megahertz * 10**6


def fragments(a_pairs: Any, b_pairs: Any, c: Any) -> dict[str, np.ndarray]:
    """The 32-bit registers of the 32 lanes of a warp, in the layout of Turing's integer mma.

    a_pairs, b_pairs: integers, (..., 128) bytes or (..., 64) words of 16 bits, as for `run`. c: int32 (..., 64), C or
    D. Lane l has g = l >> 2 and t = l & 3: of row g of A and column g of B the elements 8t to 8t + 7 (8 bit: 4t to
    4t + 3), element 8t in the low bits; of C and D row g, columns 2t and 2t + 1. Returns uint32 `a`, `b` (..., 32) and
    `c` (..., 32, 2). Refuses values outside their port, other numbers of lanes, and A and B of different widths.
    """
    kind = "ovpi8" if np.shape(a_pairs)[-1:] == (64,) else "ovpi4"
    operands = [port for port in ports({"a_type": kind, "b_type": kind}).inputs if port.lanes > 1]
    arrays = []
    for port, values in zip(operands, (a_pairs, b_pairs, c), strict=True):
        arrays.append(port.admit(values, "mmaovp.fragments"))
        if port.bits == 16 and np.asarray(values).dtype.itemsize == 1:
            raise RefusedType(f"mmaovp.fragments.{port.name}: 64 lanes are words of 16 bits, got bytes")
    left, right, tile = arrays
    words = {
        name: np.ascontiguousarray(pairs, pairs.dtype.newbyteorder("<")).view("<u4").astype(np.uint32)
        for name, pairs in (("a", left), ("b", right))
    }
    registers = np.ascontiguousarray(tile).view(np.uint32)
    return {**words, "c": registers.reshape(*registers.shape[:-1], 4 * ROWS, 2)}


def run(
    a_pairs: Any,
    b_pairs: Any,
    bias_a: Any,
    bias_b: Any,
    c: Any,
    *,
    a_type: str = "ovpi4",
    b_type: str = "ovpi4",
    overflow: str = "wrap",
) -> Result:
    """D = A x B + C for tiles of any shape.

    a_pairs: (..., 128) bytes, row i of A in bytes 16 i to 16 i + 15, or (..., 64) words of 16 bits for ovpi8.
    b_pairs: the same by columns of B. bias_a, bias_b: unsigned, below 16. c: int32 (..., 64), row-major. They broadcast
    beside their lanes. a_type, b_type, overflow: as for MmaOvp. Returns the Result, one tile per instruction.
    Refuses a value outside its port and types of different width. Paper: [olive §4.6].
    """
    core = MmaOvp(a_type, b_type, overflow)
    arrays = admit(core.name, core.ports.inputs, (a_pairs, b_pairs, bias_a, bias_b, c))
    last = ROWS * COLUMNS * CHUNKS - 1
    outputs = collect([s for s in core.steps(*arrays) if s.index == last], core.ports.outputs, arrays[2].shape)
    return Result(**outputs, **{name: getattr(core.state, name) for name in COUNTERS})


def ports(config: Mapping[str, Any]) -> Ports:
    """Widths in one configuration."""
    bits, lanes = (16, 64) if config["a_type"] == "ovpi8" else (8, 128)
    operands = [
        Port(f"{name}_pairs", bits, lanes, encoding=f"ovp_{TYPES[config[f'{name}_type']]}", meaning=meaning)
        for name, meaning in (("a", "pairs of A, row by row"), ("b", "pairs of B, column by column"))
    ]
    biases = [Port(f"bias_{name}", 4, meaning=f"outlier bias of {name.upper()}") for name in ("a", "b")]
    tile = ROWS * COLUMNS
    return Ports(
        inputs=(*operands, *biases, Port("c", ACC_BITS, tile, signed=True, meaning="C, row-major")),
        outputs=(
            Port("d", ACC_BITS, tile, signed=True, meaning="D, row-major"),
            Port("overflow", 1, tile, meaning="some operation of the element left 32 signed bits"),
            Port("illegal", 1, meaning="some pair is illegal; it contributes 0"),
        ),
    )


def cases(config: Config, kind: str, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind; see mmaovp_cases.py."""
    return mmaovp_cases.cases(config, ports(config).inputs, kind, seed)


UNIT = Unit(
    name="mmaovp",
    paper="olive §4.6",
    meaning="D = A x B + C on a tile of outlier-victim pairs",
    configs={
        **{
            f"{a[3:]}_{b[3:]}": Config(a_type=a, b_type=b, overflow="wrap")
            for a, b in (
                ("ovpi4", "ovpi4"),
                ("ovpi4", "ovpf4"),
                ("ovpf4", "ovpi4"),
                ("ovpf4", "ovpf4"),
                ("ovpi8", "ovpi8"),
            )
        },
        "i8_i8_saturate": Config(a_type="ovpi8", b_type="ovpi8", overflow="saturate"),
    },
    ports=ports,
    run=run,
    twin="refemu.units.mmaovp_jit:run",
    unit_class=MmaOvp,
    cases=cases,
    mark=mmaovp_cases.mark,
    flags={
        "OVERFLOW": Flag(0, "some element left 32 bits: wrapped or saturated by configuration (D-olive-33)"),
        "ILLEGAL": Flag(1, "some pair is an identifier beside magnitude 0; it contributes 0 (D-olive-18)"),
        "UNSPECIFIED": Flag(2, "a bias above 7, negative in a signed reading of .s4 (D-olive-21)"),
    },
    alternatives=choices("D-olive-33", "overflow", "wrap", "saturate"),
)
