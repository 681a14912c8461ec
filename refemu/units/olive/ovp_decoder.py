"""The outlier-victim pair decoder: two codes to two exponent-integer pairs.

Paper: [olive §4.2, Fig. 6b, Fig. 7]. Composed of outlier_decoder and flint_decoder. Decisions: D-olive-1 (left element
in the low half), D-olive-14 (8-bit outliers), D-olive-18 (illegal pairs), D-olive-19 (exponent of a victim), D-olive-20
(exponents beyond the port).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith.checks import RefusedType, require_choice
from refemu.units import stepped
from refemu.units.olive import flint_decoder, outlier_decoder
from refemu.units.olive.cases import ovp_decoder as ovp_decoder_cases
from refemu.units.ports import Port, Ports
from refemu.units.stepped import Stepped
from refemu.units.unit import Config, Flag, RunFunction, Unit

__all__ = ["OUTLIERS", "UNIT", "Normal", "Outlier", "OvpDecoder", "Result", "State", "run"]


Normal = Literal["int4", "flint4", "int8"]  #: type of the normal values of a pair
Outlier = tuple[int, int]  #: exp_bits and man_bits of an abfloat
#: the outlier formats of a normal type's width, the paper's first (D-olive-14)
OUTLIERS: dict[Normal, tuple[Outlier, ...]] = {"int4": ((2, 1),), "flint4": ((2, 1),), "int8": ((4, 3), (2, 5))}


@dataclass(frozen=True)
class State:
    """Ports after one event, and counts since reset. Lane 0 is the left element."""

    event: str  #: "reset": nothing is decoded yet; "decode": both codes of a pair become exponents and integers
    index: int  #: number of the event since reset, from 0; -1 at reset
    pair: int
    bias: int
    exponent: tuple[int, int]
    base_int: tuple[int, int]
    illegal: int
    pairs: int  #: pairs decoded
    outliers: int  #: outliers decoded: elements that stand beside an identifier
    illegal_pairs: int  #: pairs with `illegal` set: an identifier beside a code of magnitude 0 (D-olive-18)


@dataclass(frozen=True, eq=False)
class Result(stepped.Result):
    """Outputs of the decoder; lanes on the last axis, left element first."""

    exponent: np.ndarray  #: uint8
    base_int: np.ndarray  #: int8
    illegal: np.ndarray  #: bool, one per pair
    pairs: int
    outliers: int
    illegal_pairs: int


class OvpDecoder(Stepped[State]):
    """Decoder of outlier-victim pairs, combinational: one step is one pair.

    References
    ----------
    [olive §4.2, Fig. 6b]
    """

    name = "ovp_decoder"

    def __init__(self, normal: Normal = "int4", outlier: Outlier = (2, 1)) -> None:
        """Configure the decoder.

        Parameters
        ----------
        normal : {"int4", "flint4", "int8"}
            Type of the normal values.
        outlier : (int, int)
            exp_bits and man_bits of the abfloat, one of `OUTLIERS[normal]`.

        Raises
        ------
        Refused
            The type is unknown, or the outlier format does not belong to it.
        """
        self.normal = require_choice(normal, OUTLIERS, self.name, "normal")
        sizes: Any = tuple(outlier)  # a list where a configuration comes from JSON
        self.outlier: Outlier = require_choice(sizes, OUTLIERS[self.normal], self.name, f"outlier beside {normal}")
        self.width: int = 1 + self.outlier[0] + self.outlier[1]
        self.identifier: int = 1 << (self.width - 1)  #: the code 10..0 [olive §3.1]
        self.ports: Ports = ports({"normal": self.normal, "outlier": self.outlier})
        self.exponent_bits: int = self.ports.outputs[0].bits
        self.state: State = self.reset(State)

    def step(self, pair: int, bias: int) -> State:
        """Decode one pair; return the State after it."""
        return self._open(*self.accept(pair, bias))

    def _open(self, pair: int, bias: int) -> State:
        codes = pair & ((1 << self.width) - 1), pair >> self.width  # left in the low half (D-olive-1)
        left, right = self.lane(codes[0], codes[1], bias), self.lane(codes[1], codes[0], bias)
        before, illegal = self.state, self.is_illegal(*codes)
        outliers = self.holds_outlier(codes[0], codes[1]) + self.holds_outlier(codes[1], codes[0])
        self.state = self.latched(
            pair,
            bias,
            event="decode",
            exponent=(left[0], right[0]),
            base_int=(left[1], right[1]),
            illegal=illegal,
            pairs=before.pairs + 1,
            outliers=before.outliers + outliers,
            illegal_pairs=before.illegal_pairs + illegal,
        )
        return self.state

    def lane(self, code: int, partner: int, bias: int) -> tuple[int, int]:
        """Decode one element of a pair.

        Parameters
        ----------
        code : int
            Code of the element.
        partner : int
            Code of the other element.
        bias : int
            Outlier bias, 0 to 15.

        Returns
        -------
        exponent, integer : int
            <0, 0> for a victim.
        """
        if code == self.identifier:
            return 0, 0  # "transforms the outlier identifier to 0" [olive §4.2]: the victim (D-olive-19)
        if self.holds_outlier(code, partner):
            return outlier_decoder.decode(code, bias, self.outlier[0], self.outlier[1], self.exponent_bits)
        if self.normal == "flint4":
            return flint_decoder.decode(code)
        return 0, code - ((code & self.identifier) << 1)  # "append a 0000 as the exponent" [olive §4.2]

    def holds_outlier(self, code: int, partner: int) -> bool:
        """Whether the outlier decoder answers for `code`: its partner is the identifier, and it is not.

        Parameters
        ----------
        code, partner : int
            Codes of the element and of the other one.

        Returns
        -------
        bool
            True for an outlier.
        """
        return partner == self.identifier != code

    def is_illegal(self, left: int, right: int) -> int:
        """1 if one code is the identifier and the other has magnitude 0, which no encoder writes (D-olive-18).

        Parameters
        ----------
        left, right : int
            Codes of the pair.

        Returns
        -------
        int
            0 or 1.
        """
        return int(self.identifier in (left, right) and {left, right} <= {0, self.identifier})

    def admitted(self, pair: ArrayLike, bias: ArrayLike) -> list[np.ndarray]:
        """Pairs and biases as arrays of one shape; refuses bytes where a pair is a word of 16 bits."""
        if self.width == 8 and getattr(pair, "dtype", None) == np.uint8:
            raise RefusedType(
                f"{self.name}.pair: 16-bit words are needed for {self.normal}, got dtype uint8; view bytes as '<u2'"
            )
        return super().admitted(pair, bias)


def ports(config: Mapping[str, Any]) -> Ports:
    """Ports in one configuration."""
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


UNIT: Unit[State, Result] = Unit(
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
    unit_class=OvpDecoder,
    cases=ovp_decoder_cases.cases,
    counters=("pairs", "outliers", "illegal_pairs"),
    result=Result,
    mark=ovp_decoder_cases.mark,
    flags={
        "ILLEGAL": Flag(0, "an identifier beside a code of magnitude 0, made by no encoder (D-olive-18)"),
        "VICTIM": Flag(1, "one lane is a victim: value 0 is the paper's, exponent 0 a decision (D-olive-19)"),
        "WRAPPED": Flag(2, "bias + exponent field of an outlier leaves its port: modulo 2**bits (D-olive-20)"),
        "UNSPECIFIED": Flag(3, "the paper leaves an output of this row open; see the other flags"),
    },
)
run: RunFunction[Result] = UNIT.run
