"""The shared aligner: from eight fp16 words under a given exponent to signs and magnitudes.

Paper: [harmonia §IV-C, Fig. 14c], [harmonia §II-B, Fig. 3] (shift and truncate).
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, TypeAlias

from refemu.arith.fp16 import Subnormals
from refemu.formats.harmonia.bfp import Bfp, BfpRounding, Special, ZeroSign
from refemu.units import AnyUnit, Changes, Combinational, Config, Flag, Port, Ports, Result, Unit, constant, decides
from refemu.units.declaration import DeclaredState
from refemu.units.unit import RunFunction

__all__ = [
    "LANES",
    "SPECIAL",
    "UNIT",
    "Alignment",
    "BfpAligner",
    "Element",
    "Rounding",
    "Special",
    "State",
    "Subnormals",
    "ZeroSign",
    "run",
]


LANES = 8  #: Elements aligned in one cycle [harmonia §IV-C]
SPECIAL = 31  #: Exponent field of infinity and NaN

Rounding: TypeAlias = BfpRounding  #: Rounding of a magnitude (D-harmonia-2)


class Element(NamedTuple):
    """Output of one lane."""

    sign: int  #: 1 = negative
    mantissa: int  #: magnitude in the low m bits
    illegal: int = 0  #: 1 if the word's exponent is above the shared one, or special and not admitted


@dataclass(frozen=True)
class Alignment:
    """Options of an aligner, as in `Bfp`."""

    rounding: Rounding = "truncate"  #: rounding of a magnitude (D-harmonia-2)
    special: Special = "error"  #: infinity and NaN (D-harmonia-5); "error" flags field 31 as illegal
    subnormals: Subnormals = "keep"  #: subnormals (D-harmonia-4)
    zero_sign: ZeroSign = "keep"  #: sign of a magnitude of 0 (D-harmonia-6)


class BfpAligner(Combinational, Alignment):
    """Shared aligner: one event aligns eight lanes."""

    name = "bfp_aligner"
    events: ClassVar[tuple[str, ...]] = ("align",)
    counters: ClassVar[dict[str, str]] = {
        "aligned": "elements aligned, except those with `illegal` set",
        "illegals": "elements with `illegal` set: an exponent above emax, or a special value not admitted",
    }
    initial: ClassVar[dict[str, int]] = {"m": 1}

    @constant
    def options(self) -> Bfp:
        """The format with these options."""
        return Bfp(8, LANES, self.rounding, self.special, self.subnormals, self.zero_sign)

    @constant
    def ports(self) -> Ports:
        return Ports(
            inputs=(
                Port("x", 16, LANES, meaning="fp16 words"),
                Port("emax", 5, LANES, meaning="shared exponent of each lane's group"),
                Port("m", 4, least=1, most=11, meaning="mantissa bits"),
            ),
            outputs=(
                Port("sign", 1, LANES, meaning="1 = negative"),
                Port("mantissa", 11, LANES, meaning="magnitude in the low m bits"),
                Port("illegal", 1, LANES, meaning="the word's exponent is above emax, or special and not admitted"),
            ),
        )

    def align(self, x: tuple[int, ...], emax: tuple[int, ...], m: int) -> Changes:
        """Align eight fp16 words to the given exponents."""
        elements = [self.element(word, exponent, m) for word, exponent in zip(x, emax, strict=True)]
        illegal = tuple([each.illegal for each in elements])
        return {
            "sign": tuple([each.sign for each in elements]),
            "mantissa": tuple([each.mantissa for each in elements]),
            "illegal": illegal,
            "aligned": illegal.count(0),
            "illegals": illegal.count(1),
        }

    @decides("D-harmonia-1", "D-harmonia-4", "D-harmonia-6")
    def element(self, word: int, emax: int, m: int) -> Element:
        """One lane; zeros and `illegal` where the word's exponent is above `emax`, or special and not admitted."""
        word = self.clamped(word)
        sign, field, fraction = word >> 15, (word >> 10) & 31, word & 0x3FF
        if field > emax or (field == SPECIAL and self.special != "hw"):
            return Element(0, 0, 1)
        significand = fraction | 0x400 if field else fraction if self.subnormals == "keep" else 0
        mantissa = self._fitted(self.shifted(significand, 11 - m + self._distance(emax, field), sign), m)
        return Element(0 if mantissa == 0 and self.zero_sign == "canonical" else sign, mantissa)

    @decides("D-harmonia-3")
    def _distance(self, emax: int, field: int) -> int:
        """Difference of two exponents; a field of 0 counts as 1 [harmonia §II-B]."""
        return max(emax, 1) - max(field, 1)

    @decides("D-harmonia-2")
    def _fitted(self, magnitude: int, m: int) -> int:
        """A rounded magnitude in m bits; one that carries out becomes the largest."""
        return min(magnitude, (1 << m) - 1)

    @decides("D-harmonia-5")
    def clamped(self, word: int) -> int:
        """Replace infinity by 65504 with its sign if special="saturate"."""
        return word - 1 if self.special == "saturate" and word & 0x7FFF == 0x7C00 else word

    @decides("D-harmonia-2")
    def shifted(self, significand: int, shift: int, sign: int) -> int:
        """Shift a significand of 11 bits right and round it."""
        whole, rest = significand >> shift, significand & ((1 << shift) - 1)
        if self.rounding == "truncate" or rest == 0:
            return whole
        if self.rounding == "floor":  # toward minus infinity: a negative magnitude goes up
            return whole + sign
        half = 1 << (shift - 1)
        up = rest > half or (rest == half and (self.rounding == "half_away" or whole & 1 == 1))
        return whole + int(up)


PAPER = {"rounding": "truncate", "special": "error", "subnormals": "keep", "zero_sign": "keep"}

UNIT: AnyUnit = Unit(
    unit_class=BfpAligner,
    paper="harmonia §IV-C, Fig. 14c",
    meaning="shift eight fp16 words to a shared exponent",
    configs={
        "paper": Config(**PAPER),
        "exact": Config(**PAPER | {"zero_sign": "canonical"}),
        "half_even": Config(**PAPER | {"rounding": "half_even"}),
        "hw": Config(**PAPER | {"special": "hw"}),
    },
    flags={
        "ILLEGAL": Flag(0, "a lane's exponent is above emax, or special and not admitted (D-harmonia-5)"),
        "LOST": Flag(1, "a nonzero lane became magnitude 0"),
    },
)
State: type[DeclaredState] = BfpAligner.State
run: RunFunction[Result] = UNIT.run
