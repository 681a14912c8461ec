"""Variants of the decisions of generation_compressor."""

import numpy as np

from refemu.units.leankv.generation_compressor.decisions import POLICIES, Decision
from refemu.units.leankv.generation_compressor.generation_compressor import GenerationCompressor
from refemu.units.leankv.variants import rounding
from refemu.units.variant import Variant, choices, only, overriding

_device = overriding(GenerationCompressor)
ALGORITHM, STATIC = (only(GenerationCompressor, "policy", policy) for policy in POLICIES[::2])


def _frees_low(old: GenerationCompressor, self: GenerationCompressor, high: int) -> Decision:
    state, decision = self.state, old._moved(high)
    low, _ = self._least(range(state.n_high, state.n_high + state.n_low))
    if low < 0 or not self._below(self.share(low), self.limits()[0]):
        return decision
    return Decision(decision.choice, high, low - state.n_high, 0, 0)


def _beside_window(self: GenerationCompressor) -> int:
    window = self.state.window
    return window + max(self.state.n + 1 - window, 0) * self.keep_percent // 100


VARIANTS: tuple[Variant, ...] = (
    *choices("D-leankv-26", "policy", *POLICIES[:2]),
    *choices("D-leankv-27", "score_rule", "share", "cumulative"),
    _device(
        "D-leankv-27: a value equal to a threshold counts as below it",
        _below=lambda self, value, threshold: value <= threshold,
    ),
    # no output shows whether argmin ranges over t_c, which is above the threshold of the least
    _device(
        "D-leankv-28: the latest position of equal slots",
        ALGORITHM,
        _tie=lambda self, slot: (-self.state.position[slot],),
    ),
    _device("D-leankv-28: the lowest of equal slots", _tie=lambda self, slot: (slot,)),
    _device("D-leankv-28: the highest of equal slots", _tie=lambda self, slot: (-slot,)),
    _device("D-leankv-29: a low token below T_l frees its slot", _moved=_frees_low),
    Variant(
        "D-leankv-31",
        "the freed slot stays empty",
        answer=lambda config, inputs, result: {
            "victim": np.asarray(inputs["n_high"]).reshape(result.victim.shape).astype(result.victim.dtype),
            "delta_high": np.ones_like(result.delta_high),
        },
    ),
    _device(
        "D-leankv-32: after attention: the query of the step counts",
        count=lambda old, self, position: old.count(position) + 1,
    ),
    *choices("D-leankv-47", "epoch", True),
    _device(
        "D-leankv-54: the percentage is rounded up",
        STATIC,
        _budget=lambda self: max(self.state.window, -(-(self.state.n + 1) * self.keep_percent // 100)),
    ),
    _device(
        "D-leankv-54: the percentage is of the tokens before",
        STATIC,
        _budget=lambda self: max(self.state.window, self.state.n * self.keep_percent // 100),
    ),
    _device("D-leankv-54: the percentage is in addition to the window", STATIC, _budget=_beside_window),
    _device(
        "D-leankv-54: the later token of equal means is dropped",
        STATIC,
        _tie=lambda self, slot: (-self.state.position[slot],),
    ),
    _device("D-arith-2: sums and quotients are truncated", **rounding.TRUNCATED),
    _device("D-arith-2: quotients are products with a rounded reciprocal", **rounding.RECIPROCAL),
)
UNOBSERVABLE: dict[str, str] = {
    "D-leankv-33": "a decision reads only the inputs of its head, which no decision of another head or layer "
    "changes: at once or layer by layer, the words are the same"
}
