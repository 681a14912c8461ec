"""Orizuru, sequential: a clock edge loads, sets a level of a tree, pops, repairs one node, or is idle.

Paper: [kllm §IV-C, Fig. 7, Eq. (4)]. Composed of orizuru; events of the max tree come first.
"""

from dataclasses import dataclass

import numpy as np

from refemu.units import Config, DeclaredState, RunFunction, Unit, constant
from refemu.units.cycle_accurate import CycleAccurate
from refemu.units.kllm import orizuru
from refemu.units.kllm.orizuru import Orizuru

__all__ = ["UNIT", "ClockedOrizuru", "Result", "State", "run"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Result(orizuru.Result):
    """Outputs and registers after every edge, in words; counters are totals."""

    busy: np.ndarray  #: bool
    valid: np.ndarray  #: bool
    phase: np.ndarray
    x_held: np.ndarray


class ClockedOrizuru(CycleAccurate, Orizuru):
    """Orizuru, an event per edge."""

    name = "orizuru_clocked"
    held = ("x",)

    @constant
    def edges(self) -> int:
        return 1 + self.inner.last

    def invariant(self, state: DeclaredState) -> bool:
        """While repairs of a pop remain, `node` is in the level that changed last."""
        above = (state.phase - 2 * self.levels) % (1 + self.levels)
        return state.phase < 2 * self.levels or above == 0 or state.node >> (1 + self.levels - above) == 1

    def _require(self, *inputs: np.ndarray) -> None:
        """Reject NaN with start=1 unless the order is total."""
        start, x = inputs
        orizuru.require_ordered(x * (start[..., None] != 0), self.total_order)

    def draw(self, state: DeclaredState) -> str:
        """Draw both trees as text, as `orizuru` does."""
        return self.inner.draw(self.whole(state))


UNIT: Unit[DeclaredState, Result] = Unit(
    unit_class=ClockedOrizuru,
    paper="kllm §IV-C, Fig. 7",
    meaning="the k largest and the k smallest of n values, by two trees, an event per clock edge",
    configs={
        "n8": Config(n=8, k=2, total_order=False, min_leaf="not_max"),
        "n16": Config(n=16, k=3, total_order=False, min_leaf="not_max"),
        "n16_total_order": Config(n=16, k=3, total_order=True, min_leaf="compare"),
    },
    result=Result,
)
State: type[DeclaredState] = ClockedOrizuru.State
run: RunFunction[Result] = UNIT.run
