"""The accumulator that the sub-PEs of a PE share: fuse nibbles, convert to floating point, scale, add in FP32.

Paper: [harmonia §IV-A (3), §IV-B, Fig. 13].
"""

import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith import fp16
from refemu.arith.checks import Refused, at, first_index
from refemu.arith.operands import PRECISIONS, Precision
from refemu.arith.scalar32 import f32, pattern16, pattern32, value16, value32
from refemu.units import AnyUnit, Changes, Config, DeclaredState, Flag, Port, Ports, Sequential, Unit, constant, decides
from refemu.units.stepping import Result
from refemu.units.unit import RunFunction

__all__ = [
    "FP16_OVERFLOW",
    "FP16_UNDERFLOW",
    "INVALID",
    "M8M4",
    "M8M8",
    "M8W4",
    "MODES",
    "PRECISIONS",
    "UNIT",
    "Accumulator",
    "Precision",
    "State",
    "add",
    "exponent",
    "fuse",
    "number",
    "run",
    "word",
]


M8W4, M8M4, M8M8 = range(3)  #: Modes: INT4 weights; 8 by 4 bits of mantissa; 8 by 8
MODES = ("M8W4", "M8M4", "M8M8")  #: Names of the modes, in the order of their numbers
POINT = (-22, -40, -44)  #: added to the exponents of a partial sum, by mode: -(14 + m) for each BFP operand
FP16_OVERFLOW, FP16_UNDERFLOW, INVALID = 1, 2, 4  #: Bits of the port `flags`
NAN = 0x7FC0_0000  #: the only word of NaN
MOST = 122_400  #: largest magnitude of a sub-PE's sum, 32 * 255 * 15


class Accumulator(Sequential):
    """Shared accumulator of a PE: one event takes the partial sums of one group."""

    name = "bfp_accumulator"
    events: ClassVar[tuple[str, ...]] = ("accumulate",)
    counters: ClassVar[dict[str, str]] = {
        "fusions": "groups of mode M8M8, whose sums of high and low nibbles are joined",
        "fp_converts": "partial sums converted to floating point, one for each group",
        "scale_mults": "partial sums multiplied by a weight factor, one for each group of mode M8W4",
        "fp32_adds": "additions to the accumulator in FP32, one for each group",
    }
    partial: Precision = "fp16"  #: rounding of a group's sum, or "fp32", which is exact (D-harmonia-7)
    product: Precision = "fp32"  #: rounding of the product with the weight factor (D-harmonia-8)

    @constant
    def ports(self) -> Ports:
        return Ports(
            inputs=(
                Port("mode", 2, most=2, meaning="0 M8W4, 1 M8M4, 2 M8M8"),
                Port("clear", 1, meaning="this group starts an output: accumulator +0, flags 0"),
                Port("psum", 18, signed=True, least=-MOST, most=MOST, meaning="sum of a sub-PE; M8M8: high nibbles"),
                Port("low", 18, signed=True, least=-MOST, most=MOST, meaning="M8M8: sum of the low nibbles; else 0"),
                Port("a_exp", 5, meaning="shared exponent of a"),
                Port("b_exp", 5, meaning="shared exponent of b; 0 in M8W4"),
                Port("w_scale", 16, encoding="f16", meaning="weight factor, finite; 0 except in M8W4"),
            ),
            outputs=(
                Port("p", 22, signed=True, meaning="exact sum of the group"),
                Port("value", 32, encoding="f32", meaning="value that is added"),
                Port("acc", 32, encoding="f32", meaning="sum of the groups"),
                Port("flags", 3, meaning="sticky: 1 FP16 overflow, 2 FP16 underflow, 4 NaN"),
            ),
        )

    def _require(self, *inputs: np.ndarray) -> None:
        """Check the inputs with `require_legal`."""
        mode, _, _, low, _, b_exp, w_scale = inputs
        require_legal(self.name, mode, w_scale, low=low, b_exp=b_exp)

    def accumulate(self, mode: int, clear: int, psum: int, low: int, a_exp: int, b_exp: int, w_scale: int) -> Changes:
        """Convert the partial sum of one group to floating point, multiply it by the factor in mode M8W4, add it."""
        if mode == M8M8:
            p, value, flags = self._join(psum, low, a_exp, b_exp)
        else:
            p, (value, flags) = psum, self.convert(psum, mode, a_exp, b_exp)
        value = self.scale(value, w_scale) if mode == M8W4 else value
        before, sticky = (0, 0) if clear else (self.state.acc, self.state.flags)
        acc, invalid = self._sum(before, value, clear)
        counts = {"fusions": int(mode == M8M8), "fp_converts": 1, "scale_mults": int(mode == M8W4), "fp32_adds": 1}
        return {"p": p, "value": value, "acc": acc, "flags": flags | invalid | sticky, **counts}

    @decides("D-harmonia-7")
    def convert(self, p: int, mode: int, a_exp: int, b_exp: int) -> tuple[int, int]:
        """The float32 word of a group's exact sum times its power of two, and bits of `flags`."""
        x = exponent(mode, a_exp, b_exp)
        exact = math.ldexp(float(p), x)
        if self.partial == "fp32":
            return pattern32(exact), 0  # p has 22 bits
        half = self._half(p, x)
        small = p != 0 and abs(half) < fp16.MIN_NORMAL and half != exact
        return pattern32(half), FP16_OVERFLOW * bool(abs(exact) >= fp16.OVERFLOW) | FP16_UNDERFLOW * small

    @decides("D-arith-2")
    def _half(self, p: int, x: int) -> float:
        """p * 2**x rounded to FP16."""
        return value16(pattern16(math.ldexp(float(p), x)))

    @decides("D-harmonia-11")
    def _join(self, high: int, low: int, a_exp: int, b_exp: int) -> tuple[int, int, int]:
        """Sum of 8-bit by 8-bit products, its float32 word and flags: one conversion of the fused nibbles."""
        p = fuse(high, low)
        return p, *self.convert(p, M8M8, a_exp, b_exp)

    @decides("D-arith-5", "D-harmonia-10")
    def _sum(self, acc: int, value: int, first: int) -> tuple[int, int]:
        """The accumulator and its flag after one more group; first: 1 if this group starts an output."""
        return add(acc, value)

    @decides("D-harmonia-8")
    def scale(self, value: int, w_scale: int) -> int:
        """A float32 word times a factor in fp16, rounded once."""
        exact = value32(value) * value16(w_scale)  # 24 and 11 bits
        return pattern32(value16(pattern16(exact)) if self.product == "fp16" else exact)


def exponent(mode: int, a_exp: int, b_exp: int) -> int:
    """Exponent of the unit of a partial sum, a power of two; an exponent field of 0 counts as 1. [harmonia §II-B,
    §IV-B]
    """
    return max(a_exp, 1) + POINT[mode] + (0 if mode == M8W4 else max(b_exp, 1))


@decides("D-harmonia-11")
def fuse(high: int, low: int) -> int:
    """Join the sums of the nibbles to the sum of 8-bit by 8-bit products, as integers. [harmonia §IV-B]"""
    return (high << 4) + low


@decides("D-harmonia-10")
def add(acc: int, value: int) -> tuple[int, int]:
    """Add two float32 words, rounded once. [harmonia §IV-B]"""
    total = f32(value32(acc) + value32(value))
    return pattern32(total), INVALID * bool(math.isnan(total))


def number(bits: int) -> np.float32:
    """Read a word as float32. [harmonia §IV-B]"""
    return np.uint32(bits).view(np.float32)


def word(x: float | np.floating | np.ndarray) -> int:
    """Round the number x to float32, NaN canonical. [harmonia §IV-B]"""
    with np.errstate(over="ignore"):
        rounded = np.float32(x)
    return int(rounded.view(np.uint32)) if rounded == rounded else NAN


def require_legal(name: str, mode: ArrayLike, w_scale: ArrayLike, **others: ArrayLike) -> None:
    """Reject bits set in fields that the mode does not use, and a weight factor that is not finite.

    others: `low`, used in M8M8 alone, and fields `b_...`, not used in M8W4; lanes may follow the axes of `mode`.
    """
    modes = np.asarray(mode)
    _refuse(name, "w_scale", w_scale, modes, modes != M8W4, "must be 0")
    _refuse(name, "w_scale", w_scale, modes, (np.asarray(w_scale) & 0x7C00) == 0x7C00, "must be finite")
    for field, value in others.items():
        _refuse(name, field, value, modes, modes != M8M8 if field == "low" else modes == M8W4, "must be 0")


def _refuse(name: str, field: str, value: Any, modes: np.ndarray, where: np.ndarray, rule: str) -> None:
    values = np.asarray(value)
    if not (where.any() and values.any()):
        return
    axes = (1,) * (values.ndim - modes.ndim)  # lanes
    bad = np.broadcast_to(where.reshape(where.shape + axes), values.shape) & (values != 0)
    if bad.any():
        index = first_index(bad)
        mode = MODES[int(modes[index[: modes.ndim]])]
        raise Refused(f"{name}: {field} {rule} in mode {mode}, got {int(values[index])}{at(index)}")


FLAGS = {
    "FP16_OVERFLOW": Flag(0, "a partial sum is beyond FP16: infinity (D-harmonia-7)"),
    "FP16_UNDERFLOW": Flag(1, "a partial sum is subnormal or 0 in FP16, and inexact (D-harmonia-7)"),
    "INVALID": Flag(2, "the accumulator is NaN: infinities of both signs, or one times a factor of 0"),
}

UNIT: AnyUnit = Unit(
    unit_class=Accumulator,
    paper="harmonia §IV-B, Fig. 13",
    meaning="shared accumulator of a PE: integer to FP16, weight factor, FP32 sum over groups",
    configs={"paper": Config(partial="fp16", product="fp32"), "exact": Config(partial="fp32", product="fp32")},
    flags=FLAGS,
)
State: type[DeclaredState] = Accumulator.State
run: RunFunction[Result] = UNIT.run
