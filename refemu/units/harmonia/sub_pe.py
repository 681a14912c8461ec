"""The sub-PE: 32 products of a 4-bit and an 8-bit magnitude with signs, and their exact sum.

Paper: [harmonia §IV-B, Fig. 13] "dot-products on 32 pairs of 4-bit and 8-bit operands in parallel". Decisions:
D-harmonia-12 (the 4-bit port takes INT4 magnitudes, 4-bit mantissas, and either nibble of an 8-bit mantissa of `b`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from refemu.units.harmonia.cases import sub_pe as sub_pe_cases
from refemu.units.ports import Port, Ports
from refemu.units.stepped import Result, Stepped
from refemu.units.unit import Config, RunFunction, Unit

__all__ = ["LANES", "PSUM_BITS", "UNIT", "State", "SubPe", "psum", "run"]


LANES = 32  #: Pairs of one dot product, a BFP group [harmonia §IV-B]
PSUM_BITS = 18  #: Width of the sum: 32 * 255 * 15 = 122,400 is below 2^17


Lanes = tuple[int, ...]  #: a value of each of the 32 pairs


@dataclass(frozen=True)
class State:
    """Ports after one dot product, and what happened since reset."""

    event: str  #: "reset": no sum yet; "psum": 32 products are added up
    index: int  #: number of the sum since reset, from 0; -1 at reset
    a_sign: tuple[int, ...]
    a_mag: tuple[int, ...]
    b_sign: tuple[int, ...]
    b_mag: tuple[int, ...]
    psum: int
    psums: int  #: sums of 32 products made
    macs4x8: int  #: products of 4 by 8 bits, 32 for each sum, those with a zero included


class SubPe(Stepped[State]):
    """Sub-PE, combinational: one event is one dot product.

    References
    ----------
    [harmonia §IV-B, Fig. 13]
    """

    name = "sub_pe"

    def __init__(self) -> None:
        """Make the unit; it has no parameters."""
        self.ports: Ports = ports({})
        self.state: State = self.reset(State)

    def step(self, a_sign: Sequence[int], a_mag: Sequence[int], b_sign: Sequence[int], b_mag: Sequence[int]) -> State:
        """Compute one dot product of 32 lanes."""
        return self._open(*self.accept(a_sign, a_mag, b_sign, b_mag))

    def _open(self, a_sign: Lanes, a_mag: Lanes, b_sign: Lanes, b_mag: Lanes) -> State:
        self.state = self.latched(
            a_sign,
            a_mag,
            b_sign,
            b_mag,
            event="psum",
            psum=psum(a_sign, a_mag, b_sign, b_mag),
            psums=self.state.psums + 1,
            macs4x8=self.state.macs4x8 + LANES,
        )
        return self.state


def psum(a_sign: Lanes, a_mag: Lanes, b_sign: Lanes, b_mag: Lanes) -> int:
    """Sum the products of two operands with signs; the sum is exact, so its order is free.

    Parameters
    ----------
    a_sign : tuple of 32 int
        1 where negative.
    a_mag : tuple of 32 int
        Magnitudes below 256.
    b_sign : tuple of 32 int
        1 where negative.
    b_mag : tuple of 32 int
        Magnitudes below 16.

    Returns
    -------
    int
        Sum.

    References
    ----------
    [harmonia §IV-B, Fig. 13]
    """
    total = 0
    for left, x, right, y in zip(a_sign, a_mag, b_sign, b_mag, strict=True):
        total += -x * y if left ^ right else x * y
    return total


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


UNIT: Unit[State, Result] = Unit(
    name="sub_pe",
    paper="harmonia §IV-B, Fig. 13",
    meaning="dot product of 32 pairs of 8-bit and 4-bit magnitudes",
    configs={"paper": Config()},
    ports=ports,
    unit_class=SubPe,
    cases=sub_pe_cases.cases,
    counters=("psums", "macs4x8"),
)
run: RunFunction[Result] = UNIT.run
