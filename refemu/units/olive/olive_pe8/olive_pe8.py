"""An 8-bit multiply-accumulate from four 4-bit processing elements and one extra adder.

Paper: [olive §4.5] ("four 4-bit PEs", "an extra adder for every four PEs" [olive §4.3]).
"""

from typing import ClassVar, Literal

from refemu.units import AnyUnit, Changes, Config, Flag, Port, Ports, Sequential, Unit, constant, decides
from refemu.units.olive.olive_mac import ACC_BITS, BEYOND, OverflowMode, reduce
from refemu.units.olive.olive_mac.olive_mac import LOADS, SUMS, operands
from refemu.units.unit import DeclaredState, Result, RunFunction

__all__ = ["PES", "UNIT", "OlivePe8", "Split", "State", "run"]

Split = Literal["twos_complement", "sign_magnitude"]  #: Rule that splits an 8-bit integer into halves (D-olive-36)
PES = 4  #: Elements of one 8-bit product: high x high, high x low, low x high, low x low (D-olive-37)
PLACES = (8, 4, 4, 0)  #: Shift of each element's product, to which that of the exponents is added


@decides("D-olive-36")
def halves(integer: int, split: Split) -> tuple[int, int]:
    """Split an 8-bit integer into 16 * high + low; that of an abfloat includes its sign.

    "twos_complement" has high in -8..7 and low in 0..15; in "sign_magnitude" both carry the sign.
    """
    if split == "sign_magnitude" and integer < 0:
        return -(-integer >> 4), -(-integer & 15)
    return integer >> 4, integer & 15


class OlivePe8(Sequential):
    """8-bit unit: one event loads the accumulator, or computes four products, shifts and adds them."""

    name = "olive_pe8"
    events: ClassVar[tuple[str, ...]] = ("load", "mac")
    counters: ClassVar[dict[str, str]] = {
        "macs": "8-bit products added to the accumulator",
        "pe_multiplications": "products of two 4-bit halves, four for each 8-bit product",
        "overflows": "events with `overflow` set: their exact sum exceeded 32 bits",
    }
    split: Split = "twos_complement"  #: rule that splits integers into halves (D-olive-36)
    overflow: OverflowMode = "wrap"  #: rule for a sum that exceeds 32 bits (D-olive-33)

    @constant
    def ports(self) -> Ports:
        return Ports(
            inputs=(*LOADS, *operands("x", 5, 8), *operands("y", 5, 8)),
            outputs=(
                Port("partial", 10, PES, signed=True, meaning="products of the four elements; 0 at a load"),
                Port("shift", 7, PES, meaning="shift of each product; 0 at a load"),
                *SUMS,
            ),
        )

    def opens(self, load: int, *operands: int) -> str:
        return "load" if load else "mac"

    def load(self, load: int, acc_in: int, *operands: int) -> Changes:
        """Load `acc_in` into the accumulator."""
        return {"partial": (0,) * PES, "shift": (0,) * PES, "acc": acc_in, "overflow": 0}

    @decides("D-olive-37")
    def mac(self, load: int, acc_in: int, x_exp: int, x_int: int, y_exp: int, y_int: int) -> Changes:
        """Shift the four products of halves of the integers to their positions and add them."""
        (high_x, low_x), (high_y, low_y) = halves(x_int, self.split), halves(y_int, self.split)
        partial = high_x * high_y, high_x * low_y, low_x * high_y, low_x * low_y
        exponent = x_exp + y_exp
        total, within = self.state.acc, min(exponent, ACC_BITS)  # from 32 on, the register and the flag are the same
        for product, places in zip(partial, PLACES, strict=True):
            total += product << within + places  # the extra adder: reduced once below
        acc, overflow = reduce(total, self.overflow)
        counts = {"macs": 1, "pe_multiplications": PES, "overflows": overflow}
        shift = tuple(exponent + places for places in PLACES)
        return {"partial": partial, "shift": shift, "acc": acc, "overflow": overflow, **counts}


UNIT: AnyUnit = Unit(
    unit_class=OlivePe8,
    paper="olive §4.5",
    meaning="8-bit multiply-accumulate from four 4-bit elements",
    configs={
        "wrap": Config(split="twos_complement", overflow="wrap"),
        "saturate": Config(split="twos_complement", overflow="saturate"),
        "sign_magnitude": Config(split="sign_magnitude", overflow="wrap"),
    },
    flags={"OVERFLOW": Flag(0, f"the exact sum {BEYOND}", "overflow")},
)
State: type[DeclaredState] = OlivePe8.State
run: RunFunction[Result] = UNIT.run
