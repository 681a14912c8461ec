"""Requests at the ports of layer_step and kv_compressor: a prompt, then every step so far.

A unit starts without a request, so a case is a request from its start: the stored tokens of a prompt in the order of
their slots, then step by step the new token, its queries and the decisions. One thing differs from the scheme's arrays:
pages are numbered by a pool of the layer's own heads, with table entries for the request instead of the model's whole
context. [leankv §4 Algorithm 1, §6.1]
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from refemu.arith import fp16
from refemu.models.schemes.leankv.cache import Pools
from refemu.models.schemes.leankv.machine.pages import paging
from refemu.models.schemes.leankv.machine.prompt_tokens import PromptTokens, Step
from refemu.models.schemes.leankv.pool import Plan, Pool, Prompt
from refemu.models.schemes.leankv.steps import Classes, Units, patterns
from refemu.units.leankv.kv_compressor import APPEND_HIGH, APPEND_LOW, DROP, REPLACE, plan_prompt
from refemu.units.leankv.layer_step import ATTENDING

UNITS = ("kv_compressor", "layer_step")


@dataclass(frozen=True, eq=False)
class Decided:
    """Outcome of the new token of every head of a worker: (H,)."""

    position: int
    grows: np.ndarray
    victim: np.ndarray
    low_slot: np.ndarray


@dataclass(eq=False)
class History:
    """A request in one layer, the heads of one worker."""

    kept: PromptTokens
    steps: list[Step] = field(default_factory=list)
    decided: list[Decided] = field(default_factory=list)

    @property
    def prompt(self) -> int:
        """Number of tokens of the prompt."""
        return int(self.kept.sums.shape[1])

    def past(self) -> "History":
        """A copy of the request, which later steps do not change."""
        return History(self.kept, list(self.steps), list(self.decided))

    def cut(self, steps: int) -> None:
        """Drop all but the first steps."""
        del self.steps[steps:], self.decided[steps:]


def prompted(steps: Units, pools: Pools, name: int, prompt: Prompt, classes: Sequence[Classes]) -> None:
    """Record a prompt in its pages, layer by layer and worker by worker. classes: by worker."""
    quirks = [quirk for quirk in steps.config.quirks if quirk in ("score_by_rank", "position_epoch")]
    layers, before = list[list[History]](), pools.histories.get(name)
    for layer in range(len(prompt.keys)):
        workers = list[History]()
        for heads, part in zip(pools.parts, classes, strict=True):
            sums, shares = prompt.sums[layer][heads], prompt.shares[layer][heads]
            key, value = prompt.keys[layer][:, heads], prompt.values[layer][:, heads]
            plans = [
                plan_prompt(part.cls[layer, head], part.order[layer, head], sums[head].view(np.float32), quirks)
                for head in range(len(sums))
            ]
            workers.append(History(PromptTokens(np.empty(0), key, value, sums, shares, plans)))
        layers.append(workers)
    pools.histories[name] = layers

    def undo() -> None:
        pools.histories.pop(name, None)
        if before is not None:
            pools.histories[name] = before

    pools.note(undo)


def stepped(
    pools: Pools, names: Sequence[int], layer: int, plans: Sequence[Plan], key: np.ndarray, value: np.ndarray, q: Any
) -> list[History]:
    """Record a step in one layer: key, value (S, H, F), q (S, H, G, F). Returns the first sequence, by worker."""
    for row, name in enumerate(names):
        workers = pools.histories[name][layer]
        for history, heads, plan in zip(workers, pools.parts, plans, strict=True):
            pools.note(partial(history.cut, len(history.steps)))
            at = row, layer
            decided = plan.decided
            history.steps.append((q[row, heads], key[row, heads], value[row, heads]))
            history.decided.append(
                Decided(int(plan.positions[row]), decided.delta_high[at], decided.victim[at], decided.low_slot[at])
            )
    first: list[History] = pools.histories[names[0]][layer]
    return [history.past() for history in first]


def stepping(steps: Units, pool: Pool, history: History) -> dict[str, Any]:
    """Parameters of layer_step for the heads of a pool: entries for twice the prompt, or more if steps need it."""
    shape, deciding = pool.manager.shape, steps.deciding()
    low = deciding.pop("low")
    most = _room(history)
    high = pool.layouts.high.tokens
    return {
        **paging(pool),
        **deciding,
        **{name: getattr(steps.arithmetic, name) for name in ATTENDING},
        "low": paging(pool)["low"] if low else None,
        "kv_heads": shape.heads,
        "heads": history.steps[-1][0].shape[1],
        "pages": shape.heads * (-(-most // high) + 2 + shape.reserve_low),
        "max_len": most,
        "reserve_low": shape.reserve_low,
        "table_extra": 2 + shape.reserve_low,
        "table_tokens": high,
        "lazy_pages": shape.lazy_pages,
        "scrub": shape.scrub,
    }


def _room(history: History) -> int:
    """Tokens of an entry, a power of two."""
    tokens = max(2 * history.prompt, history.prompt + len(history.steps))
    return 1 << (tokens - 1).bit_length()


def events(steps: Units, history: History, head: int | None = None) -> dict[str, np.ndarray]:
    """Port values (1, events) of layer_step, for all heads or for one."""
    heads = slice(None) if head is None else slice(head, head + 1)
    kept = history.kept.of_heads(heads)
    inputs = kept.events([(q[heads], key[heads], value[heads]) for q, key, value in history.steps])
    count = inputs["op"].shape[1]
    limits = patterns(steps.config.thresholds(steps.config.of("policy")))
    return inputs | {
        "window": np.full((1, count), steps.config.window),
        "thresholds": np.tile(limits, (1, count, 1)),
    }


def compressing(pool: Pool, history: History) -> dict[str, Any]:
    """Parameters of kv_compressor, with as many pages in each section as the request can fill."""
    most, (high, low) = _room(history), pool.layouts.sections
    return {**paging(pool), "high_pages": -(-most // high.tokens), "low_pages": -(-most // low.tokens)}


RECORD = ("op", "victim", "low_slot", "key", "value", "score", "position")  #: ports of an event of kv_compressor


def compressed(history: History, head: int) -> dict[str, np.ndarray]:
    """Port values (1, events) of kv_compressor: stored tokens of a head's prompt, then its steps."""
    kept, plan = history.kept, history.kept.plans[head]
    rows = [
        (op, 0, 0, kept.key[token, head], kept.value[token, head], plan.score[token], plan.position[token])
        for op, tokens in ((APPEND_HIGH, plan.high), (APPEND_LOW, plan.low))
        for token in tokens
    ]
    for (_, key, value), decided in zip(history.steps, history.decided, strict=True):
        low_slot, victim = int(decided.low_slot[head]), int(decided.victim[head])
        op = APPEND_HIGH if decided.grows[head] else REPLACE if low_slot >= 0 else DROP
        place = (0 if op == APPEND_HIGH else victim), max(low_slot, 0)
        rows.append((op, *place, key[head], value[head], np.float32(0), decided.position))
    columns = dict(zip(RECORD, zip(*rows, strict=True), strict=True))
    ports: dict[str, np.ndarray] = {
        name: np.array(columns[name], np.int64) for name in ("op", "victim", "low_slot", "position")
    }
    ports |= {name: fp16.bits(fp16.to_f16(np.stack(columns[name]))) for name in ("key", "value")}
    ports["score"] = np.array(columns["score"], np.float32).view(np.uint32)
    return {name: array[None] for name, array in ports.items()}
