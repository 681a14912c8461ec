"""Cost of a run on LeanKV's accelerator, from sizes and the tokens stored. Decision: D-leankv-65 (counts).

Paper: [leankv §4, §6.1, §6.2]. Comparisons depend on the data: they come from the two compressors.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from refemu import units
from refemu.arith import integers
from refemu.models.machine.report import Call, Cost
from refemu.models.schemes.fp16.cost import FP16, linear
from refemu.models.schemes.leankv.pool import Plan, Pool
from refemu.models.schemes.leankv.steps import patterns


def costs(prepared: Any, layer: int, call: Call) -> Iterator[tuple[str, Cost]]:
    """Cost of one call of a part, by kind of work.

    "linear" and "prompt attention" in fp16; "significance", "compress", "quantize" and "pages" of a prompt, "attention"
    of a step.
    """
    if call.part in ("linear", "head"):
        yield "linear", linear(call.inputs[-1], call.output)
    elif call.part == "attention":
        q, cache = call.inputs
        if not cache.fresh:
            for pool, plan in zip(cache.held.pools.pools, cache.held.current.plans, strict=True):
                yield "attention", _step(prepared, layer, pool, plan)
            return
        yield from _prompt(prepared, q, cache.held.current.prompt.shares[layer], cache.held.pools.pools[0])


def _prompt(prepared: Any, q: np.ndarray, shares: np.ndarray, pool: Pool) -> Iterator[tuple[str, Cost]]:
    """Both products of every head over the prompt itself, then the cost of storing its tokens in pages.

    A token reads the keys and values up to its own. shares: (H, N).
    """
    sizes, (kv_heads, tokens) = prepared.model, shares.shape
    pairs, group = tokens * (tokens + 1) // 2, sizes.heads // sizes.kv_heads
    words = {"activations": q.size, "kv": 2 * pairs * kv_heads * sizes.head_dim}
    yield "prompt attention", Cost({FP16: 2 * pairs * sizes.heads * sizes.head_dim}, words=words)
    scoring = prepared.units.scoring()
    joins = tokens if scoring["gqa_order"] == "sums" else _terms(prepared, tokens)
    compared = kv_heads * joins * group * (scoring["gqa"] == "max")
    yield "significance", Cost(comparisons=compared, words={"activations": kv_heads * tokens * group * tokens})
    classes = units.find("prompt_compressor").evaluate(
        {"tokens": tokens, **prepared.units.classifying()},
        {
            "share": shares,
            "window": np.uint32(prepared.lean.window),
            "thresholds": prepared.units.limits(),
        },
    )
    yield "compress", Cost(comparisons=int(classes.comparisons), words={"activations": shares.size})
    low = int(integers.total(classes.n_low))
    kept = tokens * kv_heads - int(integers.total(classes.n_pruned)) - low, low
    compared = converted = words_written = 0
    for count, page in zip(kept, pool.layouts.sections, strict=True):
        pair, size = page.config, page.head_size
        groups = [groups for bits, groups in ((pair.k_bits, pair.k_groups), (pair.v_bits, pair.v_groups)) if bits < 16]
        for each in groups:
            compared += 2 * count * (size - each)
            converted += count * size
        words_written += count * page.record_words
    if converted:
        yield "quantize", Cost(comparisons=compared, conversions=converted)
    yield "pages", Cost(words={"kv": words_written})


def _terms(prepared: Any, tokens: int) -> int:
    """Query and token pairs that significance counts."""
    from refemu.units.leankv.significance import counts

    return int(integers.total(counts(tokens, *prepared.units.scores())))


def _step(prepared: Any, layer: int, pool: Pool, plan: Plan) -> Cost:
    """The last planned step: decisions, moves, writes, attention over the pages."""
    sizes = prepared.model
    lengths, before = plan.lengths[:, layer].reshape(-1, 2), plan.before.lengths[:, layer].reshape(-1, 2)
    unread = 2 if prepared.units.arithmetic.include_self else 0  # words of a position that are not read
    words, tokens = 0, int(integers.total(lengths))
    for section, page in enumerate(pool.layouts.sections):
        words += int(integers.total(lengths[:, section])) * (page.record_words - unread)
    high, low = pool.layouts.sections
    moves, heads = int(np.count_nonzero(plan.moves[:, layer])), len(lengths)
    words += 4 * int(integers.total(before)) + heads * high.record_words
    words += moves * (high.record_words + low.record_words)
    macs = {"attention": 2 * tokens * (sizes.heads // sizes.kv_heads) * sizes.head_dim}
    return Cost(macs, comparisons=_compared(prepared, layer, plan), conversions=heads + moves, words={"kv": words})


def _compared(prepared: Any, layer: int, plan: Plan) -> int:
    """Number of candidates in the decisions of a layer."""
    stored, deciding = plan.before, prepared.units.deciding()
    score, position, lengths = (array[:, layer] for array in (stored.score, stored.position, stored.lengths))
    result = units.find("generation_compressor").evaluate(
        {"slots": score.shape[-1], **deciding},
        {
            "score": score,
            "position": position,
            "n_high": lengths[..., 0],
            "n_low": lengths[..., 1],
            "n": plan.positions[:, None],
            "prompt": plan.prompts[:, None],
            "window": np.uint32(prepared.lean.window),
            "thresholds": patterns(prepared.lean.thresholds(deciding["policy"])),
        },
    )
    return int(result.comparisons)
