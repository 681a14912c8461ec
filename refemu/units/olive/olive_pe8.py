"""An 8-bit multiply-accumulate from four 4-bit processing elements and one extra adder.

Paper: [olive §4.5] ("four 4-bit PEs", "an extra adder for every four PEs" [olive §4.3]). Decisions: D-olive-33 (an
accumulator that leaves 32 bits), D-olive-36 (how a negative integer is split), D-olive-37 (which element multiplies
what, and where the four meet).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from refemu.arith.checks import Refused, require_choice
from refemu.arith.integers import Overflow
from refemu.units import olive_pe8_cases, unit
from refemu.units.olive_mac import ACC_BITS, reduce
from refemu.units.unit import Cases, Config, Flag, Port, Ports, Stepped, Unit, admit_events, choices, collect
from refemu.units.unit_cases import Seeds

SPLITS = ("twos_complement", "sign_magnitude")
PES = 4  #: elements of one 8-bit product: high x high, high x low, low x high, low x low (D-olive-37)


@dataclass(frozen=True)
class State:
    """Ports and the register after one event, and what happened since reset. Lanes are the four elements."""

    event: str  #: "reset", "load" or "mac"
    index: int  #: number of the event, -1 for the reset
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
    macs: int  #: 8-bit products accumulated
    pe_multiplications: int  #: 4-bit products, four of each
    overflows: int  #: events with `overflow` set


@dataclass(frozen=True, eq=False)
class Result(unit.Result):
    """What leaves the unit, one value per event; counters over all devices."""

    partial: np.ndarray  #: int16, (..., 4)
    shift: np.ndarray  #: uint8, (..., 4)
    acc: np.ndarray  #: int32
    overflow: np.ndarray  #: bool
    macs: int
    pe_multiplications: int
    overflows: int


def halves(integer: int, split: str) -> tuple[int, int]:
    """High and low part of an 8-bit integer, 16 * high + low; an abfloat's integer has its sign folded in (D-olive-36).

    split: "twos_complement" has high in -8..7 and low in 0..15; in "sign_magnitude" both carry the sign.
    """
    if split == "sign_magnitude" and integer < 0:
        return -(-integer >> 4), -(-integer & 15)
    return integer >> 4, integer & 15


class OlivePe8(Stepped):
    """The block of [olive §4.5]. One event loads the accumulator, or makes four products, shifts and adds them."""

    name = "olive_pe8"

    def __init__(self, split: str = "twos_complement", overflow: str = "wrap") -> None:
        """split: one of SPLITS. overflow: "wrap" or "saturate"."""
        self.split = require_choice(split, SPLITS, self.name, "split")
        self.overflow = Overflow(require_choice(str(overflow), ("wrap", "saturate"), self.name, "overflow"))
        self.ports = ports({})
        self.state = State("reset", -1, 0, 0, 0, 0, 0, 0, (0,) * PES, (0,) * PES, 0, 0, 0, 0, 0)

    def step(self, load: int, acc_in: int, x_exp: int, x_int: int, y_exp: int, y_int: int) -> State:
        """One event; returns the State after it. With `load` no product is made: partial and shift show 0."""
        return self._event(*self.accept(load, acc_in, x_exp, x_int, y_exp, y_int))

    def _event(self, load: int, acc_in: int, x_exp: int, x_int: int, y_exp: int, y_int: int) -> State:
        before, inputs = self.state, (load, acc_in, x_exp, x_int, y_exp, y_int)
        if load:
            counts = before.macs, before.pe_multiplications, before.overflows
            self.state = State("load", before.index + 1, *inputs, (0,) * PES, (0,) * PES, acc_in, 0, *counts)
            return self.state
        (high_x, low_x), (high_y, low_y) = halves(x_int, self.split), halves(y_int, self.split)
        partial = high_x * high_y, high_x * low_y, low_x * high_y, low_x * low_y
        exponent = x_exp + y_exp
        shift = 8 + exponent, 4 + exponent, 4 + exponent, exponent
        total = before.acc
        for one, by in zip(partial, shift, strict=True):
            total += one << by  # the extra adder: exact, one reduction below
        acc, overflow = reduce(total, self.overflow)
        counts = before.macs + 1, before.pe_multiplications + PES, before.overflows + overflow
        self.state = State("mac", before.index + 1, *inputs, partial, shift, acc, overflow, *counts)
        return self.state

    def steps(self, load: Any, acc_in: Any, x_exp: Any, x_int: Any, y_exp: Any, y_int: Any) -> Iterator[State]:
        """Yield the State after every event of one device; the arguments, (events,) or scalars, broadcast."""
        arrays = admit_events(self.name, self.ports.inputs, (load, acc_in, x_exp, x_int, y_exp, y_int))
        if arrays[0].ndim != 1:
            raise Refused(f"{self.name}: steps takes one sequence of events, got shape {arrays[0].shape}")
        for event in zip(*(array.tolist() for array in arrays), strict=True):
            yield self._event(*event)

    def __repr__(self) -> str:
        return f"OlivePe8(split={self.split!r}, overflow={self.overflow.value!r})"


def run(
    load: Any,
    acc_in: Any,
    x_exp: Any,
    x_int: Any,
    y_exp: Any,
    y_int: Any,
    *,
    split: str = "twos_complement",
    overflow: str = "wrap",
) -> Result:
    """Every event of one device or of many.

    load: 0 or 1. acc_in: int32, what a load puts into the accumulator. x_exp, y_exp: unsigned, below 32. x_int, y_int:
    int8. All (..., events), and they broadcast; each device, an index of the leading axes, starts from reset, acc = 0.
    split, overflow: as for OlivePe8. Returns the Result, arrays of the common shape (`partial`, `shift` with 4 lanes).
    Refuses a value outside its port, and only scalars. Paper: [olive §4.5].
    """
    pe = OlivePe8(split, overflow)
    arrays = admit_events(pe.name, pe.ports.inputs, (load, acc_in, x_exp, x_int, y_exp, y_int))
    shape = arrays[0].shape
    reset, states = pe.state, list[State]()
    counts = np.zeros(3, np.int64)
    flat = prod(shape[:-1]), shape[-1]
    for device in zip(*(array.reshape(flat).tolist() for array in arrays), strict=True):
        pe.state = reset
        states += [pe._event(*event) for event in zip(*device, strict=True)]
        counts += [pe.state.macs, pe.state.pe_multiplications, pe.state.overflows]
    macs, multiplications, overflows = counts.tolist()
    return Result(
        **collect(states, pe.ports.outputs, shape), macs=macs, pe_multiplications=multiplications, overflows=overflows
    )


def ports(config: Mapping[str, Any]) -> Ports:
    """Widths; the same in every configuration."""
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


def cases(config: Config, kind: str, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind; see olive_pe8_cases.py."""
    return olive_pe8_cases.cases(ports(config).inputs, kind, seed)


UNIT = Unit(
    name="olive_pe8",
    paper="olive §4.5",
    meaning="8-bit multiply-accumulate from four 4-bit elements",
    configs={
        "wrap": Config(split="twos_complement", overflow="wrap"),
        "saturate": Config(split="twos_complement", overflow="saturate"),
        "sign_magnitude": Config(split="sign_magnitude", overflow="wrap"),
    },
    ports=ports,
    run=run,
    twin="refemu.units.olive_pe8_jit:run",
    unit_class=OlivePe8,
    timing="event",
    cases=cases,
    mark=olive_pe8_cases.mark,
    flags={"OVERFLOW": Flag(0, "the exact sum left 32 bits: wrapped or saturated by configuration (D-olive-33)")},
    alternatives=(
        *choices("D-olive-33", "overflow", "wrap", "saturate"),
        *choices("D-olive-36", "split", "twos_complement", "sign_magnitude"),
    ),
)
