"""The dot product unit of a tensor core with pair decoders: 16 products of 4-bit pairs, or 8 of 8-bit pairs.

Paper: [olive §4.1, Fig. 6a] (16EDP, 8EDP). Composed of ovp_decoder.
"""

from collections.abc import Iterable, Sequence
from operator import add, mul
from typing import Any, ClassVar, Literal

from refemu.arith.checks import Refused
from refemu.units import AnyUnit, Changes, Combinational, Config, Flag, Port, Ports, Unit, constant, decides
from refemu.units.olive.olive_mac import ACC_BITS, BEYOND, OverflowMode, reduce
from refemu.units.olive.ovp_decoder import OUTLIERS, Normal, Outlier, OvpDecoder
from refemu.units.unit import DeclaredState, Result, RunFunction

__all__ = ["EVENTS", "OPERANDS", "TYPES", "UNIT", "WIDE", "DotProductUnit", "Operand", "State", "run"]

Operand = Literal["int4", "flint4", "int8", "int8_repo"]  #: Type of an operand; "repo": of the published code
#: normal values and outlier format of each type: the paper's, and E2M5 with int8 in the published code (D-olive-14)
OPERANDS: dict[Operand, tuple[Normal, Outlier]] = {
    **{kind: (kind, known[0]) for kind, known in OUTLIERS.items()},
    "int8_repo": ("int8", OUTLIERS["int8"][1]),
}
WIDE: tuple[Operand, ...] = ("int8", "int8_repo")  #: types of 8-bit codes
EVENTS = ("decode", "multiply", "shift", "reduce")  #: Events of an operation, in order

HALF = 1 << 31  #: half of the range of 32 bits


def require_one_width(unit: str, wide: Sequence[str], **operands: str) -> None:
    """Check that the types of operands, by name of their argument, have one width. wide: those of 8-bit codes."""
    if len({kind in wide for kind in operands.values()}) > 1:
        raise Refused(f"{unit}: {' and '.join(operands)} must have one width, got {' and '.join(operands.values())}")


class DotProductUnit(Combinational):
    """Dot product unit: 16 products of 4-bit operands, or 8 of 8-bit ones. Element 2k is the left one of pair k."""

    name = "olive_edp"
    events: ClassVar[tuple[str, ...]] = EVENTS
    counters: ClassVar[dict[str, str]] = {
        "operations": "dot products finished",
        "macs": "products of two elements: 16 for each dot product, 8 with 8-bit operands",
        "decodes": "pairs decoded, of both operands",
        "overflows": "dot products with `overflow` set: their exact sum exceeded 32 bits",
        "illegal_operations": "dot products with `illegal` set: an operand has an illegal pair (D-olive-18)",
    }
    a: Operand = "int4"  #: type of the first operand
    b: Operand = "int4"  #: type of the second operand, of the same width
    overflow: OverflowMode = "wrap"  #: rule for a result that exceeds 32 bits (D-olive-33)

    def check(self) -> None:
        require_one_width(self.name, WIDE, a=self.a, b=self.b)

    @constant
    def n(self) -> int:
        """Number of products of an operation."""
        return 8 if self.a in WIDE else 16

    @constant
    def decoders(self) -> tuple[OvpDecoder, ...]:
        """One of each operand."""
        return tuple(OvpDecoder(*OPERANDS[kind]) for kind in (self.a, self.b))

    @constant
    def ports(self) -> Ports:
        width, exponent = (8, 5) if self.a in WIDE else (4, 4)
        pairs = [
            Port(f"{name}_pairs", 2 * width, self.n // 2, encoding=f"ovp_{kind}", meaning=f"pairs of operand {name}")
            for name, kind in (("a", self.a), ("b", self.b))
        ]
        biases = [Port(f"bias_{name}", 4, meaning=f"outlier bias of operand {name}") for name in ("a", "b")]
        elements = [
            port
            for name in ("a", "b")
            for port in (
                Port(f"{name}_exponent", exponent, self.n, meaning=f"exponents of operand {name}"),
                Port(f"{name}_int", width, self.n, signed=True, meaning=f"integers of operand {name}"),
            )
        ]
        above = 47 if self.a in WIDE else 7
        return Ports(
            inputs=(*pairs, *biases, Port("c", ACC_BITS, signed=True, meaning="added to the dot product")),
            outputs=(
                Port("d", ACC_BITS, signed=True, meaning="c + the dot product"),
                Port("overflow", 1, meaning="the exact sum exceeded 32 signed bits"),
                Port("illegal", 1, meaning="a pair is illegal; it contributes 0"),
            ),
            state=(
                *elements,
                Port("shifts", exponent + 1, self.n, meaning="sums of exponents"),
                Port("products", 2 * width, self.n, signed=True, meaning="products of the integers"),
                Port("shifted", 32, self.n, signed=True, meaning="products << shifts: the low 32 bits"),
                Port("above", above, self.n, signed=True, meaning="products << shifts: bits 32 and up"),
            ),
        )

    @property
    def busy(self) -> bool:
        """Whether an operation is unfinished: from `decode` until `reduce`."""
        return self.state.event in EVENTS[:-1]

    def follows(self) -> str:
        return EVENTS[EVENTS.index(self.state.event) + 1]

    def decode(self, a_pairs: tuple[int, ...], b_pairs: tuple[int, ...], bias_a: int, bias_b: int, c: int) -> Changes:
        """Decode the pairs of both operands to exponents and integers."""
        changes: dict[str, Any] = {"illegal": 0, "decodes": self.n}
        for name, decoder, pairs, bias in zip("ab", self.decoders, (a_pairs, b_pairs), (bias_a, bias_b), strict=True):
            decoded = [decoder.decode(pair, bias) for pair in pairs]
            changes[f"{name}_exponent"] = tuple(exponent for each in decoded for exponent in each["exponent"])
            changes[f"{name}_int"] = tuple(integer for each in decoded for integer in each["base_int"])
            changes["illegal"] |= max(each["illegal"] for each in decoded)
        return changes

    def multiply(self) -> Changes:
        """Multiply the integers, add the exponents."""
        before = self.state
        return {
            "shifts": tuple(map(add, before.a_exponent, before.b_exponent)),
            "products": tuple(map(mul, before.a_int, before.b_int)),
            "macs": self.n,
        }

    @decides("D-olive-35")
    def shift(self) -> Changes:
        """Shift every product left by its sum of exponents, in its own shifter."""
        return split(p << s for p, s in zip(self.state.products, self.state.shifts, strict=True))

    @decides("D-olive-34")
    def reduce(self) -> Changes:
        """Add `c` and the shifted products; reduce the sum to 32 bits, once."""
        before = self.state
        d, overflow = reduce(before.c + sum(terms(before)), self.overflow)
        counts = {"operations": 1, "overflows": overflow, "illegal_operations": before.illegal}
        return {"d": d, "overflow": overflow, **counts}


def split(shifted: Iterable[int]) -> Changes:
    """Registers of shifted products, exact: the low 32 bits, and those above."""
    words = [(term, ((term + HALF) & (2 * HALF - 1)) - HALF) for term in shifted]
    return {"shifted": tuple(low for _, low in words), "above": tuple((term - low) >> 32 for term, low in words)}


def terms(state: DeclaredState) -> tuple[int, ...]:
    """products << shifts, exact."""
    return tuple(low + (high << 32) for low, high in zip(state.shifted, state.above, strict=True))


#: types of the operands in the ready configurations
TYPES: dict[str, tuple[Operand, Operand]] = {
    "int4_int4": ("int4", "int4"),
    "int4_flint4": ("int4", "flint4"),
    "flint4_int4": ("flint4", "int4"),
    "flint4_flint4": ("flint4", "flint4"),
    "int8_int8": ("int8", "int8"),
}

UNIT: AnyUnit = Unit(
    unit_class=DotProductUnit,
    paper="olive §4.1, Fig. 6a",
    meaning="dot product of 16 (8-bit: 8) elements in pairs, plus c",
    configs={
        **{name: Config(a=a, b=b, overflow="wrap") for name, (a, b) in TYPES.items()},
        "int8_int8_saturate": Config(a="int8", b="int8", overflow="saturate"),
    },
    flags={
        "OVERFLOW": Flag(0, f"the exact sum {BEYOND}", "overflow"),
        "ILLEGAL": Flag(1, "a pair is an identifier next to magnitude 0; it contributes 0 (D-olive-18)", "illegal"),
    },
)
State: type[DeclaredState] = DotProductUnit.State
run: RunFunction[Result] = UNIT.run
