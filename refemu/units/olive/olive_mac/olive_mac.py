"""The exponent-integer multiply-accumulate unit: <a, b> x <c, d> = <a + c, b d>, added to a 32-bit register.

Paper: [olive §4.4]; the datapath of a 4-bit processing element without its forwarding registers [olive §4.3, Fig. 8].
"""

from typing import Annotated, ClassVar, Literal, TypeAlias

from refemu.units import AnyUnit, Changes, Config, Flag, Port, Ports, Sequential, Unit, constant, decides
from refemu.units.unit import DeclaredState, Result, RunFunction

__all__ = ["ACC_BITS", "BEYOND", "UNIT", "OliveMac", "OverflowMode", "State", "reduce", "run"]

ACC_BITS = 32  #: Width of the accumulator in bits [olive §4.4]
BEYOND = "exceeded 32 bits: wrapped or saturated, as configured (D-olive-33)"  #: about flag OVERFLOW
OverflowMode: TypeAlias = Literal["wrap", "saturate"]  #: rule for a sum that exceeds 32 bits (D-olive-33)


@decides("D-olive-33")
def reduce(total: int, overflow: OverflowMode) -> tuple[int, int]:
    """Reduce an exact sum to the 32 bits of the register, and 1 if it exceeded them. [olive §4.4]"""
    low, high = -(1 << (ACC_BITS - 1)), (1 << (ACC_BITS - 1)) - 1
    if low <= total <= high:
        return total, 0
    if overflow == "saturate":
        return (high if total > 0 else low), 1
    return ((total - low) & ((1 << ACC_BITS) - 1)) + low, 1


LOADS = (
    Port("load", 1, meaning="put acc_in into the accumulator, make no product"),
    Port("acc_in", ACC_BITS, signed=True, meaning="value that a load puts into the accumulator"),
)
SUMS = (
    Port("acc", ACC_BITS, signed=True, meaning="accumulator after the event"),
    Port("overflow", 1, meaning="the exact sum of this event exceeded 32 signed bits"),
)


def operands(name: str, exponent_bits: int, int_bits: int) -> tuple[Port, Port]:
    """Exponent and integer of an operand. [olive §4.4]"""
    exponent = Port(f"{name}_exp", exponent_bits, meaning=f"exponent of operand {name}")
    return exponent, Port(f"{name}_int", int_bits, signed=True, meaning=f"integer of operand {name}")


class OliveMac(Sequential):
    """Multiply-accumulate unit: one event loads the accumulator, or multiplies, shifts and adds."""

    name = "olive_mac"
    events: ClassVar[tuple[str, ...]] = ("load", "mac")
    counters: ClassVar[dict[str, str]] = {
        "macs": "products added to the accumulator",
        "overflows": "events with `overflow` set: their exact sum exceeded 32 bits",
    }
    exponent_bits: Annotated[int, 1, 5] = 4  #: width of an exponent, 1 to 5
    int_bits: Annotated[int, 2, 8] = 4  #: width of an integer, 2 to 8
    overflow: OverflowMode = "wrap"  #: rule for a sum that exceeds 32 bits (D-olive-33)

    @constant
    def ports(self) -> Ports:
        return Ports(
            inputs=(
                *LOADS,
                *operands("a", self.exponent_bits, self.int_bits),
                *operands("b", self.exponent_bits, self.int_bits),
            ),
            outputs=(
                Port("shift", self.exponent_bits + 1, meaning="sum of the exponents; 0 at a load"),
                Port("product", 2 * self.int_bits, signed=True, meaning="product of the integers; 0 at a load"),
                *SUMS,
            ),
        )

    def opens(self, load: int, *operands: int) -> str:
        return "load" if load else "mac"

    def load(self, load: int, acc_in: int, *operands: int) -> Changes:
        """Load `acc_in` into the accumulator."""
        return {"shift": 0, "product": 0, "acc": acc_in, "overflow": 0}

    def mac(self, load: int, acc_in: int, a_exp: int, a_int: int, b_exp: int, b_int: int) -> Changes:
        """Add <a, b> x <c, d> = <a + c, b d> [olive §4.4] to the accumulator."""
        shift, product = a_exp + b_exp, a_int * b_int
        acc, overflow = reduce(self.state.acc + (product << shift), self.overflow)
        counts = {"macs": 1, "overflows": overflow}
        return {"shift": shift, "product": product, "acc": acc, "overflow": overflow, **counts}


UNIT: AnyUnit = Unit(
    unit_class=OliveMac,
    paper="olive §4.4",
    meaning="multiply-accumulate of exponent-integer pairs into 32 bits",
    configs={name: Config(exponent_bits=4, int_bits=4, overflow=name) for name in ("wrap", "saturate")},
    flags={"OVERFLOW": Flag(0, f"the exact sum {BEYOND}", "overflow")},
)
State: type[DeclaredState] = OliveMac.State
run: RunFunction[Result] = UNIT.run
