"""The Concat unit: two indices side by side in an 8-bit register, the index of a product codebook.

Paper: [kllm §III-B, §IV-A]. Decision: D-kllm-6 (the first operand is the high part; for narrower indices no bits are
left unused between the two).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from refemu.arith.checks import Refused, require_int
from refemu.units import unit, unit_cases
from refemu.units.unit import Cases, Config, Port, Ports, Stepped, Unit, admit_events, collect
from refemu.units.unit_cases import Seeds

INPUT_BITS = 4  #: of a port [kllm §IV-A]
REGISTER_BITS = 8  #: [kllm §IV-A]


@dataclass(frozen=True)
class State:
    """Ports and the register after one clock edge, and what happened since reset."""

    event: str  #: "reset" or "concat"
    index: int  #: number of the event, -1 for the reset
    a: int
    b: int
    q: int  #: the register, and the port that shows it
    concats: int  #: edges


@dataclass(frozen=True, eq=False)
class Result(unit.Result):
    """What leaves the unit, one value per event; the counter over all devices."""

    q: np.ndarray  #: uint8
    concats: int


class Concat(Stepped):
    """The block of [kllm §IV-A]. One event is a clock edge: q <- (a << b_bits) | b."""

    name = "concat"

    def __init__(self, a_bits: int = 4, b_bits: int = 4) -> None:
        """a_bits, b_bits: widths of the indices, 1 to 4; refused otherwise."""
        require_int(a_bits, 1, INPUT_BITS, self.name, "a_bits")
        require_int(b_bits, 1, INPUT_BITS, self.name, "b_bits")
        self.a_bits, self.b_bits = a_bits, b_bits
        self.ports = ports({"a_bits": a_bits, "b_bits": b_bits})
        self.state = State("reset", -1, 0, 0, 0, 0)

    def step(self, a: int, b: int) -> State:
        """One clock edge; returns the State after it."""
        return self._event(*self.accept(a, b))

    def _event(self, a: int, b: int) -> State:
        before, q = self.state, (a << self.b_bits) | b  # [kllm §III-B]; D-kllm-6
        self.state = State("concat", before.index + 1, a, b, q, before.concats + 1)
        return self.state

    def steps(self, a: Any, b: Any) -> Iterator[State]:
        """Yield the State after every edge of one device; the arguments, (events,) or scalars, broadcast."""
        left, right = admit_events(self.name, self.ports.inputs, (a, b))
        if left.ndim != 1:
            raise Refused(f"{self.name}: steps takes one sequence of events, got shape {left.shape}")
        for event in zip(left.tolist(), right.tolist(), strict=True):
            yield self._event(*event)

    def __repr__(self) -> str:
        return f"Concat(a_bits={self.a_bits}, b_bits={self.b_bits})"


def run(a: Any, b: Any, *, a_bits: int = 4, b_bits: int = 4) -> Result:
    """Every edge of one device or of many.

    a: indices below 2**a_bits. b: below 2**b_bits. Both (..., events), and they broadcast; each device, an index of
    the leading axes, starts from reset. a_bits, b_bits: as for Concat. Returns the Result, q of the common shape.
    Refuses an index outside its width. Paper: [kllm §III-B].
    """
    device = Concat(a_bits, b_bits)
    arrays = admit_events(device.name, device.ports.inputs, (a, b))
    shape = arrays[0].shape
    flat = prod(shape[:-1]), shape[-1]
    reset, states = device.state, list[State]()
    for events in zip(*(array.reshape(flat) for array in arrays), strict=True):
        device.state = reset
        states += device.steps(*events)
    return Result(**collect(states, device.ports.outputs, shape), concats=len(states))


def ports(config: Mapping[str, Any]) -> Ports:
    """Four wires per input whatever the widths; an index leaves the upper ones at 0."""
    inputs = (
        Port(name, INPUT_BITS, most=(1 << config.get(f"{name}_bits", 4)) - 1, meaning=f"index of operand {name}")
        for name in ("a", "b")
    )
    return Ports(inputs=tuple(inputs), outputs=(Port("q", REGISTER_BITS, meaning="register after the clock edge"),))


def cases(config: Config, kind: str, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind: the paper's operands, the ends, every pair."""
    top = (1 << config["a_bits"]) - 1, (1 << config["b_bits"]) - 1
    if kind == "paper":
        yield _case(kind, "[kllm §III-B] not commutative: the operands exchanged", [[1, 0], [0, 1]], "D-kllm-6")
    if kind == "edge":
        yield _case(
            kind,
            "both ends of both operands, and the register holds the last edge only",
            [[top[0], top[1]], [0, top[1]], [top[0], 0], [0, 0]],
            decision="D-kllm-6",
        )
    if kind == "random":
        drawn = unit_cases.random_inputs("concat", ports(config).inputs, (8, 16), seed)
        yield Cases(kind, "sequences of uniform indices", drawn)
    if kind == "exhaustive":
        pairs = [[a, b] for a in range(top[0] + 1) for b in range(top[1] + 1)]
        yield _case(kind, "every pair of indices", pairs[1:] + pairs[:1])


def _case(kind: str, why: str, events: list[list[int]], decision: str = "") -> Cases:
    return Cases(kind, why, unit_cases.sequences(("a", "b"), [events]), decision)


UNIT = Unit(
    name="concat",
    paper="kllm §III-B, §IV-A",
    meaning="two indices side by side in a register of 8 bits",
    configs={"a4": Config(a_bits=4, b_bits=4), "a3": Config(a_bits=3, b_bits=4), "a3_qk": Config(a_bits=3, b_bits=3)},
    ports=ports,
    run=run,
    twin="refemu.units.concat_jit:run",
    unit_class=Concat,
    timing="event",
    cases=cases,
)
