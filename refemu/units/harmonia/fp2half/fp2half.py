"""FP2Half: from a column of FP32 results of the PE array to FP16. [harmonia §IV-A (4), Fig. 12]"""

from typing import ClassVar

from refemu.arith import fp16
from refemu.arith.scalar32 import pattern16, value32
from refemu.units import AnyUnit, Changes, Combinational, Config, Flag, Port, Ports, Result, Unit, constant, decides
from refemu.units.declaration import DeclaredState
from refemu.units.unit import RunFunction

__all__ = ["LANES", "UNIT", "Fp2Half", "State", "run"]


LANES = 8  #: Rows of the array [harmonia §IV-A]
INFINITE16, INFINITE32 = 0x7C00, 0x7F800000  #: words of infinity; larger magnitudes are NaN


class Fp2Half(Combinational):
    """FP2Half: one event is one column of 8 lanes."""

    name = "fp2half"
    events: ClassVar[tuple[str, ...]] = ("convert",)
    counters: ClassVar[dict[str, str]] = {
        "columns": "columns of eight words converted",
        "overflows": "elements with `overflow` set: finite in FP32, infinite in FP16",
    }
    saturate: bool = False  #: 65504 with the sign instead of infinity (D-harmonia-13)

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
        """Convert a column of eight FP32 words to FP16."""
        overflow = [int(word & 0x7FFFFFFF < INFINITE32 and abs(value32(word)) >= fp16.OVERFLOW) for word in x]
        y = tuple(self._half(word) for word in x)
        return {"y": y, "overflow": tuple(overflow), "columns": 1, "overflows": overflow.count(1)}

    @decides("D-arith-2", "D-harmonia-13")
    def _half(self, word: int) -> int:
        """The nearest fp16 word of an FP32 word, or the largest one."""
        half = pattern16(value32(word))
        return half - 1 if self.saturate and half & 0x7FFF == INFINITE16 else half


UNIT: AnyUnit = Unit(
    unit_class=Fp2Half,
    paper="harmonia §IV-A (4), Fig. 12",
    meaning="a column of eight FP32 values to FP16",
    configs={"paper": Config(saturate=False), "saturate": Config(saturate=True)},
    flags={
        "OVERFLOW": Flag(0, "a lane exceeded fp16: infinite or saturated, as configured (D-harmonia-13)"),
        "SUBNORMAL": Flag(1, "a lane's result is subnormal"),
    },
)
State: type[DeclaredState] = Fp2Half.State
run: RunFunction[Result] = UNIT.run
