"""The instruction mmaovp , sequential: one dot product operation of a tile a clock edge, or idle.

Paper: [olive §4.6]. Composed of mmaovp: one element of D gets one chunk of K per edge, in the order of that unit, where
the paper's tensor core takes sixteen at once. D holds the partial sums.
"""

from functools import partial

from refemu.units import AnyUnit, Config, DeclaredState, Result, RunFunction, Unit, cycle_accurate
from refemu.units.cycle_accurate import CycleAccurate
from refemu.units.olive import mmaovp
from refemu.units.olive.mmaovp import OPERATIONS, MmaOvp

__all__ = ["UNIT", "ClockedMmaOvp", "State", "run"]


class ClockedMmaOvp(CycleAccurate, MmaOvp):
    """Tensor core with one dot product unit, which does one operation per edge."""

    name = "mmaovp_clocked"
    held = ("a_pairs", "b_pairs", "bias_a", "bias_b")
    edges = OPERATIONS


UNIT: AnyUnit = Unit(
    unit_class=ClockedMmaOvp,
    paper="olive §4.6",
    meaning="D = A x B + C on a tile of outlier-victim pairs, a dot product operation per clock edge",
    configs={"i4_i4": Config(a_type="ovpi4", b_type="ovpi4", overflow="wrap")},
    mark=partial(cycle_accurate.marks, mmaovp.UNIT),
    flags=mmaovp.UNIT.flags,
)
State: type[DeclaredState] = ClockedMmaOvp.State
run: RunFunction[Result] = UNIT.run
