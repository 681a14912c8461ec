"""Orizuru with a clock: an edge loads, sets a level of a tree, pops or repairs one node, or nothing is under way.

Paper: [kllm §IV-C, Fig. 7, Eq. (4)]. Composed of orizuru: the max tree's events come first, as there. Decisions:
D-arith-19 (a start while busy), D-arith-20 (outputs of an open operation), D-arith-21 (how long `valid` lasts).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from refemu.units import clocked
from refemu.units.clocked import EventPerEdge
from refemu.units.kllm import orizuru
from refemu.units.kllm.cases import orizuru_clocked as orizuru_clocked_cases
from refemu.units.kllm.orizuru import MinLeaf, Orizuru
from refemu.units.ports import Lanes, Ports
from refemu.units.unit import Config, RunFunction, Unit

__all__ = ["UNIT", "ClockedOrizuru", "Result", "State", "run"]


@dataclass(frozen=True)
class State(orizuru.State):
    """Ports and registers after one edge, and what happened since reset; `x` is the port in that row."""

    start: int
    phase: int  #: number of the last event in its operation
    x_held: Lanes  #: words of the operation
    busy: int
    valid: int


@dataclass(frozen=True, eq=False, kw_only=True)
class Result(orizuru.Result):
    """Outputs and registers after every edge, in words; counters are totals."""

    busy: np.ndarray  #: bool
    valid: np.ndarray  #: bool
    phase: np.ndarray
    x_held: np.ndarray


class ClockedOrizuru(EventPerEdge[State]):
    """Orizuru, an event per edge.

    References
    ----------
    [kllm §IV-C, Fig. 7]
    """

    name = "orizuru_clocked"
    held = ("x",)
    inner: Orizuru

    def __init__(self, n: int, k: int = 1, total_order: bool = False, min_leaf: MinLeaf = "not_max") -> None:
        """Configure the trees.

        Parameters
        ----------
        n : int
            Inputs, 1 to 2**24.
        k : int
            Pops of each tree, 0 to n.
        total_order : bool
            Compare integer keys, so that -0 < +0 and NaN lies beyond infinity.
        min_leaf : {"not_max", "compare"}
            "not_max" reuses the max tree's comparisons.

        Raises
        ------
        Refused
            A parameter is out of range or an option unknown.
        """
        inner = Orizuru(n, k, total_order, min_leaf)
        self.n, self.k, self.total_order, self.min_leaf = inner.n, inner.k, inner.total_order, inner.min_leaf
        self._contain(inner, ports({"n": inner.n, "k": inner.k}), State)

    def step(self, start: int, x: Sequence[int] | int) -> State:
        """Execute one edge: the next event of the operation under way, else with start=1 load `x`."""
        return self._open(*self.accept(start, x))

    def _require(self, *inputs: np.ndarray) -> None:
        """Refuse NaN beside start=1 unless the order is total."""
        start, x = inputs
        orizuru.require_ordered(x.reshape(*start.shape, self.n) * (start[..., None] != 0), self.total_order)

    def draw(self, state: State) -> str:
        """Draw both trees as text, as `orizuru` does.

        Parameters
        ----------
        state : State
            Registers to draw.

        Returns
        -------
        str
            Several lines.
        """
        return self.inner.draw(self.whole(state))


def ports(config: Mapping[str, Any]) -> Ports:
    """Widths in one configuration."""
    events = 1 + orizuru.last_event(config["n"], config["k"])
    return clocked.ports(orizuru.UNIT.ports(config), events, ClockedOrizuru.held)  # type: ignore[arg-type]


UNIT: Unit[State, Result] = Unit(
    name="orizuru_clocked",
    paper="kllm §IV-C, Fig. 7",
    meaning="the k largest and the k smallest of n values, by two trees, an event per clock edge",
    configs={
        "n8": Config(n=8, k=2, total_order=False, min_leaf="not_max"),
        "n16": Config(n=16, k=3, total_order=False, min_leaf="not_max"),
        "n16_total_order": Config(n=16, k=3, total_order=True, min_leaf="compare"),
    },
    ports=ports,
    unit_class=ClockedOrizuru,
    cases=orizuru_clocked_cases.cases,
    counters=orizuru.UNIT.counters,
    result=Result,
)
run: RunFunction[Result] = UNIT.run
