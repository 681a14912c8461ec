"""The outlier-victim pair decoder: two codes to two exponent-integer pairs. [olive §4.2, Fig. 6b, Fig. 7]

Composed of outlier_decoder and flint_decoder. Lane 0 is the left element.
"""

from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith.checks import RefusedType, require_choice
from refemu.units import AnyUnit, Changes, Combinational, Config, Flag, Port, Ports, Unit, constant, decides
from refemu.units.olive.flint_decoder import flint_decoder
from refemu.units.olive.outlier_decoder import outlier_decoder
from refemu.units.unit import DeclaredState, Result, RunFunction

__all__ = ["OUTLIERS", "UNIT", "Normal", "Outlier", "OvpDecoder", "State", "run"]

Normal = Literal["int4", "flint4", "int8"]  #: type of the normal values of a pair
Outlier = tuple[int, int]  #: exp_bits and man_bits of an abfloat
#: the outlier formats of a normal type's width, the paper's first (D-olive-14)
OUTLIERS: dict[Normal, tuple[Outlier, ...]] = {"int4": ((2, 1),), "flint4": ((2, 1),), "int8": ((4, 3), (2, 5))}


class OvpDecoder(Combinational):
    """Decoder of outlier-victim pairs: one event is one pair."""

    name = "ovp_decoder"
    events: ClassVar[tuple[str, ...]] = ("decode",)
    counters: ClassVar[dict[str, str]] = {
        "pairs": "pairs decoded",
        "outliers": "outliers decoded: elements next to an identifier",
        "illegal_pairs": "pairs with `illegal` set: an identifier next to a code of magnitude 0 (D-olive-18)",
    }
    normal: Normal = "int4"  #: type of the normal values
    outlier: Outlier = (2, 1)  #: exp_bits and man_bits of the abfloat, one of `OUTLIERS[normal]`

    def check(self) -> None:
        require_choice(self.outlier, OUTLIERS[self.normal], self.name, f"outlier with {self.normal}")

    @constant
    def width(self) -> int:
        """Bits of a code."""
        return 1 + self.outlier[0] + self.outlier[1]

    @constant
    def identifier(self) -> int:
        """The code 10..0 [olive §3.1]."""
        return 1 << (self.width - 1)

    @constant
    def exponent_bits(self) -> int:
        """Width of the exponent port."""
        return outlier_decoder.width_of_exponent(*self.outlier)

    @constant
    def ports(self) -> Ports:
        encoding = f"ovp_{self.normal}" + ("_repo" if self.outlier == (2, 5) else "")
        return Ports(
            inputs=(
                Port("pair", 2 * self.width, encoding=encoding, meaning="two codes, the left element in the low half"),
                Port("bias", 4, meaning="added to an outlier's exponent field"),
            ),
            outputs=(
                Port("exponent", self.exponent_bits, 2, meaning="shift of each integer"),
                Port("base_int", self.width, 2, signed=True, meaning="integer of each element"),
                Port("illegal", 1, meaning="an identifier next to magnitude 0, which no encoder makes"),
            ),
        )

    @decides("D-olive-1")
    def decode(self, pair: int, bias: int) -> Changes:
        """Decode both codes of a pair to exponents and integers."""
        left, right = pair & ((1 << self.width) - 1), pair >> self.width  # D-olive-1
        lanes = self.lane(left, right, bias), self.lane(right, left, bias)
        illegal = self.is_illegal(left, right)
        return {
            "exponent": (lanes[0][0], lanes[1][0]),
            "base_int": (lanes[0][1], lanes[1][1]),
            "illegal": illegal,
            "pairs": 1,
            "outliers": self.holds_outlier(left, right) + self.holds_outlier(right, left),
            "illegal_pairs": illegal,
        }

    @decides("D-olive-16", "D-olive-19", "D-olive-20")
    def lane(self, code: int, partner: int, bias: int) -> tuple[int, int]:
        """Exponent and integer of one element; <0, 0> for a victim."""
        if code == self.identifier:
            return 0, 0  # "transforms the outlier identifier to 0" [olive §4.2]: the victim (D-olive-19)
        if self.holds_outlier(code, partner):
            return outlier_decoder.decode(code, bias, *self.outlier, self.exponent_bits)
        if self.normal == "flint4":
            return flint_decoder.decode(code)
        return 0, code - ((code & self.identifier) << 1)  # "append a 0000 as the exponent" [olive §4.2]

    @decides("D-olive-19")
    def holds_outlier(self, code: int, partner: int) -> bool:
        """Whether `code` goes to the outlier decoder: its partner is the identifier, and it is not."""
        return partner == self.identifier != code

    @decides("D-olive-18")
    def is_illegal(self, left: int, right: int) -> int:
        """1 if one code is the identifier and the other has magnitude 0, which no encoder writes."""
        return int(self.identifier in (left, right) and (left | right) & (self.identifier - 1) == 0)

    def validated(self, pair: ArrayLike, bias: ArrayLike) -> list[np.ndarray]:
        """Pairs and biases as arrays of one shape; rejects bytes where a pair is a word of 16 bits."""
        if self.width == 8 and getattr(pair, "dtype", None) == np.uint8:
            raise RefusedType(
                f"{self.name}.pair: must be 16-bit words for {self.normal}, got dtype uint8; view bytes as '<u2'"
            )
        return super().validated(pair, bias)


UNIT: AnyUnit = Unit(
    unit_class=OvpDecoder,
    paper="olive §4.2, Fig. 6b, Fig. 7",
    meaning="outlier-victim pair to two exponent-integer pairs",
    configs={
        "int4": Config(normal="int4", outlier=(2, 1)),
        "flint4": Config(normal="flint4", outlier=(2, 1)),
        "int8": Config(normal="int8", outlier=(4, 3)),
        "int8_repo": Config(normal="int8", outlier=(2, 5)),
    },
    flags={
        "ILLEGAL": Flag(0, "an identifier next to a code of magnitude 0, which no encoder makes (D-olive-18)"),
        "VICTIM": Flag(1, "one lane is a victim: value 0 is from the paper, exponent 0 from D-olive-19"),
        "WRAPPED": Flag(2, "bias + exponent field of an outlier exceeds its port: modulo 2**bits (D-olive-20)"),
        "UNSPECIFIED": Flag(3, "the paper leaves an output of this row open; see the other flags"),
    },
)
State: type[DeclaredState] = OvpDecoder.State
run: RunFunction[Result] = UNIT.run
