"""Attention scores to unsigned integers, with the scales of V folded in.

Paper: [kllm §III-A, §III-B]: scores are quantized to integers, so that an index is its own centroid.
Decisions: D-kllm-14 (V has a scale per token, and tokens are what scores x V adds up: a scale must enter the integer),
D-kllm-15 (unsigned integers of the activations' width, one scale per row from its maximum).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from refemu.arith import fp16, integers
from refemu.arith.checks import Refused, RefusedType, at, first_index, require_choice, require_int
from refemu.formats.kllm_arith import KllmArith
from refemu.units import score_quantizer_cases, unit
from refemu.units.unit import Cases, Config, Port, Ports, Stepped, Unit, admit, collect, fields, lanes
from refemu.units.unit_cases import Seeds

MODES = ("fold", "max", "fixed")  #: what is divided by what: p * sV by its maximum; p by its maximum; p by 1
EVENTS = ("fold", "max", "quantize")
ONE, LARGEST = 0x3C00, 0x7BFF  #: words: 1, the largest score; the largest finite value


@dataclass(frozen=True)
class State:
    """Ports and registers after one event, and what happened since reset."""

    event: str  #: "reset" or one of EVENTS; modes without a fold begin with "max"
    index: int  #: number of the event in its operation, -1 for the reset
    p: Any  #: words; a tuple of lanes, an int where a port has one lane, here and below
    v_scale: Any
    q: Any
    scale: int  #: word
    folded: tuple[float, ...]  #: p * sV, or p
    top: float  #: what stands for the largest integer
    divides: int


@dataclass(frozen=True, eq=False)
class Result(unit.Result):
    """What leaves the unit. From `run` scales are floats, between the ports words."""

    q: np.ndarray  #: (..., t), uint8
    scale: np.ndarray  #: (...), float16; float32 where the accumulator is exact
    divides: int  #: one per score and one for the scale; none in rows of zeros, none for scores in mode "fixed"


def is_wide(preset: str | KllmArith) -> bool:
    """Whether p * sV and the scale are not rounded to fp16."""
    return KllmArith.preset(preset).acc == "exact"


class ScoreQuantizer(Stepped):
    """One row of t scores an operation: fold, find the maximum, quantize."""

    name = "score_quantizer"

    def __init__(self, t: int, bits: int = 4, mode: str = "fold", preset: str = "paper") -> None:
        """t: scores of a row. bits: of an integer, 1 to 8. mode: one of MODES. preset: "paper" or "exact"."""
        require_int(t, 1, 1 << 22, self.name, "t")
        require_int(bits, 1, 8, self.name, "bits")
        self.t, self.bits, self.mode = t, bits, require_choice(mode, MODES, self.name, "mode")
        self.preset, self.wide = preset, is_wide(preset)
        self.ports = ports({"t": t, "bits": bits, "mode": mode, "preset": preset})
        zeros, ones = lanes((0,) * t), lanes((0x3C00,) * t)
        self.state = State("reset", -1, zeros, ones, zeros, 0, (), 0.0, 0)

    @property
    def largest(self) -> int:
        """The largest integer."""
        return (1 << self.bits) - 1

    @property
    def busy(self) -> bool:
        """Whether the row on its way is not quantized yet."""
        return self.state.event in EVENTS[:-1]

    def step(self, *inputs: Any) -> State:
        """With inputs (p, v_scale), or (p,) without a fold: the first event of a row. Without: the next one.

        Refused: inputs while a row is on its way, none while there is none.
        """
        if bool(inputs) == self.busy:
            wanted = f"no inputs: {self.state.event} was the last event" if self.busy else "the inputs of a row"
            raise Refused(f"{self.name}: step takes {wanted}")
        before = self.state
        if inputs:
            words = dict(zip((port.name for port in self.ports.inputs), self.accept(*inputs), strict=True))
            p = tuple(float(value) for value in _values(words["p"]))
            before = replace(before, index=-1, q=lanes((0,) * self.t), scale=0, folded=p, top=0.0, **words)
        event = EVENTS[0 if self.mode == "fold" else 1] if inputs else EVENTS[EVENTS.index(before.event) + 1]
        after = {"fold": self._fold, "max": self._max, "quantize": self._quantize}[event](before)
        self.state = replace(after, event=event, index=before.index + 1)
        return self.state

    def _fold(self, before: State) -> State:
        """p * sV (D-kllm-14), rounded to fp16 unless wide; the product of two fp16 values is exact in float64."""
        p, scale = _values(before.p), _values(before.v_scale)
        folded = p.astype(np.float64) * scale.astype(np.float64) if self.wide else fp16.mul16(p, scale)
        require_finite(folded)
        return replace(before, folded=tuple(folded.tolist()))

    def _max(self, before: State) -> State:
        return replace(before, top=1.0 if self.mode == "fixed" else max(before.folded))

    def _quantize(self, before: State) -> State:
        """rint(p * M / max): one float64 division is exact at every tie, so its rounding decides nothing."""
        if before.top == 0:
            return replace(before, q=lanes((0,) * self.t), scale=0x3F80_0000 if self.wide else 0x3C00)
        q = integers.from_float(np.rint(np.array(before.folded) * self.largest / before.top)).tolist()
        scale = np.float32(before.top / self.largest)  # r32 of a quotient of two short numbers: one rounding
        divides = before.divides + 1 + (0 if self.mode == "fixed" else self.t)
        return replace(before, q=lanes(q), scale=int(scale_word(scale, self.wide)), divides=divides)

    def steps(self, p: Any, v_scale: Any = None) -> Iterator[State]:
        """Yield the State after every event of every row, in C order; p, v_scale: (..., t) words, broadcast."""
        given = (p, v_scale) if self.mode == "fold" else (p,)
        yield from self.operations(admit(self.name, self.ports.inputs, given))

    def __repr__(self) -> str:
        return f"ScoreQuantizer(t={self.t}, bits={self.bits}, mode={self.mode!r}, preset={self.preset!r})"


def _values(words: Any) -> np.ndarray:
    return fp16.values(np.array(fields(words)))


def require_finite(folded: np.ndarray) -> None:
    """Refuse a product that overflowed fp16: infinity has no share of a maximum. Scores up to 1 cannot do it."""
    bad = np.isinf(folded)
    if bad.any():
        raise Refused(f"score_quantizer: p * v_scale must be below 65520 in fp16, is not{at(first_index(bad))}")


def scale_word(scale: Any, wide: bool) -> Any:
    """Words of float32 `scale`: its own, or after one more rounding those of fp16."""
    return np.asarray(scale, np.float32).view(np.uint32) if wide else fp16.bits(fp16.narrow(scale))


def require_input(p: Any, v_scale: Any, mode: str) -> tuple[np.ndarray, ...]:
    """float16 p (..., t), not negative, and with a fold positive float16 v_scale, broadcast; all finite."""
    require_choice(mode, MODES, "score_quantizer", "mode")
    if mode != "fold" and v_scale is not None and np.ndim(v_scale) > 0:
        raise Refused(f'score_quantizer: mode "{mode}" needs one scale for all of V, got {np.shape(v_scale)}')
    given = {"p": p, "v_scale": v_scale} if mode == "fold" else {"p": p}
    arrays = {name: np.asarray(value) for name, value in given.items()}
    for name, array in arrays.items():
        if array.dtype != np.float16 or array.ndim < 1:
            raise RefusedType(f"score_quantizer: {name} must be float16 (..., t), got {array.dtype} of {array.shape}")
        bad = ~np.isfinite(array) | ((array < 0) if name == "p" else (array <= 0))
        rule = "finite and not negative" if name == "p" else "finite and above 0"
        if mode == "fixed":
            bad, rule = bad | (array > 1), "in [0, 1]"
        if bad.any():
            index = first_index(bad)
            raise Refused(f"score_quantizer: {name} must be {rule}, got {array[index]!s}{at(index)}")
    if not arrays["p"].shape[-1]:
        raise Refused(f"score_quantizer: rows of at least one score are needed, got shape {arrays['p'].shape}")
    try:
        return tuple(np.broadcast_arrays(*(np.abs(array) for array in arrays.values())))  # -0 is 0
    except ValueError:
        told = " and ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise Refused(f"score_quantizer: shapes do not fit each other: {told}") from None


def run(p: Any, v_scale: Any = None, *, bits: int = 4, mode: str = "fold", preset: str | KllmArith = "paper") -> Result:
    """Unsigned integers for rows of scores, and a scale per row.

    p: (..., t) float16, finite, not negative, for "fixed" at most 1. v_scale: float16 that broadcasts against p, above
    0, the scale of V at every token; needed by mode "fold", where p * v_scale is quantized. Modes "max" (p by its
    maximum) and "fixed" (p by 1) leave V's scale out: it must be one for the whole tensor. bits: 1 to 8. preset:
    `paper` rounds products and the scale to fp16, `exact` keeps them. Returns q uint8 and scale, where q * scale stands
    for p * v_scale.
    """
    arrays = require_input(p, v_scale, mode)
    shape = arrays[0].shape
    words = [fp16.bits(array) for array in arrays]
    answer = _on_words(ScoreQuantizer(shape[-1], bits, mode, preset), words)  # type: ignore[arg-type]
    return replace(answer, q=answer.q.reshape(shape), scale=as_floats(answer.scale))


def as_floats(words: np.ndarray) -> np.ndarray:
    """Scales as floats of the words' width."""
    return words.view(np.float16 if words.dtype == np.uint16 else np.float32)


def _on_words(device: ScoreQuantizer, arrays: list[np.ndarray]) -> Result:
    states = [
        state
        for state in device.steps(*(array if device.t > 1 else array[..., 0] for array in arrays))
        if state.event == EVENTS[-1]
    ]
    return Result(**collect(states, device.ports.outputs, arrays[0].shape[:-1]), divides=device.state.divides)


def run_ports(
    p: Any, v_scale: Any = None, *, t: int, bits: int = 4, mode: str = "fold", preset: str = "paper"
) -> Result:
    """`run` between the ports: p, v_scale (..., t) words, no axis of lanes for t = 1; the scale as words."""
    device = ScoreQuantizer(t, bits, mode, preset)
    return _on_words(device, on_lanes(device, p, v_scale))


def on_lanes(device: ScoreQuantizer, p: Any, v_scale: Any) -> list[np.ndarray]:
    """Admitted words of the input ports, with an axis of lanes whatever their number."""
    arrays = admit(device.name, device.ports.inputs, (p, v_scale) if device.mode == "fold" else (p,))
    return [array if device.t > 1 else array[..., None] for array in arrays]


def ports(config: Mapping[str, Any]) -> Ports:
    """Widths in one configuration."""
    t, wide = config["t"], is_wide(config["preset"])
    p = Port("p", 16, t, encoding="f16", meaning="scores of a row", most=ONE if config["mode"] == "fixed" else LARGEST)
    fold = [Port("v_scale", 16, t, encoding="f16", meaning="scale of V at every token", least=1, most=LARGEST)]
    return Ports(
        inputs=(p, *(fold if config["mode"] == "fold" else [])),
        outputs=(
            Port("q", config["bits"], t, meaning="integers"),
            Port(
                "scale",
                32 if wide else 16,
                encoding="f32" if wide else "f16",
                meaning="what an integer is a multiple of",
            ),
        ),
    )


def legal(config: Mapping[str, Any], inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Scores up to 1, as softmax gives them: no product leaves fp16."""
    return {**inputs, "p": np.minimum(inputs["p"], ONE)}


def cases(config: Config, kind: str, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind; see score_quantizer_cases.py."""
    return score_quantizer_cases.cases(config, ports(config).inputs, kind, seed)


UNIT = Unit(
    name="score_quantizer",
    paper="kllm §III-A, §III-B",
    meaning="attention scores to integers, V's scales folded in",
    configs={
        "fold4": Config(t=16, bits=4, mode="fold", preset="paper"),
        "fold4_exact": Config(t=16, bits=4, mode="fold", preset="exact"),
        "max8": Config(t=16, bits=8, mode="max", preset="paper"),
        "fixed3": Config(t=16, bits=3, mode="fixed", preset="paper"),
    },
    ports=ports,
    run=run_ports,
    twin="refemu.units.score_quantizer_jit:run_ports",
    unit_class=ScoreQuantizer,
    cases=cases,
    legal=legal,
)
