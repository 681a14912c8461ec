"""FP2Half: a column of FP32 results of the PE array becomes FP16.

Paper: [harmonia §IV-A (4), Fig. 12].
"""

from typing import ClassVar

import numpy as np

from refemu.arith import fp16
from refemu.arith.fp16 import Fp16Mode
from refemu.units.declared import Changes, Combinational, DeclaredState, constant, decides
from refemu.units.harmonia.fp2half import cases
from refemu.units.ports import Port, Ports
from refemu.units.stepped import Result
from refemu.units.unit import AnyUnit, Config, Flag, RunFunction, Unit

__all__ = ["LANES", "UNIT", "Fp2Half", "State", "run"]


LANES = 8  #: Rows of the array [harmonia §IV-A]


class Fp2Half(Combinational):
    """FP2Half: one event is one column of 8 lanes."""

    name = "fp2half"
    events: ClassVar[tuple[str, ...]] = ("convert",)
    counters: ClassVar[dict[str, str]] = {
        "columns": "columns of eight words converted",
        "overflows": "elements with `overflow` set: finite in FP32, infinite in FP16",
    }
    saturate: bool = False  #: 65504 of the sign instead of infinity (D-harmonia-13)

    @constant
    def mode(self) -> Fp16Mode:
        """Rounding and overflow."""
        return Fp16Mode(overflow="saturate" if self.saturate else "inf")

    @constant
    def ports(self) -> Ports:
        return Ports(
            inputs=(Port("x", 32, LANES, encoding="f32", meaning="a column of results"),),
            outputs=(
                Port("y", 16, LANES, encoding="f16", meaning="the nearest fp16 values"),
                Port("overflow", 1, LANES, meaning="a finite value whose magnitude is 65520 or more"),
            ),
        )

    def convert(self, x: tuple[int, ...]) -> Changes:
        """A column of eight FP32 words becomes FP16."""
        column = np.array(x, np.uint32).view(np.float32)
        overflow = tuple(
            int(word & 0x7FFFFFFF < 0x7F800000 and abs(value) >= fp16.OVERFLOW)
            for word, value in zip(x, column.tolist(), strict=True)
        )
        y = tuple(fp16.bits(self._half(column)).tolist())
        return {"y": y, "overflow": overflow, "columns": 1, "overflows": overflow.count(1)}

    @decides("D-arith-2")
    def _half(self, column: np.ndarray) -> np.ndarray:
        """Float32 values as float16."""
        return fp16.to_f16(column, self.mode)


UNIT: AnyUnit = Unit(
    unit_class=Fp2Half,
    paper="harmonia §IV-A (4), Fig. 12",
    meaning="a column of eight FP32 values to FP16",
    configs={"paper": Config(saturate=False), "saturate": Config(saturate=True)},
    cases=cases.cases,
    mark=cases.mark,
    flags={
        "OVERFLOW": Flag(0, "a lane left fp16: infinite or saturated by configuration (D-harmonia-13)"),
        "SUBNORMAL": Flag(1, "a lane's result is subnormal"),
    },
)
State: type[DeclaredState] = Fp2Half.State
run: RunFunction[Result] = UNIT.run
