"""Variants of the decisions of layer_step, and devices with a faulty stage."""

from dataclasses import asdict, replace
from typing import Any

import numpy as np

from refemu.arith import fp16
from refemu.units.leankv.generation_compressor import A2, A3
from refemu.units.leankv.layer_step import STEP, LayerStep
from refemu.units.leankv.page_manager.variants import Descending
from refemu.units.variant import Variant, choices, overriding


def _late_score(self: LayerStep, head: int, state: Any) -> None:
    late: dict[int, Any] = vars(self).setdefault("late", {})
    late[head] = state, self._runs(head), self._tokens(head)


def _allocate_after_scores(old: LayerStep, self: LayerStep) -> Any:
    for head, (state, runs, stored) in vars(self).pop("late", {}).items():
        self.units[head].add_scores(self.pool, runs, stored, state)
    return old.allocate()


def _first_head_score(self: LayerStep, head: int, state: Any) -> None:
    unit, runs, stored = self.units[head], self._runs(head), self._tokens(head)
    words, positions = unit.scores(self.pool, runs, stored)
    before = np.array(words, np.uint32).view(np.float32)
    p = np.array(state.p, np.uint32).view(np.float32)[: len(before)]
    added = np.where(np.array(positions) == state.newest, before, before + p)
    unit.add_scores(self.pool, runs, stored, replace(state, score=tuple(added.view(np.uint32).tolist())))


def _oldest_moves(old: LayerStep, self: LayerStep, head: int, n: int, prompt: int) -> Any:
    decided, unit = old._decided(head, n, prompt), self.units[head].compressor
    if unit.oldest() >= 0 and unit.low:
        choice = {"victim": unit.oldest(), "low_slot": decided.n_low, "delta_high": 0, "delta_low": 1}
        unit.state = replace(decided, **choice)
    return unit.state


def _newest_victim(old: LayerStep, self: LayerStep, head: int, n: int, prompt: int) -> Any:
    decided, unit = old._decided(head, n, prompt), self.units[head].compressor
    if decided.choice in (A2, A3):
        high = decided.position[: decided.n_high]
        unit.state = replace(decided, victim=high.index(max(high)))
    return unit.state


def _coded_low(old: LayerStep, self: LayerStep, port: str, head: int) -> Any:
    words, low = old._of(port, head), self.layouts.sections[1].config
    if port not in ("key", "value") or self.state.op != STEP or self.layouts.low is None:
        return words
    fmt = low.key(self.layouts.preset) if port == "key" else low.value(self.layouts.preset)
    values = fmt.encode(fp16.values(np.array(words, np.uint16))).dequantize()
    return tuple(fp16.bits(fp16.narrow(values)).tolist())


def _last_slots(self: LayerStep, head: int) -> tuple[int, int]:
    high, low = (kept - 1 - done for kept, done in zip(self._tokens(head), self._loaded(head), strict=True))
    return max(high, 0), max(low, 0)


def _admit_each(old: LayerStep, self: LayerStep, manager: Any, prompts: Any) -> None:
    for name, tokens in prompts.items():
        old._admit(manager, {name: tokens})


_device = overriding(LayerStep)
VARIANTS: tuple[Variant, ...] = (
    _device("D-leankv-19: the first query head alone is scored", _score=_first_head_score),
    _device("D-leankv-25: new tokens are coded at the low precision", _of=_coded_low),
    _device("D-leankv-28: the newest high token frees its slot", _decided=_newest_victim),
    _device("D-leankv-62: scores of a step are not added", _score=lambda self, head, state: None),
    _device(
        "D-leankv-62: scores are added after the next decision", _score=_late_score, allocate=_allocate_after_scores
    ),
    _device("D-leankv-62: the oldest token moves before any decision", _decided=_oldest_moves),
    _device("D-leankv-63: a prompt fills its slots from the last to the first", _next_slots=_last_slots),
    *choices("D-leankv-17", "include_self", True, False),
    *choices("D-leankv-19", "gqa", "mean"),
    *choices("D-leankv-26", "policy", "algorithm1", "diffkv"),
    *choices("D-leankv-34", "lazy_pages", True, False),
    _device("D-leankv-38: the last head's pages come first", manager=lambda self: Descending(**asdict(self.shape))),
    *choices("D-leankv-56", "warps", 1, 2, 4),
    *choices("D-leankv-56", "sum_threads", 2, 32),
    *choices("D-leankv-56", "key_threads", 1, 2),
    *choices("D-leankv-56", "value_rows", 1, 2),
    *choices("D-leankv-56", "value_slots", 1, 2),
    *choices("D-leankv-56", "join", "tree", "sequential"),
    _device("D-leankv-75: the pages of the last request come first", _members=lambda old, self: old._members()[::-1]),
    _device("D-leankv-75: prompts of an event are admitted one by one", _admit=_admit_each),
)
UNOBSERVABLE: dict[str, str] = {
    "D-leankv-9": "the ports reject NaN and infinity, so no row of a set has them",
    "D-leankv-58": "sectors are counted, but no port shows them",
}
