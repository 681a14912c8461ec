"""The instruction mmaovp with a clock: an edge is one dot product operation of a tile, or nothing is under way.

Paper: [olive §4.6]. Composed of mmaovp: one element of D gets one chunk of K per edge, in the order of that unit, where
the paper's tensor core takes sixteen at once. D holds the partial sums. Decisions: D-arith-19 (a start while busy),
D-arith-20 (outputs of an open operation), D-arith-21 (how long `valid` lasts).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from refemu.units import clocked
from refemu.units.clocked import EventPerEdge
from refemu.units.olive import mmaovp
from refemu.units.olive.cases import mmaovp_clocked as mmaovp_clocked_cases
from refemu.units.olive.mmaovp import CHUNKS, COLUMNS, ROWS, MmaOvp, Type
from refemu.units.olive.olive_mac import OverflowMode
from refemu.units.ports import Ports
from refemu.units.stepped import Result
from refemu.units.unit import Config, RunFunction, Unit

__all__ = ["EVENTS", "UNIT", "ClockedMmaOvp", "State", "run"]


EVENTS = ROWS * COLUMNS * CHUNKS  #: of an operation


@dataclass(frozen=True)
class State(mmaovp.State):
    """Ports and registers after one edge, and counts since reset; `a_pairs` to `c` are the ports in that row."""

    start: int
    phase: int  #: number of the last event in its operation: row, column, chunk of K, the last fastest
    a_pairs_held: tuple[int, ...]  #: A of the operation
    b_pairs_held: tuple[int, ...]  #: B of the operation
    bias_a_held: int
    bias_b_held: int
    busy: int
    valid: int


class ClockedMmaOvp(EventPerEdge[State]):
    """Tensor core with one dot product unit, an operation of it per edge.

    References
    ----------
    [olive §4.6]
    """

    name = "mmaovp_clocked"
    held = ("a_pairs", "b_pairs", "bias_a", "bias_b")
    inner: MmaOvp

    def __init__(self, a_type: Type = "ovpi4", b_type: Type = "ovpi4", overflow: OverflowMode = "wrap") -> None:
        """Configure the tensor core.

        Parameters
        ----------
        a_type, b_type : {"ovpi4", "ovpf4", "ovpi8", "ovpi8_repo"}
            Types of A and B, of one width.
        overflow : {"wrap", "saturate"}
            Rule for a result that leaves 32 bits.

        Raises
        ------
        Refused
            A type is unknown, or the widths differ.
        """
        inner = MmaOvp(a_type, b_type, overflow)
        self.a_type, self.b_type, self.overflow = inner.a_type, inner.b_type, inner.overflow
        self._contain(inner, ports({"a_type": inner.a_type, "b_type": inner.b_type}), State)

    def step(
        self,
        start: int,
        a_pairs: Sequence[int],
        b_pairs: Sequence[int],
        bias_a: int,
        bias_b: int,
        c: Sequence[int],
    ) -> State:
        """Execute one edge: the next operation of the tile under way, else with start=1 the first one of another."""
        return self._open(*self.accept(start, a_pairs, b_pairs, bias_a, bias_b, c))


def ports(config: Mapping[str, Any]) -> Ports:
    """Ports in one configuration."""
    return clocked.ports(mmaovp.ports(config), EVENTS, ClockedMmaOvp.held)


UNIT: Unit[State, Result] = Unit(
    name="mmaovp_clocked",
    paper="olive §4.6",
    meaning="D = A x B + C on a tile of outlier-victim pairs, a dot product operation per clock edge",
    configs={"i4_i4": Config(a_type="ovpi4", b_type="ovpi4", overflow="wrap")},
    ports=ports,
    unit_class=ClockedMmaOvp,
    cases=mmaovp_clocked_cases.cases,
    counters=mmaovp.COUNTERS,
    mark=partial(clocked.marks, mmaovp.UNIT),
    flags=mmaovp.UNIT.flags,
)
run: RunFunction[Result] = UNIT.run
