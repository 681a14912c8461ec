"""The outlier-victim pair decoder: two codes to two exponent-integer pairs.

Paper: [olive §4.2, Fig. 6b, Fig. 7]. Composed of outlier_decoder and flint_decoder. Decisions: D-olive-1 (left element
in the low half), D-olive-14 (8-bit outliers), D-olive-18 (illegal pairs), D-olive-19 (exponent of a victim), D-olive-20
(exponents beyond the port).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from refemu.arith.checks import RefusedType, require_choice
from refemu.units import flint_decoder, outlier_decoder, ovp_decoder_cases, unit
from refemu.units.unit import Cases, Config, Flag, Port, Ports, Stepped, Unit, admit, collect
from refemu.units.unit_cases import Seeds

#: normal type -> the outlier formats (exp_bits, man_bits) of its width
OUTLIERS = {"int4": ((2, 1),), "flint4": ((2, 1),), "int8": ((4, 3), (2, 5))}


@dataclass(frozen=True)
class State:
    """Ports after one event, and what happened since reset. Lane 0 is the left element."""

    event: str  #: "reset" or "decode"
    index: int  #: number of the event, -1 for the reset
    pair: int
    bias: int
    exponent: tuple[int, int]
    base_int: tuple[int, int]
    illegal: int
    pairs: int  #: pairs decoded
    outliers: int  #: lanes that the outlier decoder answered
    illegal_pairs: int  #: pairs with `illegal` set


@dataclass(frozen=True, eq=False)
class Result(unit.Result):
    """What leaves the unit; lanes on the last axis, left element first."""

    exponent: np.ndarray  #: uint8
    base_int: np.ndarray  #: int8
    illegal: np.ndarray  #: bool, one per pair
    pairs: int
    outliers: int
    illegal_pairs: int


class OvpDecoder(Stepped):
    """The block of [olive Fig. 6b], combinational: one step is one pair."""

    name = "ovp_decoder"

    def __init__(self, normal: str = "int4", outlier: tuple[int, int] = (2, 1)) -> None:
        """normal: type of normal values. outlier: (exp_bits, man_bits) of the abfloat, of the same width."""
        self.normal = require_choice(normal, OUTLIERS, self.name, "normal")
        self.outlier = require_choice(tuple(outlier), OUTLIERS[normal], self.name, f"outlier beside {normal}")
        self.width = 1 + outlier[0] + outlier[1]
        self.identifier = 1 << (self.width - 1)  #: the code 10..0 [olive §3.1]
        self.ports = ports({"normal": normal, "outlier": outlier})
        self.exponent_bits = self.ports.outputs[0].bits
        self.state = State("reset", -1, 0, 0, (0, 0), (0, 0), 0, 0, 0, 0)

    def step(self, pair: int, bias: int) -> State:
        """Decode one pair; returns the State after it."""
        return self._decode(*self.accept(pair, bias))

    def _decode(self, pair: int, bias: int) -> State:
        codes = pair & ((1 << self.width) - 1), pair >> self.width  # left in the low half (D-olive-1)
        left, right = self.lane(codes[0], codes[1], bias), self.lane(codes[1], codes[0], bias)
        before, illegal = self.state, self.is_illegal(*codes)
        outliers = self.holds_outlier(codes[0], codes[1]) + self.holds_outlier(codes[1], codes[0])
        self.state = State(
            "decode",
            before.index + 1,
            pair,
            bias,
            (left[0], right[0]),
            (left[1], right[1]),
            illegal,
            before.pairs + 1,
            before.outliers + outliers,
            before.illegal_pairs + illegal,
        )
        return self.state

    def lane(self, code: int, partner: int, bias: int) -> tuple[int, int]:
        """Exponent and integer of the element `code` beside `partner`."""
        if code == self.identifier:
            return 0, 0  # "transforms the outlier identifier to 0" [olive §4.2]: the victim (D-olive-19)
        if self.holds_outlier(code, partner):
            return outlier_decoder.decode(code, bias, self.outlier[0], self.outlier[1], self.exponent_bits)
        if self.normal == "flint4":
            return flint_decoder.decode(code)
        return 0, code - ((code & self.identifier) << 1)  # "append a 0000 as the exponent" [olive §4.2]

    def holds_outlier(self, code: int, partner: int) -> bool:
        """Whether the outlier decoder answers for `code`: its partner, and not it, is the identifier."""
        return partner == self.identifier != code

    def is_illegal(self, left: int, right: int) -> int:
        """1 if one code is the identifier and the other has magnitude 0: no encoder makes that (D-olive-18)."""
        return int(self.identifier in (left, right) and {left, right} <= {0, self.identifier})

    def steps(self, pairs: Any, bias: Any) -> Iterator[State]:
        """Yield the State after every pair, in C order; the arguments broadcast."""
        words, biases = self.admitted(pairs, bias)
        for one in zip(words.ravel().tolist(), biases.ravel().tolist(), strict=True):
            yield self._decode(*one)

    def admitted(self, pairs: Any, bias: Any) -> list[np.ndarray]:
        """The inputs as arrays of one shape. Refuses also bytes where words of 16 bits are due."""
        if self.width == 8 and getattr(pairs, "dtype", None) == np.uint8:
            raise RefusedType(
                f"{self.name}.pair: 16-bit words are needed for {self.normal}, got dtype uint8; view bytes as '<u2'"
            )
        return admit(self.name, self.ports.inputs, (pairs, bias))

    def __repr__(self) -> str:
        return f"OvpDecoder(normal={self.normal!r}, outlier={self.outlier})"


def run(pairs: Any, bias: Any, *, normal: str = "int4", outlier: tuple[int, int] = (2, 1)) -> Result:
    """Decode pairs of any shape.

    pairs: bytes (4-bit types) or 16-bit words (int8), left element in the low half; any integers in range.
    bias: unsigned, below 16. They broadcast. normal, outlier: as for OvpDecoder.
    Returns the Result: `exponent` and `base_int` of the common shape + (2,), `illegal` of the common shape; the value
    of a lane is base_int << exponent. Refuses a value outside its port. Paper: [olive §4.2, Fig. 6b].
    """
    decoder = OvpDecoder(normal, outlier)
    words, biases = decoder.admitted(pairs, bias)
    outputs = collect(list(decoder.steps(words, biases)), decoder.ports.outputs, words.shape)
    last = decoder.snapshot()
    return Result(**outputs, pairs=last.pairs, outliers=last.outliers, illegal_pairs=last.illegal_pairs)


def ports(config: Mapping[str, Any]) -> Ports:
    """Widths in one configuration."""
    exp_bits, man_bits = config["outlier"]
    width = 1 + exp_bits + man_bits
    encoding = f"ovp_{config['normal']}" + ("_repo" if (exp_bits, man_bits) == (2, 5) else "")
    exponent_bits = outlier_decoder.width_of_exponent({"exp_bits": exp_bits, "man_bits": man_bits})
    return Ports(
        inputs=(
            Port("pair", 2 * width, encoding=encoding, meaning="two codes, the left element in the low half"),
            Port("bias", 4, meaning="added to an outlier's exponent field"),
        ),
        outputs=(
            Port("exponent", exponent_bits, 2, meaning="shift of each integer"),
            Port("base_int", width, 2, signed=True, meaning="integer of each element"),
            Port("illegal", 1, meaning="an identifier beside magnitude 0: no pair that an encoder makes"),
        ),
    )


def cases(config: Config, kind: str, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind; see ovp_decoder_cases.py."""
    return ovp_decoder_cases.cases(config, ports(config).inputs, kind, seed)


UNIT = Unit(
    name="ovp_decoder",
    paper="olive §4.2, Fig. 6b, Fig. 7",
    meaning="outlier-victim pair to two exponent-integer pairs",
    configs={
        "int4": Config(normal="int4", outlier=(2, 1)),
        "flint4": Config(normal="flint4", outlier=(2, 1)),
        "int8": Config(normal="int8", outlier=(4, 3)),
        "int8_repo": Config(normal="int8", outlier=(2, 5)),
    },
    ports=ports,
    run=run,
    twin="refemu.units.ovp_decoder_jit:run",
    unit_class=OvpDecoder,
    cases=cases,
    mark=ovp_decoder_cases.mark,
    arguments={"pair": "pairs"},
    flags={
        "ILLEGAL": Flag(0, "an identifier beside a code of magnitude 0, made by no encoder (D-olive-18)"),
        "VICTIM": Flag(1, "one lane is a victim: value 0 is the paper's, exponent 0 a decision (D-olive-19)"),
        "WRAPPED": Flag(2, "bias + exponent field of an outlier leaves its port: modulo 2**bits (D-olive-20)"),
        "UNSPECIFIED": Flag(3, "the paper leaves an output of this row open; see the other flags"),
    },
)
