"""Variants of the decisions of prompt_compressor."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from refemu.arith.checks import Refused
from refemu.arith.scalar32 import f32
from refemu.units.leankv.prompt_compressor import HIGH, RULES, WINDOW, PromptCompressor
from refemu.units.leankv.variants import rounding
from refemu.units.unit import Config
from refemu.units.variant import Variant, choices


def _only(parameter: str, value: str) -> Callable[[Config], Config]:
    """Rejects configurations that do not take the decision."""

    def same(config: Config) -> Config:
        if config[parameter] != value:
            raise Refused(f"prompt_compressor: {parameter} must be {value}, got {config[parameter]}")
        return config

    return same


class Inclusive(PromptCompressor):
    """The token whose sum or share equals a threshold goes to the lower class."""

    def _below(self, value: float, threshold: float) -> bool:
        return value <= threshold


class ExchangesEqual(PromptCompressor):
    """The network exchanges equal shares."""

    def _exchanges(self, left: float, right: float) -> bool:
        return left >= right


class ShortIsSorted(PromptCompressor):
    """A prompt within the window is compressed as if it had no window."""

    def _border(self, window: int) -> int:
        return self.tokens if window >= self.tokens else super()._border(window)


class OneStays(PromptCompressor):
    """A prompt of W tokens has W - 1 window tokens, as one of W + 1 has W."""

    def _border(self, window: int) -> int:
        return max(self.tokens - window, int(window == self.tokens))


class BudgetUp(PromptCompressor):
    """The percentage is rounded up."""

    def _budget(self) -> int:
        return max(self.state.window, -(-self.tokens * self.keep_percent // 100))


class BudgetBesideWindow(PromptCompressor):
    """The percentage is of the tokens before the window, which stays in addition."""

    def _budget(self) -> int:
        window = min(self.state.window, self.tokens)
        return window + (self.tokens - window) * self.keep_percent // 100


class EarlierStay(PromptCompressor):
    """The budget retains the earlier of equal shares."""

    def _next_of_equals(self, t: int, done: Any) -> int:
        border, keys = self._border(self.state.window), self.state.keys
        if t >= border:
            return t
        equal = [u for u in range(border) if keys[u] == keys[t]]
        return equal[-1 - len([u for u in done if u in equal])]


class Truncated(PromptCompressor):
    """The running sum is truncated."""

    def _added(self, running: float, share: float) -> float:
        return rounding.sum32(running, share)


class Unrounded(PromptCompressor):
    """The running sum is not rounded to float32: it is a float64, of which the register shows a float32."""

    wide = 0.0

    def _added(self, running: float, share: float) -> float:
        self.wide = (self.wide if f32(self.wide) == running else running) + share
        return self.wide


def _window_is_high(config: Config, inputs: Mapping[str, np.ndarray], result: Any) -> dict[str, np.ndarray]:
    """Tokens of the window have class high, and count as such."""
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
    Variant("D-leankv-22", "a value equal to a threshold counts as below it", unit_class=Inclusive),
    *choices("D-leankv-23", "order", "stable", "bitonic"),
    Variant(
        "D-leankv-23", "the network exchanges equal shares", apply=_only("order", "bitonic"), unit_class=ExchangesEqual
    ),
    Variant("D-leankv-24", "a prompt within the window has no window", unit_class=ShortIsSorted),
    Variant("D-leankv-24", "a prompt of W tokens has one token before its window", unit_class=OneStays),
    Variant("D-leankv-25", "tokens of the window are high ones", answer=_window_is_high),
    Variant("D-leankv-25", "the window comes before the other high tokens", answer=_window_first),
    Variant("D-leankv-54", "the percentage is rounded up", apply=_only("rule", "static"), unit_class=BudgetUp),
    Variant(
        "D-leankv-54",
        "the percentage is of the tokens before the window",
        apply=_only("rule", "static"),
        unit_class=BudgetBesideWindow,
    ),
    Variant("D-leankv-54", "the earlier of equal shares stay", apply=_only("rule", "static"), unit_class=EarlierStay),
    Variant("D-arith-2", "running sums are truncated", apply=_only("rule", "cumulative"), unit_class=Truncated),
    Variant("D-arith-2", "running sums are not rounded", apply=_only("rule", "cumulative"), unit_class=Unrounded),
)
UNOBSERVABLE: dict[str, str] = {
    "D-leankv-51": "thresholds are inputs of every row: no output shows how a scheme sets them",
}
