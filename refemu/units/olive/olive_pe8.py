"""An 8-bit multiply-accumulate from four 4-bit processing elements and one extra adder.

Paper: [olive §4.5] ("four 4-bit PEs", "an extra adder for every four PEs" [olive §4.3]). Decisions: D-olive-33 (an
accumulator that leaves 32 bits), D-olive-36 (how a negative integer is split), D-olive-37 (which element multiplies
what, and where the four meet).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from refemu.arith.checks import require_choice
from refemu.units.olive.cases import olive_pe8 as olive_pe8_cases
from refemu.units.olive.olive_mac import ACC_BITS, OverflowMode, reduce, require_overflow
from refemu.units.ports import Port, Ports
from refemu.units.stepped import Clocked, Result
from refemu.units.unit import Config, Flag, RunFunction, Unit

__all__ = ["PES", "UNIT", "OlivePe8", "Split", "State", "halves", "run"]


Split = Literal["twos_complement", "sign_magnitude"]  #: Rule that splits an 8-bit integer into halves (D-olive-36)
PES = 4  #: Elements of one 8-bit product: high x high, high x low, low x high, low x low (D-olive-37)


@dataclass(frozen=True)
class State:
    """Ports and the register after one event, and counts since reset. Lanes are the four elements."""

    #: "reset": the accumulator is 0; "load": `acc_in` goes into the accumulator; "mac": the four products of halves of
    #: the integers are shifted to their places and added to it
    event: str
    index: int  #: number of the event since reset, from 0; -1 at reset
    load: int
    acc_in: int
    x_exp: int
    x_int: int
    y_exp: int
    y_int: int
    partial: tuple[int, ...]
    shift: tuple[int, ...]
    acc: int  #: the register, and the port that shows it
    overflow: int
    macs: int  #: 8-bit products added to the accumulator
    pe_multiplications: int  #: products of two 4-bit halves, four for each 8-bit product
    overflows: int  #: events with `overflow` set: their exact sum left 32 bits


def halves(integer: int, split: Split) -> tuple[int, int]:
    """Split an 8-bit integer into 16 * high + low; that of an abfloat includes its sign (D-olive-36).

    Parameters
    ----------
    integer : int
        -128 to 127.
    split : {"twos_complement", "sign_magnitude"}
        "twos_complement" has high in -8..7 and low in 0..15; in "sign_magnitude" both carry the sign.

    Returns
    -------
    high, low : int
        The halves.

    References
    ----------
    [olive §4.5]
    """
    if split == "sign_magnitude" and integer < 0:
        return -(-integer >> 4), -(-integer & 15)
    return integer >> 4, integer & 15


class OlivePe8(Clocked[State]):
    """8-bit unit: one event loads the accumulator, or makes four products, shifts and adds them.

    References
    ----------
    [olive §4.5]
    """

    name = "olive_pe8"

    def __init__(self, split: Split = "twos_complement", overflow: OverflowMode = "wrap") -> None:
        """Configure the unit.

        Parameters
        ----------
        split : {"twos_complement", "sign_magnitude"}
            How integers are split (D-olive-36).
        overflow : {"wrap", "saturate"}
            Rule for a sum that leaves 32 bits (D-olive-33).

        Raises
        ------
        Refused
            An unknown option.
        """
        self.split: Split = require_choice(split, get_args(Split), self.name, "split")
        self.overflow = require_overflow(overflow, self.name)
        self.ports: Ports = ports({})
        self.state: State = self.reset(State)

    def step(self, load: int, acc_in: int, x_exp: int, x_int: int, y_exp: int, y_int: int) -> State:
        """Execute one event; return the State after it. With `load` no product is made: partial and shift show 0."""
        return self._open(*self.accept(load, acc_in, x_exp, x_int, y_exp, y_int))

    def _open(self, load: int, acc_in: int, x_exp: int, x_int: int, y_exp: int, y_int: int) -> State:
        before = self.latched(load, acc_in, x_exp, x_int, y_exp, y_int)
        self.state = self._load(before) if load else self._multiply(before)
        return self.state

    def _load(self, before: State) -> State:
        zeros = (0,) * PES
        return replace(before, event="load", partial=zeros, shift=zeros, acc=before.acc_in, overflow=0)

    def _multiply(self, before: State) -> State:
        """Four products of halves, each shifted to its place, and the accumulator, in one sum (D-olive-37)."""
        (high_x, low_x), (high_y, low_y) = halves(before.x_int, self.split), halves(before.y_int, self.split)
        partial = high_x * high_y, high_x * low_y, low_x * high_y, low_x * low_y
        exponent = before.x_exp + before.y_exp
        shift = 8 + exponent, 4 + exponent, 4 + exponent, exponent
        total = before.acc
        for product, places in zip(partial, shift, strict=True):
            total += product << places  # the extra adder: exact, reduced once below
        acc, overflow = reduce(total, self.overflow)
        return replace(
            before,
            event="mac",
            partial=partial,
            shift=shift,
            acc=acc,
            overflow=overflow,
            macs=before.macs + 1,
            pe_multiplications=before.pe_multiplications + PES,
            overflows=before.overflows + overflow,
        )


def ports(config: Mapping[str, Any]) -> Ports:
    """Ports, the same in every configuration."""
    operands = [
        port
        for name in ("x", "y")
        for port in (
            Port(f"{name}_exp", 5, meaning=f"exponent of operand {name}"),
            Port(f"{name}_int", 8, signed=True, meaning=f"integer of operand {name}"),
        )
    ]
    return Ports(
        inputs=(
            Port("load", 1, meaning="put acc_in into the accumulator, make no product"),
            Port("acc_in", ACC_BITS, signed=True, meaning="what a load puts there"),
            *operands,
        ),
        outputs=(
            Port("partial", 10, PES, signed=True, meaning="products of the four elements; 0 at a load"),
            Port("shift", 7, PES, meaning="shift of each product; 0 at a load"),
            Port("acc", ACC_BITS, signed=True, meaning="accumulator after the event"),
            Port("overflow", 1, meaning="the exact sum of this event left 32 signed bits"),
        ),
    )


UNIT: Unit[State, Result] = Unit(
    name="olive_pe8",
    paper="olive §4.5",
    meaning="8-bit multiply-accumulate from four 4-bit elements",
    configs={
        "wrap": Config(split="twos_complement", overflow="wrap"),
        "saturate": Config(split="twos_complement", overflow="saturate"),
        "sign_magnitude": Config(split="sign_magnitude", overflow="wrap"),
    },
    ports=ports,
    unit_class=OlivePe8,
    cases=olive_pe8_cases.cases,
    counters=("macs", "pe_multiplications", "overflows"),
    mark=olive_pe8_cases.mark,
    flags={"OVERFLOW": Flag(0, "the exact sum left 32 bits: wrapped or saturated by configuration (D-olive-33)")},
)
run: RunFunction[Result] = UNIT.run
