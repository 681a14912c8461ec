"""The FP16 multiply-accumulate unit of a lane: y = acc + a * b, one step of the sequential sum of `arith.dot`.

Paper: [kllm §IV-A, Table I]: 32 of them a lane, for the reduction, the sparse path, the merge and the clustering.
Options of cores made for IEEE 754, in `ieee16`: D-arith-2 (`direction`), D-arith-22 (port `rm`),
D-arith-23 (`ieee_flags`), D-arith-24 (`tininess`), D-arith-25 (`inf_zero_nan`), D-arith-26 (flags of two roundings).
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal, get_args

from refemu.arith.checks import Refused
from refemu.arith.scalar32 import odd_sum, pattern16, value16
from refemu.units import AnyUnit, Changes, Combinational, Config, Flag, Port, Ports, Unit, constant, decides
from refemu.units.kllm.fp16_mac import ieee16
from refemu.units.kllm.fp16_mac.ieee16 import DIRECTIONS, Direction, Tininess
from refemu.units.unit import DeclaredState, Result, RunFunction

__all__ = ["DYNAMIC", "ONE", "ROUNDINGS", "UNIT", "Fp16Mac", "InfZeroNan", "Rounding", "State", "run"]

Rounding = Literal["fp16", "fp16_fma"]  #: Rounding of a multiply-accumulate: twice, or once
ROUNDINGS: tuple[Rounding, ...] = get_args(Rounding)  #: The choices of `Rounding`
InfZeroNan = Literal["invalid", "quiet"]  #: Whether infinity * 0 + a quiet NaN raises NV (D-arith-25)
DYNAMIC: Literal["dynamic"] = "dynamic"  #: A direction that is read at every step
ONE = 0x3C00  #: Word of 1: a factor with which the unit only adds
EXPONENT = 0x7C00  #: Exponent field of a word: all ones in infinities and NaN


INPUTS = tuple(
    Port(name, 16, encoding="f16", meaning=meaning)
    for name, meaning in (
        ("a", "a factor, in the reduction the count"),
        ("b", "a factor, in the reduction the codebook's entry"),
        ("acc", "accumulator, to which the product is added"),
    )
)
#: inputs of a unit with flags: a signalling NaN raises NV
SIGNALLING = tuple(replace(port, payload=True) for port in INPUTS)
RM = Port("rm", 3, most=len(DIRECTIONS) - 1, meaning="direction in RISC-V's code: RNE, RTZ, RDN, RUP, RMM")
Y = Port("y", 16, encoding="f16", meaning="acc + a * b")
OVERFLOW = Port("overflow", 1, meaning="finite operands, but y is not")
FFLAGS = Port("fflags", 5, meaning="exceptions in RISC-V's order: NV, DZ (always 0), OF, UF, NX")
PRODUCT = Port("product", 16, encoding="f16", meaning="a * b rounded; the fused unit does not add it")


class Fp16Mac(Combinational):
    """FP16 multiply-accumulate unit: one event is one multiplication and one addition."""

    name = "fp16_mac"
    events: ClassVar[tuple[str, ...]] = ("mac",)
    counters: ClassVar[dict[str, str]] = {
        "macs": "multiply-adds computed",
        "overflows": "steps with finite operands whose result is not finite; with `ieee_flags`, steps that raise OF",
    }
    rounding: Rounding = "fp16"  #: "fp16" computes r16(acc + r16(a * b)), "fp16_fma" r16(acc + a * b) (D-kllm-3)
    #: direction of every rounding, RISC-V's RNE, RTZ, RDN, RUP and RMM (D-arith-2); "dynamic" reads it from the port
    #: `rm` at every step (D-arith-22)
    direction: Direction | Literal["dynamic"] = "half_even"
    ieee_flags: bool = False  #: port `fflags` instead of `overflow`: IEEE 754's exceptions (D-arith-23, D-arith-26)
    tininess: Tininess = "after"  #: where UF looks for a tiny result, after or before it is rounded (D-arith-24)
    #: whether infinity * 0 + a quiet NaN raises NV; the fused unit has the choice (D-arith-25)
    inf_zero_nan: InfZeroNan = "invalid"

    def check(self) -> None:
        if not self.ieee_flags and (self.tininess != "after" or self.inf_zero_nan != "invalid"):
            flags = f"got ieee_flags {self.ieee_flags!r}"
            raise Refused(f"{self.name}: tininess and inf_zero_nan need ieee_flags=True, {flags}")
        if self.inf_zero_nan != "invalid" and self.rounding == "fp16":
            raise Refused(f"{self.name}: inf_zero_nan needs rounding='fp16_fma', got {self.rounding!r}")

    @constant
    def plain(self) -> bool:
        return self.direction == "half_even" and not self.ieee_flags

    @constant
    def ports(self) -> Ports:
        operands = SIGNALLING if self.ieee_flags else INPUTS
        return Ports(
            inputs=(*operands, RM) if self.direction == DYNAMIC else operands,
            outputs=(Y, FFLAGS if self.ieee_flags else OVERFLOW),
            state=(PRODUCT,),
        )

    @constant
    def initial(self) -> Mapping[str, Any]:
        """Fields of a Result; those without a port are None."""
        absent = {"overflow" if self.ieee_flags else "fflags": None}
        return absent if self.direction == DYNAMIC else {**absent, "rm": None}

    def mac(self, a: int, b: int, acc: int, *rm: int) -> Changes:
        """Compute acc + a * b."""
        if not self.plain:
            return self._in_direction(a, b, acc, *rm)
        product, y = self.multiply_add(a, b, acc)
        overflow = _overflows(a, b, acc, y)
        return {"product": product, "y": y, "overflow": overflow, "macs": 1, "overflows": overflow}

    def _in_direction(self, a: int, b: int, acc: int, *rm: int) -> Changes:
        """`mac` of a unit with directions or flags; a fourth input is the code of the direction."""
        product, y, flags = self.ieee(a, b, acc, DIRECTIONS[rm[0]] if rm else self._fixed())
        lost = flags >> 2 & 1 if self.ieee_flags else _overflows(a, b, acc, y)
        shown = {"fflags": flags} if self.ieee_flags else {"overflow": lost}
        return {"product": product, "y": y, **shown, "macs": 1, "overflows": lost}

    def multiply_add(self, a: int, b: int, acc: int) -> tuple[int, int]:
        """Compute one step on fp16 words without checks; the State is unchanged."""
        if not self.plain:
            product, y, _ = self.ieee(a, b, acc, self._fixed())
            return product, y
        exact = value16(a) * value16(b)  # 22 bits
        product = pattern16(exact)
        if self.rounding == "fp16":
            return product, pattern16(value16(acc) + value16(product))  # 40 bits: exact before the rounding
        return product, pattern16(odd_sum(exact, value16(acc)))

    def ieee(self, a: int, b: int, acc: int, direction: Direction) -> tuple[int, int, int]:
        """Compute one step in one direction, with flags, without checks; the State is unchanged."""
        product, raised = ieee16.multiply(a, b, direction, self.tininess)
        if self.rounding == "fp16":
            y, more = ieee16.add(product, acc, direction, self.tininess)
            return product, y, raised | more  # D-arith-26
        return product, *ieee16.fused(a, b, acc, direction, self.tininess, self.inf_zero_nan == "quiet")

    def _fixed(self) -> Direction:
        if self.direction == DYNAMIC:
            raise Refused(f"{self.name}: multiply_add needs a fixed direction, got {self.direction!r}")
        return self.direction

    def accumulate(self, factors: Iterable[tuple[int, int]]) -> int:
        """Sum products of fp16 words from +0, one step each, without checks; the State is unchanged."""
        y = 0
        for a, b in factors:
            _, y = self.multiply_add(a, b, y)
        return y


@decides("D-arith-18")
def _overflows(a: int, b: int, acc: int, y: int) -> int:
    """Whether words are finite and their result is not."""
    return int(_is_finite(a) and _is_finite(b) and _is_finite(acc) and not _is_finite(y))


def _is_finite(word: int) -> bool:
    return word & EXPONENT != EXPONENT


UNIT: AnyUnit = Unit(
    unit_class=Fp16Mac,
    paper="kllm §IV-A, Table I",
    meaning="multiply-accumulate in fp16, y = acc + a * b",
    configs={
        "paper": Config(rounding="fp16"),
        "fma": Config(rounding="fp16_fma"),
        "ieee": Config(rounding="fp16_fma", direction=DYNAMIC, ieee_flags=True),
        "ieee_separate": Config(rounding="fp16", direction=DYNAMIC, ieee_flags=True),
    },
    flags={"OVERFLOW": Flag(0, "finite operands whose product or sum exceeds fp16")},
)
State: type[DeclaredState] = Fp16Mac.State
run: RunFunction[Result] = UNIT.run
