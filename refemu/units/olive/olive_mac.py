"""The exponent-integer multiply-accumulate unit: <a, b> x <c, d> = <a + c, b d>, added to a 32-bit register.

Paper: [olive §4.4]; the datapath of a 4-bit processing element without its forwarding registers [olive §4.3, Fig. 8].
Decision: D-olive-33 (an accumulator that leaves 32 bits).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from refemu.arith.checks import Refused, require_choice, require_int
from refemu.arith.integers import Overflow
from refemu.units import olive_mac_cases, unit
from refemu.units.unit import Cases, Config, Flag, Port, Ports, Stepped, Unit, admit_events, choices, collect
from refemu.units.unit_cases import Seeds

ACC_BITS = 32  #: of the accumulator [olive §4.4]


@dataclass(frozen=True)
class State:
    """Ports and the register after one event, and what happened since reset."""

    event: str  #: "reset", "load" or "mac"
    index: int  #: number of the event, -1 for the reset
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
    macs: int  #: products accumulated
    overflows: int  #: events with `overflow` set


@dataclass(frozen=True, eq=False)
class Result(unit.Result):
    """What leaves the unit, one value per event; counters over all devices."""

    shift: np.ndarray  #: uint8
    product: np.ndarray  #: the narrowest signed type that holds 2 * int_bits
    acc: np.ndarray  #: int32
    overflow: np.ndarray  #: bool
    macs: int
    overflows: int


def reduce(total: int, overflow: Overflow) -> tuple[int, int]:
    """`total`, an exact sum, in the register, and 1 if it left 32 signed bits (D-olive-33)."""
    low, high = -(1 << (ACC_BITS - 1)), (1 << (ACC_BITS - 1)) - 1
    if low <= total <= high:
        return total, 0
    if overflow is Overflow.SATURATE:
        return (high if total > 0 else low), 1
    return ((total - low) & ((1 << ACC_BITS) - 1)) + low, 1


class OliveMac(Stepped):
    """The block of [olive §4.4]. One event loads the accumulator, or multiplies, shifts and adds."""

    name = "olive_mac"

    def __init__(self, exponent_bits: int = 4, int_bits: int = 4, overflow: str = "wrap") -> None:
        """exponent_bits, int_bits: widths of an operand. overflow: "wrap" or "saturate"."""
        require_int(exponent_bits, 1, 5, self.name, "exponent_bits")
        require_int(int_bits, 2, 8, self.name, "int_bits")
        require_choice(str(overflow), ("wrap", "saturate"), self.name, "overflow")
        self.exponent_bits, self.int_bits, self.overflow = exponent_bits, int_bits, Overflow(overflow)
        self.ports = ports({"exponent_bits": exponent_bits, "int_bits": int_bits})
        self.state = State("reset", -1, *(0,) * 12)

    def step(self, load: int, acc_in: int, a_exp: int, a_int: int, b_exp: int, b_int: int) -> State:
        """One event; returns the State after it. With `load` no product is made: shift and product show 0."""
        return self._event(*self.accept(load, acc_in, a_exp, a_int, b_exp, b_int))

    def _event(self, load: int, acc_in: int, a_exp: int, a_int: int, b_exp: int, b_int: int) -> State:
        before, inputs = self.state, (load, acc_in, a_exp, a_int, b_exp, b_int)
        if load:
            loaded = *inputs, 0, 0, acc_in, 0, before.macs, before.overflows
            self.state = State("load", before.index + 1, *loaded)
            return self.state
        shift, product = a_exp + b_exp, a_int * b_int  # <a, b> x <c, d> = <a + c, b d> [olive §4.4]
        acc, overflow = reduce(before.acc + (product << shift), self.overflow)
        added = *inputs, shift, product, acc, overflow, before.macs + 1, before.overflows + overflow
        self.state = State("mac", before.index + 1, *added)
        return self.state

    def steps(self, load: Any, acc_in: Any, a_exp: Any, a_int: Any, b_exp: Any, b_int: Any) -> Iterator[State]:
        """Yield the State after every event of one device; the arguments, (events,) or scalars, broadcast."""
        arrays = admit_events(self.name, self.ports.inputs, (load, acc_in, a_exp, a_int, b_exp, b_int))
        if arrays[0].ndim != 1:
            raise Refused(f"{self.name}: steps takes one sequence of events, got shape {arrays[0].shape}")
        for event in zip(*(array.tolist() for array in arrays), strict=True):
            yield self._event(*event)

    def __repr__(self) -> str:
        return (
            f"OliveMac(exponent_bits={self.exponent_bits}, int_bits={self.int_bits}, overflow={self.overflow.value!r})"
        )


def run(
    load: Any,
    acc_in: Any,
    a_exp: Any,
    a_int: Any,
    b_exp: Any,
    b_int: Any,
    *,
    exponent_bits: int = 4,
    int_bits: int = 4,
    overflow: str = "wrap",
) -> Result:
    """Every event of one device or of many.

    load: 0 or 1. acc_in: int32, what a load puts into the accumulator. a_exp, b_exp: unsigned, exponent_bits wide.
    a_int, b_int: signed, int_bits wide. All (..., events), and they broadcast; each device, an index of the leading
    axes, starts from reset, acc = 0. exponent_bits, int_bits, overflow: as for OliveMac.
    Returns the Result, arrays of the common shape. Refuses a value outside its port, and only scalars.
    Paper: [olive §4.4].
    """
    mac = OliveMac(exponent_bits, int_bits, overflow)
    arrays = admit_events(mac.name, mac.ports.inputs, (load, acc_in, a_exp, a_int, b_exp, b_int))
    shape = arrays[0].shape
    flat = prod(shape[:-1]), shape[-1]
    reset, states = mac.state, list[State]()
    macs = overflows = 0
    for device in zip(*(array.reshape(flat).tolist() for array in arrays), strict=True):
        mac.state = reset
        states += [mac._event(*event) for event in zip(*device, strict=True)]
        macs, overflows = macs + mac.state.macs, overflows + mac.state.overflows
    return Result(**collect(states, mac.ports.outputs, shape), macs=macs, overflows=overflows)


def ports(config: Mapping[str, Any]) -> Ports:
    """Widths in one configuration."""
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


def cases(config: Config, kind: str, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind; see olive_mac_cases.py."""
    return olive_mac_cases.cases(config, ports(config).inputs, kind, seed)


UNIT = Unit(
    name="olive_mac",
    paper="olive §4.4",
    meaning="multiply-accumulate of exponent-integer pairs into 32 bits",
    configs={name: Config(exponent_bits=4, int_bits=4, overflow=name) for name in ("wrap", "saturate")},
    ports=ports,
    run=run,
    twin="refemu.units.olive_mac_jit:run",
    unit_class=OliveMac,
    timing="event",
    cases=cases,
    mark=olive_mac_cases.mark,
    flags={"OVERFLOW": Flag(0, "the exact sum left 32 bits: wrapped or saturated by configuration (D-olive-33)")},
    alternatives=choices("D-olive-33", "overflow", "wrap", "saturate"),
)
