"""Compiled form of significance over whole prompts at once, and row by row for a model.

Paper: [leankv §4]. Sums run over queries in ascending order, one vector addition of all tokens and heads per query. A
model's prompt is summed where its attention is computed, so that no probability is stored.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith import integers, kernels, threads
from refemu.arith.attention.scores import PLAIN
from refemu.arith.fp16_compiled import plain, ready
from refemu.units.derivation import Arrays, compiled_run
from refemu.units.leankv.significance import UNIT, Gqa, GqaOrder, Significance, counts, join_heads
from refemu.units.leankv.significance.significance import require_prompt
from refemu.units.stepping import Result


@compiled_run(UNIT)
def run(device: Significance, inputs: Arrays, outputs: Arrays) -> Sequence[int]:
    """Run all prompts, in the form of `of_prompts`."""
    p = inputs[0].reshape(-1, device.tokens, device.heads, device.tokens).view(np.float32)
    result = _measured(device, p)
    for port, output in zip(device.ports.outputs + device.ports.state, outputs, strict=True):
        output[...] = getattr(result, port.name).reshape(output.shape)
    return [getattr(result, name) for name in device.counters]


def of_prompts(
    p: ArrayLike,
    *,
    score_queries: int | None = None,
    include_self: bool = False,
    normalize: bool = True,
    gqa: Gqa = "max",
    gqa_order: GqaOrder = "sums",
) -> Result:
    """As `significance.of_prompts`."""
    array = require_prompt(p)
    tokens, heads = array.shape[-1], array.shape[-2]
    device = Significance(tokens, heads, score_queries, include_self, normalize, gqa, gqa_order)
    return _measured(device, array)


def _measured(device: Significance, p: np.ndarray) -> Result:
    """The Result of prompts p (..., N, G, N)."""
    sums = np.zeros((*p.shape[:-3], device.sums, device.tokens), np.float32)
    with np.errstate(all="ignore"):
        add_rows(device, sums, p, 0)
        return finish(device, sums)


def add_rows(device: Significance, sums: np.ndarray, p: np.ndarray, first: int) -> None:
    """Add queries first, first + 1, ... to `sums`, in place.

    sums: (..., device.sums, N) float32, zeros before query 0. p: (..., queries, G, tokens) float32, of the tokens that
    these queries see, at most N; values beyond a query's own token are not read.
    """
    start = device.tokens - (device.score_queries or device.tokens)
    for row in range(max(0, start - first), p.shape[-3]):
        seen = first + row + (1 if device.include_self else 0)
        values = p[..., row, :, :seen]
        if device.gqa_order == "queries":
            values = join_heads(values, device.gqa)[..., None, :]
        sums[..., :seen] += values


def attended(
    device: Significance, q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: np.float32
) -> tuple[np.ndarray, np.ndarray] | None:
    """A prompt's attention as in `dot.attention`, and the sums (H, G, N) of attention to its tokens, in one pass.

    q: (N, H * G, F), k, v: (N, H, F), fp16 values in float32. Threads share the H KV heads. None for heads that are
    joined query by query, and if a query has no probabilities.
    """
    if device.gqa_order != "sums":
        return None
    ready()
    query, key, value, heads = plain(q), plain(k), plain(v), k.shape[1]
    out, sums = np.empty_like(query), np.zeros((heads, device.sums, device.tokens), np.float32)
    fields = PLAIN.fields(q.shape[1])
    counted = device.tokens - min(device.score_queries or device.tokens, device.tokens)
    counting = np.tile(np.array([counted, device.include_self, 0], np.int64), (heads, 1))

    def run(first: int, last: int) -> None:
        with np.errstate(all="ignore"):
            kernels.attention_heads(query, key, value, scale, 0, out, sums, counting[first], *fields, first, last)

    threads.share_out(run, heads)
    return None if counting[:, 2].any() or np.isnan(out).any() else (out, sums)


def finish(device: Significance, sums: np.ndarray) -> Result:
    """The Result of the sums (..., device.sums, N) of all queries."""
    total_sum = join_heads(sums, device.gqa) if device.gqa_order == "sums" else sums[..., 0, :].copy()
    count = counts(device.tokens, device.score_queries, device.include_self)
    mean = np.where(count > 0, total_sum / np.maximum(count, 1).astype(np.float32), np.float32(0))
    total = np.add.accumulate(mean, axis=-1)[..., -1:] if device.normalize else np.zeros_like(mean[..., :1])
    share = np.where(total != 0, mean / np.where(total != 0, total, np.float32(1)), np.float32(0))
    values = (total_sum, mean, share if device.normalize else mean)
    prompts = total_sum.size // device.tokens
    adds, comparisons, divisions = _counters(device, prompts, int(np.count_nonzero(total)))
    patterns = [value.view(np.uint32) for value in values]
    all_done = np.full(total.shape[:-1], device.tokens, device.ports.state[-1].result_dtype)
    result: Callable[..., Result] = UNIT.result
    return result(
        sum=patterns[0],
        mean=patterns[1],
        share=patterns[2],
        count=np.broadcast_to(count.astype(np.uint32), mean.shape).copy(),
        of_heads=np.ascontiguousarray(sums).view(np.uint32).reshape(*mean.shape[:-1], device.sums * device.tokens),
        total=np.ascontiguousarray(total[..., 0]).view(np.uint32),
        row=all_done,
        token=all_done,
        adds=adds,
        comparisons=comparisons,
        divisions=divisions,
    )


def _counters(device: Significance, prompts: int, divided: int) -> tuple[int, int, int]:
    """Additions, comparisons and divisions of prompts, `divided` of which had shares to divide."""
    count = counts(device.tokens, device.score_queries, device.include_self)
    terms, used = int(integers.total(count)), int(np.count_nonzero(count))
    joins = device.tokens if device.gqa_order == "sums" else terms
    adds = terms * device.sums + (device.tokens if device.normalize else 0)
    means = device.gqa == "mean"
    return (
        prompts * (adds + means * joins * device.heads),
        prompts * (not means) * joins * device.heads,
        prompts * (used + means * joins) + divided * device.tokens,
    )
