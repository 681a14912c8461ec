"""Cost of a run on LeanKV's machine, from sizes and what the scheme stored. Decision: D-leankv-65 (what is counted).

Paper: [leankv §4, §6.1, §6.2].
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from refemu.models.machine.report import Cost
from refemu.models.machine.runner import Call

FP16 = "fp16"  #: mode of products outside the machine


def costs(prepared: Any, layer: int, call: Call) -> Iterator[tuple[str, Cost]]:
    """Cost of one call of a part, by kind of work.

    Parameters
    ----------
    prepared : LeanKv
        Decoder under a LeanKV scheme.
    layer : int
        Block; -1 is the head.
    call : Call
        What the part took.

    Yields
    ------
    kind, cost : str and Cost
        "linear" and "prompt attention" in fp16; "attention" of a step.
    """
    if call.part in ("linear", "head"):
        x = call.inputs[-1]
        outputs = call.output if isinstance(call.output, list | tuple) else [call.output]
        columns = [np.shape(y)[-1] for y in outputs]
        total = 0
        for count in columns:
            total += count
        macs = {FP16: x.size * total}
        yield "linear", Cost(macs, words={"activations": x.size, "weights": x.shape[-1] * total})
    elif call.part == "attention":
        q, cache = call.inputs
        yield from _prompt(prepared.model, q) if cache.fresh else _step(prepared, layer, cache.held)


def _prompt(sizes: Any, q: np.ndarray) -> Iterator[tuple[str, Cost]]:
    """Both products of every head over the prompt itself; a token reads the keys and values up to its own."""
    pairs = len(q) * (len(q) + 1) // 2
    words = {"activations": q.size, "kv": 2 * pairs * sizes.kv_heads * sizes.head_dim}
    yield "prompt attention", Cost({FP16: 2 * pairs * sizes.heads * sizes.head_dim}, words=words)


def _step(prepared: Any, layer: int, held: Any) -> Iterator[tuple[str, Cost]]:
    """The step that was planned last: attention over the pages, moves, writes."""
    sizes = prepared.model
    for pool, plan in zip(held.pools.pools, held.current.plans, strict=True):
        lengths, before = plan.lengths[:, layer].reshape(-1, 2), plan.before.lengths[:, layer].reshape(-1, 2)
        positions = 0 if prepared.units.arithmetic.include_self else 2
        words, tokens = 0, int(lengths.sum(dtype=np.int64))
        for section, page in enumerate(pool.layouts.sections):
            read = page.record_words - 2 - (2 - positions)
            words += int(lengths[:, section].sum(dtype=np.int64)) * read
        high, low = pool.layouts.sections
        moves, heads = int(np.count_nonzero(plan.moves[:, layer])), len(lengths)
        words += 4 * int(before.sum(dtype=np.int64)) + heads * high.record_words
        words += moves * (high.record_words + low.record_words)
        queries = sizes.heads // sizes.kv_heads
        macs = {"attention": 2 * tokens * queries * sizes.head_dim}
        yield "attention", Cost(macs, conversions=heads + moves, words={"kv": words})
