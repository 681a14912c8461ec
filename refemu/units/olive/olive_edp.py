"""The dot product unit of a tensor core with pair decoders: 16 products of 4-bit pairs, or 8 of 8-bit pairs.

Paper: [olive §4.1, Fig. 6a] (16EDP, 8EDP). Composed of ovp_decoder. Decisions: D-olive-33 (a result that leaves 32
bits), D-olive-34 (width of the adder tree), D-olive-35 (a shifter per product), D-olive-14 (8-bit outliers).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

from refemu.arith.checks import Refused, require_choice
from refemu.units.olive.cases import olive_edp as olive_edp_cases
from refemu.units.olive.olive_mac import ACC_BITS, OverflowMode, reduce, require_overflow
from refemu.units.olive.ovp_decoder import OUTLIERS, Normal, Outlier, OvpDecoder
from refemu.units.ports import Port, Ports
from refemu.units.stepped import Result, Stepped
from refemu.units.unit import Config, Flag, RunFunction, Unit

__all__ = ["EVENTS", "OPERANDS", "TYPES", "UNIT", "WIDE", "DotProductUnit", "Operand", "State", "run"]


Operand = Literal["int4", "flint4", "int8", "int8_repo"]  #: Type of an operand; "repo": of the published code
#: normal values and outlier format of each type: the paper's, and E2M5 beside int8 in the published code (D-olive-14)
OPERANDS: dict[Operand, tuple[Normal, Outlier]] = {
    **{kind: (kind, known[0]) for kind, known in OUTLIERS.items()},
    "int8_repo": ("int8", OUTLIERS["int8"][1]),
}
WIDE: tuple[Operand, ...] = ("int8", "int8_repo")  #: types of 8-bit codes
EVENTS = ("decode", "multiply", "shift", "reduce")  #: Events of an operation, in order

HALF = 1 << 31  #: of the range of 32 bits

Pairs = tuple[tuple[int, int], ...]  #: (exponent, integer) of every element


@dataclass(frozen=True)
class State:
    """Ports and registers after one event, and counts since reset. Element 2k is the left one of pair k."""

    #: "reset": no operation yet; "decode": the pairs of both operands become exponents and integers; "multiply":
    #: integers are multiplied, exponents added; "shift": every product is shifted left by its sum of exponents;
    #: "reduce": `c` and the shifted products are added, and the sum is brought to 32 bits; "idle", in the clocked form
    #: alone: no operation is under way
    event: str
    index: int  #: number of the operation since reset, in the clocked form of the clock edge, from 0; -1 at reset
    a_pairs: tuple[int, ...]
    b_pairs: tuple[int, ...]
    bias_a: int
    bias_b: int
    c: int
    d: int
    overflow: int
    illegal: int
    a_exponent: tuple[int, ...]  #: decoded operand a
    a_int: tuple[int, ...]
    b_exponent: tuple[int, ...]  #: decoded operand b
    b_int: tuple[int, ...]
    shifts: tuple[int, ...]  #: sums of exponents
    products: tuple[int, ...]  #: of the integers
    shifted: tuple[int, ...]  #: products << shifts in 32 bits, two's complement
    above: tuple[int, ...]  #: their upper bits: products << shifts are shifted + (above << 32), exact
    operations: int  #: dot products finished
    macs: int  #: products of two elements: 16 for each dot product, 8 with 8-bit operands
    decodes: int  #: pairs decoded, of both operands
    overflows: int  #: dot products with `overflow` set: their exact sum left 32 bits
    illegal_operations: int  #: dot products with `illegal` set: a pair of an operand is illegal (D-olive-18)

    @property
    def a(self) -> Pairs:
        """Exponent and integer of every element of operand a."""
        return tuple(zip(self.a_exponent, self.a_int, strict=True))

    @property
    def b(self) -> Pairs:
        """The same of operand b."""
        return tuple(zip(self.b_exponent, self.b_int, strict=True))

    @property
    def terms(self) -> tuple[int, ...]:
        """products << shifts, exact."""
        return tuple(low + (high << 32) for low, high in zip(self.shifted, self.above, strict=True))


T = TypeVar("T", bound=str)


def require_types(unit: str, known: Iterable[T], wide: Sequence[T], **operands: T) -> tuple[T, ...]:
    """The types of operands, by name of their argument; refuses an unknown one, and a `wide` beside a narrow one."""
    kinds = tuple(require_choice(kind, known, unit, name) for name, kind in operands.items())
    if len({kind in wide for kind in kinds}) > 1:
        raise Refused(f"{unit}: {' and '.join(operands)} must have one width, got {' and '.join(kinds)}")
    return kinds


class DotProductUnit(Stepped[State]):
    """Dot product unit: an operation is four events, decode, multiply, shift, reduce.

    References
    ----------
    [olive §4.1, Fig. 6a]
    """

    name = "olive_edp"
    a: Operand
    b: Operand

    def __init__(self, a: Operand = "int4", b: Operand = "int4", overflow: OverflowMode = "wrap") -> None:
        """Configure the unit: 16 products of 4-bit operands, or 8 of 8-bit ones.

        Parameters
        ----------
        a, b : {"int4", "flint4", "int8", "int8_repo"}
            Types of the operands, of one width.
        overflow : {"wrap", "saturate"}
            Rule for a result that leaves 32 bits (D-olive-33).

        Raises
        ------
        Refused
            A type is unknown, or the widths differ.
        """
        self.a, self.b = require_types(self.name, OPERANDS, WIDE, a=a, b=b)
        self.overflow = require_overflow(overflow, self.name)
        self.n = 8 if a in WIDE else 16  #: products of an operation
        self.decoders: tuple[OvpDecoder, ...] = tuple(OvpDecoder(*OPERANDS[kind]) for kind in (self.a, self.b))
        self.ports: Ports = ports({"a": self.a, "b": self.b})
        self.state: State = self.reset(State)

    @property
    def multipliers(self) -> int:
        """Number of multipliers, one for every product: 16 of 4 bits or 8 of 8 bits [olive §4.1]."""
        return self.n

    @property
    def pair_decoders(self) -> int:
        """Number of decoders, one for every pair of both operands, as many as multipliers [olive Tbl. 10]."""
        return 2 * (self.n // 2)

    @property
    def busy(self) -> bool:
        """Whether an operation is unfinished: from `decode` until `reduce`."""
        return self.state.event in EVENTS[:-1]

    def step(
        self,
        a_pairs: Sequence[int] | None = None,
        b_pairs: Sequence[int] | None = None,
        bias_a: int | None = None,
        bias_b: int | None = None,
        c: int | None = None,
    ) -> State:
        """Decode the inputs of an operation; without inputs, execute its next event."""
        return self._stepped(a_pairs=a_pairs, b_pairs=b_pairs, bias_a=bias_a, bias_b=bias_b, c=c)

    def _open(self, a_pairs: tuple[int, ...], b_pairs: tuple[int, ...], bias_a: int, bias_b: int, c: int) -> State:
        (a, bad_a), (b, bad_b) = self.decoded(0, a_pairs, bias_a), self.decoded(1, b_pairs, bias_b)
        decodes, illegal = self.state.decodes + self.n, bad_a | bad_b
        inputs = a_pairs, b_pairs, bias_a, bias_b, c
        operands = {
            f"{name}_{field}": tuple(values)
            for name, elements in (("a", a), ("b", b))
            for field, values in zip(("exponent", "int"), zip(*elements, strict=True), strict=True)
        }
        self.state = self.latched(*inputs, event="decode", **operands, illegal=illegal, decodes=decodes)
        return self.state

    def _continue(self) -> State:
        event = EVENTS[EVENTS.index(self.state.event) + 1]
        self.state = {"multiply": self._multiplied, "shift": self._shifted, "reduce": self._reduced}[event]()
        return self.state

    def decoded(self, operand: int, pairs: tuple[int, ...], bias: int) -> tuple[Pairs, int]:
        """Decode the pairs of one operand.

        Parameters
        ----------
        operand : int
            0 for a, 1 for b.
        pairs : tuple of int
            Words of the operand.
        bias : int
            Outlier bias, 0 to 15.

        Returns
        -------
        elements : tuple of (int, int)
            Exponent and integer of every element.
        illegal : int
            1 if some pair is illegal.
        """
        decoder = self.decoders[operand]
        states = [decoder.step(pair, bias) for pair in pairs]
        elements = tuple(element for state in states for element in zip(state.exponent, state.base_int, strict=True))
        return elements, int(any(state.illegal for state in states))

    def _multiplied(self) -> State:
        elements = tuple(zip(self.state.a, self.state.b, strict=True))
        return replace(
            self.state,
            event="multiply",
            shifts=tuple(x[0] + y[0] for x, y in elements),
            products=tuple(x[1] * y[1] for x, y in elements),
            macs=self.state.macs + self.n,
        )

    def _shifted(self) -> State:
        """A shifter for every product, because there are as many exponents (D-olive-35)."""
        return self.with_terms(p << s for p, s in zip(self.state.products, self.state.shifts, strict=True))

    def with_terms(self, terms: Iterable[int]) -> State:
        """Present State after the event "shift".

        Parameters
        ----------
        terms : iterable of int
            Products behind their shifters, exact.

        Returns
        -------
        State
            The State; it is not committed.
        """
        words = [(term, ((term + HALF) & (2 * HALF - 1)) - HALF) for term in terms]
        shifted, above = tuple(low for _, low in words), tuple((term - low) >> 32 for term, low in words)
        return replace(self.state, event="shift", shifted=shifted, above=above)

    def _reduced(self) -> State:
        """One exact sum and one reduction to 32 bits, so there is no order of additions (D-olive-34)."""
        before, total = self.state, self.state.c
        for term in before.terms:
            total += term
        d, overflow = reduce(total, self.overflow)
        return replace(
            before,
            event="reduce",
            d=d,
            overflow=overflow,
            operations=before.operations + 1,
            overflows=before.overflows + overflow,
            illegal_operations=before.illegal_operations + before.illegal,
        )


def ports(config: Mapping[str, Any]) -> Ports:
    """Ports in one configuration."""
    bits, lanes = (16, 4) if config["a"] in WIDE else (8, 8)
    operands = [
        Port(f"{name}_pairs", bits, lanes, encoding=f"ovp_{config[name]}", meaning=f"pairs of operand {name}")
        for name in ("a", "b")
    ]
    biases = [Port(f"bias_{name}", 4, meaning=f"outlier bias of operand {name}") for name in ("a", "b")]
    return Ports(
        inputs=(*operands, *biases, Port("c", ACC_BITS, signed=True, meaning="added to the dot product")),
        outputs=(
            Port("d", ACC_BITS, signed=True, meaning="c + the dot product"),
            Port("overflow", 1, meaning="the exact sum left 32 signed bits"),
            Port("illegal", 1, meaning="some pair is illegal; it contributes 0"),
        ),
        state=_registers(config),
    )


def _registers(config: Mapping[str, Any]) -> tuple[Port, ...]:
    """What the events decode, multiply and shift leave."""
    wide = config["a"] in WIDE
    width, exponent, n = (8, 5, 8) if wide else (4, 4, 16)
    elements = [
        port
        for name in ("a", "b")
        for port in (
            Port(f"{name}_exponent", exponent, n, meaning=f"exponents of operand {name}"),
            Port(f"{name}_int", width, n, signed=True, meaning=f"integers of operand {name}"),
        )
    ]
    return (
        *elements,
        Port("shifts", exponent + 1, n, meaning="sums of exponents"),
        Port("products", 2 * width, n, signed=True, meaning="products of the integers"),
        Port("shifted", 32, n, signed=True, meaning="products << shifts: the low 32 bits"),
        Port("above", 47 if wide else 7, n, signed=True, meaning="products << shifts, less shifted: bits 32 and up"),
    )


#: types of the operands in the ready configurations
TYPES: dict[str, tuple[Operand, Operand]] = {
    "int4_int4": ("int4", "int4"),
    "int4_flint4": ("int4", "flint4"),
    "flint4_int4": ("flint4", "int4"),
    "flint4_flint4": ("flint4", "flint4"),
    "int8_int8": ("int8", "int8"),
}

UNIT: Unit[State, Result] = Unit(
    name="olive_edp",
    paper="olive §4.1, Fig. 6a",
    meaning="dot product of 16 (8-bit: 8) elements in pairs, plus c",
    configs={
        **{name: Config(a=a, b=b, overflow="wrap") for name, (a, b) in TYPES.items()},
        "int8_int8_saturate": Config(a="int8", b="int8", overflow="saturate"),
    },
    ports=ports,
    unit_class=DotProductUnit,
    cases=olive_edp_cases.cases,
    counters=("operations", "macs", "decodes", "overflows", "illegal_operations"),
    mark=olive_edp_cases.mark,
    flags={
        "OVERFLOW": Flag(0, "the exact sum left 32 bits: wrapped or saturated by configuration (D-olive-33)"),
        "ILLEGAL": Flag(1, "some pair is an identifier beside magnitude 0; it contributes 0 (D-olive-18)"),
    },
)
run: RunFunction[Result] = UNIT.run
