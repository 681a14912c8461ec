"""The outlier-victim pair encoder: two real values in grid units to one pair of codes.

Paper: [olive §3.1, Alg. 1, Alg. 2]. Both values arrive together; the one-element buffer of §3.1 is not modelled.
"""

from math import frexp, ldexp
from typing import ClassVar

import numpy as np

from refemu import formats
from refemu.arith.checks import Refused, reject
from refemu.arith.scalar32 import value32
from refemu.formats import Flint, Ovp
from refemu.formats.nearest import Ties
from refemu.formats.presets import OvpName
from refemu.units import AnyUnit, Changes, Combinational, Config, Flag, Port, Ports, Unit, constant, decides
from refemu.units.unit import DeclaredState, Result, RunFunction

__all__ = ["LEFT", "NORMAL", "RIGHT", "UNIT", "OvpEncoder", "State", "pair_format", "run"]

NORMAL, LEFT, RIGHT = 0, 1, 2  #: kinds of pairs, N normal, O outlier, V victim: N-N, O-V, V-O
INFINITY = 0x7F800000  #: magnitude bits of the float32 infinity; above it NaN
FLINT4 = ((0, 0b000), (1, 0b001), (2, 0b010), (3, 0b011), (4, 0b110), (6, 0b111), (8, 0b101), (16, 0b100))


def pair_format(fmt: OvpName | Ovp) -> Ovp:
    """Resolve the pair format of an encoder. [olive §3.1]

    Raises Refused for an unknown format, no pair format of 4 or 8 bits, or outliers without mantissa.
    """
    known = formats.find(fmt) if isinstance(fmt, str) else fmt
    if not isinstance(known, Ovp) or known.width not in (4, 8) or (known.outlier and not known.outlier.man_bits):
        raise Refused(
            f"{OvpEncoder.name}: fmt must be a pair format of 4 or 8 bits whose outliers have a mantissa, got {fmt!r}"
        )
    return known


class OvpEncoder(Combinational):
    """Encoder of outlier-victim pairs: one event is one pair. Lane 0 is the left element."""

    name = "ovp_encoder"
    events: ClassVar[tuple[str, ...]] = ("encode",)
    counters: ClassVar[dict[str, str]] = {
        "pairs": "pairs encoded",
        "left_outliers": "pairs whose left element is stored as an outlier",
        "right_outliers": "pairs whose right element is stored as an outlier",
        "pruned_outliers": "outliers lost because their neighbour is an outlier too, and is stored",
        "victims": "normal values lost because their neighbour is an outlier, values of 0 included",
        "saturated_pairs": "pairs with `saturated` set: their outlier is above the largest that has a code",
        "raised_pairs": "pairs with `raised` set: their outlier is below the smallest that has a code",
        "clamped_normals": "stored normal values whose magnitude was above the largest that has a code",
    }
    #: a ready pair format by name, or one of 4- or 8-bit codes whose outliers have a mantissa
    fmt: OvpName | Ovp = "OVP_INT4"

    @constant
    def format(self) -> Ovp:
        """The pair format; raises if `pair_format` does not take it."""
        return pair_format(self.fmt)

    @constant
    def far(self) -> float:
        """The largest magnitude that is not encoded as 0; without a limit any finite float32 is."""
        return value32(INFINITY - 1) if self.format.far is None else float(self.format.far)

    @constant
    def flint(self) -> bool:
        """Whether normal values are flint."""
        return isinstance(self.format.normal, Flint)

    @constant
    def ports(self) -> Ports:
        encoding = self.fmt.lower() if isinstance(self.fmt, str) else ""
        return Ports(
            inputs=(Port("value", 32, 2, encoding="f32", meaning="two values in grid units, the left element first"),),
            outputs=(
                Port("pair", 2 * self.format.width, encoding=encoding, meaning="two codes"),
                Port("kind", 2, meaning="0 two normal values, 1 outlier at the left, 2 outlier at the right"),
                Port("saturated", 1, meaning="the outlier was above the largest that is encoded"),
                Port("raised", 1, meaning="the outlier was below the smallest that has a code"),
            ),
        )

    def encode(self, value: tuple[int, int]) -> Changes:
        """Encode two values to a pair of codes."""
        first, second = value32(value[0]), value32(value[1])
        outliers = self.is_outlier(first), self.is_outlier(second)
        kind = self.kind_of(first, second, outliers)
        saturated = raised = 0
        if kind == NORMAL:
            pair = self.join(self.normal_code(first), self.normal_code(second))
        else:
            v, identifier = first if kind == LEFT else second, self.format.normal.identifier
            code = self.outlier_code(v)
            pair = self.join(code, identifier) if kind == LEFT else self.join(identifier, code)
            saturated, raised = int(abs(v) > self._outlier.largest), int(abs(v) < self._outlier.smallest)
        return {
            "pair": pair,
            "kind": kind,
            "saturated": saturated,
            "raised": raised,
            "pairs": 1,
            "left_outliers": kind == LEFT,
            "right_outliers": kind == RIGHT,
            "pruned_outliers": all(outliers),
            "victims": kind != NORMAL and not all(outliers),
            "saturated_pairs": saturated,
            "raised_pairs": raised,
            "clamped_normals": int(self.is_clamped(first)) + int(self.is_clamped(second)) if kind == NORMAL else 0,
        }

    @decides("D-olive-2", "D-olive-4", "D-olive-46")
    def is_outlier(self, v: float) -> bool:
        """Whether |v| is beyond the threshold, and not beyond `far`."""
        beyond = abs(v) >= self.format.boundary if self.format.closed else abs(v) > self.format.boundary
        return beyond and abs(v) <= self.far

    def is_clamped(self, v: float) -> bool:
        """Whether a normal value is above the largest one, and not beyond `far`."""
        return self.format.normal.largest < abs(v) and abs(v) <= self.far

    @decides("D-olive-5", "D-olive-6")
    def kind_of(self, first: float, second: float, outliers: tuple[bool, bool]) -> int:
        """Which element is stored as the outlier [olive Alg. 1], before rounding."""
        if outliers[0] and (self.format.winner == "left" or not outliers[1] or abs(first) > abs(second)):
            return LEFT
        return RIGHT if outliers[1] else NORMAL

    @decides("D-olive-7", "D-olive-9", "D-olive-17")
    def normal_code(self, v: float) -> int:
        """The nearest normal value, clamped to the largest; 0 has no sign."""
        if abs(v) > self.far:
            return 0
        size = min(abs(v), float(self.format.normal.largest))
        if self.flint:
            code = flint_code(size, v < 0, self.format.rounding)
            return code | self.format.normal.identifier if v < 0 and code else code
        whole = rounded(size, v < 0, self.format.rounding)
        return -whole & (2 * self.format.normal.identifier - 1) if v < 0 else whole

    @decides("D-olive-8", "D-olive-10", "D-olive-11", "D-olive-15")
    def outlier_code(self, v: float) -> int:
        """The code by [olive Alg. 2], clamped to the smallest and the largest legal one."""
        size = min(max(abs(v), float(self._outlier.smallest)), float(self._outlier.largest))
        fraction, above = frexp(size)
        exponent = above - 1 - self._outlier.man_bits  # l. 2: floor(log2) - mb (D-olive-15)
        base_int = rounded(ldexp(fraction, 1 + self._outlier.man_bits), v < 0, self.format.rounding)  # l. 3
        if base_int == 2 << self._outlier.man_bits:  # l. 4: rounded up to the next power of two
            exponent, base_int = exponent + 1, base_int >> 1
        field, mantissa = exponent - self._outlier.bias, base_int - (1 << self._outlier.man_bits)
        return field << self._outlier.man_bits | mantissa | (self.format.normal.identifier if v < 0 else 0)

    @property
    def _outlier(self) -> formats.AbFloat:
        assert self.format.outlier is not None  # called for outliers only
        return self.format.outlier

    @decides("D-olive-1")
    def join(self, left: int, right: int) -> int:
        """Both codes as a word, the left one in the half that the format names."""
        low, high = (left, right) if self.format.left == "low" else (right, left)
        return low | high << self.format.width

    @decides("D-olive-47")
    def _require(self, *inputs: np.ndarray) -> None:
        """Reject NaN and infinity."""
        (values,) = inputs
        rule = f"{self.name}: value must be a finite float32"
        reject(values & np.uint32(0x7FFFFFFF) >= INFINITY, rule, values, ", got {:#010x}")


@decides("D-olive-7", "D-olive-8")
def tie_goes_up(odd: bool, negative: bool, rounding: Ties) -> bool:
    """Whether a magnitude midway between two codes rounds to the larger."""
    if rounding == "half_even":
        return odd
    return rounding == "half_away" or negative == (rounding == "half_down")


def rounded(size: float, negative: bool, rounding: Ties) -> int:
    """The integer nearest to `size` >= 0, the magnitude of a value that may be negative."""
    whole = int(size)
    rest = size - whole  # exact: both are multiples of the float's last place
    return whole + int(rest > 0.5 or (rest == 0.5 and tie_goes_up(whole % 2 == 1, negative, rounding)))


def flint_code(size: float, negative: bool, rounding: Ties) -> int:
    """Magnitude code of the flint4 value nearest to `size`, at most 16; ranks decide ties."""
    for rank in range(len(FLINT4) - 1):
        middle = 0.5 * (FLINT4[rank][0] + FLINT4[rank + 1][0])
        if size < middle or (size == middle and not tie_goes_up(rank % 2 == 1, negative, rounding)):
            return FLINT4[rank][1]
    return FLINT4[-1][1]


UNIT: AnyUnit = Unit(
    unit_class=OvpEncoder,
    paper="olive §3.1, Alg. 1, Alg. 2",
    meaning="two values to an outlier-victim pair",
    configs={
        name: Config(fmt=f"OVP_{name.upper()}")
        for name in ("int4", "flint4", "int8", "int4_repo", "flint4_repo", "int8_repo")
    },
    flags={
        "OUTLIER": Flag(0, "the pair holds an outlier and a victim", "kind"),
        "SATURATES": Flag(1, "the outlier is above the largest that is encoded (D-olive-11, D-olive-12)", "saturated"),
        "RAISED": Flag(2, "the outlier is below the smallest that has a code (D-olive-10)", "raised"),
    },
)
State: type[DeclaredState] = OvpEncoder.State
run: RunFunction[Result] = UNIT.run
