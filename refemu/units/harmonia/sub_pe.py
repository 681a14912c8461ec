"""The sub-PE: 32 products of a 4-bit and an 8-bit magnitude with signs, and their exact sum.

Paper: [harmonia §IV-B, Fig. 13] "dot-products on 32 pairs of 4-bit and 8-bit operands in parallel". Decisions:
D-harmonia-12 (the 4-bit port takes INT4 magnitudes, 4-bit mantissas, and either nibble of an 8-bit mantissa of `b`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from refemu.units import sub_pe_cases, unit
from refemu.units.unit import Cases, Config, Port, Ports, Stepped, Unit, admit, collect
from refemu.units.unit_cases import Seeds

LANES = 32  #: pairs of one dot product, a BFP group [harmonia §IV-B]
PSUM_BITS = 18  #: of the sum: 32 * 255 * 15 = 122,400 is below 2^17


@dataclass(frozen=True)
class State:
    """Ports after one dot product, and what happened since reset."""

    event: str  #: "reset" or "psum"
    index: int  #: -1 for the reset
    a_sign: tuple[int, ...]
    a_mag: tuple[int, ...]
    b_sign: tuple[int, ...]
    b_mag: tuple[int, ...]
    psum: int
    psums: int  #: sums made
    macs4x8: int  #: products of 4 by 8 bits, those with a zero included


@dataclass(frozen=True, eq=False)
class Result(unit.Result):
    """What leaves the sub-PE."""

    psum: np.ndarray  #: int32, (...)
    psums: int
    macs4x8: int


class SubPe(Stepped):
    """The block of [harmonia Fig. 13]: combinational, one event per dot product."""

    name = "sub_pe"

    def __init__(self) -> None:
        self.ports = ports({})
        zeros = (0,) * LANES
        self.state = State("reset", -1, zeros, zeros, zeros, zeros, 0, 0, 0)

    def step(self, a_sign: Any, a_mag: Any, b_sign: Any, b_mag: Any) -> State:
        """One dot product; each argument holds 32 lanes."""
        a_sign, a_mag, b_sign, b_mag = self.accept(a_sign, a_mag, b_sign, b_mag)
        before = self.state
        self.state = State(
            "psum",
            before.index + 1,
            a_sign,
            a_mag,
            b_sign,
            b_mag,
            psum(a_sign, a_mag, b_sign, b_mag),
            before.psums + 1,
            before.macs4x8 + LANES,
        )
        return self.state

    def steps(self, a_sign: Any, a_mag: Any, b_sign: Any, b_mag: Any) -> Iterator[State]:
        """Yield the State after every dot product, in C order; arguments (..., 32) broadcast."""
        arrays = admit(self.name, self.ports.inputs, (a_sign, a_mag, b_sign, b_mag))
        for operands in zip(*(array.reshape(-1, LANES).tolist() for array in arrays), strict=True):
            yield self.step(*operands)

    def __repr__(self) -> str:
        return "SubPe()"


def psum(a_sign: tuple[int, ...], a_mag: tuple[int, ...], b_sign: tuple[int, ...], b_mag: tuple[int, ...]) -> int:
    """Sum of (-1)^(sign of a xor sign of b) times the product of the magnitudes: exact, so its order is free."""
    total = 0
    for left, x, right, y in zip(a_sign, a_mag, b_sign, b_mag, strict=True):
        total += -x * y if left ^ right else x * y
    return total


def run(a_sign: Any, a_mag: Any, b_sign: Any, b_mag: Any) -> Result:
    """The sums of products of magnitudes with signs, for dot products of any shape.

    a_sign, b_sign: (..., 32) of 0 and 1, 1 = negative. a_mag: (..., 32) below 256. b_mag: (..., 32) below 16. They
    broadcast. Returns the Result, arrays of shape (...). Refuses a value outside its port, lanes other than 32.
    Paper: [harmonia §IV-B, Fig. 13].
    """
    device = SubPe()
    arrays = admit(device.name, device.ports.inputs, (a_sign, a_mag, b_sign, b_mag))
    states = list(device.steps(*arrays))
    return Result(
        **collect(states, device.ports.outputs, arrays[0].shape[:-1]),
        psums=device.state.psums,
        macs4x8=device.state.macs4x8,
    )


def ports(config: Mapping[str, Any]) -> Ports:
    """Widths; there is one configuration."""
    return Ports(
        inputs=(
            Port("a_sign", 1, LANES, meaning="1 where an element of a is negative"),
            Port("a_mag", 8, LANES, meaning="magnitudes of a"),
            Port("b_sign", 1, LANES, meaning="1 where an element of b is negative"),
            Port("b_mag", 4, LANES, meaning="magnitudes of b: INT4, 4-bit mantissa, or a nibble of 8 bits"),
        ),
        outputs=(Port("psum", PSUM_BITS, signed=True, meaning="sum of the 32 products"),),
    )


def cases(config: Config, kind: str, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind; see sub_pe_cases.py."""
    return sub_pe_cases.cases(ports(config).inputs, kind, seed)


UNIT = Unit(
    name="sub_pe",
    paper="harmonia §IV-B, Fig. 13",
    meaning="dot product of 32 pairs of 8-bit and 4-bit magnitudes",
    configs={"paper": Config()},
    ports=ports,
    run=run,
    twin="refemu.units.sub_pe_jit:run",
    unit_class=SubPe,
    cases=cases,
)
