"""Compiled form of generation_compressor: means, shares and decisions of many heads, head by head.

Paper: [leankv Algorithm 1].
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from refemu.arith.fp16_compiled import plain
from refemu.arith.jit import callee, kernel
from refemu.units.derivation import Arrays, compiled_run
from refemu.units.leankv.generation_compressor import (
    A1,
    A2,
    A3,
    APPEND,
    B1,
    B2,
    DOWNGRADE,
    PRUNE,
    STATIC_APPEND,
    STATIC_DROP,
    SWAP,
    UNIT,
    C,
    GenerationCompressor,
    W,
)
from refemu.units.leankv.generation_compressor.decisions import LANE_BITS, LANES, LARGEST, POLICIES

MOST = np.uint32(LARGEST).view(np.float32)  #: significance of a section without candidates
FAR = np.int64(1) << np.int64(62)
EVERY = 1 << 40  #: more queries than any prompt has
CASE_W, CASE_A1, CASE_A2, CASE_A3, CASE_B1, CASE_B2, CASE_C = W, A1, A2, A3, B1, B2, C
ALGORITHM1, DIFFKV, STATIC = range(len(POLICIES))
# Entries of `rule`: last queries of a prompt that count, whether a token's own query counts, whether `position` is n
# minus the count, policy, whether running sums are compared, whether there is a low precision, percent of the budget.
R_QUERIES, R_SELF, R_EPOCH, R_POLICY, R_CUMULATIVE, R_LOW, R_KEEP, RULES = range(8)


def rule_of(device: GenerationCompressor) -> list[int]:
    """`rule` of the kernels."""
    policy, cumulative = POLICIES.index(device.policy), int(device.score_rule == "cumulative")
    counting = device.score_queries or EVERY, int(device.include_self), int(device.epoch)
    return [*counting, policy, cumulative, int(device.low), device.keep_percent]


@compiled_run(UNIT)
def run(device: GenerationCompressor, inputs: Arrays, outputs: Arrays) -> Sequence[int]:
    """Run all heads."""
    columns, counts = _decided(device, inputs, True)
    for output, column in zip(outputs, columns, strict=True):
        output[...] = column.reshape(output.shape)
    return counts


class Decisions(NamedTuple):
    """Outputs of `run`, for heads (...)."""

    choice: np.ndarray
    victim: np.ndarray
    low_slot: np.ndarray
    delta_high: np.ndarray
    delta_low: np.ndarray


def decide(device: GenerationCompressor, arrays: Arrays) -> Decisions:
    """`run` without checks on arrays from `device.admitted`: the pages of a model need none."""
    columns, ports = _decided(device, arrays, False)[0], device.ports.outputs
    pairs = zip(ports, columns, strict=False)  # registers follow
    return Decisions(*(column.astype(port.result_dtype).reshape(arrays[2].shape) for port, column in pairs))


def _decided(device: GenerationCompressor, arrays: Arrays, shown: bool) -> tuple[list[np.ndarray], list[int]]:
    """Outputs and registers (heads, ...), and counters. shown: whether the registers are complete."""
    score, position = (plain(array.reshape(-1, device.slots)) for array in arrays[:2])
    numbers = np.stack([array.reshape(-1) for array in arrays[2:7]]).astype(np.int64)
    limits = plain(arrays[7].reshape(-1, 2)).view(np.float32)
    shares = np.zeros(score.shape, np.float32) if shown else np.empty(score.shape, np.float32)
    means = shares.copy() if shown else shares
    totals, columns = np.empty(len(score), np.float32), np.empty((7, len(score)), np.int64)
    operands = score.view(np.float32), position.astype(np.uint32, copy=False), numbers, limits
    with np.errstate(all="ignore"):
        counts = choose(*operands, np.array(rule_of(device)), means, totals, shares, columns)
    registers = means.view(np.uint32), totals.view(np.uint32), shares.view(np.uint32)
    return [*columns[:5], *registers, columns[5:].T, numbers[0] + numbers[1]], list(map(int, counts))


@kernel
def choose(score, position, numbers, limits, rule, means, totals, shares, out):  # type: ignore[no-untyped-def]
    """out (7, heads) <- decisions: the outputs, and the least slots of both sections; returns the counters.

    score, position (heads, slots). numbers (5, heads): high and low tokens, n, prompt, window. means, shares (heads,
    slots), totals (heads,) <- those of the stored tokens.
    """
    divisions, looked = np.int64(0), np.int64(0)
    for u in range(score.shape[0]):
        n_high, both, n, window = numbers[0, u], numbers[0, u] + numbers[1, u], numbers[2, u], numbers[4, u]
        row, where, border, compared = means[u, :both], position[u, :both], n - window, shares[u, :both]
        totals[u], count = _means(score[u], where, n, numbers[3, u], rule, row)
        divisions += count
        if rule[R_POLICY] != ALGORITHM1 or totals[u] == 0:
            for i in range(both):
                compared[i] = row[i]
        else:
            divisions += both
            for i in range(both):
                compared[i] = np.float32(row[i] / totals[u])
            if rule[R_CUMULATIVE]:
                _accumulated(compared, where, border)
        least = out[5:, u]
        least[0], least[1] = -1, -1
        if rule[R_POLICY] == ALGORITHM1:
            decision, count = _algorithm1(compared, where, n_high, border, limits[u, 0], limits[u, rule[R_LOW]], least)
        elif rule[R_POLICY] == DIFFKV:
            decision, count = _diffkv(compared, where, n_high, n, window, limits[u], least)
        else:
            least[0], count = _least(compared, where, 0, n_high, border, False)
            decision = _case(STATIC_APPEND, n_high, -1, 1, 0)
            if n_high + 1 > max(window, (n + 1) * rule[R_KEEP] // 100):
                decision = _case(STATIC_DROP, least[0], -1, 0, 0)
        looked += count
        for i in range(5):
            out[i, u] = decision[i]
    return divisions, looked


@callee
def _means(score, position, n, prompt, rule, means):  # type: ignore[no-untyped-def]
    """means <- scores divided by their counts; returns their sum in turn, and the divisions."""
    total, divisions, start = np.float32(0), np.int64(0), prompt - min(prompt, rule[R_QUERIES])
    for i in range(means.size):
        at = np.int64(position[i])
        first = at + np.int64(1) - rule[R_SELF]
        if rule[R_EPOCH] != 0:
            first = at
        elif at < prompt:
            first = max(first, start)
        means[i] = np.float32(0)
        if n > first:
            means[i] = np.float32(score[i] / np.float32(n - first))
            divisions += 1
        total = np.float32(total + means[i])
    return total, divisions


@callee
def _accumulated(share, position, border):  # type: ignore[no-untyped-def]
    """share <- running sums in the order of share, position and slot, of tokens up to `border`; 0 for the others."""
    order, keys, count = np.empty(share.size, np.int64), np.empty(share.size, np.int64), 0
    for i in range(share.size):
        keys[i] = np.int64(np.float32(share[i]).view(np.uint32)) << 32 | np.int64(position[i])  # in the order of share
        if np.int64(position[i]) <= border:
            order[count], count = i, count + 1
        else:
            share[i] = np.float32(0)
    for gap in (701, 301, 132, 57, 23, 10, 4, 1):  # Shell's sort
        for k in range(gap, count):
            slot, place = order[k], k
            while place >= gap and (keys[slot], slot) < (keys[order[place - gap]], order[place - gap]):
                order[place] = order[place - gap]
                place -= gap
            order[place] = slot
    running = np.float32(0)
    for k in range(count):
        running = np.float32(running + share[order[k]])
        share[order[k]] = running


@callee
def _precedes(share, position, i, j, first, lanes):  # type: ignore[no-untyped-def]
    """Whether slot i has less share than slot j, or as much and a lower position, or lane after slot `first`."""
    if share[i] != share[j]:
        return share[i] < share[j]
    if lanes:
        return _lane_rank(i - first) < _lane_rank(j - first)
    return position[i] < position[j]


@callee
def _lane_rank(index):  # type: ignore[no-untyped-def]
    """As `decisions.lane_rank`, in one number."""
    lane, rank = index % LANES, np.int64(0)
    for _ in range(LANE_BITS):
        rank, lane = 2 * rank + lane % 2, lane // 2
    return (rank << 32) + index


@callee
def _least(share, position, first, last, border, lanes):  # type: ignore[no-untyped-def]
    """Slot of the least share among tokens in slots `first` to `last` and up to `border`, and their number.

    -1 if there is none.
    """
    best, count = np.int64(-1), np.int64(0)
    for i in range(first, last):
        if np.int64(position[i]) <= border:
            count += 1
            if best < 0 or _precedes(share, position, i, best, first, lanes):
                best = np.int64(i)
    return best, count


@callee
def _case(choice, victim, low_slot, more_high, more_low):  # type: ignore[no-untyped-def]
    """The outputs as integers of one width."""
    return np.int64(choice), np.int64(victim), np.int64(low_slot), np.int64(more_high), np.int64(more_low)


@callee
def _algorithm1(share, position, n_high, border, t_low, t_high, least):  # type: ignore[no-untyped-def]
    """The decision about the oldest token of the window, and the number of candidates."""
    t_c, n_low = np.int64(-1), share.size - n_high
    for i in range(n_high):
        if np.int64(position[i]) == border:
            t_c = np.int64(i)
            break
    if t_c < 0:
        return _case(CASE_W, n_high, -1, 1, 0), np.int64(0)
    if share[t_c] < t_low:
        return _case(CASE_C, t_c, -1, 0, 0), np.int64(0)
    if share[t_c] >= t_high:
        best, count = _least(share, position, 0, n_high, border, False)
        least[0] = best
        if share[best] >= t_high:
            return _case(CASE_A1, n_high, -1, 1, 0), count
        if share[best] >= t_low:
            return _case(CASE_A2, best, n_low, 0, 1), count
        return _case(CASE_A3, best, -1, 0, 0), count
    best, count = _least(share, position, n_high, share.size, FAR, False)
    if best < 0 or _precedes(share, position, t_c, best, 0, False):
        best = t_c
    least[1] = best
    if share[best] >= t_low:
        return _case(CASE_B1, t_c, n_low, 0, 1), count + 1
    return _case(CASE_B2, t_c, best - n_high, 0, 0), count + 1


@callee
def _diffkv(share, position, n_high, n, window, limits, least):  # type: ignore[no-untyped-def]
    """The decision of the published code, and the number of candidates."""
    prune, quant, size = np.float32(0), np.float32(0), share.size
    if n > 0:
        base = np.float32(np.float32(1) / np.float32(n))
        prune, quant = np.float32(base * limits[0]), np.float32(base * limits[1])
    high, of_high = _least(share, position, 0, n_high, n - window, True)
    low, of_low = _least(share, position, n_high, size, n - window, True)
    s_high, s_low, count = MOST, MOST, of_high + of_low
    if high >= 0:
        s_high = share[high]
    if low >= 0:
        s_low = share[low]
    least[0], least[1] = high, low
    if size + 1 > window:
        if s_high < prune and s_high < s_low:
            return _case(PRUNE, high, -1, 0, 0), count
        if s_high < quant and s_low < prune:
            return _case(SWAP, high, low - n_high, 0, 0), count
        if s_high < quant:
            return _case(DOWNGRADE, high, size - n_high, 0, 1), count
    return _case(APPEND, n_high, -1, 1, 0), count
