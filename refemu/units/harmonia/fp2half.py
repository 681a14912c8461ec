"""FP2Half: a column of FP32 results of the PE array becomes FP16.

Paper: [harmonia §IV-A (4), Fig. 12]. Decisions: D-harmonia-13 (what does not fit becomes infinity), D-arith-2 (ties
to even, subnormals kept).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from refemu.arith import fp16
from refemu.arith.checks import RefusedType, plain
from refemu.arith.fp16 import Fp16Mode
from refemu.units.harmonia.cases import fp2half as fp2half_cases
from refemu.units.ports import Port, Ports
from refemu.units.stepped import Result, Stepped
from refemu.units.unit import Config, Flag, RunFunction, Unit

__all__ = ["LANES", "UNIT", "Fp2Half", "State", "run"]


LANES = 8  #: Rows of the array [harmonia §IV-A]


@dataclass(frozen=True)
class State:
    """Ports after one column, and counters since reset."""

    event: str  #: "reset": no column yet; "convert": a column of eight FP32 words becomes FP16
    index: int  #: number of the column since reset, from 0; -1 at reset
    x: tuple[int, ...]
    y: tuple[int, ...]
    overflow: tuple[int, ...]
    columns: int  #: columns of eight words converted
    overflows: int  #: elements with `overflow` set: finite in FP32, infinite in FP16


class Fp2Half(Stepped[State]):
    """FP2Half, combinational: one step is one column of 8 lanes.

    References
    ----------
    [harmonia §IV-A, Fig. 12]
    """

    name = "fp2half"

    def __init__(self, saturate: bool = False) -> None:
        """Configure the unit.

        Parameters
        ----------
        saturate : bool
            65504 of the sign instead of infinity (D-harmonia-13).

        Raises
        ------
        RefusedType
            `saturate` is no bool.
        """
        self.saturate: bool = plain(saturate)
        if not isinstance(self.saturate, bool):
            raise RefusedType(f"{self.name}: saturate must be a bool, got {saturate!r}")
        self.mode: Fp16Mode = Fp16Mode(overflow="saturate" if self.saturate else "inf")
        self.ports: Ports = ports({})
        self.state: State = self.reset(State)

    def step(self, x: Sequence[int]) -> State:
        """Convert one column of eight float32 words."""
        return self._open(*self.accept(x))

    def _open(self, x: tuple[int, ...]) -> State:
        column = np.array(x, np.uint32).view(np.float32)
        y = fp16.bits(self._half(column))
        overflow = tuple(
            int(word & 0x7FFFFFFF < 0x7F800000 and abs(value) >= fp16.OVERFLOW)
            for word, value in zip(x, column.tolist(), strict=True)
        )
        self.state = self.latched(
            x,
            event="convert",
            y=tuple(y.tolist()),
            overflow=overflow,
            columns=self.state.columns + 1,
            overflows=self.state.overflows + overflow.count(1),
        )
        return self.state

    def _half(self, column: np.ndarray) -> np.ndarray:
        """Float32 values as float16 (D-arith-2)."""
        return fp16.to_f16(column, self.mode)


def ports(config: Mapping[str, Any]) -> Ports:
    """Widths in any configuration."""
    return Ports(
        inputs=(Port("x", 32, LANES, encoding="f32", meaning="a column of results"),),
        outputs=(
            Port("y", 16, LANES, encoding="f16", meaning="the nearest fp16 values"),
            Port("overflow", 1, LANES, meaning="a finite value whose magnitude is 65520 or more"),
        ),
    )


UNIT: Unit[State, Result] = Unit(
    name="fp2half",
    paper="harmonia §IV-A (4), Fig. 12",
    meaning="a column of eight FP32 values to FP16",
    configs={"paper": Config(saturate=False), "saturate": Config(saturate=True)},
    ports=ports,
    unit_class=Fp2Half,
    cases=fp2half_cases.cases,
    counters=("columns", "overflows"),
    mark=fp2half_cases.mark,
    flags={
        "OVERFLOW": Flag(0, "a lane left fp16: infinite or saturated by configuration (D-harmonia-13)"),
        "SUBNORMAL": Flag(1, "a lane's result is subnormal"),
    },
)
run: RunFunction[Result] = UNIT.run
