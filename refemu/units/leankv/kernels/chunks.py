"""Chunks of the tokens of KV heads: their pages, and the sum of what attention computed for each. [leankv §6.2]"""

import numpy as np

from refemu.arith.jit import callee, kernel
from refemu.arith.kernels.orders import clear_all, copy_all
from refemu.arith.kernels.scalars import FP32_FMA, ONE, canonical, exp, fma32, round16
from refemu.units.leankv.kernels.attention import (
    LEAST,
    N_DECIMAL,
    N_EPSILON,
    S_ACC,
    S_BY_NUMBER,
    S_CHUNK,
    S_THREADS,
    T_END,
    T_FIRST,
    T_LAST,
    T_START,
    T_UNIT,
    tree_of_lanes,
    value_of,
)
from refemu.units.leankv.kernels.pages import P_TOKENS


@kernel
def tasks_of(lengths, layout, settings):
    """`tasks` of `paged_heads`, head by head: one chunk, or several of pages of one section. lengths: (U, 2)."""
    size, most = settings[S_CHUNK], np.int64(0)
    for u in range(lengths.shape[0]):
        most += 1 + _pages(lengths[u, 0], layout[0]) + _pages(lengths[u, 1], layout[1])
    tasks, count = np.zeros((most, 7), np.int64), 0
    for u in range(lengths.shape[0]):
        high, total = lengths[u, 0], lengths[u, 0] + lengths[u, 1]
        if size == 0 or total <= size:
            task = tasks[count]
            task[T_UNIT], task[T_END] = u, total
            task[T_LAST], task[T_LAST + 1] = _pages(high, layout[0]), _pages(lengths[u, 1], layout[1])
            count += 1
            continue
        for s in range(2):
            for first in range(0, lengths[u, s], size):
                task, last = tasks[count], min(first + size, lengths[u, s])
                task[T_UNIT], task[T_START], task[T_END] = u, s * high + first, s * high + last
                task[T_FIRST + s], task[T_LAST + s] = first // layout[s, P_TOKENS], _pages(last, layout[s])
                count += 1
    return tasks[:count]


@callee
def _pages(tokens, layout):
    """Pages of so many tokens of a section."""
    return (tokens + layout[P_TOKENS] - 1) // layout[P_TOKENS]


@kernel
def join_chunks(tasks, results, numbers, settings, joined):
    """joined (U, G, F) <- sums of values of all chunks, not yet rounded; p of heads with several is weighted in place.

    results: as of `paged_heads`. See `phases.combine` and `phases.weigh`.
    """
    p, tops, totals, out = results[0], results[1], results[2], results[3]
    first = 0
    while first < tasks.shape[0]:
        u, end = tasks[first, T_UNIT], first + 1
        while end < tasks.shape[0] and tasks[end, T_UNIT] == u:
            end += 1
        for g in range(joined.shape[1]):
            if end == first + 1:
                copy_all(out[first, g], joined[u, g])
            else:
                weights = _weights(tops[first:end, g], totals[first:end, g], numbers, settings)
                _add(out[first:end, g], weights, settings[S_ACC], joined[u, g])
                for c in range(end - first):
                    weight = np.float32(weights[0, c] * weights[1, c])
                    for t in range(tasks[first + c, T_START], tasks[first + c, T_END]):
                        if settings[S_BY_NUMBER]:
                            number = t // settings[S_CHUNK]
                            weight = np.float32(weights[0, number] * weights[1, number])
                        p[u, g, t] = canonical(np.float32(p[u, g, t] * weight))
        first = end


@callee
def _weights(tops, totals, numbers, settings):
    """(2, chunks): factor of each chunk of a head, and the reciprocal of the sum of all, for each."""
    weights, lanes, top = np.empty((2, tops.size), np.float32), np.zeros(settings[S_THREADS], np.float32), LEAST
    for c in range(tops.size):
        top = max(top, tops[c])
    for c in range(tops.size):
        weight, lane = exp(np.float32(value_of(tops[c]) - value_of(top))), c % lanes.size
        weights[0, c] = np.float32((np.float64(totals[c]) + numbers[N_DECIMAL]) * np.float64(weight))
        if settings[S_ACC] == FP32_FMA:
            lanes[lane] = fma32(totals[c], weight, lanes[lane])
        else:
            lanes[lane] = np.float32(lanes[lane] + np.float32(totals[c] * weight))
    weights[1] = np.float32(ONE / np.float32(tree_of_lanes(lanes) + np.float32(numbers[N_EPSILON])))
    return weights


@callee
def _add(parts, weights, accumulator, out):
    """out (F,) <- the sum of parts (chunks, F), rounded to fp16 and weighted, in turn."""
    clear_all(out)
    for c in range(parts.shape[0]):
        for f in range(out.size):
            term = np.float32(round16(parts[c, f]) * weights[0, c])
            if accumulator == FP32_FMA:
                out[f] = fma32(term, weights[1, c], out[f])
            else:
                out[f] = np.float32(out[f] + np.float32(term * weights[1, c]))
