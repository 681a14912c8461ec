"""State, ports and lanes of the clocked systolic array."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

from refemu.units.olive.olive_mac import ACC_BITS
from refemu.units.ports import Port, Ports

MOST = 64  #: rows or columns of 4-bit elements [olive §4.3]
Narrow = Literal["int4", "flint4"]  #: Type of a 4-bit operand
NARROW: tuple[Narrow, ...] = get_args(Narrow)  #: The choices of `Narrow`
Wide = Literal["int8", "int8_repo"]  #: Type of 8-bit operands; "repo": with the outliers of the published code
WIDE: tuple[Wide, ...] = get_args(Wide)  #: The choices of `Wide`
Values = tuple[int, ...]  #: a value for each element, row by row


class Operand(NamedTuple):
    """Exponent-integer pair on its way, with a valid bit."""

    valid: int
    exponent: int
    integer: int


NOTHING = Operand(0, 0, 0)


@dataclass(frozen=True)
class State:
    """Ports and registers after one edge, and counts since reset. An 8-bit element is at its top left 4-bit one."""

    #: "reset": the array is empty; "compute": operands move one element east and south, pairs enter at the west and
    #: north borders, and every element with two operands adds their product; "drain": accumulators move one row south,
    #: and the bottom row leaves
    event: str
    index: int  #: number of the clock edge since reset, from 0; -1 at reset
    wide: int
    drain: int
    west: Values
    west_valid: Values
    north: Values
    north_valid: Values
    bias_a: int
    bias_b: int
    south: Values
    south_overflow: Values
    illegal: int
    mode: int  #: width of the operands under way: 0 for 4 bits, 1 for 8
    west_held_valid: Values  #: second element of a pair, of each array row
    west_held_exponent: Values
    west_held_integer: Values
    north_held_valid: Values  #: the same of each array column
    north_held_exponent: Values
    north_held_integer: Values
    a_valid: Values  #: operand that the east neighbour reads
    a_exponent: Values
    a_integer: Values
    b_valid: Values  #: operand that the south neighbour reads
    b_exponent: Values
    b_integer: Values
    partial: Values  #: products of halves that olive_pe8 made in this edge, four for each 8-bit element
    acc: Values  #: accumulators
    acc_overflow: Values  #: some product of the accumulator left 32 bits
    cycles: int  #: clock edges since reset
    compute_cycles: int  #: clock edges with event "compute"
    drain_cycles: int  #: clock edges with event "drain"
    decodes: int  #: pairs decoded at both borders
    decoder_idle: int  #: edges of "compute" in which a border line decoded no pair, summed over the lines
    macs: int  #: products added to an accumulator
    idle: int  #: edges of "compute" in which an element had no product to add, summed over the elements
    overflows: int  #: products that made an accumulator leave 32 bits

    def operands(self, name: str) -> list[Operand]:
        """Registers `name`_valid, `name`_exponent and `name`_integer, lane by lane."""
        lanes = (getattr(self, f"{name}_{field}") for field in Operand._fields)
        return [Operand(*lane) for lane in zip(*lanes, strict=True)]


COUNTERS = ("cycles", "compute_cycles", "drain_cycles", "decodes", "decoder_idle", "macs", "idle", "overflows")


class Line(NamedTuple):
    """A border line in one edge."""

    enters: Operand  #: into the array
    holds: Operand  #: for the next edge
    decodes: int
    illegal: int


def registers(name: str, operands: Sequence[Operand]) -> dict[str, Any]:
    """Lanes of operands as the fields of a State."""
    fields = zip(*operands, strict=True)
    return {f"{name}_{field}": values for field, values in zip(Operand._fields, fields, strict=True)}


def ports(config: Mapping[str, Any]) -> Ports:
    """Ports in one configuration."""
    rows, cols = config["rows"], config["cols"]
    borders = (("west", rows, "array row", "A"), ("north", cols, "array column", "B"))
    pairs = [
        port
        for side, lines, line, matrix in borders
        for port in (
            Port(side, 16, lines, meaning=f"a pair of {matrix} for each {line}; of 4-bit codes in the low half"),
            Port(f"{side}_valid", 1, lines, meaning="the line has a pair"),
        )
    ]
    return Ports(
        inputs=(
            Port("wide", 1, meaning="operands have 8 bits"),
            Port("drain", 1, meaning="accumulators move south; nothing enters, nothing is multiplied"),
            *pairs,
            Port("bias_a", 4, meaning="outlier bias of A"),
            Port("bias_b", 4, meaning="outlier bias of B"),
        ),
        outputs=(
            Port("south", ACC_BITS, cols, signed=True, meaning="at a drain, the accumulators of the bottom row"),
            Port("south_overflow", 1, cols, meaning="some product of them left 32 signed bits"),
            Port("illegal", 1, meaning="some pair since reset is illegal; it contributes 0"),
        ),
        state=(
            Port("mode", 1, meaning="operands under way have 8 bits"),
            *(port for side, lines, *_ in borders for port in _operands(f"{side}_held", lines, "held by the line")),
            *_operands("a", rows * cols, "that the east neighbour reads"),
            *_operands("b", rows * cols, "that the south neighbour reads"),
            Port("partial", 10, rows * cols, signed=True, meaning="products of halves, four for each 8-bit element"),
            Port("acc", ACC_BITS, rows * cols, signed=True, meaning="accumulators"),
            Port("acc_overflow", 1, rows * cols, meaning="some product of the accumulator left 32 signed bits"),
        ),
    )


def _operands(name: str, lanes: int, which: str) -> tuple[Port, ...]:
    return (
        Port(f"{name}_valid", 1, lanes, meaning=f"there is an element {which}"),
        Port(f"{name}_exponent", 5, lanes, meaning="its exponent"),
        Port(f"{name}_integer", 8, lanes, signed=True, meaning="its integer"),
    )
