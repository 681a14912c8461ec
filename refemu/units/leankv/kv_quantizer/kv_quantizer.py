"""The quantizer of a KV cache as a block: one group of fp16 features to codes, a scale and a zero point.

Paper: [leankv §2.2 Eq. (2), §6.2]. The stages are those of `formats.Affine`, one float32 operation each.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Annotated, ClassVar, Literal

import numpy as np

from refemu.arith.checks import Refused, reject
from refemu.arith.scalar32 import div32, f32, pattern16, pattern32, value16, value32
from refemu.formats.leankv.affine import CONSTANT, SCALE_OVERFLOW, SCALE_UNDERFLOW, WORD, ZERO_OVERFLOW, Affine
from refemu.units import AnyUnit, Changes, Combinational, Config, Flag, Port, Ports, Result, Unit, constant, decides
from refemu.units.declaration import DeclaredState
from refemu.units.unit import RunFunction

__all__ = ["BITS", "UNIT", "KvQuantizer", "Preset", "QuantizeWith", "State", "run"]

Preset = Literal["paper", "diffkv"]  #: Preset of the codes
QuantizeWith = Literal["unrounded", "stored"]  #: step and minimum from which codes are computed (D-leankv-3)
BITS = (1, 2, 4, 8)  #: widths of a code


class KvQuantizer(Combinational):
    """KV quantizer: an operation is `minmax` per element in ascending order, `scale`, and `word` per pack."""

    name = "kv_quantizer"
    events: ClassVar[tuple[str, ...]] = ("minmax", "scale", "word")
    counters: ClassVar[dict[str, str]] = {
        "comparisons": (
            "comparisons with the smallest and the largest element so far, two for each element except the first"
        ),
        "divisions": ("divisions: range by largest code, 1 by step, distance from the minimum by step"),
        "multiplications": "products of a distance from the minimum and the reciprocal of the step",
        "roundings": "quotients or products rounded to an integer, one for each element",
    }
    initial: ClassVar[dict[str, int]] = {"bits": 1}
    features: Annotated[int, 16, 1 << 12] = 32  #: features of a group, a multiple of 16 up to 4096
    preset: Preset = "paper"  #: preset of the codes, as for `Affine`
    quantize_with: QuantizeWith = "unrounded"  #: step and minimum from which codes are computed (D-leankv-3)

    def check(self) -> None:
        if self.features % WORD:
            raise Refused(f"{self.name}: features must be a multiple of 16, got {self.features}")

    @constant
    def formats(self) -> dict[int, Affine]:
        """Format of the codes of each width."""
        base = Affine.preset(self.preset, 8)
        return {bits: Affine(bits, 1, base.zero, base.quant_div, self.quantize_with) for bits in BITS}

    @constant
    def ports(self) -> Ports:
        features = self.features
        return Ports(
            inputs=(
                Port("x", 16, features, encoding="f16", meaning="features of one group"),
                Port("bits", 4, least=1, most=8, meaning="width of a code: 1, 2, 4 or 8"),
            ),
            outputs=(
                Port("mn", 32, encoding="f32", meaning="smallest feature"),
                Port("mx", 32, encoding="f32", meaning="largest feature"),
                Port("s32", 32, encoding="f32", meaning="step before it is rounded to fp16"),
                Port("inv32", 32, encoding="f32", meaning="reciprocal of the step; 0 if the block divides"),
                Port("scale", 16, encoding="f16", meaning="stored step"),
                Port("zero", 16, encoding="f16", meaning="stored zero point"),
                Port("words", 16, features // 2, meaning="packed codes, feature 0 in the lowest bits of word 0"),
                Port("status", 4, meaning="1 scale underflow, 2 scale overflow, 4 zero overflow, 8 constant group"),
            ),
            state=(
                Port("element", features.bit_length(), most=features, meaning="features compared"),
                Port("written", (features // 2).bit_length(), most=features // 2, meaning="words packed"),
            ),
        )

    @property
    def busy(self) -> bool:
        """Whether elements to compare or codes to pack remain."""
        state = self.state
        if state.event == "word":
            return bool(state.written * WORD < self.features * state.bits)
        return state.event != "reset"

    def follows(self) -> str:
        before = self.state
        if before.event != "minmax":
            return "word"
        return "minmax" if before.element < self.features else "scale"

    def minmax(self, x: tuple[int, ...] = (), bits: int = 0) -> Changes:
        """Compare one element with the smallest and the largest so far."""
        before = self.state
        if x:
            pattern = pattern32(self._element(x[0]))
            others = dict.fromkeys(("s32", "inv32", "scale", "zero", "status", "written"), 0)
            return {"mn": pattern, "mx": pattern, **others, "words": (0,) * (self.features // 2), "element": 1}
        value = self._element(before.x[before.element])
        pattern = pattern32(value)
        return {
            "mn": pattern if self._lower(value, value32(before.mn)) else before.mn,
            "mx": pattern if self._higher(value, value32(before.mx)) else before.mx,
            "element": before.element + 1,
            "comparisons": 2,
        }

    @decides("D-leankv-8")
    def _element(self, pattern: int) -> float:
        """A feature; if -min is stored, at any width, -0 becomes +0."""
        value = value16(pattern)
        return value + 0.0 if self._format.zero == "neg_min" else value

    @decides("D-leankv-8")
    def _lower(self, value: float, least: float) -> bool:
        """Whether a feature replaces the smallest so far; the later of equals stays."""
        return value <= least

    @decides("D-leankv-8")
    def _higher(self, value: float, largest: float) -> bool:
        """Whether a feature replaces the largest so far; the later of equals stays."""
        return value >= largest

    @property
    @decides("D-leankv-1", "D-leankv-2")
    def _format(self) -> Affine:
        return self.formats[self.state.bits]

    def scale(self) -> Changes:
        """Compute the step of the codes, its reciprocal if the block multiplies, and the zero point."""
        fmt = self._format  # [leankv Eq. (2)]
        low, high = value32(self.state.mn), value32(self.state.mx)
        s = self._step(low, high)
        scale, zero = self._stored(s), self._zero(low)
        multiplies = fmt.quant_div == "recip_mul"
        inv = pattern32(div32(1.0, value16(scale) if self.quantize_with == "stored" else s)) if multiplies else 0
        flags = (
            (low != high and scale == 0, SCALE_UNDERFLOW),
            (scale == 0x7C00, SCALE_OVERFLOW),
            (zero & 0x7FFF == 0x7C00, ZERO_OVERFLOW),
            (low == high, CONSTANT),
        )
        status = sum_of(flag for condition, flag in flags if condition)
        stored = {"s32": pattern32(s), "inv32": inv, "scale": scale, "zero": zero, "status": status}
        return {**stored, "divisions": 1 + multiplies}

    @decides("D-arith-2", "D-leankv-6")
    def _step(self, low: float, high: float) -> float:
        """The range of the group divided by the largest code: 0 if all features are equal."""
        return f32(f32(high - low) / self._format.steps)

    @decides("D-arith-2", "D-leankv-7")
    def _stored(self, s: float) -> int:
        """The step as fp16: 0 or infinity beyond its range, to nearest even."""
        return pattern16(s)

    @decides("D-leankv-1", "D-leankv-8")
    def _zero(self, low: float) -> int:
        """The stored zero point, exact: -min, never -0, or the minimum with its sign."""
        return pattern16(0.0 - low if self._format.zero == "neg_min" else low)

    def word(self) -> Changes:
        """Compute and pack the codes of one 16-bit word."""
        before, per_word = self.state, WORD // self.state.bits
        first = before.written * per_word
        low, by, multiplies = self._scaling()
        codes = [self._code(value16(each), low, by, multiplies) for each in before.x[first : first + per_word]]
        words = (*before.words[: before.written], self._packed(codes), *before.words[before.written + 1 :])
        counts = {"multiplications" if multiplies else "divisions": per_word, "roundings": per_word}
        return {"words": words, "written": before.written + 1, **counts}

    @decides("D-leankv-11")
    def _packed(self, codes: Sequence[int]) -> int:
        """A word of codes, the first feature in its lowest bits."""
        bits, word = self.state.bits, 0
        for lane, code in enumerate(codes):
            word |= code << lane * bits
        return word

    def _scaling(self) -> tuple[float, float, bool]:
        """Minimum of the group, its step or the reciprocal of that, and whether the block multiplies by it."""
        state, fmt = self.state, self._format
        multiplies = fmt.quant_div == "recip_mul"
        low, s = value32(state.mn), value32(state.s32)
        if self.quantize_with == "stored":
            low, s = value16(state.zero) * (-1.0 if fmt.zero == "neg_min" else 1.0), value16(state.scale)
        return low, value32(state.inv32) if multiplies else s, multiplies

    def _code(self, value: float, low: float, by: float, multiplies: bool) -> int:
        """The code of one feature; NaN, in a constant group, is a special case."""
        distance = f32(value - low)
        t = times(distance, by) if multiplies else div32(distance, by)
        return self._of_nan() if t != t else self._clamped(self._rounded(t))

    @decides("D-leankv-6")
    def _of_nan(self) -> int:
        """Code of 0 / 0, in a group whose features are all equal."""
        return 0

    @decides("D-leankv-5")
    def _rounded(self, t: float) -> float:
        """Round half to even; infinity is unchanged."""
        return t if math.isinf(t) else float(round(t))  # Python's round is half to even

    @decides("D-leankv-5")
    def _clamped(self, whole: float) -> int:
        """Into [0, R]."""
        return int(min(max(whole, 0.0), float(self._format.steps)))

    @decides("D-leankv-9")
    def _require(self, *inputs: np.ndarray) -> None:
        """Reject patterns of NaN and infinity, and invalid widths."""
        x, bits = inputs
        reject(x & 0x7C00 == 0x7C00, f"{self.name}: x must be a finite fp16", x, ", got {:#06x}")
        reject(~np.isin(bits, BITS), f"{self.name}: bits must be 1, 2, 4 or 8", bits)


def times(a: float, b: float) -> float:
    """a * b rounded to float32; 0 times infinity is NaN."""
    return math.nan if a == 0 and math.isinf(b) else f32(a * b)


def sum_of(parts: Iterator[int]) -> int:
    """The bitwise or of integers that share no bit."""
    word = 0
    for part in parts:
        word |= part
    return word


UNIT: AnyUnit = Unit(
    unit_class=KvQuantizer,
    paper="leankv §2.2 Eq. (2), §6.2",
    meaning="one group of a KV vector to packed affine codes",
    configs={
        "paper": Config(features=32, preset="paper", quantize_with="unrounded"),
        "diffkv": Config(features=32, preset="diffkv", quantize_with="unrounded"),
        "stored": Config(features=32, preset="paper", quantize_with="stored"),
    },
    flags={
        "CONSTANT": Flag(0, "all features are equal: codes 0, step 0 (D-leankv-6)"),
        "UNDERFLOW": Flag(1, "the step is stored as 0 though the features differ (D-leankv-7)"),
        "OVERFLOW": Flag(2, "the step is stored as infinity (D-leankv-7)"),
    },
)
State: type[DeclaredState] = KvQuantizer.State
run: RunFunction[Result] = UNIT.run
