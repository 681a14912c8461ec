"""The outlier decoder: an abfloat code and a bias to an exponent-integer pair.

Paper: [olive §4.2, Fig. 7]. Decisions: D-olive-14 (8-bit formats), D-olive-19 (exponent of the reserved
code), D-olive-20 (exponents beyond the port).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from refemu.arith.checks import Refused, require_choice
from refemu.units import unit
from refemu.units.unit import Cases, Config, Flag, Port, Ports, Stepped, Unit, admit, collect
from refemu.units.unit_cases import Seeds, columns, random_inputs

FORMATS = ((2, 1), (4, 3), (2, 5))  #: (exp_bits, man_bits); E2M5 is that of the published code (D-olive-14)


@dataclass(frozen=True)
class State:
    """Ports after one event, and what happened since reset."""

    event: str  #: "reset" or "decode"
    index: int  #: number of the event, -1 for the reset
    code: int
    bias: int
    exponent: int
    base_int: int
    decodes: int  #: codes decoded


@dataclass(frozen=True, eq=False)
class Result(unit.Result):
    """What leaves the unit: one value per code."""

    exponent: np.ndarray  #: uint8
    base_int: np.ndarray  #: int8
    decodes: int


def decode(code: int, bias: int, exp_bits: int, man_bits: int, exponent_bits: int) -> tuple[int, int]:
    """The two equations of [olive §4.2]: exponent = bias + e, integer = (1m)2 or 0 for magnitude code 0; sign last.

    The exponent is taken modulo 2**exponent_bits (D-olive-20); that of magnitude code 0 stays bias (D-olive-19).
    """
    sign = code >> (exp_bits + man_bits)
    exponent_field = (code >> man_bits) & ((1 << exp_bits) - 1)
    mantissa = code & ((1 << man_bits) - 1)
    exponent = (bias + exponent_field) & ((1 << exponent_bits) - 1)
    magnitude = 0 if exponent_field == 0 and mantissa == 0 else (1 << man_bits) | mantissa
    return exponent, -magnitude if sign else magnitude


class OutlierDecoder(Stepped):
    """The block of [olive Fig. 7], combinational: one step is one code."""

    name = "outlier_decoder"

    def __init__(self, exp_bits: int = 2, man_bits: int = 1, exponent_bits: int | None = None) -> None:
        """exponent_bits: width of the exponent port; by default 4 for 4-bit codes and 5 for 8-bit codes."""
        require_choice((exp_bits, man_bits), FORMATS, self.name, "(exp_bits, man_bits)")
        self.exp_bits, self.man_bits = exp_bits, man_bits
        config = Config(exp_bits=exp_bits, man_bits=man_bits, exponent_bits=exponent_bits)
        self.exponent_bits = width_of_exponent(config)
        if not 1 <= self.exponent_bits <= 8:
            raise Refused(f"{self.name}: exponent_bits must be in [1, 8], got {exponent_bits}")
        self.ports = ports(config)
        self.state = State("reset", -1, 0, 0, 0, 0, 0)

    def step(self, code: int, bias: int) -> State:
        """Decode one code; returns the State after it."""
        return self._decode(*self.accept(code, bias))

    def _decode(self, code: int, bias: int) -> State:
        exponent, base_int = decode(code, bias, self.exp_bits, self.man_bits, self.exponent_bits)
        before = self.state
        self.state = State("decode", before.index + 1, code, bias, exponent, base_int, before.decodes + 1)
        return self.state

    def steps(self, code: Any, bias: Any) -> Iterator[State]:
        """Yield the State after every code, in C order; the arguments broadcast."""
        codes, biases = admit(self.name, self.ports.inputs, (code, bias))
        for one in zip(codes.ravel().tolist(), biases.ravel().tolist(), strict=True):
            yield self._decode(*one)

    def __repr__(self) -> str:
        return f"OutlierDecoder(exp_bits={self.exp_bits}, man_bits={self.man_bits}, exponent_bits={self.exponent_bits})"


def width_of_exponent(config: Mapping[str, Any]) -> int:
    """Bits of the exponent port.

    If not stated 4 for 4-bit codes, as [olive §4.2] appends 0000, and 5 for 8-bit codes: 15 + 15 fits (D-olive-20).
    """
    stated = config.get("exponent_bits")
    if stated is not None:
        return int(stated)
    return 4 if config["exp_bits"] + config["man_bits"] == 3 else 5


def run(code: Any, bias: Any, *, exp_bits: int = 2, man_bits: int = 1, exponent_bits: int | None = None) -> Result:
    """Decode codes of any shape.

    code: unsigned integers below 2**(1 + exp_bits + man_bits), sign in the top bit. bias: unsigned, below 16. They
    broadcast. exp_bits, man_bits: one of FORMATS. exponent_bits: as for OutlierDecoder.
    Returns the Result, arrays of their common shape. Refuses a value outside its port. Paper: [olive §4.2].
    """
    decoder = OutlierDecoder(exp_bits, man_bits, exponent_bits)
    codes, biases = admit(decoder.name, decoder.ports.inputs, (code, bias))
    states = list(decoder.steps(codes, biases))
    return Result(**collect(states, decoder.ports.outputs, codes.shape), decodes=decoder.state.decodes)


def ports(config: Mapping[str, Any]) -> Ports:
    """Widths in one configuration."""
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


def cases(config: Config, kind: str, seed: Seeds) -> Iterator[Cases]:
    """Golden cases: every code at every bias, which is all this unit can be asked."""
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
    """Which rows carry which flag."""
    magnitude = inputs["code"] & ((1 << (config["exp_bits"] + config["man_bits"])) - 1)
    reserved = magnitude == 0
    wrapped = inputs["bias"] + (magnitude >> config["man_bits"]).astype(np.int64) >= 1 << width_of_exponent(config)
    return {"RESERVED": reserved, "WRAPPED": wrapped, "UNSPECIFIED": reserved | wrapped}


UNIT = Unit(
    name="outlier_decoder",
    paper="olive §4.2, Fig. 7",
    meaning="abfloat code and bias to an exponent-integer pair",
    configs={
        name: Config(exp_bits=e, man_bits=m, exponent_bits=bits)
        for name, e, m, bits in (("e2m1", 2, 1, 4), ("e4m3", 4, 3, 5), ("e2m5", 2, 5, 5))
    },
    ports=ports,
    run=run,
    twin="refemu.units.outlier_decoder_jit:run",
    unit_class=OutlierDecoder,
    cases=cases,
    mark=mark,
    flags={
        "RESERVED": Flag(0, "magnitude code 0: the encoder never makes it; integer 0, exponent = bias (D-olive-19)"),
        "WRAPPED": Flag(1, "bias + exponent field leaves the exponent port: modulo 2**exponent_bits (D-olive-20)"),
        "UNSPECIFIED": Flag(2, "the paper leaves an output of this row open; see the other flags"),
    },
)
