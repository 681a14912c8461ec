"""The exponent-integer multiply-accumulate unit: <a, b> x <c, d> = <a + c, b d>, added to a 32-bit register.

Paper: [olive §4.4]; the datapath of a 4-bit processing element without its forwarding registers [olive §4.3, Fig. 8].
Decision: D-olive-33 (an accumulator that leaves 32 bits).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from refemu.arith.checks import require_choice, require_int
from refemu.arith.integers import Overflow
from refemu.units.olive.cases import olive_mac as olive_mac_cases
from refemu.units.ports import Port, Ports
from refemu.units.stepped import Clocked, Result
from refemu.units.unit import Config, Flag, RunFunction, Unit

__all__ = ["ACC_BITS", "UNIT", "OliveMac", "OverflowMode", "State", "reduce", "require_overflow", "run"]


ACC_BITS = 32  #: Width of the accumulator in bits [olive §4.4]
OverflowMode = Literal["wrap", "saturate"] | Overflow  #: Rule for a sum that leaves 32 bits (D-olive-33)


@dataclass(frozen=True)
class State:
    """Ports and the register after one event, and counts since reset."""

    #: "reset": the accumulator is 0; "load": `acc_in` goes into the accumulator; "mac": the product of the integers,
    #: shifted left by the sum of the exponents, is added to it
    event: str
    index: int  #: number of the event since reset, from 0; -1 at reset
    load: int
    acc_in: int
    a_exp: int
    a_int: int
    b_exp: int
    b_int: int
    shift: int
    product: int
    acc: int  #: the register, and the port that shows it
    overflow: int
    macs: int  #: products added to the accumulator
    overflows: int  #: events with `overflow` set: their exact sum left 32 bits


def reduce(total: int, overflow: Overflow) -> tuple[int, int]:
    """Reduce an exact sum to the 32 bits of the register (D-olive-33).

    Parameters
    ----------
    total : int
        Exact sum.
    overflow : Overflow
        "wrap" or "saturate".

    Returns
    -------
    register, flag : int
        The register, and 1 if the sum left 32 signed bits.

    References
    ----------
    [olive §4.4]
    """
    low, high = -(1 << (ACC_BITS - 1)), (1 << (ACC_BITS - 1)) - 1
    if low <= total <= high:
        return total, 0
    if overflow == "saturate":
        return (high if total > 0 else low), 1
    return ((total - low) & ((1 << ACC_BITS) - 1)) + low, 1


def require_overflow(overflow: OverflowMode, unit: str) -> Overflow:
    """Check the overflow rule of a unit.

    Parameters
    ----------
    overflow : str or Overflow
        "wrap" or "saturate".
    unit : str
        Name of the unit, for the refusal.

    Returns
    -------
    Overflow
        The member of `Overflow`.

    Raises
    ------
    Refused
        Any other rule.

    References
    ----------
    [olive §4.4]
    """
    return require_choice(overflow, ("wrap", "saturate"), unit, "overflow")


class OliveMac(Clocked[State]):
    """Multiply-accumulate unit: one event loads the accumulator, or multiplies, shifts and adds.

    References
    ----------
    [olive §4.4]
    """

    name = "olive_mac"

    def __init__(self, exponent_bits: int = 4, int_bits: int = 4, overflow: OverflowMode = "wrap") -> None:
        """Configure the unit.

        Parameters
        ----------
        exponent_bits : int
            Width of an exponent, 1 to 5.
        int_bits : int
            Width of an integer, 2 to 8.
        overflow : {"wrap", "saturate"}
            Rule for a sum that leaves 32 bits (D-olive-33).

        Raises
        ------
        Refused
            A parameter is out of range.
        RefusedType
            A width is not an int.
        """
        self.exponent_bits: int = require_int(exponent_bits, 1, 5, self.name, "exponent_bits")
        self.int_bits: int = require_int(int_bits, 2, 8, self.name, "int_bits")
        self.overflow = require_overflow(overflow, self.name)
        self.ports: Ports = ports({"exponent_bits": self.exponent_bits, "int_bits": self.int_bits})
        self.state: State = self.reset(State)

    def step(self, load: int, acc_in: int, a_exp: int, a_int: int, b_exp: int, b_int: int) -> State:
        """Execute one event; return the State after it. With `load` no product is made: shift and product show 0."""
        return self._open(*self.accept(load, acc_in, a_exp, a_int, b_exp, b_int))

    def _open(self, load: int, acc_in: int, a_exp: int, a_int: int, b_exp: int, b_int: int) -> State:
        changed = self._load(acc_in) if load else self._multiply(a_exp, a_int, b_exp, b_int)
        self.state = self.latched(load, acc_in, a_exp, a_int, b_exp, b_int, **changed)
        return self.state

    def _load(self, acc_in: int) -> dict[str, Any]:
        return {"event": "load", "shift": 0, "product": 0, "acc": acc_in, "overflow": 0}

    def _multiply(self, a_exp: int, a_int: int, b_exp: int, b_int: int) -> dict[str, Any]:
        """<a, b> x <c, d> = <a + c, b d> [olive §4.4], added to the accumulator."""
        before, shift, product = self.state, a_exp + b_exp, a_int * b_int
        acc, overflow = reduce(before.acc + (product << shift), self.overflow)
        return {
            "event": "mac",
            "shift": shift,
            "product": product,
            "acc": acc,
            "overflow": overflow,
            "macs": before.macs + 1,
            "overflows": before.overflows + overflow,
        }


def ports(config: Mapping[str, Any]) -> Ports:
    """Ports in one configuration."""
    exponent_bits, int_bits = config.get("exponent_bits", 4), config.get("int_bits", 4)
    operands = [
        port
        for name in ("a", "b")
        for port in (
            Port(f"{name}_exp", exponent_bits, meaning=f"exponent of operand {name}"),
            Port(f"{name}_int", int_bits, signed=True, meaning=f"integer of operand {name}"),
        )
    ]
    return Ports(
        inputs=(
            Port("load", 1, meaning="put acc_in into the accumulator, make no product"),
            Port("acc_in", ACC_BITS, signed=True, meaning="what a load puts there"),
            *operands,
        ),
        outputs=(
            Port("shift", exponent_bits + 1, meaning="sum of the exponents; 0 at a load"),
            Port("product", 2 * int_bits, signed=True, meaning="product of the integers; 0 at a load"),
            Port("acc", ACC_BITS, signed=True, meaning="accumulator after the event"),
            Port("overflow", 1, meaning="the exact sum of this event left 32 signed bits"),
        ),
    )


UNIT: Unit[State, Result] = Unit(
    name="olive_mac",
    paper="olive §4.4",
    meaning="multiply-accumulate of exponent-integer pairs into 32 bits",
    configs={name: Config(exponent_bits=4, int_bits=4, overflow=name) for name in ("wrap", "saturate")},
    ports=ports,
    unit_class=OliveMac,
    cases=olive_mac_cases.cases,
    counters=("macs", "overflows"),
    mark=olive_mac_cases.mark,
    flags={"OVERFLOW": Flag(0, "the exact sum left 32 bits: wrapped or saturated by configuration (D-olive-33)")},
)
run: RunFunction[Result] = UNIT.run
