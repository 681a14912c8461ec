"""The instruction mmaovp: D = A x B + C on a tile of pairs, m8n8k32 for 4-bit and m8n8k16 for 8-bit types.

Paper: [olive §4.6]. Composed of olive_edp. Decisions: D-olive-14 (8-bit outliers), D-olive-21 (operands of the
instruction, unsigned biases), D-olive-33 (a result that leaves 32 bits), D-olive-34 (one reduction per dot product
operation).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith.checks import RefusedType, require_choice, require_integers, require_range
from refemu.arith.records import parameters, plain_fields
from refemu.units.olive.cases import mmaovp as mmaovp_cases
from refemu.units.olive.olive_edp import DotProductUnit, Operand, require_types
from refemu.units.olive.olive_mac import ACC_BITS, OverflowMode, require_overflow
from refemu.units.ports import Port, Ports
from refemu.units.stepped import Result, Stepped
from refemu.units.unit import Config, Flag, RunFunction, Unit

__all__ = [
    "CHUNKS",
    "COLUMNS",
    "EDPS",
    "PRODUCTS",
    "ROWS",
    "TYPES",
    "UNIT",
    "Gpu",
    "MmaOvp",
    "State",
    "Type",
    "fragments",
    "from_fragments",
    "run",
]


Type = Literal["ovpi4", "ovpf4", "ovpi8", "ovpi8_repo"]  #: Type of an operand of the instruction
#: what the dot product units call each type; "repo": with the outliers of the published code (D-olive-14)
TYPES: dict[Type, Operand] = {"ovpi4": "int4", "ovpf4": "flint4", "ovpi8": "int8", "ovpi8_repo": "int8_repo"}
WIDE: tuple[Type, ...] = ("ovpi8", "ovpi8_repo")  #: types of 8-bit codes
ROWS = COLUMNS = 8  #: Rows and columns of the tile of D
LANES = 32  #: Lanes of a warp
CHUNKS = 2  #: Dot product operations that one element of D needs
EDPS = 16  #: Dot product units of a tensor core: 2 octets of 8, so 16 operations a cycle [olive §4.1, Tbl. 5]
PRODUCTS = {4: 16, 8: 8, 16: 4}  #: Products of a dot product unit, by the bits of its operands [olive §4.1]


@dataclass(frozen=True)
class State:
    """Ports after one event, and counts since reset."""

    #: "reset": no tile yet; "edp": one dot product operation, a row of A by a column of B over one chunk of K, is added
    #: to its element of D; "idle", in the clocked form alone: no tile is under way
    event: str
    #: number of the dot product operation in its tile (row, column, chunk of K, the last changing fastest), in the
    #: clocked form of the clock edge since reset, from 0; -1 at reset
    index: int
    a_pairs: tuple[int, ...]
    b_pairs: tuple[int, ...]
    bias_a: int
    bias_b: int
    c: tuple[int, ...]
    d: tuple[int, ...]
    overflow: tuple[int, ...]
    illegal: int
    operations: int  #: dot product operations finished, two for each element of D
    macs: int  #: products of two elements: 16 for each operation, 8 with 8-bit operands
    decodes: int  #: pairs decoded, of both operands
    overflows: int  #: dot product operations whose exact sum left 32 bits
    illegal_operations: int  #: dot product operations with an illegal pair in an operand (D-olive-18)
    cycles: int  #: cycles of a tensor core, whose 16 dot product units make 16 operations in each


COUNTERS = ("operations", "macs", "decodes", "overflows", "illegal_operations", "cycles")


class MmaOvp(Stepped[State]):
    """Tensor core that executes mmaovp: an instruction is 128 dot product operations, one event each.

    References
    ----------
    [olive §4.6]
    """

    name = "mmaovp"
    a_type: Type
    b_type: Type

    def __init__(self, a_type: Type = "ovpi4", b_type: Type = "ovpi4", overflow: OverflowMode = "wrap") -> None:
        """Configure the tensor core.

        Parameters
        ----------
        a_type, b_type : {"ovpi4", "ovpf4", "ovpi8", "ovpi8_repo"}
            Types of A and B, of one width.
        overflow : {"wrap", "saturate"}
            Rule for a result that leaves 32 bits (D-olive-33).

        Raises
        ------
        Refused
            A type is unknown, or the widths differ.
        """
        self.a_type, self.b_type = require_types(self.name, TYPES, WIDE, a_type=a_type, b_type=b_type)
        self.overflow = require_overflow(overflow, self.name)
        self._edp = DotProductUnit(TYPES[self.a_type], TYPES[self.b_type], self.overflow)
        self.chunk: int = self._edp.n // 2  #: pairs of one operation
        self.k: int = CHUNKS * self._edp.n
        self.ports: Ports = ports({"a_type": self.a_type, "b_type": self.b_type})
        self.state: State = self.reset(State)

    @property
    def mnemonic(self) -> str:
        """Name of the instruction with the types of D, A, B, C and of the biases (D-olive-21)."""
        return f"mmaovp.s32.{self.a_type}.{self.b_type}.s32.s4.s4"

    @property
    def busy(self) -> bool:
        """Whether operations of the tile are left."""
        return 0 <= self.state.index < ROWS * COLUMNS * CHUNKS - 1

    def step(
        self,
        a_pairs: Sequence[int] | None = None,
        b_pairs: Sequence[int] | None = None,
        bias_a: int | None = None,
        bias_b: int | None = None,
        c: Sequence[int] | None = None,
    ) -> State:
        """Execute the first operation of a tile; without inputs, the next one.

        Row i of A is bytes 16 i to 16 i + 15 of `a_pairs`, and column j of B the same of `b_pairs`; with ovpi8, 8 words
        of 16 bits each.
        """
        return self._stepped(a_pairs=a_pairs, b_pairs=b_pairs, bias_a=bias_a, bias_b=bias_b, c=c)

    def _open(
        self, a_pairs: tuple[int, ...], b_pairs: tuple[int, ...], bias_a: int, bias_b: int, c: tuple[int, ...]
    ) -> State:
        inputs = a_pairs, b_pairs, bias_a, bias_b, c
        return self._operate(self.latched(*inputs, event="edp", d=c, overflow=(0,) * len(c), illegal=0), 0)

    def _continue(self) -> State:
        return self._operate(self.state, self.state.index + 1)

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


def _put(values: tuple[int, ...], place: int, value: int) -> tuple[int, ...]:
    return (*values[:place], value, *values[place + 1 :])


@parameters
class Gpu:
    """Number of blocks of each kind on a GPU with these tensor cores [olive Tbl. 5, Tbl. 10], Turing by default."""

    #: of the operands, 4 or 8; 16 for a core without pairs, whose EDP makes four products of 16-bit floats
    bits: int = 4
    sms: int = 68  #: streaming multiprocessors
    cores_per_sm: int = 8  #: tensor cores per streaming multiprocessor

    def __post_init__(self) -> None:
        plain_fields(self)
        require_choice(self.bits, PRODUCTS, "Gpu", "bits")
        for name in ("sms", "cores_per_sm"):
            require_range(getattr(self, name), 1, 1 << 16, "Gpu", name)

    @property
    def tensor_cores(self) -> int:
        """Tensor cores of all streaming multiprocessors."""
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
        """Multiplications and additions per second.

        The paper states no clock; 1,545 MHz gives its three figures [olive §4.1].

        Parameters
        ----------
        megahertz : int
            Clock in MHz.

        Returns
        -------
        int
            Operations per second.
        """
        return 2 * self.multipliers * megahertz * 10**6


def fragments(a_pairs: ArrayLike, b_pairs: ArrayLike, c: ArrayLike) -> dict[str, np.ndarray]:
    """Lay out a tile as registers of 32 bits for the 32 lanes of a warp, as Turing's integer mma does.

    Lane l has g = l >> 2 and t = l & 3: of row g of A and column g of B the elements 8t to 8t + 7 (8 bit: 4t to 4t +
    3), element 8t in the low bits; of C and D row g, columns 2t and 2t + 1. `from_fragments` reads registers back.

    Parameters
    ----------
    a_pairs, b_pairs : array_like of integers, (..., 128) bytes or (..., 64) words of 16 bits
        Pairs as for `run`.
    c : array_like of int32 (..., 64)
        C or D, row-major.

    Returns
    -------
    dict of ndarray
        uint32 `a` and `b` (..., 32), `c` (..., 32, 2).

    Raises
    ------
    Refused
        A value is outside its port.
    RefusedType
        A dtype or a number of lanes is wrong, or A and B have different widths.

    References
    ----------
    [olive §4.6]
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
    return {**words, "c": registers.reshape(*registers.shape[:-1], LANES, 2)}


def from_fragments(registers: Mapping[str, ArrayLike], a_type: Type = "ovpi4") -> dict[str, np.ndarray]:
    """Read a tile back from the registers of a warp: the inverse of `fragments`, for D too.

    Parameters
    ----------
    registers : mapping of str to array_like of integers
        Any of "a" and "b", (..., 32), "c" and "d", (..., 32, 2): words of 32 bits.
    a_type : {"ovpi4", "ovpf4", "ovpi8", "ovpi8_repo"}
        Type of an operand; its width says what a word of A and B holds.

    Returns
    -------
    dict of ndarray
        `a_pairs` and `b_pairs` (..., 128) uint8 or (..., 64) uint16, `c` and `d` (..., 64) int32, as given.

    Raises
    ------
    Refused
        A name or a type is unknown, or a word is outside 32 bits.
    RefusedType
        A dtype or a shape is wrong.

    References
    ----------
    [olive §4.6]
    """
    thing = "mmaovp.from_fragments"
    pair = np.dtype("<u2" if require_choice(a_type, TYPES, thing, "a_type") in WIDE else "u1")
    tile = {}
    for name, values in registers.items():
        require_choice(name, "abcd", thing, "register")
        shape = (LANES,) if name in "ab" else (LANES, 2)
        words = np.ascontiguousarray(_words(values, shape, f"{thing}.{name}"))
        if name in "ab":
            tile[f"{name}_pairs"] = words.view(pair).astype(pair.newbyteorder("="))
        else:
            tile[name] = words.astype(np.uint32).view(np.int32).reshape(*words.shape[:-2], ROWS * COLUMNS)
    return tile


def _words(values: ArrayLike, shape: tuple[int, ...], thing: str) -> np.ndarray:
    """Little-endian words of 32 bits whose last axes are `shape`."""
    array = require_integers(values, thing)
    if array.shape[-len(shape) :] != shape:
        raise RefusedType(f"{thing}: the last axes must be {shape}, got shape {array.shape}")
    return require_range(array, 0, 1 << 32, thing, "word").astype("<u4")


def ports(config: Mapping[str, Any]) -> Ports:
    """Ports in one configuration."""
    bits, lanes = (16, 64) if config["a_type"] in WIDE else (8, 128)
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


UNIT: Unit[State, Result] = Unit(
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
    unit_class=MmaOvp,
    cases=mmaovp_cases.cases,
    counters=COUNTERS,
    mark=mmaovp_cases.mark,
    flags={
        "OVERFLOW": Flag(0, "some element left 32 bits: wrapped or saturated by configuration (D-olive-33)"),
        "ILLEGAL": Flag(1, "some pair is an identifier beside magnitude 0; it contributes 0 (D-olive-18)"),
        "UNSPECIFIED": Flag(2, "a bias above 7, negative in a signed reading of .s4 (D-olive-21)"),
    },
)
run: RunFunction[Result] = UNIT.run
