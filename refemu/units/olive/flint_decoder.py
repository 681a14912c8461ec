"""The flint decoder: a signed flint4 code to an exponent-integer pair.

Paper: [olive §4.2] ("we exploit its original decoder"), values of [olive Tbl. 3]. Decision: D-olive-16 (which pairs).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from refemu.arith.checks import Refused
from refemu.units import unit
from refemu.units.unit import Cases, Config, Port, Ports, Stepped, Unit, admit, collect
from refemu.units.unit_cases import Seeds, random_inputs

Pairs = tuple[tuple[int, int], ...]

#: (exponent, integer) of magnitude codes 000 to 111, as a decoder that counts leading zeros gives them (D-olive-16)
FLINT4_PAIRS: Pairs = ((0, 0), (0, 1), (0, 2), (0, 3), (4, 1), (2, 2), (0, 4), (0, 6))


@dataclass(frozen=True)
class State:
    """Ports after one event, and what happened since reset."""

    event: str  #: "reset" or "decode"
    index: int  #: number of the event, -1 for the reset
    code: int
    exponent: int
    base_int: int
    decodes: int  #: codes decoded


@dataclass(frozen=True, eq=False)
class Result(unit.Result):
    """What leaves the unit: one value per code."""

    exponent: np.ndarray  #: uint8
    base_int: np.ndarray  #: int8
    decodes: int


def decode(code: int, pairs: Pairs = FLINT4_PAIRS) -> tuple[int, int]:
    """The pair of the magnitude in bits 2..0; bit 3 negates the integer, so 1000, the identifier, gives <0, 0>."""
    exponent, integer = pairs[code & 7]
    return exponent, -integer if code & 8 else integer


class FlintDecoder(Stepped):
    """The block, combinational: one step is one code."""

    name = "flint_decoder"

    def __init__(self, pairs: Pairs = FLINT4_PAIRS) -> None:
        """pairs: (exponent, integer) per magnitude code; each must have the value of FLINT4_PAIRS and fit its port."""
        self.pairs = tuple((int(exponent), int(integer)) for exponent, integer in pairs)
        if len(self.pairs) != len(FLINT4_PAIRS):
            raise Refused(f"{self.name}: pairs must hold 8 pairs, got {len(self.pairs)}")
        for code, ((exponent, integer), (shift, value)) in enumerate(zip(self.pairs, FLINT4_PAIRS, strict=True)):
            if not (0 <= exponent < 16 and 0 <= integer < 8) or integer << exponent != value << shift:
                raise Refused(
                    f"{self.name}: pairs[{code}] must have value {value << shift}, an exponent in [0, 16) "
                    f"and an integer in [0, 8), got {(exponent, integer)}"
                )
        self.ports = ports({})
        self.state = State("reset", -1, 0, 0, 0, 0)

    def step(self, code: int) -> State:
        """Decode one code; returns the State after it."""
        return self._decode(*self.accept(code))

    def _decode(self, code: int) -> State:
        exponent, base_int = decode(code, self.pairs)
        self.state = State("decode", self.state.index + 1, code, exponent, base_int, self.state.decodes + 1)
        return self.state

    def steps(self, code: Any) -> Iterator[State]:
        """Yield the State after every code, in C order."""
        (codes,) = admit(self.name, self.ports.inputs, (code,))
        for one in codes.ravel().tolist():
            yield self._decode(one)

    def __repr__(self) -> str:
        return f"FlintDecoder(pairs={self.pairs})"


def run(code: Any, *, pairs: Pairs = FLINT4_PAIRS) -> Result:
    """Decode codes of any shape.

    code: unsigned integers below 16. pairs: as for FlintDecoder. Returns the Result, arrays of the shape of `code`.
    Refuses a value outside its port. Paper: [olive §4.2].
    """
    decoder = FlintDecoder(pairs)
    (codes,) = admit(decoder.name, decoder.ports.inputs, (code,))
    states = list(decoder.steps(codes))
    return Result(**collect(states, decoder.ports.outputs, codes.shape), decodes=decoder.state.decodes)


def ports(config: Mapping[str, Any]) -> Ports:
    """Widths; the same in every configuration."""
    return Ports(
        inputs=(Port("code", 4, encoding="flint4", meaning="flint code: sign, unsigned flint"),),
        outputs=(
            Port("exponent", 4, meaning="shift of the integer"),
            Port("base_int", 4, signed=True, meaning="integer with its sign"),
        ),
    )


def cases(config: Config, kind: str, seed: Seeds) -> Iterator[Cases]:
    """Golden cases: all 16 codes."""
    if kind == "paper":
        yield Cases(kind, "[olive Tbl. 3] the flint4 values 1 2 3 4 6 8 16", {"code": np.array([1, 2, 3, 6, 7, 5, 4])})
    if kind == "edge":
        yield Cases(
            kind, "the largest magnitudes, and the identifier 1000 which is <0,0>", {"code": np.array([12, 4, 15, 8])}
        )
    if kind == "random":
        yield Cases(kind, "uniform codes", random_inputs("flint_decoder", ports(config).inputs, (32,), seed))
    if kind == "exhaustive":
        yield Cases(kind, "every code", {"code": np.roll(np.arange(16), -1)}, "D-olive-16")


UNIT = Unit(
    name="flint_decoder",
    paper="olive §4.2, Tbl. 3",
    meaning="flint4 code to an exponent-integer pair",
    configs={"flint4": Config(pairs=FLINT4_PAIRS)},
    ports=ports,
    run=run,
    twin="refemu.units.flint_decoder_jit:run",
    unit_class=FlintDecoder,
    cases=cases,
)
