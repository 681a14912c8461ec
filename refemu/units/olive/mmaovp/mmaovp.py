"""The instruction mmaovp: D = A x B + C on a tile of pairs, m8n8k32 for 4-bit and m8n8k16 for 8-bit types.

Paper: [olive §4.6]. Composed of olive_edp.
"""

from collections.abc import Mapping
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith.checks import RefusedType, require_choice, require_integers, require_range
from refemu.arith.records import parameters, plain_fields
from refemu.units import AnyUnit, Changes, Combinational, Config, Flag, Port, Ports, Unit, constant, decides
from refemu.units.olive.olive_edp import DotProductUnit, Operand
from refemu.units.olive.olive_edp.olive_edp import require_one_width
from refemu.units.olive.olive_mac import ACC_BITS, OverflowMode
from refemu.units.ports import put
from refemu.units.unit import DeclaredState, Result, RunFunction

__all__ = [
    "CHUNKS",
    "COLUMNS",
    "EDPS",
    "OPERATIONS",
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
#: name of each type in the dot product units; "repo": with the outliers of the published code (D-olive-14)
TYPES: dict[Type, Operand] = {"ovpi4": "int4", "ovpf4": "flint4", "ovpi8": "int8", "ovpi8_repo": "int8_repo"}
WIDE: tuple[Type, ...] = ("ovpi8", "ovpi8_repo")  #: types of 8-bit codes
ROWS = COLUMNS = 8  #: Rows and columns of the tile of D
LANES = 32  #: Lanes of a warp
CHUNKS = 2  #: Dot product operations that one element of D needs
OPERATIONS = ROWS * COLUMNS * CHUNKS  #: Dot product operations of a tile
EDPS = 16  #: dot product units of a tensor core: 2 octets of 8, so 16 operations a cycle [olive §4.1, Tbl. 5]
Words = tuple[int, ...]  #: a word of every lane of a port
PRODUCTS = {4: 16, 8: 8, 16: 4}  #: Products of a dot product unit, by the bits of its operands [olive §4.1]


class MmaOvp(Combinational):
    """Tensor core that executes mmaovp: an instruction is 128 dot product operations, one event each.

    Row i of A is bytes 16 i to 16 i + 15 of `a_pairs`, and column j of B the same of `b_pairs`; with ovpi8, 8 words of
    16 bits each.
    """

    name = "mmaovp"
    events: ClassVar[tuple[str, ...]] = ("edp",)
    counters: ClassVar[dict[str, str]] = {
        "operations": "dot product operations finished, two for each element of D",
        "macs": "products of two elements: 16 for each operation, 8 with 8-bit operands",
        "decodes": "pairs decoded, of both operands",
        "overflows": "dot product operations whose exact sum exceeded 32 bits",
        "illegal_operations": "dot product operations with an illegal pair in an operand (D-olive-18)",
        "cycles": "cycles of a tensor core, whose 16 dot product units make 16 operations in each",
    }
    registers: ClassVar[dict[str, str]] = {
        "phase": "number of the last operation in its tile: row, column, chunk of K, which changes fastest"
    }
    a_type: Type = "ovpi4"  #: type of A
    b_type: Type = "ovpi4"  #: type of B, of the same width
    overflow: OverflowMode = "wrap"  #: rule for a result that exceeds 32 bits (D-olive-33)

    def check(self) -> None:
        require_one_width(self.name, WIDE, a_type=self.a_type, b_type=self.b_type)

    @constant
    def _edp(self) -> DotProductUnit:
        return DotProductUnit(TYPES[self.a_type], TYPES[self.b_type], self.overflow)

    @constant
    def chunk(self) -> int:
        """Pairs of an operand in one operation."""
        return self._edp.n // 2

    @constant
    def k(self) -> int:
        """Elements of a row of A and of a column of B."""
        return CHUNKS * self._edp.n

    @constant
    def ports(self) -> Ports:
        bits, tile = 16 if self.a_type in WIDE else 8, ROWS * COLUMNS
        pairs = [
            Port(name, bits, ROWS * CHUNKS * self.chunk, encoding=f"ovp_{TYPES[kind]}", meaning=meaning)
            for name, kind, meaning in (
                ("a_pairs", self.a_type, "pairs of A, row by row"),
                ("b_pairs", self.b_type, "pairs of B, column by column"),
            )
        ]
        biases = [Port(f"bias_{name}", 4, meaning=f"outlier bias of {name.upper()}") for name in ("a", "b")]
        return Ports(
            inputs=(*pairs, *biases, Port("c", ACC_BITS, tile, signed=True, meaning="C, row-major")),
            outputs=(
                Port("d", ACC_BITS, tile, signed=True, meaning="D, row-major"),
                Port("overflow", 1, tile, meaning="an operation of the element exceeded 32 signed bits"),
                Port("illegal", 1, meaning="a pair is illegal; it contributes 0"),
            ),
        )

    @property
    def busy(self) -> bool:
        """Whether operations of the tile remain."""
        return self.state.event == "edp" and self.state.phase < OPERATIONS - 1

    @decides("D-olive-21")
    def edp(self, a_pairs: Words = (), b_pairs: Words = (), bias_a: int = 0, bias_b: int = 0, c: Words = ()) -> Changes:
        """Add one dot product, a row of A by a column of B over one chunk of K, to its element of D."""
        before, d, flags, illegal, phase = self.state, c, (0,) * len(c), 0, 0
        if not c:  # the next operation of the tile
            a_pairs, b_pairs, bias_a, bias_b = before.a_pairs, before.b_pairs, before.bias_a, before.bias_b
            d, flags, illegal, phase = before.d, before.overflow, before.illegal, before.phase + 1
        element, chunk = divmod(phase, CHUNKS)
        left, right = ((line * CHUNKS + chunk) * self.chunk for line in divmod(element, COLUMNS))
        rows = a_pairs[left : left + self.chunk], b_pairs[right : right + self.chunk]
        edp = self._edp.step(*rows, bias_a, bias_b, d[element])
        while self._edp.busy:
            edp = self._edp.step()
        return {
            "phase": phase,
            "d": put(d, element, edp.d),
            "overflow": put(flags, element, flags[element] | edp.overflow),
            "illegal": illegal | edp.illegal,
            "operations": 1,
            "macs": self._edp.n,
            "decodes": self._edp.n,
            "overflows": edp.overflow,
            "illegal_operations": edp.illegal,
            "cycles": phase % EDPS == EDPS - 1,
        }


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
        """Decoders: one for every pair of both operands of every EDP; none for 16-bit floats, which are not pairs."""
        return self.multipliers if self.bits < 16 else 0


def fragments(a_pairs: ArrayLike, b_pairs: ArrayLike, c: ArrayLike) -> dict[str, np.ndarray]:
    """Lay out a tile as registers of 32 bits for the 32 lanes of a warp, as Turing's integer mma does. [olive §4.6]

    Lane l, with g = l >> 2 and t = l & 3, has elements 8t to 8t + 7 (8 bit: 4t to 4t + 3) of row g of A and of column g
    of B, the first in the low bits; and row g, columns 2t and 2t + 1 of C and D. a_pairs, b_pairs: (..., 128) bytes or
    (..., 64) words of 16 bits, as for `run`. c: int32 (..., 64), C or D, row-major. The registers are uint32 `a` and
    `b` (..., 32), `c` (..., 32, 2). Raises Refused for a value outside its port, RefusedType for a wrong dtype or
    number of lanes or operands of different widths.
    """
    kind: Type = "ovpi8" if np.shape(a_pairs)[-1:] == (64,) else "ovpi4"
    operands = [port for port in MmaOvp(kind, kind).ports.inputs if port.lanes]
    arrays = []
    for port, values in zip(operands, (a_pairs, b_pairs, c), strict=True):
        arrays.append(port.validate(values, "mmaovp.fragments"))
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
    """Read a tile back from the registers of a warp: the inverse of `fragments`, for D too. [olive §4.6]

    registers: any of "a" and "b", (..., 32), "c" and "d", (..., 32, 2): words of 32 bits. The width of `a_type` says
    what a word of A and B holds. The tile has `a_pairs` and `b_pairs` (..., 128) uint8 or (..., 64) uint16, `c` and `d`
    (..., 64) int32, as given. Raises Refused for an unknown name or type or a word outside 32 bits, RefusedType for a
    wrong dtype or shape.
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


UNIT: AnyUnit = Unit(
    unit_class=MmaOvp,
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
    flags={
        "OVERFLOW": Flag(0, "an element exceeded 32 bits: wrapped or saturated, as configured (D-olive-33)"),
        "ILLEGAL": Flag(1, "a pair is an identifier next to magnitude 0; it contributes 0 (D-olive-18)"),
        "UNSPECIFIED": Flag(2, "a bias above 7, negative in a signed reading of .s4 (D-olive-21)"),
    },
)
State: type[DeclaredState] = MmaOvp.State
run: RunFunction[Result] = UNIT.run
