"""FP2Half: a column of FP32 results of the PE array becomes FP16.

Paper: [harmonia §IV-A (4), Fig. 12]. Decision: D-harmonia-13 (what does not fit becomes infinity).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from refemu.arith import fp16
from refemu.arith.checks import RefusedType
from refemu.arith.fp16 import Fp16Mode
from refemu.units import fp2half_cases, unit
from refemu.units.unit import Cases, Config, Flag, Port, Ports, Stepped, Unit, admit, choices, collect
from refemu.units.unit_cases import Seeds

LANES = 8  #: rows of the array [harmonia §IV-A (2)]


@dataclass(frozen=True)
class State:
    """Ports after one column, and counters since reset."""

    event: str  #: "reset" or "convert"
    index: int  #: number of the column, -1 for the reset
    x: tuple[int, ...]
    y: tuple[int, ...]
    overflow: tuple[int, ...]
    columns: int  #: converted
    overflows: int  #: lanes with `overflow` set


@dataclass(frozen=True, eq=False)
class Result(unit.Result):
    """What leaves the unit, lanes last; counters as in State."""

    y: np.ndarray  #: uint16, (..., 8)
    overflow: np.ndarray  #: bool, (..., 8)
    columns: int
    overflows: int


class Fp2Half(Stepped):
    """The block, combinational: one step is one column of 8 lanes."""

    name = "fp2half"

    def __init__(self, saturate: bool = False) -> None:
        """saturate: 65504 of the sign instead of infinity (D-harmonia-13)."""
        if not isinstance(saturate, bool):
            raise RefusedType(f"{self.name}: saturate must be a bool, got {saturate!r}")
        self.saturate = saturate
        self.mode = Fp16Mode(overflow="saturate" if saturate else "inf")
        self.ports = ports({})
        zeros = (0,) * LANES
        self.state = State("reset", -1, zeros, zeros, zeros, 0, 0)

    def step(self, x: Any) -> State:
        """Convert one column of float32 words; returns the State after it."""
        return self._convert(*self.accept(x))

    def _convert(self, words: tuple[int, ...]) -> State:
        column = np.array(words, np.uint32).view(np.float32)
        y = fp16.bits(fp16.to_f16(column, self.mode))
        overflow = tuple(
            int(word & 0x7FFFFFFF < 0x7F800000 and abs(value) >= fp16.OVERFLOW)
            for word, value in zip(words, column.tolist(), strict=True)
        )
        self.state = State(
            "convert",
            self.state.index + 1,
            words,
            tuple(y.tolist()),
            overflow,
            self.state.columns + 1,
            self.state.overflows + overflow.count(1),
        )
        return self.state

    def steps(self, x: Any) -> Iterator[State]:
        """Yield the State after every column, in C order."""
        (words,) = admit(self.name, self.ports.inputs, (x,))
        for column in words.reshape(-1, LANES).tolist():
            yield self._convert(tuple(column))

    def __repr__(self) -> str:
        return f"Fp2Half(saturate={self.saturate})"


def run(x: Any, *, saturate: bool = False) -> Result:
    """Columns of any number.

    x: float32 words as unsigned integers, (..., 8): `values.view(np.uint32)`. saturate: as for Fp2Half.
    Returns the Result: fp16 words, nearest, ties to even, NaN 0x7E00; overflow marks finite values that left fp16.
    Paper: [harmonia §IV-A (4)].
    """
    device = Fp2Half(saturate)
    (words,) = admit(device.name, device.ports.inputs, (x,))
    outputs = collect(list(device.steps(words)), device.ports.outputs, words.shape[:-1])
    return Result(**outputs, columns=device.state.columns, overflows=device.state.overflows)


def ports(config: Mapping[str, Any]) -> Ports:
    """Widths in any configuration."""
    return Ports(
        inputs=(Port("x", 32, LANES, encoding="f32", meaning="a column of results"),),
        outputs=(
            Port("y", 16, LANES, encoding="f16", meaning="the nearest fp16 values"),
            Port("overflow", 1, LANES, meaning="a finite value whose magnitude is 65520 or more"),
        ),
    )


def cases(config: Config, kind: str, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind; see fp2half_cases.py."""
    return fp2half_cases.cases(config, ports(config).inputs, kind, seed)


UNIT = Unit(
    name="fp2half",
    paper="harmonia §IV-A (4), Fig. 12",
    meaning="a column of eight FP32 values to FP16",
    configs={"paper": Config(saturate=False), "saturate": Config(saturate=True)},
    ports=ports,
    run=run,
    twin="refemu.units.fp2half_jit:run",
    unit_class=Fp2Half,
    cases=cases,
    mark=fp2half_cases.mark,
    flags={
        "OVERFLOW": Flag(0, "a lane left fp16: infinite or saturated by configuration (D-harmonia-13)"),
        "SUBNORMAL": Flag(1, "a lane's result is subnormal"),
    },
    alternatives=choices("D-harmonia-13", "saturate", False, True),
)
