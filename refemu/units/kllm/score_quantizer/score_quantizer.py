"""Attention scores to unsigned integers, with the scales of V folded in.

Paper: [kllm §III-A, §III-B]: scores are quantized to integers, so that an index is its own centroid.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith import fp16, integers
from refemu.arith.checks import Refused, RefusedType, reject, require_choice
from refemu.formats.kllm.kllm_arith import KllmArith, Preset
from refemu.units import Changes, Combinational, Config, Port, Ports, RunFunction, Unit, constant, decides, stepping
from refemu.units.declaration import DeclaredState
from refemu.units.ports import Lanes

__all__ = ["EVENTS", "UNIT", "Mode", "Result", "ScoreQuantizer", "State", "quantize", "run"]

Mode = Literal["fold", "max", "fixed"]  #: divisor of the scores: p * sV by its maximum, p by its maximum, or p by 1
EVENTS = ("fold", "max", "quantize")  #: Events of a row, in order
ONE, LARGEST = 0x3C00, 0x7BFF  #: words: 1, the largest score; the largest finite value


@dataclass(frozen=True, eq=False, kw_only=True)
class Result(stepping.Result):
    """Outputs of a run: scales as words from `run`, as floats from `quantize`."""

    q: np.ndarray  #: (..., t), uint8
    scale: np.ndarray  #: (...), float16; float32 with an exact accumulator
    folded: np.ndarray | None = None  #: words of p * sV; None from `quantize`, and in modes without a fold
    top: np.ndarray | None = None  #: words of the maxima; None from `quantize`, and in mode "fixed"
    divides: int  #: one per score and one for the scale; none in rows of zeros, none for scores in mode "fixed"


class ScoreQuantizer(Combinational):
    """Score quantizer: an operation is one row of t scores, in the events fold, max, quantize."""

    name = "score_quantizer"
    events: ClassVar[tuple[str, ...]] = EVENTS
    counters: ClassVar[dict[str, str]] = {
        "divides": 'divisions: one for the scale of a row, and except in mode "fixed" one for each score; none in rows '
        "of zeros"
    }
    registers: ClassVar[dict[str, str]] = {
        "folded": 'scores that become integers, times the scale of V in mode "fold": fp16 words, float32 words where '
        "the accumulator is exact",
        "top": 'word of the score that becomes the largest integer: the largest of the row, in mode "fixed" 1',
    }
    t: Annotated[int, 1, 1 << 22]  #: scores of a row, 1 to 2**22
    bits: Annotated[int, 1, 8] = 4  #: width of an integer, 1 to 8
    mode: Mode = "fold"  #: dividend and divisor of the scores (D-kllm-14, D-kllm-15)
    preset: Preset | KllmArith = "paper"  #: preset of KLLM's arithmetic, or its `acc`

    @constant
    def wide(self) -> bool:
        """Whether p * sV and the scale are not rounded to fp16."""
        return KllmArith.preset(self.preset).acc == "exact"

    @constant
    def ports(self) -> Ports:
        t, width = self.t, 32 if self.wide else 16
        p = Port("p", 16, t, encoding="f16", meaning="scores of a row", most=ONE if self.mode == "fixed" else LARGEST)
        v_scale = Port("v_scale", 16, t, encoding="f16", meaning="scale of V at every token", least=1, most=LARGEST)
        folded = Port("folded", width, t, encoding=f"f{width}", meaning="scores times V's scales")
        top = Port("top", width, encoding=f"f{width}", meaning="the largest folded score")
        return Ports(
            inputs=(p, v_scale) if self.mode == "fold" else (p,),
            outputs=(
                Port("q", self.bits, t, meaning="integers"),
                Port("scale", width, encoding=f"f{width}", meaning="value of an integer 1"),
            ),
            state={"fold": (folded, top), "max": (top,), "fixed": ()}[self.mode],
        )

    @constant
    def initial(self) -> Mapping[str, Any]:
        return {"v_scale": (ONE,) * self.t, "folded": (0,) * self.t}

    @constant
    def largest(self) -> int:
        """The largest integer."""
        return (1 << self.bits) - 1

    @property
    def busy(self) -> bool:
        """Whether the row under way is not quantized yet."""
        return self.state.event in EVENTS[:-1]

    def opens(self, *inputs: Lanes) -> str:
        return "fold" if self.mode == "fold" else "max"

    def follows(self) -> str:
        return EVENTS[EVENTS.index(self.state.event) + 1]

    @decides("D-kllm-14")
    def fold(self, p: Lanes, v_scale: Lanes) -> Changes:
        """In mode "fold" alone, multiply each score by the scale of V at its token."""
        return self._begun(self.products(np.array(p), np.array(v_scale)))

    @decides("D-kllm-14")
    def products(self, p: np.ndarray, v_scale: np.ndarray) -> np.ndarray:
        """p * sV from fp16 words: exact in float64, or rounded to fp16, like the accumulator."""
        scores, scale = fp16.values(p), fp16.values(v_scale)
        products = scores.astype(np.float64) * scale.astype(np.float64) if self.wide else fp16.mul16(scores, scale)
        require_finite(products)
        return products

    def _begun(self, scores: np.ndarray) -> dict[str, Any]:
        """Registers of a row after its first event. scores: values that become integers."""
        folded = tuple(register_words(scores, self.wide).tolist())
        return {"q": (0,) * self.t, "scale": 0, "folded": folded, "top": 0}

    def max(self, *inputs: Lanes) -> Changes:
        """Find the score that becomes the largest integer."""
        begun = self._begun(fp16.values(np.array(inputs[0]))) if inputs else {}
        if self.mode == "fixed":
            return {**begun, "top": int(scale_word(1, self.wide))}
        return {**begun, "top": max(begun.get("folded", self.state.folded))}  # words have the order of their values

    @decides("D-kllm-15")
    def quantize(self) -> Changes:
        """Divide scores by the largest, except in mode "fixed", and round to integers."""
        before = self.state
        if before.top == 0:
            return {"scale": int(scale_word(1, self.wide))}
        words = np.array([*before.folded, before.top], np.uint32 if self.wide else np.uint16)
        values = as_floats(words).astype(np.float64)
        top = float(values[-1])
        scale = np.float32(top / self.largest)  # r32 of a quotient of two short numbers: one rounding
        return {
            "q": tuple(integers.from_float(self.rounded(values[:-1], top)).tolist()),
            "scale": int(scale_word(scale, self.wide)),
            "divides": 1 + (0 if self.mode == "fixed" else self.t),
        }

    @decides("D-kllm-15")
    def rounded(self, scores: np.ndarray, top: float) -> np.ndarray:
        """rint(p * M / max): one float64 division is exact at every tie, so its rounding decides nothing."""
        return np.rint(scores * self.largest / top)

    def _require(self, *inputs: np.ndarray) -> None:
        """Reject a product with v_scale that overflows fp16."""
        if self.mode == "fold":
            self.products(*inputs)


def require_finite(folded: np.ndarray) -> None:
    """Reject a product that overflowed fp16: no score is a fraction of infinity. Scores up to 1 never overflow."""
    reject(np.isinf(folded), "score_quantizer: p * v_scale must be below 65520", "infinity")


def register_words(values: np.ndarray, wide: bool) -> np.ndarray:
    """Words of scores and their products: float32 where `wide`, which holds every one, else fp16."""
    narrow = np.asarray(values, np.float32)
    return narrow.view(np.uint32) if wide else fp16.bits(fp16.narrow(narrow))


def scale_word(scale: Any, wide: bool) -> Any:
    """Words of float32 `scale`: its own, or after one more rounding those of fp16."""
    return np.asarray(scale, np.float32).view(np.uint32) if wide else fp16.bits(fp16.narrow(scale))


def require_input(p: ArrayLike, v_scale: ArrayLike | None, mode: Mode) -> tuple[np.ndarray, ...]:
    """float16 p (..., t), at least 0, and with a fold positive float16 v_scale, broadcast; all finite."""
    require_choice(mode, get_args(Mode), "score_quantizer", "mode")
    if mode != "fold" and v_scale is not None and np.ndim(v_scale) > 0:
        raise Refused(f'score_quantizer: mode "{mode}" needs one scale for all of V, got {np.shape(v_scale)}')
    arrays = {"p": np.asarray(p)} | ({"v_scale": np.asarray(v_scale)} if mode == "fold" else {})
    for name, array in arrays.items():
        if array.dtype != np.float16 or array.ndim < 1:
            raise RefusedType(f"score_quantizer: {name} must be float16 (..., t), got {array.dtype} of {array.shape}")
        bad = ~np.isfinite(array) | ((array < 0) if name == "p" else (array <= 0))
        rule = "finite and at least 0" if name == "p" else "finite and above 0"
        if mode == "fixed":
            bad, rule = bad | (array > 1), "in [0, 1]"
        reject(bad, f"score_quantizer: {name} must be {rule}", array)
    if not arrays["p"].shape[-1]:
        raise Refused(f"score_quantizer: p must have at least one score a row, got shape {arrays['p'].shape}")
    try:
        return tuple(np.broadcast_arrays(*(np.abs(array) for array in arrays.values())))  # -0 is 0
    except ValueError:
        shapes = " and ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise Refused(f"score_quantizer: p and v_scale must broadcast, got {shapes}") from None


def quantize(
    p: ArrayLike,
    v_scale: ArrayLike | None = None,
    *,
    bits: int = 4,
    mode: Mode = "fold",
    preset: Preset | KllmArith = "paper",
) -> Result:
    """Quantize rows of scores to unsigned integers, with a scale per row. [kllm §III-A, §III-B]

    Mode "fold" quantizes p * v_scale. Modes "max" (p by its maximum) and "fixed" (p by 1) omit V's scale, which must be
    one for the whole tensor. p: float16 (..., t), finite, not negative, at most 1 for "fixed". v_scale: float16,
    positive, of V at every token, broadcast against `p`. bits: 1 to 8. preset "paper" rounds products and the scale to
    fp16, "exact" does not. The Result has `q` uint8 (..., t) and `scale` (...). Raises Refused or RefusedType for an
    invalid value, shape, option or dtype.
    """
    arrays = require_input(p, v_scale, mode)
    shape, t = arrays[0].shape, arrays[0].shape[-1]
    words = [fp16.bits(array) for array in arrays]
    answer = run(*words, t=t, bits=bits, mode=mode, preset=preset)
    return replace(answer, q=answer.q.reshape(shape), scale=as_floats(answer.scale), folded=None, top=None)


def as_floats(words: np.ndarray) -> np.ndarray:
    """Scales as floats of the words' width."""
    return words.view(np.float16 if words.dtype == np.uint16 else np.float32)


UNIT: Unit[DeclaredState, Result] = Unit(
    unit_class=ScoreQuantizer,
    paper="kllm §III-A, §III-B",
    meaning="attention scores to integers, V's scales folded in",
    configs={
        "fold4": Config(t=16, bits=4, mode="fold", preset="paper"),
        "fold4_exact": Config(t=16, bits=4, mode="fold", preset="exact"),
        "max8": Config(t=16, bits=8, mode="max", preset="paper"),
        "fixed3": Config(t=16, bits=3, mode="fixed", preset="paper"),
    },
    result=Result,
)
State: type[DeclaredState] = ScoreQuantizer.State
run: RunFunction[Result] = UNIT.run
