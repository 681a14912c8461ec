"""The shared aligner: eight fp16 words under a given exponent become signs and magnitudes.

Paper: [harmonia §IV-C, Fig. 14c], [harmonia §II-B, Fig. 3] (shift and truncate). Decisions: D-harmonia-2 (rounding),
D-harmonia-4 (subnormals), D-harmonia-5 (infinity and NaN), D-harmonia-6 (sign of a zero).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from refemu.formats import Bfp
from refemu.units import bfp_aligner_cases, unit
from refemu.units.unit import Cases, Config, Flag, Port, Ports, Stepped, Unit, admit, choices, collect
from refemu.units.unit_cases import Seeds

LANES = 8  #: elements aligned in one cycle [harmonia §IV-C]
SPECIAL = 31  #: exponent field of infinity and NaN


@dataclass(frozen=True)
class State:
    """Ports after one group of lanes, and counters since reset."""

    event: str  #: "reset" or "align"
    index: int  #: -1 for the reset
    x: tuple[int, ...]
    emax: tuple[int, ...]
    m: int
    sign: tuple[int, ...]
    mantissa: tuple[int, ...]
    illegal: tuple[int, ...]
    aligned: int  #: lanes that were legal
    illegals: int  #: lanes that were not


@dataclass(frozen=True, eq=False)
class Result(unit.Result):
    """What leaves the unit, lanes last; counters as in State."""

    sign: np.ndarray  #: bool, (..., 8)
    mantissa: np.ndarray  #: uint16, (..., 8)
    illegal: np.ndarray  #: bool, (..., 8)
    aligned: int
    illegals: int


class Element(NamedTuple):
    """What one lane puts out."""

    sign: int
    mantissa: int
    illegal: int = 0


class BfpAligner(Stepped):
    """The block, combinational: one step aligns eight lanes."""

    name = "bfp_aligner"

    def __init__(
        self, rounding: str = "truncate", special: str = "error", subnormals: str = "keep", zero_sign: str = "keep"
    ) -> None:
        """rounding, special, subnormals, zero_sign: as for `Bfp`; special="error" flags field 31 as illegal."""
        self.options = Bfp(8, LANES, rounding, special, subnormals, zero_sign)
        self.ports = ports({})
        zeros = (0,) * LANES
        self.state = State("reset", -1, zeros, zeros, 1, zeros, zeros, zeros, 0, 0)

    def step(self, x: Any, emax: Any, m: Any) -> State:
        """Align eight words, each under its lane's exponent, to `m` bits; returns the State after it."""
        return self._event(*self.accept(x, emax, m))

    def _event(self, x: tuple[int, ...], emax: tuple[int, ...], m: int) -> State:
        lanes = [self.align(word, exponent, m) for word, exponent in zip(x, emax, strict=True)]
        sign, mantissa, illegal = zip(*lanes, strict=True)
        illegals = illegal.count(1)
        self.state = State(
            "align",
            self.state.index + 1,
            x,
            emax,
            m,
            sign,
            mantissa,
            illegal,
            self.state.aligned + LANES - illegals,
            self.state.illegals + illegals,
        )
        return self.state

    def align(self, word: int, emax: int, m: int) -> Element:
        """One lane: 0 and `illegal` where the word's exponent is above `emax`, or special and not admitted."""
        word = self.admitted(word)
        sign, field, fraction = word >> 15, (word >> 10) & 31, word & 0x3FF
        if field > emax or (field == SPECIAL and self.options.special != "hw"):
            return Element(0, 0, 1)
        significand = fraction | 0x400 if field else fraction if self.options.subnormals == "keep" else 0
        shift = 11 - m + max(emax, 1) - max(field, 1)  # a field of 0 weighs as one of 1 [harmonia §II-B]
        mantissa = min(self.shifted(significand, shift, sign), (1 << m) - 1)
        return Element(0 if mantissa == 0 and self.options.zero_sign == "canonical" else sign, mantissa)

    def admitted(self, word: int) -> int:
        """The word, or 65504 of its sign for an infinity under special="saturate" (D-harmonia-5)."""
        return word - 1 if self.options.special == "saturate" and word & 0x7FFF == 0x7C00 else word

    def shifted(self, significand: int, shift: int, sign: int) -> int:
        """significand / 2**shift rounded as the options say (D-harmonia-2)."""
        whole, rest = significand >> shift, significand & ((1 << shift) - 1)
        if self.options.rounding == "truncate" or rest == 0:
            return whole
        if self.options.rounding == "floor":  # toward minus infinity: a negative magnitude goes up
            return whole + sign
        half = 1 << (shift - 1)
        up = rest > half or (rest == half and (self.options.rounding == "half_away" or whole & 1 == 1))
        return whole + int(up)

    def steps(self, x: Any, emax: Any, m: Any) -> Iterator[State]:
        """Yield the State after every group of lanes, in C order; arguments broadcast beside their lanes."""
        arrays = admit(self.name, self.ports.inputs, (x, emax, m))
        flat = [array.reshape(-1, LANES).tolist() for array in arrays[:2]]
        for words, exponents, width in zip(*flat, arrays[2].reshape(-1).tolist(), strict=True):
            yield self._event(tuple(words), tuple(exponents), width)

    def __repr__(self) -> str:
        return f"BfpAligner({options_text(self.options)})"


def options_text(options: Bfp) -> str:
    """The options of a conversion as keyword arguments."""
    return (
        f"rounding={options.rounding!r}, special={options.special!r}, subnormals={options.subnormals!r}, "
        f"zero_sign={options.zero_sign!r}"
    )


def run(
    x: Any,
    emax: Any,
    m: Any,
    *,
    rounding: str = "truncate",
    special: str = "error",
    subnormals: str = "keep",
    zero_sign: str = "keep",
) -> Result:
    """Groups of eight lanes, any number.

    x: fp16 words, (..., 8). emax: shared exponents, (..., 8), below 32. m: mantissa bits 1 to 11, (...). They broadcast
    beside their lanes. rounding, special, subnormals, zero_sign: as for BfpAligner.
    Returns the Result; illegal lanes have sign 0 and mantissa 0. Refuses a value outside its port.
    Paper: [harmonia §IV-C, Fig. 14c].
    """
    aligner = BfpAligner(rounding, special, subnormals, zero_sign)
    arrays = admit(aligner.name, aligner.ports.inputs, (x, emax, m))
    outputs = collect(list(aligner.steps(*arrays)), aligner.ports.outputs, arrays[2].shape)
    return Result(**outputs, aligned=aligner.state.aligned, illegals=aligner.state.illegals)


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


def cases(config: Config, kind: str, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind; see bfp_aligner_cases.py."""
    return bfp_aligner_cases.cases(config, ports(config).inputs, kind, seed)


PAPER = {"rounding": "truncate", "special": "error", "subnormals": "keep", "zero_sign": "keep"}

UNIT = Unit(
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
    run=run,
    twin="refemu.units.bfp_aligner_jit:run",
    unit_class=BfpAligner,
    cases=cases,
    mark=bfp_aligner_cases.mark,
    care=bfp_aligner_cases.care,
    flags={
        "ILLEGAL": Flag(0, "a lane's exponent is above emax, or special and not admitted (D-harmonia-5)"),
        "LOST": Flag(1, "a lane that is not zero became magnitude 0"),
    },
    alternatives=(
        *choices("D-harmonia-2", "rounding", "half_even", "half_away", "floor"),
        *choices("D-harmonia-4", "subnormals", "flush"),
        *choices("D-harmonia-5", "special", "error", "hw", "saturate"),
        *choices("D-harmonia-6", "zero_sign", "keep", "canonical"),
    ),
)
