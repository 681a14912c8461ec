"""The token behind a prompt at the ports of layer_step. [leankv §4 Algorithm 1, §5.3, §6.1, §6.2]

Decision: D-leankv-65 (what is counted).
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from refemu import units
from refemu.arith import fp16, integers
from refemu.models.machine.report import Cost, Operation, differences
from refemu.models.machine.runner import Call
from refemu.models.schemes.leankv.machine.kept import Kept
from refemu.models.schemes.leankv.machine.pages import paging, stored
from refemu.models.schemes.leankv.pool import Plan, Pool
from refemu.models.schemes.leankv.steps import patterns
from refemu.models.schemes.leankv.taps import CHOICES
from refemu.units.leankv.head_step import ATTENDING, COUNTERS

OUTPUTS = ("choice", "victim", "low_slot", "taken", "written", "moved", "out", "scores")
Words = Mapping[str, np.ndarray]  #: of the last event, by port: (H, lanes)


def stepping(prepared: Any, pool: Pool, tokens: int) -> dict[str, Any]:
    """Parameters of layer_step for the heads of a pool: as many pages as a prompt of `tokens` and a step take."""
    shape, arithmetic = pool.manager.shape, prepared.units.arithmetic
    deciding = prepared.units.deciding()
    low = deciding.pop("low")
    max_len, cells = tokens + 1, -(-(tokens + 1) // shape.high_tokens) + 2
    return {
        **paging(pool),
        **deciding,
        **{name: getattr(arithmetic, name) for name in ATTENDING},
        "low": paging(pool)["low"] if low else None,
        "kv_heads": shape.heads,
        "heads": prepared.model.heads // prepared.model.kv_heads,
        "pages": shape.heads * cells,
        "max_len": max_len,
        "reserve_low": shape.reserve_low,
        "table_extra": 2,
        "table_tokens": None,
        "lazy_pages": shape.lazy_pages,
        "scrub": shape.scrub,
    }


def step(prepared: Any, layer: int, pool: Pool, kept: Kept, heads: slice, call: Call) -> Iterator[Operation]:
    """The token behind the prompt, against the scheme's decisions, records, outputs and scores."""
    q, cache = call.inputs
    held, unit = cache.held, units.find("layer_step")
    (plan,) = [each for each, of in zip(held.current.plans, held.pools.pools, strict=True) if of is pool]
    config = stepping(prepared, pool, kept.sums.shape[1])
    grouped = q.reshape(cache.key.shape[1], -1, q.shape[-1])[heads]
    inputs = kept.events([(grouped, cache.key[0, heads], cache.value[0, heads])])
    limits = patterns(prepared.lean.thresholds(prepared.units.deciding()["policy"]))
    events = inputs["op"].shape[1]
    inputs |= {"window": np.full((1, events), prepared.lean.window), "thresholds": np.tile(limits, (1, events, 1))}
    loaded = unit.evaluate(config, {name: array[:, :-1] for name, array in inputs.items()})
    result = unit.evaluate(config, inputs)
    last = {name: getattr(result, name)[0, -1].reshape(len(grouped), -1) for name in OUTPUTS}
    pairs = [*_decisions(plan, layer, last)]
    output = call.output.reshape(cache.key.shape[1], -1)[heads]
    pairs.append((last["out"].astype(np.uint16), fp16.bits(fp16.to_f16(output))))
    for head in range(len(grouped)):
        pairs += _of_head(pool, plan, layer, head, last)
    counted = {name: getattr(result, name) - getattr(loaded, name) for name in COUNTERS}
    yield Operation(
        f"blk.{layer}.attention",
        unit.name,
        config,
        grouped.shape,
        total(due.size for _, due in pairs),
        total(differences(got, due) for got, due in pairs),
        0,
        words={name.removesuffix("_words"): count for name, count in counted.items() if name.endswith("_words")},
        kind="attention",
        cost=step_cost(counted),
        counts=_counts(plan, layer, last),
    )


def _decisions(plan: Plan, layer: int, last: Words) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Algorithm 1's choices and slots, and the scheme's."""
    for name in ("choice", "victim", "low_slot"):
        due = np.ascontiguousarray(getattr(plan.decided, name)[0, layer])
        yield last[name][:, 0].astype(due.dtype), due


def _counts(plan: Plan, layer: int, last: Words) -> dict[str, int]:
    """Choices by name, tokens by precision, moves and pages."""
    choices, lengths = [CHOICES[int(choice)] for choice in last["choice"][:, 0]], plan.lengths[0, layer]
    high, low = integers.total(lengths, axis=0).tolist()
    moved, pages = int(np.count_nonzero(plan.moves[0, layer])), int(np.count_nonzero(last["taken"] >= 0))
    taken = {f"choice {name}": choices.count(name) for name in sorted(set(choices))}
    return {**taken, "high": high, "low": low, "moved": moved, "pages": pages}


def _of_head(pool: Pool, plan: Plan, layer: int, head: int, last: Words) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Records and scores of a head, and the scheme's; behind the step a score is no longer what was written."""
    at = (0, layer, head)
    high, low = pool.layouts.sections
    targets = [("written", high, plan.high[at])] + [("moved", low, plan.low[at])] * bool(plan.moves[at])
    for name, page, (image, slot) in targets:
        record = page.read(pool.images[image], slot)
        same = np.ones(page.record_words, np.bool_)
        same[page.parts["score"]] = False
        yield last[name][head, : page.record_words][same].astype(np.uint16), record[same]
    scores = [
        stored(pool, plan.cells[at], section, int(count))[0][:, page.parts["score"]].astype(np.uint32)
        for section, (page, count) in enumerate(zip((high, low), plan.lengths[at], strict=True))
    ]
    due = np.concatenate([halves[:, 0] | halves[:, 1] << np.uint32(16) for halves in scores])
    yield last["scores"][head, : len(due)].astype(np.uint32), due


def step_cost(counted: Mapping[str, int]) -> Cost:
    """Cost of generation steps from the counters of layer_step (D-leankv-65)."""
    return Cost(
        {"attention": counted["macs"]},
        comparisons=counted["comparisons"],
        conversions=counted["tokens_written"] + counted["requantized"],
        words={"kv": total(count for name, count in counted.items() if name.endswith("_words"))},
    )


def total(counts: Iterator[int]) -> int:
    """The sum of Python ints."""
    result = 0
    for count in counts:
        result += count
    return result
