"""Variants of the decisions of prompt_compressor."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from refemu.arith.scalar32 import f32
from refemu.units.leankv.prompt_compressor import HIGH, RULES, WINDOW, PromptCompressor
from refemu.units.leankv.variants import rounding
from refemu.units.unit import Config
from refemu.units.variant import Variant, choices, only, overriding

_device = overriding(PromptCompressor)
STATIC, CUMULATIVE = (only(PromptCompressor, "rule", rule) for rule in ("static", "cumulative"))


def _beside_window(self: PromptCompressor) -> int:
    window = min(self.state.window, self.tokens)
    return window + (self.tokens - window) * self.keep_percent // 100


def _earlier_stays(self: PromptCompressor, t: int, done: Any) -> int:
    border, keys = self._border(self.state.window), self.state.keys
    if t >= border:
        return t
    equal = [u for u in range(border) if keys[u] == keys[t]]
    return equal[-1 - len([u for u in done if u in equal])]


def _unrounded(self: PromptCompressor, running: float, share: float) -> float:
    """The sum in float64, of which the register shows a float32."""
    wide: float = vars(self).get("wide", 0.0)
    vars(self)["wide"] = (wide if f32(wide) == running else running) + share
    return vars(self)["wide"]


def _window_is_high(config: Config, inputs: Mapping[str, np.ndarray], result: Any) -> dict[str, np.ndarray]:
    cls = np.where(result.cls == WINDOW, HIGH, result.cls).astype(result.cls.dtype)
    n_high = config["tokens"] - result.n_pruned.astype(np.int64) - result.n_low
    return {"cls": cls, "n_high": n_high.astype(result.n_high.dtype)}


def _window_first(config: Config, inputs: Mapping[str, np.ndarray], result: Any) -> dict[str, np.ndarray]:
    """The window comes before the other high tokens, after the low ones."""
    n = config["tokens"]
    first = (result.n_pruned.astype(np.int64) + result.n_low)[..., None]
    window = n - first - result.n_high[..., None]
    place = np.arange(n)
    taken = np.where(place < first, place, np.where(place < first + window, place + result.n_high[..., None], 0))
    taken = np.where(place >= first + window, place - window, taken)
    return {"order": np.take_along_axis(result.order, taken, axis=-1)}


VARIANTS: tuple[Variant, ...] = (
    *choices("D-leankv-20", "rule", *RULES[:2]),
    *choices("D-leankv-21", "low_cumsum", "restart"),
    _device(
        "D-leankv-22: a value equal to a threshold counts as below it",
        _below=lambda self, value, threshold: value <= threshold,
    ),
    *choices("D-leankv-23", "order", "stable", "bitonic"),
    _device(
        "D-leankv-23: the network exchanges equal shares",
        only(PromptCompressor, "order", "bitonic"),
        _exchanges=lambda self, left, right: left >= right,
    ),
    _device(
        "D-leankv-24: a prompt within the window has no window",
        _border=lambda old, self, window: self.tokens if window >= self.tokens else old._border(window),
    ),
    _device(
        "D-leankv-24: a prompt of W tokens has one token before its window",
        _border=lambda self, window: max(self.tokens - window, int(window == self.tokens)),
    ),
    Variant("D-leankv-25", "tokens of the window are high ones", answer=_window_is_high),
    Variant("D-leankv-25", "the window comes before the other high tokens", answer=_window_first),
    _device(
        "D-leankv-54: the percentage is rounded up",
        STATIC,
        _budget=lambda self: max(self.state.window, -(-self.tokens * self.keep_percent // 100)),
    ),
    _device("D-leankv-54: the percentage is of the tokens before the window", STATIC, _budget=_beside_window),
    _device("D-leankv-54: the earlier of equal shares stay", STATIC, _next_of_equals=_earlier_stays),
    _device("D-arith-2: running sums are truncated", CUMULATIVE, _added=lambda self, a, b: rounding.sum32(a, b)),
    _device("D-arith-2: running sums are not rounded", CUMULATIVE, _added=_unrounded),
)
UNOBSERVABLE: dict[str, str] = {
    "D-leankv-51": "thresholds are inputs of every row: no output shows how a scheme sets them"
}
