"""Variants of the decisions of generation_compressor."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from refemu.arith.checks import Refused
from refemu.units.leankv.generation_compressor.decisions import POLICIES, Decision
from refemu.units.leankv.generation_compressor.generation_compressor import GenerationCompressor
from refemu.units.leankv.variants import rounding
from refemu.units.unit import Config
from refemu.units.variant import Variant, choices


def _only(policy: str) -> Callable[[Config], Config]:
    """Rejects configurations that do not take the decision."""

    def same(config: Config) -> Config:
        if config["policy"] != policy:
            raise Refused(f"generation_compressor: policy must be {policy}, got {config['policy']}")
        return config

    return same


class Inclusive(GenerationCompressor):
    """A value equal to a threshold counts as below it."""

    def _below(self, value: float, threshold: float) -> bool:
        return value <= threshold


class LatestOfEqual(GenerationCompressor):
    """The highest position of equal slots is the least."""

    def _tie(self, slot: int) -> tuple[int, ...]:
        return (-self.state.position[slot],)


class LowestSlot(GenerationCompressor):
    """The lowest of equal slots is the least: a search in the order of the slots."""

    def _tie(self, slot: int) -> tuple[int, ...]:
        return (slot,)


class HighestSlot(GenerationCompressor):
    """The highest of equal slots is the least: a search that also takes equal values."""

    def _tie(self, slot: int) -> tuple[int, ...]:
        return (-slot,)


class PrunesLow(GenerationCompressor):
    """A token that moves to the low section takes the slot of the least low token if that is below T_l."""

    def _moved(self, high: int) -> Decision:
        state, decision = self.state, super()._moved(high)
        low, _ = self._least(range(state.n_high, state.n_high + state.n_low))
        if low < 0 or not self._below(self.share(low), self.limits()[0]):
            return decision
        return Decision(decision.choice, high, low - state.n_high, 0, 0)


class AfterAttention(GenerationCompressor):
    """Decides after the attention of the step: the new token's query counts."""

    def count(self, position: int) -> int:
        return super().count(position) + 1


class BudgetUp(GenerationCompressor):
    """The percentage is rounded up."""

    def _budget(self) -> int:
        return max(self.state.window, -(-(self.state.n + 1) * self.keep_percent // 100))


class BudgetBefore(GenerationCompressor):
    """The percentage is of the tokens before the new one."""

    def _budget(self) -> int:
        return max(self.state.window, self.state.n * self.keep_percent // 100)


class BudgetBesideWindow(GenerationCompressor):
    """The percentage is of the tokens before the window, which stays in addition."""

    def _budget(self) -> int:
        old = max(self.state.n + 1 - self.state.window, 0)
        return self.state.window + old * self.keep_percent // 100


class EarlierStay(GenerationCompressor):
    """The later token of equal means is dropped."""

    def _tie(self, slot: int) -> tuple[int, ...]:
        return (-self.state.position[slot],)


class Truncated(GenerationCompressor):
    """Sums and quotients are truncated."""

    def _added(self, a: float, b: float) -> float:
        return rounding.sum32(a, b)

    def _divided(self, a: float, b: float) -> float:
        return rounding.quotient32(a, b)


class Reciprocal(GenerationCompressor):
    """Quotients are products with a rounded reciprocal."""

    def _divided(self, a: float, b: float) -> float:
        return rounding.times_reciprocal(a, b)


def _appended(config: Config, inputs: Mapping[str, np.ndarray], result: Any) -> dict[str, np.ndarray]:
    """The slot of the victim stays empty: the new token goes after the others."""
    end = np.asarray(inputs["n_high"]).reshape(result.victim.shape).astype(result.victim.dtype)
    return {"victim": end, "delta_high": np.ones_like(result.delta_high)}


ALGORITHM, PUBLISHED, STATIC = map(_only, POLICIES)

VARIANTS: tuple[Variant, ...] = (
    *choices("D-leankv-26", "policy", *POLICIES[:2]),
    *choices("D-leankv-27", "score_rule", "share", "cumulative"),
    Variant("D-leankv-27", "a value equal to a threshold counts as below it", unit_class=Inclusive),
    # no output shows whether argmin ranges over t_c, which is above the threshold of the least
    Variant("D-leankv-28", "the latest position of equal slots", apply=ALGORITHM, unit_class=LatestOfEqual),
    Variant("D-leankv-28", "the lowest of equal slots", unit_class=LowestSlot),
    Variant("D-leankv-28", "the highest of equal slots", unit_class=HighestSlot),
    Variant("D-leankv-29", "a low token below T_l frees its slot", unit_class=PrunesLow),
    Variant("D-leankv-31", "the freed slot stays empty", answer=_appended),
    Variant("D-leankv-32", "after attention: the query of the step counts", unit_class=AfterAttention),
    *choices("D-leankv-47", "epoch", True),
    Variant("D-leankv-54", "the percentage is rounded up", apply=STATIC, unit_class=BudgetUp),
    Variant("D-leankv-54", "the percentage is of the tokens before", apply=STATIC, unit_class=BudgetBefore),
    Variant("D-leankv-54", "the percentage is in addition to the window", apply=STATIC, unit_class=BudgetBesideWindow),
    Variant("D-leankv-54", "the later token of equal means is dropped", apply=STATIC, unit_class=EarlierStay),
    Variant("D-arith-2", "sums and quotients are truncated", unit_class=Truncated),
    Variant("D-arith-2", "quotients are products with a rounded reciprocal", unit_class=Reciprocal),
)
UNOBSERVABLE: dict[str, str] = {
    "D-leankv-33": "a decision reads only the inputs of its head, which no decision of another head or layer "
    "changes: at once or layer by layer, the words are the same",
}
