"""The flint decoder: a signed flint4 code to an exponent-integer pair.

Paper: [olive §4.2] ("we exploit its original decoder"), values of [olive Tbl. 3]. Decision: D-olive-16 (which pairs).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from refemu.arith.checks import Refused
from refemu.units.ports import Port, Ports
from refemu.units.stepped import Result, Stepped
from refemu.units.stimuli import Seeds, random_inputs
from refemu.units.unit import Cases, Config, Kind, RunFunction, Unit

__all__ = ["FLINT4_PAIRS", "UNIT", "FlintDecoder", "Pairs", "State", "decode", "run"]


Pairs = tuple[tuple[int, int], ...]  #: (exponent, integer) by magnitude code

#: (exponent, integer) of magnitude codes 000 to 111, as a decoder that counts leading zeros gives them (D-olive-16)
FLINT4_PAIRS: Pairs = ((0, 0), (0, 1), (0, 2), (0, 3), (4, 1), (2, 2), (0, 4), (0, 6))


@dataclass(frozen=True)
class State:
    """Ports after one event, and counts since reset."""

    event: str  #: "reset": nothing is decoded yet; "decode": a flint code becomes an exponent and an integer
    index: int  #: number of the event since reset, from 0; -1 at reset
    code: int
    exponent: int
    base_int: int
    decodes: int  #: codes decoded


def decode(code: int, pairs: Pairs = FLINT4_PAIRS) -> tuple[int, int]:
    """Decode one flint code.

    Parameters
    ----------
    code : int
        Flint code, 0 to 15.
    pairs : tuple of 8 (int, int)
        Exponent and integer by magnitude code.

    Returns
    -------
    exponent, integer : int
        The pair of bits 2..0, negated by bit 3. The identifier 1000 gives <0, 0>.

    References
    ----------
    [olive §4.2, Tbl. 3]
    """
    exponent, integer = pairs[code & 7]
    return exponent, -integer if code & 8 else integer


class FlintDecoder(Stepped[State]):
    """Decoder of flint codes, combinational: one step is one code.

    References
    ----------
    [olive §4.2]
    """

    name = "flint_decoder"

    def __init__(self, pairs: Pairs = FLINT4_PAIRS) -> None:
        """Configure the decoder (D-olive-16).

        Parameters
        ----------
        pairs : tuple of 8 (int, int)
            Exponent, 0 to 15, and integer, 0 to 7, by magnitude code; of the same values as `FLINT4_PAIRS`.

        Raises
        ------
        Refused
            A pair has another value or does not fit its port, or there are not 8.
        """
        self.pairs: tuple[tuple[int, int], ...] = tuple((int(exponent), int(integer)) for exponent, integer in pairs)
        if len(self.pairs) != len(FLINT4_PAIRS):
            raise Refused(f"{self.name}: pairs must hold 8 pairs, got {len(self.pairs)}")
        for code, ((exponent, integer), (shift, value)) in enumerate(zip(self.pairs, FLINT4_PAIRS, strict=True)):
            if not (0 <= exponent < 16 and 0 <= integer < 8) or integer << exponent != value << shift:
                raise Refused(
                    f"{self.name}: pairs[{code}] must have value {value << shift}, an exponent in [0, 16) "
                    f"and an integer in [0, 8), got {(exponent, integer)}"
                )
        self.ports: Ports = ports({})
        self.state: State = self.reset(State)

    def step(self, code: int) -> State:
        """Decode one code; return the State after it."""
        return self._open(*self.accept(code))

    def _open(self, code: int) -> State:
        exponent, base_int = decode(code, self.pairs)
        decodes = self.state.decodes + 1
        self.state = self.latched(code, event="decode", exponent=exponent, base_int=base_int, decodes=decodes)
        return self.state


def ports(config: Mapping[str, Any]) -> Ports:
    """Ports, the same in every configuration."""
    return Ports(
        inputs=(Port("code", 4, encoding="flint4", meaning="flint code: sign, unsigned flint"),),
        outputs=(
            Port("exponent", 4, meaning="shift of the integer"),
            Port("base_int", 4, signed=True, meaning="integer with its sign"),
        ),
    )


def cases(config: Config, kind: Kind, seed: Seeds) -> Iterator[Cases]:
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


UNIT: Unit[State, Result] = Unit(
    name="flint_decoder",
    paper="olive §4.2, Tbl. 3",
    meaning="flint4 code to an exponent-integer pair",
    configs={"flint4": Config(pairs=FLINT4_PAIRS)},
    ports=ports,
    unit_class=FlintDecoder,
    cases=cases,
    counters=("decodes",),
)
run: RunFunction[Result] = UNIT.run
