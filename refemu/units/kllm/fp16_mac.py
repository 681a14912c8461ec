"""The FP16 multiply-accumulate unit of a lane: y = acc + a * b, one step of the sequential sum of `arith.dot`.

Paper: [kllm §IV-A, Table I]: 32 of them a lane, for the reduction, the sparse path, the merge and the clustering.
Decisions: D-kllm-3 (two roundings, not one: the product is rounded, then the sum), D-arith-18 (`overflow` is not IEEE's
flag: it stays 0 where a product overflows and meets an infinity or a NaN).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from refemu.arith import fp16
from refemu.arith.checks import require_choice
from refemu.units import fp16_mac_cases, unit
from refemu.units.unit import Cases, Config, Flag, Port, Ports, Stepped, Unit, admit, choices, collect
from refemu.units.unit_cases import Seeds

STEPS = ("fp16", "fp16_fma")  #: rounded twice, or once


@dataclass(frozen=True)
class State:
    """Ports after one step, and what happened since reset."""

    event: str  #: "reset" or "mac"
    index: int  #: number of the step, -1 for the reset
    a: int
    b: int
    acc: int
    product: int  #: a * b rounded; of the fused unit only for looking at
    y: int
    overflow: int
    macs: int
    overflows: int


@dataclass(frozen=True, eq=False)
class Result(unit.Result):
    """What leaves the unit, one value per step."""

    y: np.ndarray  #: uint16, fp16 words
    overflow: np.ndarray  #: bool: y is infinite or NaN although no operand is (D-arith-18)
    macs: int
    overflows: int


class Fp16Mac(Stepped):
    """The unit; one event is one multiplication and one addition."""

    name = "fp16_mac"

    def __init__(self, rounding: str = "fp16") -> None:
        """rounding: "fp16", r16(acc + r16(a * b)), or "fp16_fma", r16(acc + a * b)."""
        self.rounding = require_choice(rounding, STEPS, self.name, "rounding")
        self.ports = PORTS
        self.state = State("reset", -1, *(0,) * 8)

    def step(self, a: Any, b: Any, acc: Any) -> State:
        """One step on fp16 words; returns the State after it."""
        a, b, acc = self.accept(a, b, acc)
        before, (x, y, s) = self.state, fp16.to_f32(fp16.values([a, b, acc]))
        product = fp16.mul16(x, y)
        total = fp16.add16(s, product) if self.rounding == "fp16" else fp16.fma16(x, y, s)
        overflow = int(bool(np.isfinite([x, y, s]).all()) and not np.isfinite(total))
        self.state = State(
            "mac",
            before.index + 1,
            a,
            b,
            acc,
            _word(product),
            _word(total),
            overflow,
            before.macs + 1,
            before.overflows + overflow,
        )
        return self.state

    def steps(self, a: Any, b: Any, acc: Any) -> Iterator[State]:
        """Yield the State after every step; the arguments, fp16 words, broadcast."""
        arrays = admit(self.name, self.ports.inputs, (a, b, acc))
        for event in zip(*(array.ravel().tolist() for array in arrays), strict=True):
            yield self.step(*event)

    def __repr__(self) -> str:
        return f"Fp16Mac(rounding={self.rounding!r})"


def _word(value: np.ndarray) -> int:
    return int(fp16.to_f16(value).view(np.uint16))


def run(a: Any, b: Any, acc: Any, *, rounding: str = "fp16") -> Result:
    """y = acc + a * b for steps of any shape.

    a, b, acc: fp16 words, integers in [0, 2**16); they broadcast. rounding: as for Fp16Mac. Returns the Result.
    Paper: [kllm §IV-A].
    """
    mac = Fp16Mac(rounding)
    arrays = admit(mac.name, mac.ports.inputs, (a, b, acc))
    states = list(mac.steps(*arrays))
    return Result(
        **collect(states, mac.ports.outputs, arrays[0].shape), macs=mac.state.macs, overflows=mac.state.overflows
    )


PORTS = Ports(
    inputs=tuple(
        Port(name, 16, encoding="f16", meaning=meaning)
        for name, meaning in (
            ("a", "a factor, in the reduction the count"),
            ("b", "a factor, in the reduction the codebook's entry"),
            ("acc", "what the product is added to"),
        )
    ),
    outputs=(
        Port("y", 16, encoding="f16", meaning="acc + a * b"),
        Port("overflow", 1, meaning="finite operands, but y is not"),
    ),
)


def ports(config: Mapping[str, Any]) -> Ports:
    """The same in every configuration."""
    return PORTS


def cases(config: Config, kind: str, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind; see fp16_mac_cases.py."""
    return fp16_mac_cases.cases(config, PORTS.inputs, kind, seed)


UNIT = Unit(
    name="fp16_mac",
    paper="kllm §IV-A, Table I",
    meaning="multiply-accumulate in fp16, y = acc + a * b",
    configs={"paper": Config(rounding="fp16"), "fma": Config(rounding="fp16_fma")},
    ports=ports,
    run=run,
    twin="refemu.units.fp16_mac_jit:run",
    unit_class=Fp16Mac,
    cases=cases,
    mark=fp16_mac_cases.mark,
    alternatives=choices("D-kllm-3", "rounding", *STEPS),
    flags={"OVERFLOW": Flag(0, "finite operands whose product or sum leaves fp16")},
)
