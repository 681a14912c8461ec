"""The token after a prompt at the ports of layer_step. [leankv §4 Algorithm 1, §5.3, §6.1, §6.2]

Decision: D-leankv-65 (counts).
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from refemu import units
from refemu.arith import fp16, integers
from refemu.formats.leankv.kv_page import UnifiedPage
from refemu.models.machine.report import Call, Cost, Operation, differences, unchecked
from refemu.models.schemes.leankv.machine.pages import filled, paging
from refemu.models.schemes.leankv.machine.prompt_tokens import PromptTokens
from refemu.models.schemes.leankv.machine.warps import balance, bank_conflicts, occupancy, reads
from refemu.models.schemes.leankv.pool import Plan, Pool
from refemu.models.schemes.leankv.steps import patterns
from refemu.models.schemes.leankv.taps import CHOICES
from refemu.units.leankv.layer_step import ATTENDING, COUNTERS
from refemu.units.leankv.page_manager import Shape
from refemu.units.leankv.paged_attention import attend, get_scores

READS = ("tokens", "pages", "loads", "sectors", "expansions")  #: of a warp, summed by head


def stepping(prepared: Any, pool: Pool, tokens: int) -> dict[str, Any]:
    """Parameters of layer_step for the heads of a pool, with the pages of a prompt of `tokens` and a step."""
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


def step(prepared: Any, layer: int, pool: Pool, kept: PromptTokens, heads: slice, call: Call) -> Iterator[Operation]:
    """The token after the prompt, compared with the scheme's pages, decisions and outputs in every lane."""
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
    output = call.output.reshape(cache.key.shape[1], -1)[heads]
    due = {
        **_decisions(plan, layer),
        "taken": _taken(unit.unit_class(**config).shape, plan, layer),
        **_records(pool, plan, layer),
        **_attention(prepared, pool, plan, layer, grouped),
        "out": fp16.bits(fp16.to_f16(output)),
    }
    last = {name: getattr(result, name)[0, -1].reshape(len(grouped), -1) for name in due}
    pairs = [(got, filled(due[name], got.shape).astype(got.dtype)) for name, got in last.items()]
    counted = {name: getattr(result, name) - getattr(loaded, name) for name in COUNTERS}
    yield Operation(
        f"blk.{layer}.attention",
        unit.name,
        config,
        grouped.shape,
        sum(due.size for _, due in pairs),
        sum(differences(got, due) for got, due in pairs),
        0,
        words={name.removesuffix("_words"): count for name, count in counted.items() if name.endswith("_words")},
        kind="attention",
        cost=step_cost(counted),
        counts=_counts(plan, layer, due["taken"])
        | {name: count for name, count in counted.items() if not name.endswith("_words")},
        blocks=tuple(_block(prepared, pool, plan, layer, head) for head in range(len(grouped))),
        unchecked=unchecked(unit.name, config, *due),
    )


def _decisions(plan: Plan, layer: int) -> dict[str, np.ndarray]:
    """The scheme's choices and slots."""
    return {name: getattr(plan.decided, name)[0, layer] for name in ("choice", "victim", "low_slot")}


def _taken(shape: Shape, plan: Plan, layer: int) -> np.ndarray:
    """Pages of the sections, -1 for none: from a manager of one layer with the scheme's lengths."""
    manager, before = units.find("page_manager").unit_class(**asdict(shape)), plan.before.lengths[:, [layer]]
    manager.prompt_allocate({0: int(plan.prompts[0])})
    manager.prompt_release([0], *np.moveaxis(before, -1, 0))
    moved = manager.step_allocate([0], *np.moveaxis(plan.lengths[:, [layer]] - before, -1, 0))
    taken = np.full(len(moved.counts), -1)
    taken[np.array(moved.counts) > 0] = moved.ids
    return taken.reshape(-1, 2)


def _records(pool: Pool, plan: Plan, layer: int) -> dict[str, np.ndarray]:
    """Records of the new and moved tokens; attention has added to the scores in the pages since then.

    A new token begins with score 0, a moved one had that of its high slot.
    """
    high, low = pool.layouts.sections
    before, victim = plan.before.score[0, layer], plan.decided.victim[0, layer]
    written, moved = (np.zeros((len(before), page.record_words), np.uint16) for page in (high, low))
    for head, moves in enumerate(plan.moves[0, layer]):
        written[head] = _record(pool, high, plan.high[0, layer, head], 0)
        if moves:
            moved[head] = _record(pool, low, plan.low[0, layer, head], int(before[head, victim[head]]))
    return {"written": written, "moved": moved}


def _record(pool: Pool, page: UnifiedPage, place: np.ndarray, score: int) -> np.ndarray:
    """The record at a page and slot of the scheme, with this score pattern."""
    record = page.read(pool.images[place[0]], place[1]).copy()
    record[page.parts["score"]] = score & 0xFFFF, score >> 16
    return record


def _attention(prepared: Any, pool: Pool, plan: Plan, layer: int, q: np.ndarray) -> dict[str, np.ndarray]:
    """Probabilities, recomputed from the scheme's pages by the readable attention, and the scores in the pages."""
    places = pool.images, plan.cells[0, layer], plan.lengths[0, layer]
    attended = attend(pool.layouts, fp16.to_f16(q), *places, prepared.units.arithmetic)
    return {"p": attended.p.view(np.uint32), "scores": get_scores(pool.layouts, *places)[0]}


def _counts(plan: Plan, layer: int, taken: np.ndarray) -> dict[str, int]:
    """Choices by name, tokens by precision, moves and pages."""
    choices, lengths = [CHOICES[choice] for choice in plan.decided.choice[0, layer].tolist()], plan.lengths[0, layer]
    high, low = integers.total(lengths, axis=0).tolist()
    moved, pages = int(np.count_nonzero(plan.moves[0, layer])), int(np.count_nonzero(taken >= 0))
    chosen = {f"choice {name}": choices.count(name) for name in sorted(set(choices))}
    return {**chosen, "high": high, "low": low, "moved": moved, "pages": pages}


def _block(prepared: Any, pool: Pool, plan: Plan, layer: int, head: int) -> dict[str, Any]:
    """The block of threads of a KV head: what it reads by warp, and how many such blocks fit."""
    arithmetic, group = prepared.units.arithmetic, prepared.model.heads // prepared.model.kv_heads
    high, low = plan.lengths[0, layer, head].tolist()
    warps = reads(pool.layouts, plan.cells[0, layer, head].tolist(), high, low, arithmetic.warps)
    counts = {name: sum(int(getattr(each, name)) for each in warps) for name in READS}
    return {
        "head": head,
        **counts,
        "exponentials": group * (high + low),
        "balance": balance([each.sectors for each in warps]),
        "occupancy": asdict(occupancy(pool.layouts, arithmetic, group, high + low)),
        "bank_conflicts": bank_conflicts(pool.layouts, arithmetic),
        "warps": [asdict(each) for each in warps],
    }


def step_cost(counted: Mapping[str, int]) -> Cost:
    """Cost of generation steps from the counters of layer_step (D-leankv-65)."""
    return Cost(
        {"attention": counted["macs"]},
        comparisons=counted["comparisons"],
        conversions=counted["tokens_written"] + counted["requantized"],
        words={"kv": sum(counted[name] for name in counted if name.endswith("_words"))},
    )
