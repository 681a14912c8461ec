"""The Concat unit: joins two indices in an 8-bit register, the index of a product codebook.

Paper: [kllm §III-B, §IV-A].
"""

from typing import Annotated, ClassVar

from refemu.units import AnyUnit, Changes, Config, DeclaredState, Port, Ports, Sequential, Unit, constant
from refemu.units.unit import Result, RunFunction

__all__ = ["INPUT_BITS", "REGISTER_BITS", "UNIT", "Concat", "State", "run"]

INPUT_BITS = 4  #: Width of an input port [kllm §IV-A]
REGISTER_BITS = 8  #: Width of the register [kllm §IV-A]


class Concat(Sequential):
    """Concat unit: one event is a clock edge, q <- (a << b_bits) | b."""

    name = "concat"
    events: ClassVar[tuple[str, ...]] = ("concat",)
    counters: ClassVar[dict[str, str]] = {"concats": "pairs of indices concatenated, one each clock edge"}
    a_bits: Annotated[int, 1, INPUT_BITS] = INPUT_BITS  #: width of the index a, 1 to 4
    b_bits: Annotated[int, 1, INPUT_BITS] = INPUT_BITS  #: width of the index b, 1 to 4

    @constant
    def ports(self) -> Ports:
        """Four wires per input at any width; the upper wires of a narrower index are 0."""
        inputs = (
            Port(name, INPUT_BITS, most=(1 << bits) - 1, meaning=f"index of operand {name}")
            for name, bits in (("a", self.a_bits), ("b", self.b_bits))
        )
        return Ports(inputs=tuple(inputs), outputs=(Port("q", REGISTER_BITS, meaning="register after the clock edge"),))

    def concat(self, a: int, b: int) -> Changes:
        """Store two indices, joined, in the register."""
        return {"q": (a << self.b_bits) | b, "concats": 1}  # [kllm §III-B]; D-kllm-6

    def edge(self, a: int, b: int) -> DeclaredState:
        """Advance a clock edge with inputs already checked, as lanes do."""
        return self._open(a, b)


UNIT: AnyUnit = Unit(
    unit_class=Concat,
    paper="kllm §III-B, §IV-A",
    meaning="two indices joined in a register of 8 bits",
    configs={"a4": Config(a_bits=4, b_bits=4), "a3": Config(a_bits=3, b_bits=4), "a3_qk": Config(a_bits=3, b_bits=3)},
)
State: type[DeclaredState] = Concat.State
run: RunFunction[Result] = UNIT.run
