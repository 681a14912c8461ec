"""The dot product unit , sequential: a clock edge decodes, multiplies, shifts or reduces, or is idle.

Paper: [olive §4.1, Fig. 6a] (16EDP, 8EDP), which states no pipeline stages. Composed of olive_edp.
"""

from functools import partial

from refemu.units import AnyUnit, Config, DeclaredState, Result, RunFunction, Unit, cycle_accurate
from refemu.units.cycle_accurate import CycleAccurate
from refemu.units.olive import olive_edp
from refemu.units.olive.olive_edp import EVENTS, DotProductUnit

__all__ = ["UNIT", "ClockedDotProductUnit", "State", "run"]


class ClockedDotProductUnit(CycleAccurate, DotProductUnit):
    """Dot product unit, an event per edge."""

    name = "olive_edp_clocked"
    held = ("c",)
    edges = len(EVENTS)


UNIT: AnyUnit = Unit(
    unit_class=ClockedDotProductUnit,
    paper="olive §4.1, Fig. 6a",
    meaning="dot product of 16 (8-bit: 8) elements in pairs, plus c, an event per clock edge",
    configs={
        "int4_flint4": Config(a="int4", b="flint4", overflow="wrap"),
        "int8_int8_saturate": Config(a="int8", b="int8", overflow="saturate"),
    },
    mark=partial(cycle_accurate.marks, olive_edp.UNIT),
    flags=olive_edp.UNIT.flags,
)
State: type[DeclaredState] = ClockedDotProductUnit.State
run: RunFunction[Result] = UNIT.run
