"""The quantizer of a KV cache as a block: one group of fp16 features to codes, a scale and a zero point.

Paper: [leankv §2.2 Eq. (2), §6.2]. The stages are those of `formats.Affine`, one float32 operation each. Decisions:
D-leankv-1, D-leankv-2, D-leankv-3, D-leankv-5, D-leankv-6, D-leankv-7, D-leankv-8 (what each stage does), D-leankv-11
(packing), D-arith-2 (rounding of the stored step).
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from refemu.arith.checks import Refused, at, first_index, require_choice, require_int
from refemu.arith.scalar32 import div32, f32, pattern16, pattern32, value16, value32
from refemu.formats.leankv.affine import CONSTANT, SCALE_OVERFLOW, SCALE_UNDERFLOW, WORD, ZERO_OVERFLOW, Affine
from refemu.units.leankv.cases import kv_quantizer as kv_quantizer_cases
from refemu.units.ports import Port, Ports
from refemu.units.stepped import Result, Stepped
from refemu.units.unit import Config, Flag, RunFunction, Unit

__all__ = ["BITS", "UNIT", "KvQuantizer", "Preset", "QuantizeWith", "State", "run"]

Preset = Literal["paper", "diffkv"]  #: Preset of the codes
QuantizeWith = Literal["unrounded", "stored"]  #: Step and minimum that codes are made with (D-leankv-3)
BITS = (1, 2, 4, 8)  #: Widths that the block packs


@dataclass(frozen=True)
class State:
    """Ports and registers after one event, and what happened since reset."""

    #: "reset": no group yet; "minmax": one element is compared with the smallest and the largest so far; "scale": the
    #: step of the codes and the zero point are made; "word": the codes of one 16-bit word are made and packed
    event: str
    index: int  #: number of the group since reset, from 0; all its events have it; -1 at reset
    x: tuple[int, ...]  #: fp16 patterns
    bits: int
    mn: int  #: pattern of the smallest value so far
    mx: int  #: of the largest
    s32: int  #: of the step, not rounded to fp16
    inv32: int  #: of its reciprocal; 0 where the block divides
    scale: int
    zero: int
    words: tuple[int, ...]  #: packed codes; words that the width does not need are 0
    status: int
    element: int  #: elements compared so far
    written: int  #: words packed so far
    #: comparisons with the smallest and the largest element so far, two for each element but the first
    comparisons: int
    #: divisions: of the range by the largest code, of 1 by the step, of a distance from the minimum by it
    divisions: int
    multiplications: int  #: products of a distance from the minimum and the reciprocal of the step
    roundings: int  #: quotients or products rounded to an integer, one for each element


class KvQuantizer(Stepped[State]):
    """KV quantizer: an operation is `minmax` per element in ascending order, `scale`, and `word` per pack.

    References
    ----------
    [leankv §2.2 Eq. (2), §6.2]
    """

    name = "kv_quantizer"

    def __init__(self, features: int = 32, preset: Preset = "paper", quantize_with: QuantizeWith = "unrounded") -> None:
        """Configure the quantizer.

        Parameters
        ----------
        features : int
            Features of a group, a multiple of 16 up to 4096.
        preset : {"paper", "diffkv"}
            Preset of the codes, as for `Affine`.
        quantize_with : {"unrounded", "stored"}
            Step and minimum that codes are made with (D-leankv-3).

        Raises
        ------
        Refused
            `features` is out of range or an option unknown.
        """
        self.features: int = require_int(features, 16, 1 << 12, self.name, "features")
        if self.features % WORD:
            raise Refused(f"{self.name}: features must be a multiple of 16, got {features}")
        self.preset: Preset = require_choice(preset, get_args(Preset), self.name, "preset")
        self.quantize_with = require_choice(quantize_with, ("unrounded", "stored"), "Affine", "quantize_with")
        base = Affine.preset(self.preset, 8)
        self.formats: dict[int, Affine] = {
            bits: Affine(bits, 1, base.zero, base.quant_div, self.quantize_with) for bits in BITS
        }
        self.ports: Ports = ports({"features": self.features})
        self.state: State = self.reset(State, bits=1)

    @property
    def busy(self) -> bool:
        """Whether elements are still to be compared or codes to be packed."""
        state = self.state
        return state.event in ("minmax", "scale") or (state.event == "word" and state.written < self._count(state.bits))

    def _count(self, bits: int) -> int:
        """Words of a group."""
        return self.features * bits // WORD

    def step(self, x: Sequence[int] | None = None, bits: int | None = None) -> State:
        """Begin a group and compare its first element; without inputs, execute the next event.

        NaN, infinity and a width not in `BITS` are refused.
        """
        return self._stepped(x=x, bits=bits)

    def _open(self, x: tuple[int, ...], bits: int) -> State:
        zeros = dict.fromkeys(("mn", "mx", "s32", "inv32", "scale", "zero", "status", "element", "written"), 0)
        self.state = self.latched(x, bits, words=(0,) * (self.features // 2), **zeros)
        self._minmax()
        return self.state

    def _continue(self) -> State:
        if self.state.element < self.features:
            self._minmax()
        elif self.state.event == "minmax":
            self._scale()
        else:
            self._word()
        return self.state

    def _minmax(self) -> None:
        """One element against both ends."""
        before, value = self.state, self._element()
        first = before.element == 0
        lower = first or self._lower(value, value32(before.mn))
        higher = first or self._higher(value, value32(before.mx))
        pattern = pattern32(value)
        self.state = self.changed(
            event="minmax",
            mn=pattern if lower else before.mn,
            mx=pattern if higher else before.mx,
            element=before.element + 1,
            comparisons=before.comparisons + (0 if first else 2),
        )

    def _element(self) -> float:
        """The next feature; where -min is stored, -0 becomes +0 (D-leankv-8)."""
        value = value16(self.state.x[self.state.element])
        return value + 0.0 if self._format.zero == "neg_min" else value

    def _lower(self, value: float, least: float) -> bool:
        """Whether a feature takes the place of the smallest so far: of equal ones the later stays (D-leankv-8)."""
        return value <= least

    def _higher(self, value: float, largest: float) -> bool:
        """Whether a feature takes the place of the largest so far: of equal ones the later stays."""
        return value >= largest

    @property
    def _format(self) -> Affine:
        return self.formats[self.state.bits]

    def _scale(self) -> None:
        """[leankv Eq. (2)]: the step, its reciprocal where the block multiplies, and both as they are stored."""
        before, fmt = self.state, self._format
        low, high = value32(before.mn), value32(before.mx)
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
        self.state = self.changed(
            event="scale",
            s32=pattern32(s),
            inv32=inv,
            scale=scale,
            zero=zero,
            status=sum_of(flag for condition, flag in flags if condition),
            divisions=before.divisions + 1 + multiplies,
        )

    def _step(self, low: float, high: float) -> float:
        """The range of the group divided by the largest code: 0 where all features are equal (D-leankv-6)."""
        return f32(f32(high - low) / self._format.steps)

    def _stored(self, s: float) -> int:
        """The step as fp16: 0 or infinity beyond its range (D-leankv-7), to nearest even (D-arith-2)."""
        return pattern16(s)

    def _zero(self, low: float) -> int:
        """The stored zero point, exact: -min, never -0, or the minimum with its sign (D-leankv-1)."""
        return pattern16(0.0 - low if self._format.zero == "neg_min" else low)

    def _word(self) -> None:
        """The codes of one pack."""
        before, per_word = self.state, WORD // self.state.bits
        first = before.written * per_word
        low, by, multiplies = self._scaling()
        codes = [self._code(value16(each), low, by, multiplies) for each in before.x[first : first + per_word]]
        words = (*before.words[: before.written], self._packed(codes), *before.words[before.written + 1 :])
        self.state = self.changed(
            event="word",
            words=words,
            written=before.written + 1,
            divisions=before.divisions + (0 if multiplies else per_word),
            multiplications=before.multiplications + (per_word if multiplies else 0),
            roundings=before.roundings + per_word,
        )

    def _packed(self, codes: Sequence[int]) -> int:
        """A word of codes, the first feature in its lowest bits (D-leankv-11)."""
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
        """The code of one feature; NaN, in a constant group, is a case of its own."""
        distance = f32(value - low)
        t = times(distance, by) if multiplies else div32(distance, by)
        return self._of_nan() if t != t else self._clamped(self._rounded(t))

    def _of_nan(self) -> int:
        """Code of 0 / 0, in a group whose features are all equal (D-leankv-6)."""
        return 0

    def _rounded(self, t: float) -> float:
        """Half to even (D-leankv-5); infinity stays."""
        return t if math.isinf(t) else float(round(t))  # Python's round is half to even

    def _clamped(self, whole: float) -> int:
        """Into [0, R] (D-leankv-5)."""
        return int(min(max(whole, 0.0), float(self._format.steps)))

    def _require(self, *inputs: np.ndarray) -> None:
        """Refuse patterns of NaN and infinity (D-leankv-9) and widths that the block does not pack."""
        x, bits = inputs
        bad = x & 0x7C00 == 0x7C00
        if bad.any():
            index = first_index(bad)
            raise Refused(f"{self.name}: x {int(x[index]):#06x}{at(index)} must be a finite fp16")
        bad = ~np.isin(bits, BITS)
        if bad.any():
            index = first_index(bad)
            raise Refused(f"{self.name}: bits must be 1, 2, 4 or 8, got {int(bits[index])}{at(index)}")


def times(a: float, b: float) -> float:
    """a * b rounded to float32; 0 times infinity is NaN."""
    return math.nan if a == 0 and math.isinf(b) else f32(a * b)


def sum_of(parts: Iterator[int]) -> int:
    """The bitwise or of integers that share no bit."""
    word = 0
    for part in parts:
        word |= part
    return word


def ports(config: Mapping[str, Any]) -> Ports:
    """Widths in one configuration."""
    features = config.get("features", 32)
    return Ports(
        inputs=(
            Port("x", 16, features, encoding="f16", meaning="features of one group"),
            Port("bits", 4, least=1, most=8, meaning="width of a code: 1, 2, 4 or 8"),
        ),
        outputs=(
            Port("mn", 32, encoding="f32", meaning="smallest feature"),
            Port("mx", 32, encoding="f32", meaning="largest feature"),
            Port("s32", 32, encoding="f32", meaning="step before it is rounded to fp16"),
            Port("inv32", 32, encoding="f32", meaning="its reciprocal; 0 where the block divides"),
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


UNIT: Unit[State, Result] = Unit(
    name="kv_quantizer",
    paper="leankv §2.2 Eq. (2), §6.2",
    meaning="one group of a KV vector to packed affine codes",
    configs={
        "paper": Config(features=32, preset="paper", quantize_with="unrounded"),
        "diffkv": Config(features=32, preset="diffkv", quantize_with="unrounded"),
        "stored": Config(features=32, preset="paper", quantize_with="stored"),
    },
    ports=ports,
    unit_class=KvQuantizer,
    cases=kv_quantizer_cases.cases,
    counters=("comparisons", "divisions", "multiplications", "roundings"),
    legal=kv_quantizer_cases.legal,
    mark=kv_quantizer_cases.mark,
    flags={
        "CONSTANT": Flag(0, "all features are equal: codes 0, step 0 (D-leankv-6)"),
        "UNDERFLOW": Flag(1, "the step is stored as 0 though the features differ (D-leankv-7)"),
        "OVERFLOW": Flag(2, "the step is stored as infinity (D-leankv-7)"),
    },
)
run: RunFunction[Result] = UNIT.run
