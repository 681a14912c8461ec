"""The Concat unit: two indices side by side in an 8-bit register, the index of a product codebook.

Paper: [kllm §III-B, §IV-A]. Decision: D-kllm-6 (the first operand is the high part; for narrower indices no bits are
left unused between the two).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from refemu.arith.checks import require_int
from refemu.units.kllm.cases import concat as concat_cases
from refemu.units.ports import Port, Ports
from refemu.units.stepped import Clocked, Result
from refemu.units.unit import Config, RunFunction, Unit

__all__ = ["INPUT_BITS", "REGISTER_BITS", "UNIT", "Concat", "State", "run"]


INPUT_BITS = 4  #: Width of an input port [kllm §IV-A]
REGISTER_BITS = 8  #: Width of the register [kllm §IV-A]


@dataclass(frozen=True)
class State:
    """Ports and the register after one clock edge, and what happened since reset."""

    event: str  #: "reset": the register is 0; "concat": two indices go side by side into the register
    index: int  #: number of the event since reset, from 0; -1 at reset
    a: int
    b: int
    q: int  #: the register, and the port that shows it
    concats: int  #: pairs of indices concatenated, one each clock edge


class Concat(Clocked[State]):
    """Concat unit: one event is a clock edge, q <- (a << b_bits) | b.

    References
    ----------
    [kllm §III-B, §IV-A]
    """

    name = "concat"

    def __init__(self, a_bits: int = 4, b_bits: int = 4) -> None:
        """Configure the unit.

        Parameters
        ----------
        a_bits, b_bits : int
            Widths of the indices, 1 to 4.

        Raises
        ------
        Refused
            A width is out of range.
        """
        self.a_bits: int = require_int(a_bits, 1, INPUT_BITS, self.name, "a_bits")
        self.b_bits: int = require_int(b_bits, 1, INPUT_BITS, self.name, "b_bits")
        self.ports: Ports = _ports(self.a_bits, self.b_bits)
        self.state: State = self.reset(State)

    def step(self, a: int, b: int) -> State:
        """Execute one clock edge."""
        return self.edge(*self.accept(a, b))

    def _open(self, a: int, b: int) -> State:
        return self.edge(a, b)

    def edge(self, a: int, b: int) -> State:
        """Execute one clock edge without checking inputs.

        Parameters
        ----------
        a, b : int
            Indices below 2**a_bits and 2**b_bits.

        Returns
        -------
        State
            The register after the edge.
        """
        q = (a << self.b_bits) | b  # [kllm §III-B]; D-kllm-6
        self.state = self.latched(a, b, event="concat", q=q, concats=self.state.concats + 1)
        return self.state


def ports(config: Mapping[str, Any]) -> Ports:
    """Four wires per input whatever the widths; an index leaves the upper ones at 0."""
    return _ports(config.get("a_bits", INPUT_BITS), config.get("b_bits", INPUT_BITS))


@cache
def _ports(a_bits: int, b_bits: int) -> Ports:
    """Shared by the thousands of units of a lane."""
    inputs = (
        Port(name, INPUT_BITS, most=(1 << bits) - 1, meaning=f"index of operand {name}")
        for name, bits in (("a", a_bits), ("b", b_bits))
    )
    return Ports(inputs=tuple(inputs), outputs=(Port("q", REGISTER_BITS, meaning="register after the clock edge"),))


UNIT: Unit[State, Result] = Unit(
    name="concat",
    paper="kllm §III-B, §IV-A",
    meaning="two indices side by side in a register of 8 bits",
    configs={"a4": Config(a_bits=4, b_bits=4), "a3": Config(a_bits=3, b_bits=4), "a3_qk": Config(a_bits=3, b_bits=3)},
    ports=ports,
    unit_class=Concat,
    cases=concat_cases.cases,
    counters=("concats",),
)
run: RunFunction[Result] = UNIT.run
