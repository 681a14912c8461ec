"""The flint decoder: from a signed flint4 code to an exponent-integer pair.

Paper: [olive §4.2] ("we exploit its original decoder"), values of [olive Tbl. 3].
"""

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from refemu.arith.checks import Refused
from refemu.units import AnyUnit, Cases, Changes, Combinational, Config, Kind, Port, Ports, Unit, constant
from refemu.units.stimuli import Seeds, random_inputs
from refemu.units.unit import DeclaredState, Result, RunFunction

__all__ = ["FLINT4_PAIRS", "UNIT", "FlintDecoder", "Pairs", "State", "run"]

Pairs = tuple[tuple[int, int], ...]  #: (exponent, integer) by magnitude code

#: (exponent, integer) of magnitude codes 000 to 111, from a decoder that counts leading zeros (D-olive-16)
FLINT4_PAIRS: Pairs = ((0, 0), (0, 1), (0, 2), (0, 3), (4, 1), (2, 2), (0, 4), (0, 6))


def decode(code: int, pairs: Pairs = FLINT4_PAIRS) -> tuple[int, int]:
    """The pair of bits 2..0, negated by bit 3; the identifier 1000 gives <0, 0>. [olive §4.2, Tbl. 3]"""
    exponent, integer = pairs[code & 7]
    return exponent, -integer if code & 8 else integer


class FlintDecoder(Combinational):
    """Decoder of flint codes: one event is one code."""

    name = "flint_decoder"
    events: ClassVar[tuple[str, ...]] = ("decode",)
    counters: ClassVar[dict[str, str]] = {"decodes": "codes decoded"}
    #: exponent, 0 to 15, and integer, 0 to 7, of each magnitude code; values as in `FLINT4_PAIRS` (D-olive-16)
    pairs: Pairs = FLINT4_PAIRS

    def check(self) -> None:
        if len(self.pairs) != len(FLINT4_PAIRS):
            raise Refused(f"{self.name}: pairs must have 8 entries, got {len(self.pairs)}")
        for code, ((exponent, integer), (shift, value)) in enumerate(zip(self.pairs, FLINT4_PAIRS, strict=True)):
            if not (0 <= exponent < 16 and 0 <= integer < 8) or integer << exponent != value << shift:
                raise Refused(
                    f"{self.name}: pairs[{code}] must have value {value << shift}, an exponent in [0, 16) "
                    f"and an integer in [0, 8), got {(exponent, integer)}"
                )

    @constant
    def ports(self) -> Ports:
        return Ports(
            inputs=(Port("code", 4, encoding="flint4", meaning="flint code: sign, unsigned flint"),),
            outputs=(
                Port("exponent", 4, meaning="shift of the integer"),
                Port("base_int", 4, signed=True, meaning="integer with its sign"),
            ),
        )

    def decode(self, code: int) -> Changes:
        """Decode a flint code to an exponent and an integer."""
        exponent, base_int = decode(code, self.pairs)
        return {"exponent": exponent, "base_int": base_int, "decodes": 1}


def cases(config: Config, kind: Kind, seed: Seeds) -> Iterator[Cases]:
    """Golden cases: all 16 codes."""
    if kind == "paper":
        yield Cases(kind, "[olive Tbl. 3] the flint4 values 1 2 3 4 6 8 16", {"code": np.array([1, 2, 3, 6, 7, 5, 4])})
    if kind == "edge":
        yield Cases(
            kind, "the largest magnitudes, and the identifier 1000 which is <0,0>", {"code": np.array([12, 4, 15, 8])}
        )
    if kind == "random":
        yield Cases(kind, "uniform codes", random_inputs("flint_decoder", UNIT.ports(config).inputs, (32,), seed))
    if kind == "exhaustive":
        yield Cases(kind, "every code", {"code": np.roll(np.arange(16), -1)}, "D-olive-16")


UNIT: AnyUnit = Unit(
    unit_class=FlintDecoder,
    paper="olive §4.2, Tbl. 3",
    meaning="flint4 code to an exponent-integer pair",
    configs={"flint4": Config(pairs=FLINT4_PAIRS)},
    cases=cases,
)
State: type[DeclaredState] = FlintDecoder.State
run: RunFunction[Result] = UNIT.run
