"""The outlier decoder: an abfloat code and a bias to an exponent-integer pair.

Paper: [olive §4.2, Fig. 7]. Decisions: D-olive-14 (8-bit formats), D-olive-19 (exponent of the reserved
code), D-olive-20 (exponents beyond the port).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from refemu.arith.checks import require_choice, require_int
from refemu.units.ports import Port, Ports
from refemu.units.stepped import Result, Stepped
from refemu.units.stimuli import Seeds, columns, random_inputs
from refemu.units.unit import Cases, Config, Flag, Kind, RunFunction, Unit

__all__ = ["FORMATS", "UNIT", "OutlierDecoder", "State", "decode", "run"]


FORMATS = ((2, 1), (4, 3), (2, 5))  #: (exp_bits, man_bits); E2M5 is that of the published code (D-olive-14)


@dataclass(frozen=True)
class State:
    """Ports after one event, and counts since reset."""

    #: "reset": nothing is decoded yet; "decode": an abfloat code and a bias become an exponent and an integer
    event: str
    index: int  #: number of the event since reset, from 0; -1 at reset
    code: int
    bias: int
    exponent: int
    base_int: int
    decodes: int  #: codes decoded


def decode(code: int, bias: int, exp_bits: int, man_bits: int, exponent_bits: int) -> tuple[int, int]:
    """Decode one outlier code: exponent = bias + e; integer = (1m)2, or 0 for magnitude code 0; then the sign.

    The exponent is taken modulo 2**exponent_bits (D-olive-20). That of magnitude code 0 is the bias (D-olive-19).

    Parameters
    ----------
    code : int
        Abfloat code: sign, exponent field, mantissa.
    bias : int
        Added to the exponent field, 0 to 15.
    exp_bits, man_bits : int
        Widths of the exponent field and the mantissa.
    exponent_bits : int
        Width of the exponent port.

    Returns
    -------
    exponent, integer : int
        Unsigned exponent and signed integer.

    References
    ----------
    [olive §4.2]
    """
    sign = code >> (exp_bits + man_bits)
    exponent_field = (code >> man_bits) & ((1 << exp_bits) - 1)
    mantissa = code & ((1 << man_bits) - 1)
    exponent = (bias + exponent_field) & ((1 << exponent_bits) - 1)
    magnitude = 0 if exponent_field == 0 and mantissa == 0 else (1 << man_bits) | mantissa
    return exponent, -magnitude if sign else magnitude


class OutlierDecoder(Stepped[State]):
    """Decoder of outliers, combinational: one step is one code.

    References
    ----------
    [olive §4.2, Fig. 7]
    """

    name = "outlier_decoder"
    exp_bits: int
    man_bits: int

    def __init__(self, exp_bits: int = 2, man_bits: int = 1, exponent_bits: int | None = None) -> None:
        """Configure the decoder.

        Parameters
        ----------
        exp_bits, man_bits : int
            One of `FORMATS`.
        exponent_bits : int, optional
            Width of the exponent port, 1 to 8; by default 4 for 4-bit codes and 5 for 8-bit codes.

        Raises
        ------
        Refused
            The format is unknown or the width out of range.
        """
        sizes = require_choice((exp_bits, man_bits), FORMATS, self.name, "(exp_bits, man_bits)")
        self.exp_bits, self.man_bits = sizes
        bits = width_of_exponent({"exp_bits": exp_bits, "man_bits": man_bits, "exponent_bits": exponent_bits})
        self.exponent_bits: int = require_int(bits, 1, 8, self.name, "exponent_bits")
        self.ports: Ports = ports({"exp_bits": sizes[0], "man_bits": sizes[1], "exponent_bits": self.exponent_bits})
        self.state: State = self.reset(State)

    def step(self, code: int, bias: int) -> State:
        """Decode one code; return the State after it."""
        return self._open(*self.accept(code, bias))

    def _open(self, code: int, bias: int) -> State:
        exponent, base_int = decode(code, bias, self.exp_bits, self.man_bits, self.exponent_bits)
        decodes = self.state.decodes + 1
        self.state = self.latched(code, bias, event="decode", exponent=exponent, base_int=base_int, decodes=decodes)
        return self.state


def width_of_exponent(config: Mapping[str, Any]) -> int:
    """Bits of the exponent port: `exponent_bits` of the configuration, where it has them.

    Otherwise 4 for 4-bit codes, as [olive §4.2] appends 0000, and 5 for 8-bit codes: 15 + 15 fits (D-olive-20).
    """
    stated: int | None = config.get("exponent_bits")
    if stated is None:
        return 4 if config["exp_bits"] + config["man_bits"] == 3 else 5
    return stated


def ports(config: Mapping[str, Any]) -> Ports:
    """Ports in one configuration."""
    width = 1 + config["exp_bits"] + config["man_bits"]
    return Ports(
        inputs=(
            Port("code", width, encoding="code", meaning="abfloat code: sign, exponent field, mantissa"),
            Port("bias", 4, meaning="added to the exponent field"),
        ),
        outputs=(
            Port("exponent", width_of_exponent(config), meaning="shift of the integer"),
            Port("base_int", width, signed=True, meaning="integer with its hidden one and sign"),
        ),
    )


def cases(config: Config, kind: Kind, seed: Seeds) -> Iterator[Cases]:
    """Golden cases: every code at every bias, the whole input space."""
    width = 1 + config["exp_bits"] + config["man_bits"]
    if kind == "paper":
        yield from _paper_cases(config["man_bits"])
    if kind == "edge":
        codes, biases = np.array([0, 1 << (width - 1)]).repeat(15), np.tile(np.arange(1, 16), 2)
        yield Cases(
            kind,
            "magnitude code 0 with either sign: integer 0, exponent as its equation has it",
            {"code": codes, "bias": biases},
            "D-olive-19",
        )
        if 15 + (1 << config["exp_bits"]) - 1 >= 1 << width_of_exponent(config):
            largest = [(1 << width) - 1, (1 << (width - 1)) - 1]
            yield Cases(kind, "bias + e leaves the exponent port", columns(code=largest, bias=15), "D-olive-20")
    if kind == "random":
        inputs = random_inputs("outlier_decoder", ports(config).inputs, (64,), seed)
        yield Cases(kind, "uniform codes and biases", inputs)
    if kind == "exhaustive":
        codes, biases = np.roll(np.arange(1 << width), -1), np.roll(np.arange(16), -1)
        yield Cases(kind, "every code at every bias", columns(code=codes.repeat(16), bias=np.tile(biases, 1 << width)))


def _paper_cases(man_bits: int) -> Iterator[Cases]:
    if man_bits == 1:
        yield Cases("paper", "[olive §4.2] bias 2, 0101: <4,3> = 48", columns(code=[0b0101], bias=2))
        yield Cases("paper", "[olive §3.3] bias 2 beside int4: 12 to 96", columns(code=range(1, 8), bias=2))
        yield Cases("paper", "[olive §3.3] bias 3 beside flint4: 24 to 192", columns(code=range(1, 8), bias=3))
    elif man_bits == 3:
        yield Cases(
            "paper",
            "[olive §4.5] the largest outlier after the clip, <12,8> = 2**15, and its negative",
            columns(code=[0x40, 0xC0], bias=4),
        )


def mark(config: Config, inputs: Mapping[str, np.ndarray], result: Result) -> dict[str, np.ndarray]:
    """Rows of each flag."""
    magnitude = inputs["code"] & ((1 << (config["exp_bits"] + config["man_bits"])) - 1)
    reserved = magnitude == 0
    wrapped = inputs["bias"] + (magnitude >> config["man_bits"]).astype(np.int64) >= 1 << width_of_exponent(config)
    return {"RESERVED": reserved, "WRAPPED": wrapped, "UNSPECIFIED": reserved | wrapped}


UNIT: Unit[State, Result] = Unit(
    name="outlier_decoder",
    paper="olive §4.2, Fig. 7",
    meaning="abfloat code and bias to an exponent-integer pair",
    configs={
        name: Config(exp_bits=e, man_bits=m, exponent_bits=bits)
        for name, e, m, bits in (("e2m1", 2, 1, 4), ("e4m3", 4, 3, 5), ("e2m5", 2, 5, 5))
    },
    ports=ports,
    unit_class=OutlierDecoder,
    cases=cases,
    counters=("decodes",),
    mark=mark,
    flags={
        "RESERVED": Flag(0, "magnitude code 0: the encoder never makes it; integer 0, exponent = bias (D-olive-19)"),
        "WRAPPED": Flag(1, "bias + exponent field leaves the exponent port: modulo 2**exponent_bits (D-olive-20)"),
        "UNSPECIFIED": Flag(2, "the paper leaves an output of this row open; see the other flags"),
    },
)
run: RunFunction[Result] = UNIT.run
