"""The dot product unit with a clock: an edge decodes, multiplies, shifts or reduces, or nothing is under way.

Paper: [olive §4.1, Fig. 6a] (16EDP, 8EDP), which gives no stages. Composed of olive_edp. Decisions: D-arith-19 (a start
while busy), D-arith-20 (outputs of an open operation), D-arith-21 (how long `valid` lasts).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from refemu.units import clocked
from refemu.units.clocked import EventPerEdge
from refemu.units.olive import olive_edp
from refemu.units.olive.cases import olive_edp_clocked as olive_edp_clocked_cases
from refemu.units.olive.olive_edp import EVENTS, DotProductUnit, Operand
from refemu.units.olive.olive_mac import OverflowMode
from refemu.units.ports import Ports
from refemu.units.stepped import Result
from refemu.units.unit import Config, RunFunction, Unit

__all__ = ["UNIT", "ClockedDotProductUnit", "State", "run"]


@dataclass(frozen=True)
class State(olive_edp.State):
    """Ports and registers after one edge, and counts since reset; `a_pairs` to `c` are the ports in that row."""

    start: int
    phase: int  #: place of the last event in EVENTS
    c_held: int  #: c of the operation
    busy: int
    valid: int


class ClockedDotProductUnit(EventPerEdge[State]):
    """Dot product unit, an event per edge.

    References
    ----------
    [olive §4.1, Fig. 6a]
    """

    name = "olive_edp_clocked"
    held = ("c",)
    events = EVENTS
    inner: DotProductUnit

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
        inner = DotProductUnit(a, b, overflow)
        self.a, self.b, self.overflow = inner.a, inner.b, inner.overflow
        self._contain(inner, ports({"a": a, "b": b}), State)

    def step(
        self, start: int, a_pairs: Sequence[int], b_pairs: Sequence[int], bias_a: int, bias_b: int, c: int
    ) -> State:
        """Execute one edge: the next event of the operation under way, else with start=1 decode the operands."""
        return self._open(*self.accept(start, a_pairs, b_pairs, bias_a, bias_b, c))


def ports(config: Mapping[str, Any]) -> Ports:
    """Ports in one configuration."""
    return clocked.ports(olive_edp.ports(config), len(EVENTS), ClockedDotProductUnit.held)


UNIT: Unit[State, Result] = Unit(
    name="olive_edp_clocked",
    paper="olive §4.1, Fig. 6a",
    meaning="dot product of 16 (8-bit: 8) elements in pairs, plus c, an event per clock edge",
    configs={
        "int4_flint4": Config(a="int4", b="flint4", overflow="wrap"),
        "int8_int8_saturate": Config(a="int8", b="int8", overflow="saturate"),
    },
    ports=ports,
    unit_class=ClockedDotProductUnit,
    cases=olive_edp_clocked_cases.cases,
    counters=olive_edp.UNIT.counters,
    mark=olive_edp_clocked_cases.mark,
    flags=olive_edp.UNIT.flags,
)
run: RunFunction[Result] = UNIT.run
