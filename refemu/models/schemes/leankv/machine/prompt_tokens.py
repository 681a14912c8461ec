"""Stored tokens of a prompt, for the accelerator: vectors, significance, slots of every head. [leankv §4, §6.1]"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from refemu.arith import fp16
from refemu.units.leankv.kv_compressor import PromptPlan, plan_prompt
from refemu.units.leankv.layer_step import ADMIT, LOAD, STEP

Step = tuple[np.ndarray, np.ndarray, np.ndarray]  #: q (H, G, F), key and value (H, F) of a new token


@dataclass(frozen=True, eq=False)
class PromptTokens:
    """A prompt in one layer, for the H KV heads of a worker."""

    q: np.ndarray  #: (N, H, G, F) fp16 values in float32
    key: np.ndarray  #: (N, H, F)
    value: np.ndarray
    sums: np.ndarray  #: (H, N) float32 patterns
    shares: np.ndarray  #: (H, N) patterns
    plans: list[PromptPlan] = field(default_factory=list)  #: plan of every head

    def planned(self, prepared: Any, cls: np.ndarray, order: np.ndarray, head: int) -> PromptPlan:
        """Slots of one head's tokens from their classes and order (N,)."""
        quirks = [name for name in prepared.lean.quirks if name in ("score_by_rank", "position_epoch")]
        return plan_prompt(cls, order, self.sums[head].view(np.float32), quirks)

    def of_heads(self, heads: slice) -> "PromptTokens":
        """Some of the heads."""
        q = self.q[:, heads] if self.q.ndim > 1 else self.q
        return PromptTokens(
            q, self.key[:, heads], self.value[:, heads], self.sums[heads], self.shares[heads], self.plans[heads]
        )

    def events(self, steps: Sequence[Step]) -> dict[str, np.ndarray]:
        """Port values of layer_step: a prompt, its stored tokens, then tokens one by one."""
        heads, tokens = self.sums.shape
        kept = [[(1, t) for t in plan.high] + [(2, t) for t in plan.low] for plan in self.plans]
        first = 1 + max(len(each) for each in kept)
        count = first + len(steps)
        shape = (1, count, heads)
        ports: dict[str, np.ndarray] = {
            name: np.zeros(shape, np.int64) for name in ("keep_high", "keep_low", "section", "score", "position")
        }
        vectors = {name: np.zeros((*shape, self.key.shape[-1]), np.uint16) for name in ("key", "value")}
        ports["keep_high"][0, 0] = [len(plan.high) for plan in self.plans]
        ports["keep_low"][0, 0] = [len(plan.low) for plan in self.plans]
        for head, (plan, each) in enumerate(zip(self.plans, kept, strict=True)):
            if not each:
                continue
            section, at = np.array(each, np.int64).T
            rows = slice(1, 1 + len(each))
            ports["section"][0, rows, head] = section
            ports["score"][0, rows, head] = plan.score[at].view(np.uint32)
            ports["position"][0, rows, head] = plan.position[at]
            for name, source in (("key", self.key), ("value", self.value)):
                vectors[name][0, rows, head] = fp16.bits(fp16.to_f16(source[at, head]))
        queries = np.zeros((1, count, steps[0][0].size), np.uint16)
        for row, (q, key, value) in enumerate(steps, first):
            for name, new in (("key", key), ("value", value)):
                vectors[name][0, row] = fp16.bits(fp16.to_f16(new))
            queries[0, row] = fp16.bits(fp16.to_f16(q)).ravel()
        op, prompt = np.full((1, count), LOAD), np.zeros((1, count), np.int64)
        op[0, 0], op[0, first:], prompt[0, 0] = ADMIT, STEP, tokens
        flat = {name: words.reshape(1, count, -1) for name, words in vectors.items()}
        return {"op": op, "prompt": prompt, **ports, **flat, "q": queries}


def of_prompt(prepared: Any, q: np.ndarray, cache: Any, heads: slice) -> PromptTokens:
    """The prompt of an attention call: q (N, H * G, F) of all heads, and the state of one worker."""
    grouped = q.reshape(len(q), cache.key.shape[1], -1, q.shape[-1])[:, heads]
    key, value = cache.key[:, heads], cache.value[:, heads]
    flat = grouped.reshape(len(q), -1, q.shape[-1])
    significance = prepared.units.prompt(flat, key, value, prepared._scale)[1]
    kept = PromptTokens(grouped, key, value, significance.sum, significance.share)
    classes = prepared.units.classify(significance.share)
    for head in range(len(significance.sum)):
        kept.plans.append(kept.planned(prepared, classes.cls[head], classes.order[head], head))
    return kept
