"""The sub-PE: 32 products of a 4-bit and an 8-bit magnitude with signs, and their exact sum.

Paper: [harmonia §IV-B, Fig. 13] "dot-products on 32 pairs of 4-bit and 8-bit operands in parallel". Decisions:
D-harmonia-12 (the 4-bit port takes INT4 magnitudes, 4-bit mantissas, and either nibble of an 8-bit mantissa of `b`).
"""

from typing import ClassVar

from refemu.units import AnyUnit, Changes, Combinational, Config, DeclaredState, Port, Ports, Result, Unit, constant
from refemu.units.unit import RunFunction

__all__ = ["LANES", "PSUM_BITS", "UNIT", "State", "SubPe", "run"]


LANES = 32  #: Pairs of one dot product, a BFP group [harmonia §IV-B]
PSUM_BITS = 18  #: Width of the sum: 32 * 255 * 15 = 122,400 is below 2^17

Lanes = tuple[int, ...]  #: a value of each of the 32 pairs


class SubPe(Combinational):
    """Sub-PE: one event is one dot product."""

    name = "sub_pe"
    events: ClassVar[tuple[str, ...]] = ("psum",)
    counters: ClassVar[dict[str, str]] = {
        "psums": "sums of 32 products made",
        "macs4x8": "products of 4 by 8 bits, 32 for each sum, products of 0 included",
    }

    @constant
    def ports(self) -> Ports:
        return Ports(
            inputs=(
                Port("a_sign", 1, LANES, meaning="1 where an element of a is negative"),
                Port("a_mag", 8, LANES, meaning="magnitudes of a"),
                Port("b_sign", 1, LANES, meaning="1 where an element of b is negative"),
                Port("b_mag", 4, LANES, meaning="magnitudes of b: INT4, 4-bit mantissa, or a nibble of 8 bits"),
            ),
            outputs=(Port("psum", PSUM_BITS, signed=True, meaning="sum of the 32 products"),),
        )

    def psum(self, a_sign: Lanes, a_mag: Lanes, b_sign: Lanes, b_mag: Lanes) -> Changes:
        """Add 32 products."""
        return {"psum": psum(a_sign, a_mag, b_sign, b_mag), "psums": 1, "macs4x8": LANES}


def psum(a_sign: Lanes, a_mag: Lanes, b_sign: Lanes, b_mag: Lanes) -> int:
    """Sum the products of two operands with signs, magnitudes below 256 and 16; exact, so its order is free."""
    total = 0
    for left, x, right, y in zip(a_sign, a_mag, b_sign, b_mag, strict=True):
        total += -x * y if left ^ right else x * y
    return total


UNIT: AnyUnit = Unit(
    unit_class=SubPe,
    paper="harmonia §IV-B, Fig. 13",
    meaning="dot product of 32 pairs of 8-bit and 4-bit magnitudes",
    configs={"paper": Config()},
)
State: type[DeclaredState] = SubPe.State
run: RunFunction[Result] = UNIT.run
