"""The outlier decoder: an abfloat code and a bias to an exponent-integer pair.

Paper: [olive §4.2, Fig. 7].
"""

from collections.abc import Iterator, Mapping
from typing import ClassVar

import numpy as np

from refemu.arith.checks import require_choice, require_int
from refemu.units import DeclaredState, Result, RunFunction
from refemu.units.declaration import Changes, Combinational, constant, decides
from refemu.units.ports import Port, Ports
from refemu.units.stimuli import Seeds, columns, random_inputs
from refemu.units.unit import AnyUnit, Cases, Config, Flag, Kind, Unit

__all__ = ["FORMATS", "UNIT", "OutlierDecoder", "State", "run"]

FORMATS = ((2, 1), (4, 3), (2, 5))  #: (exp_bits, man_bits); the published code has E2M5 (D-olive-14)


def decode(code: int, bias: int, exp_bits: int, man_bits: int, exponent_bits: int) -> tuple[int, int]:
    """Exponent = bias + e, integer = (1m)2 or 0 for magnitude code 0, then the sign. [olive §4.2]

    The exponent is modulo 2**exponent_bits (D-olive-20). Magnitude code 0 has the bias as its exponent (D-olive-19).
    """
    sign = code >> (exp_bits + man_bits)
    exponent_field = (code >> man_bits) & ((1 << exp_bits) - 1)
    mantissa = code & ((1 << man_bits) - 1)
    exponent = (bias + exponent_field) & ((1 << exponent_bits) - 1)
    magnitude = 0 if exponent_field == 0 and mantissa == 0 else (1 << man_bits) | mantissa
    return exponent, -magnitude if sign else magnitude


class OutlierDecoder(Combinational):
    """Decoder of outliers: one event is one code."""

    name = "outlier_decoder"
    events: ClassVar[tuple[str, ...]] = ("decode",)
    counters: ClassVar[dict[str, str]] = {"decodes": "codes decoded"}
    exp_bits: int = 2  #: width of the exponent field; with man_bits one of `FORMATS`
    man_bits: int = 1  #: width of the mantissa
    exponent_bits: int | None = None  #: width of the exponent port, 1 to 8; None: 4 for 4-bit codes, 5 for 8-bit codes

    def check(self) -> None:
        require_choice((self.exp_bits, self.man_bits), FORMATS, self.name, "(exp_bits, man_bits)")
        require_int(self.shift_bits, 1, 8, self.name, "exponent_bits")

    @constant
    def shift_bits(self) -> int:
        """Bits of the exponent port."""
        return width_of_exponent(self.exp_bits, self.man_bits) if self.exponent_bits is None else self.exponent_bits

    @constant
    def ports(self) -> Ports:
        width = 1 + self.exp_bits + self.man_bits
        return Ports(
            inputs=(
                Port("code", width, encoding="code", meaning="abfloat code: sign, exponent field, mantissa"),
                Port("bias", 4, meaning="added to the exponent field"),
            ),
            outputs=(
                Port("exponent", self.shift_bits, meaning="shift of the integer"),
                Port("base_int", width, signed=True, meaning="integer with its hidden one and sign"),
            ),
        )

    @decides("D-olive-19", "D-olive-20")
    def decode(self, code: int, bias: int) -> Changes:
        """Decode an abfloat code with a bias to an exponent and an integer."""
        exponent, base_int = decode(code, bias, self.exp_bits, self.man_bits, self.shift_bits)
        return {"exponent": exponent, "base_int": base_int, "decodes": 1}


@decides("D-olive-20")
def width_of_exponent(exp_bits: int, man_bits: int) -> int:
    """4 for 4-bit codes, as [olive §4.2] appends 0000; 5 for 8-bit codes, enough for 15 + 15."""
    return 4 if exp_bits + man_bits == 3 else 5


def cases(config: Config, kind: Kind, seed: Seeds) -> Iterator[Cases]:
    """Golden cases: every code at every bias, the whole input space."""
    width = 1 + config["exp_bits"] + config["man_bits"]
    if kind == "paper":
        yield from _paper_cases(config["man_bits"])
    if kind == "edge":
        codes, biases = np.array([0, 1 << (width - 1)]).repeat(15), np.tile(np.arange(1, 16), 2)
        yield Cases(
            kind,
            "magnitude code 0 with either sign: integer 0, exponent by its equation",
            {"code": codes, "bias": biases},
            "D-olive-19",
        )
        if 15 + (1 << config["exp_bits"]) - 1 >= 1 << UNIT.ports(config).outputs[0].bits:
            largest = [(1 << width) - 1, (1 << (width - 1)) - 1]
            yield Cases(kind, "bias + e exceeds the exponent port", columns(code=largest, bias=15), "D-olive-20")
    if kind == "random":
        inputs = random_inputs("outlier_decoder", UNIT.ports(config).inputs, (64,), seed)
        yield Cases(kind, "uniform codes and biases", inputs)
    if kind == "exhaustive":
        codes, biases = np.roll(np.arange(1 << width), -1), np.roll(np.arange(16), -1)
        yield Cases(kind, "every code at every bias", columns(code=codes.repeat(16), bias=np.tile(biases, 1 << width)))


def _paper_cases(man_bits: int) -> Iterator[Cases]:
    if man_bits == 1:
        yield Cases("paper", "[olive §4.2] bias 2, 0101: <4,3> = 48", columns(code=[0b0101], bias=2))
        yield Cases("paper", "[olive §3.3] bias 2 with int4: 12 to 96", columns(code=range(1, 8), bias=2))
        yield Cases("paper", "[olive §3.3] bias 3 with flint4: 24 to 192", columns(code=range(1, 8), bias=3))
    elif man_bits == 3:
        yield Cases(
            "paper",
            "[olive §4.5] the largest outlier after the clip, <12,8> = 2**15, and its negative",
            columns(code=[0x40, 0xC0], bias=4),
        )


def mark(config: Config, inputs: Mapping[str, np.ndarray], result: object) -> dict[str, np.ndarray]:
    """Rows of each flag."""
    magnitude = inputs["code"] & ((1 << (config["exp_bits"] + config["man_bits"])) - 1)
    reserved = magnitude == 0
    wrapped = (
        inputs["bias"] + (magnitude >> config["man_bits"]).astype(np.int64) >= 1 << UNIT.ports(config).outputs[0].bits
    )
    return {"RESERVED": reserved, "WRAPPED": wrapped, "UNSPECIFIED": reserved | wrapped}


UNIT: AnyUnit = Unit(
    unit_class=OutlierDecoder,
    paper="olive §4.2, Fig. 7",
    meaning="abfloat code and bias to an exponent-integer pair",
    configs={
        name: Config(exp_bits=e, man_bits=m, exponent_bits=bits)
        for name, e, m, bits in (("e2m1", 2, 1, 4), ("e4m3", 4, 3, 5), ("e2m5", 2, 5, 5))
    },
    cases=cases,
    mark=mark,
    flags={
        "RESERVED": Flag(0, "magnitude code 0: the encoder never makes it; integer 0, exponent = bias (D-olive-19)"),
        "WRAPPED": Flag(1, "bias + exponent field exceeds the exponent port: modulo 2**exponent_bits (D-olive-20)"),
        "UNSPECIFIED": Flag(2, "the paper leaves an output of this row open; see the other flags"),
    },
)
State: type[DeclaredState] = OutlierDecoder.State
run: RunFunction[Result] = UNIT.run
