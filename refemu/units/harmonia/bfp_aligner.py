"""The shared aligner: eight fp16 words under a given exponent become signs and magnitudes.

Paper: [harmonia §IV-C, Fig. 14c], [harmonia §II-B, Fig. 3] (shift and truncate). Decisions: D-harmonia-1 (m does not
count the sign), D-harmonia-2 (rounding), D-harmonia-3 (weight of field 0), D-harmonia-4 (subnormals), D-harmonia-5
(infinity and NaN), D-harmonia-6 (sign of a zero).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from refemu.arith.fp16 import Subnormals
from refemu.formats.harmonia.bfp import Bfp, BfpRounding, Special, ZeroSign
from refemu.units.harmonia.cases import bfp_aligner as bfp_aligner_cases
from refemu.units.ports import Port, Ports
from refemu.units.stepped import Result, Stepped
from refemu.units.unit import Config, Flag, RunFunction, Unit

__all__ = [
    "LANES",
    "SPECIAL",
    "UNIT",
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


@dataclass(frozen=True)
class State:
    """Ports after one group of lanes, and counters since reset."""

    #: "reset": nothing is aligned yet; "align": eight fp16 words become signs and magnitudes under the exponents given
    event: str
    index: int  #: number of the event since reset, from 0; -1 at reset
    x: tuple[int, ...]
    emax: tuple[int, ...]
    m: int
    sign: tuple[int, ...]
    mantissa: tuple[int, ...]
    illegal: tuple[int, ...]
    aligned: int  #: elements aligned, those with `illegal` set left out
    #: elements with `illegal` set: an exponent above the one given, or infinity or NaN where not admitted
    illegals: int


class Element(NamedTuple):
    """Output of one lane."""

    sign: int  #: 1 = negative
    mantissa: int  #: magnitude in the low m bits
    illegal: int = 0  #: 1 if the word's exponent is above the shared one, or special and not admitted


class BfpAligner(Stepped[State]):
    """Shared aligner, combinational: one step aligns eight lanes.

    References
    ----------
    [harmonia §IV-C, Fig. 14c]
    """

    name = "bfp_aligner"

    def __init__(
        self,
        rounding: Rounding = "truncate",
        special: Special = "error",
        subnormals: Subnormals = "keep",
        zero_sign: ZeroSign = "keep",
    ) -> None:
        """Configure the aligner; options are those of `Bfp`.

        Parameters
        ----------
        rounding : {"truncate", "half_even", "half_away", "floor"}
            Rounding of a magnitude (D-harmonia-2).
        special : {"error", "hw", "saturate"}
            Infinity and NaN (D-harmonia-5); "error" flags field 31 as illegal.
        subnormals : {"keep", "flush"}
            Subnormals (D-harmonia-4).
        zero_sign : {"keep", "canonical"}
            Sign of a magnitude of 0 (D-harmonia-6).

        Raises
        ------
        Refused
            An unknown option.
        """
        self.options: Bfp = Bfp(8, LANES, rounding, special, subnormals, zero_sign)
        self.rounding, self.special = self.options.rounding, self.options.special
        self.subnormals, self.zero_sign = self.options.subnormals, self.options.zero_sign
        self.ports: Ports = ports({})
        self.state: State = self.reset(State, m=1)

    def step(self, x: Sequence[int], emax: Sequence[int], m: int) -> State:
        """Align eight fp16 words, each under its lane's exponent, to `m` bits."""
        return self._open(*self.accept(x, emax, m))

    def _open(self, x: tuple[int, ...], emax: tuple[int, ...], m: int) -> State:
        lanes = [self.align(word, exponent, m) for word, exponent in zip(x, emax, strict=True)]
        sign, mantissa, illegal = zip(*lanes, strict=True)
        illegals = illegal.count(1)
        self.state = self.latched(
            x,
            emax,
            m,
            event="align",
            sign=sign,
            mantissa=mantissa,
            illegal=illegal,
            aligned=self.state.aligned + LANES - illegals,
            illegals=self.state.illegals + illegals,
        )
        return self.state

    def align(self, word: int, emax: int, m: int) -> Element:
        """Align one lane.

        Parameters
        ----------
        word : int
            fp16 word.
        emax : int
            Shared exponent, 0 to 31.
        m : int
            Mantissa bits, 1 to 11.

        Returns
        -------
        Element
            Zeros and `illegal` where the word's exponent is above `emax`, or special and not admitted.
        """
        word = self.clamped(word)
        sign, field, fraction = word >> 15, (word >> 10) & 31, word & 0x3FF
        if field > emax or (field == SPECIAL and self.special != "hw"):
            return Element(0, 0, 1)
        significand = fraction | 0x400 if field else fraction if self.subnormals == "keep" else 0
        mantissa = self._fitted(self.shifted(significand, 11 - m + self._distance(emax, field), sign), m)
        return Element(0 if mantissa == 0 and self.zero_sign == "canonical" else sign, mantissa)

    def _distance(self, emax: int, field: int) -> int:
        """Places between two exponents; a field of 0 weighs as one of 1 (D-harmonia-3) [harmonia §II-B]."""
        return max(emax, 1) - max(field, 1)

    def _fitted(self, magnitude: int, m: int) -> int:
        """A rounded magnitude in m bits: one that carries out of them stays at the largest (D-harmonia-2)."""
        return min(magnitude, (1 << m) - 1)

    def clamped(self, word: int) -> int:
        """Replace infinity by 65504 of its sign under special="saturate" (D-harmonia-5).

        Parameters
        ----------
        word : int
            fp16 word.

        Returns
        -------
        int
            fp16 word.
        """
        return word - 1 if self.special == "saturate" and word & 0x7FFF == 0x7C00 else word

    def shifted(self, significand: int, shift: int, sign: int) -> int:
        """Shift a significand right and round it (D-harmonia-2).

        Parameters
        ----------
        significand : int
            11 bits.
        shift : int
            Places, at least 0.
        sign : int
            1 if the value is negative.

        Returns
        -------
        int
            Rounded magnitude.
        """
        whole, rest = significand >> shift, significand & ((1 << shift) - 1)
        if self.rounding == "truncate" or rest == 0:
            return whole
        if self.rounding == "floor":  # toward minus infinity: a negative magnitude goes up
            return whole + sign
        half = 1 << (shift - 1)
        up = rest > half or (rest == half and (self.rounding == "half_away" or whole & 1 == 1))
        return whole + int(up)


def ports(config: Mapping[str, Any]) -> Ports:
    """Widths in any configuration."""
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


PAPER = {"rounding": "truncate", "special": "error", "subnormals": "keep", "zero_sign": "keep"}

UNIT: Unit[State, Result] = Unit(
    name="bfp_aligner",
    paper="harmonia §IV-C, Fig. 14c",
    meaning="shift eight fp16 words to a shared exponent",
    configs={
        "paper": Config(**PAPER),
        "exact": Config(**PAPER | {"zero_sign": "canonical"}),
        "half_even": Config(**PAPER | {"rounding": "half_even"}),
        "hw": Config(**PAPER | {"special": "hw"}),
    },
    ports=ports,
    unit_class=BfpAligner,
    cases=bfp_aligner_cases.cases,
    counters=("aligned", "illegals"),
    mark=bfp_aligner_cases.mark,
    care=bfp_aligner_cases.care,
    flags={
        "ILLEGAL": Flag(0, "a lane's exponent is above emax, or special and not admitted (D-harmonia-5)"),
        "LOST": Flag(1, "a lane that is not zero became magnitude 0"),
    },
)
run: RunFunction[Result] = UNIT.run
