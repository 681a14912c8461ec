"""Compiled form of generation_compressor over many heads at once.

Paper: [leankv Algorithm 1]. Kernels decide the rule of models, shares under Algorithm 1, head by head. Masks decide the
other rules: every quantity is then an array over heads and slots.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from refemu.arith import integers
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
from refemu.units.leankv.generation_compressor.decisions import LANE_BITS, LANES, LARGEST
from refemu.units.leankv.kernels.pages import mean_shares

NONE = np.uint32(LARGEST).view(np.float32)  #: significance of a section without candidates
FAR = np.int64(1) << np.int64(62)
EVERY = 1 << 40  #: more queries than any prompt has
CASE_W, CASE_A1, CASE_A2, CASE_A3, CASE_B1, CASE_B2, CASE_C = W, A1, A2, A3, B1, B2, C


class Heads:
    """The inputs of `run` as (heads, slots) and (heads,) arrays, their means and candidates."""

    def __init__(self, device: GenerationCompressor, arrays: Arrays) -> None:
        """arrays: as `device.admitted` returns them."""
        self.device: GenerationCompressor = device
        slots = device.slots
        score, position = (array.reshape(-1, slots) for array in arrays[:2])
        numbers = [np.asarray(array.reshape(-1), np.int64) for array in arrays[2:7]]
        self.n_high, self.n_low, self.n, self.prompt, self.window = numbers
        self.thresholds: np.ndarray = np.ascontiguousarray(arrays[7].reshape(-1, 2)).view(np.float32)
        self.slot: np.ndarray = np.arange(slots)
        self.position: np.ndarray = position.astype(np.int64)
        self.high: np.ndarray = self.slot < self.n_high[:, None]
        self.used: np.ndarray = self.slot < (self.n_high + self.n_low)[:, None]
        self.old: np.ndarray = self.used & (self.n[:, None] - self.position >= self.window[:, None])
        count = np.where(self.used, self.counts(), 0)
        values = np.ascontiguousarray(score).view(np.float32)
        self.mean: np.ndarray = np.where(count > 0, values / np.maximum(count, 1).astype(np.float32), np.float32(0))
        with np.errstate(over="ignore"):
            self.total: np.ndarray = np.add.accumulate(self.mean, axis=1, dtype=np.float32)[:, -1:]
        self.share: np.ndarray = self.mean  #: quantity by which slots are compared
        self.slots: np.ndarray = np.full((len(self.n), 2), -1, np.int64)  #: least slots of the two sections
        self.divisions: int = int(np.count_nonzero(count))
        self.comparisons: int = 0

    def counts(self) -> np.ndarray:
        """Queries that every score was summed over."""
        n, prompt = self.n[:, None], self.prompt[:, None]
        if self.device.epoch:
            return n - self.position
        first = self.position + (0 if self.device.include_self else 1)
        queries = prompt if self.device.score_queries is None else self.device.score_queries
        return n - np.where(self.position < prompt, np.maximum(first, prompt - queries), first)

    def shares(self) -> np.ndarray:
        """Quantities to compare with the thresholds; 0 outside the stored slots."""
        total = self.total
        share = np.where(total != 0, self.mean / np.where(total != 0, total, np.float32(1)), self.mean)
        self.divisions += int(integers.total(np.where(total != 0, self.used, False)))
        if self.device.score_rule == "share":
            return share
        ranged = self.used & (self.position <= (self.n - self.window)[:, None])
        order = np.lexsort((self.position, np.where(ranged, share, np.float32(np.inf))), axis=1)
        ordered = np.take_along_axis(np.where(ranged, share, np.float32(0)), order, 1)
        sums = np.empty_like(share)
        np.put_along_axis(sums, order, np.add.accumulate(ordered, axis=1, dtype=np.float32), 1)
        return np.where(total != 0, np.where(ranged, sums, np.float32(0)), share)

    def least(self, section: int, candidates: np.ndarray, rank: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Slot and share of the least candidate of every head, ties to the lowest rank; -1 and NONE without any.

        section: where in `slots` the slot is stored.
        """
        value = self.share
        self.comparisons += int(np.count_nonzero(candidates))
        best = np.where(candidates, value, np.float32(np.inf)).min(axis=1, initial=np.float32(np.inf))
        ties = candidates & (value == best[:, None])
        slot = np.argmin(np.where(ties, rank, FAR), axis=1)
        some = candidates.any(axis=1)
        self.slots[:, section] = np.where(some, slot, -1)
        return self.slots[:, section], np.where(some, best, NONE)

    def registers(self) -> list[np.ndarray]:
        """`means`, `total`, `shares`, `slots` and `done` as `run` returns them."""
        patterns = [np.ascontiguousarray(x).view(np.uint32) for x in (self.mean, self.total[:, 0], self.share)]
        return [*patterns, self.slots, self.n_high + self.n_low]


@compiled_run(UNIT)
def run(device: GenerationCompressor, inputs: Arrays, outputs: Arrays) -> Sequence[int]:
    """Run all heads; masks compute the registers for every rule."""
    heads = Heads(device, inputs)
    with np.errstate(all="ignore"):
        columns, *counts = _selected(heads)
        if by_kernels(device):
            columns, *counts = _decided(device, inputs)
    for output, column in zip(outputs, (*columns, *heads.registers()), strict=True):
        output[...] = column.reshape(output.shape)
    return counts


class Decisions(NamedTuple):
    """Decide for heads (...), with the outputs of `run`."""

    choice: np.ndarray
    victim: np.ndarray
    low_slot: np.ndarray
    delta_high: np.ndarray
    delta_low: np.ndarray


def decide(device: GenerationCompressor, arrays: Arrays) -> Decisions:
    """`run` without checks on arrays from `device.admitted`: the pages of a model need none."""
    return counted(device, arrays)[0]


def counted(device: GenerationCompressor, arrays: Arrays) -> tuple[Decisions, int, int]:
    """As `decide`, with counts of divisions and comparisons."""
    with np.errstate(all="ignore"):
        columns, divisions, comparisons = (
            _decided(device, arrays) if by_kernels(device) else _selected(Heads(device, arrays))
        )
    decisions = Decisions(
        *(
            column.astype(port.result_dtype).reshape(arrays[2].shape)
            for port, column in zip(device.ports.outputs, columns, strict=True)
        )
    )
    return decisions, divisions, comparisons


def by_kernels(device: GenerationCompressor) -> bool:
    """Whether the kernels have this rule."""
    return device.policy == "algorithm1" and device.score_rule == "share"


def _decided(device: GenerationCompressor, arrays: Arrays) -> tuple[list[np.ndarray], int, int]:
    """The five outputs (heads,) by kernels, divisions and comparisons: Algorithm 1, shares token by token."""
    score, position = (plain(array.reshape(-1, device.slots)) for array in arrays[:2])
    numbers = np.stack([array.reshape(-1) for array in arrays[2:7]]).astype(np.int64)
    n_high, n_low, n, prompt, _ = numbers
    limits = plain(arrays[7].reshape(-1, 2)).view(np.float32)
    share, columns = np.empty(score.shape, np.float32), np.empty((5, len(score)), np.int64)
    counting = np.array([device.score_queries or EVERY, device.include_self, device.epoch], np.int64)
    divisions = mean_shares(
        score.view(np.float32), position.astype(np.uint32, copy=False), n_high + n_low, n, prompt, counting, share
    )
    comparisons = choose(share, position.astype(np.uint32, copy=False), numbers, limits, int(device.low), columns)
    return list(columns), int(divisions), int(comparisons)


@kernel
def choose(share, position, numbers, limits, low, out):  # type: ignore[no-untyped-def]
    """out (5, heads) <- the decision about the oldest token of every window; returns the number of candidates.

    numbers (5, heads): high and low tokens, n, prompt, window.
    """
    looked = np.int64(0)
    for u in range(share.shape[0]):
        n_high, n_low, n, window = numbers[0, u], numbers[1, u], numbers[2, u], numbers[4, u]
        t_c, t_low, t_high = np.int64(-1), limits[u, 0], limits[u, low]
        for i in range(n_high):
            if np.int64(position[u, i]) == n - window:
                t_c = i
                break
        choice, victim, target, more = np.int64(CASE_W), n_high, np.int64(-1), np.int64(1)
        if t_c >= 0 and share[u, t_c] < t_low:
            choice, victim, more = np.int64(CASE_C), t_c, np.int64(0)
        elif t_c >= 0 and share[u, t_c] >= t_high:
            best, count = _least(share[u, :n_high], position[u, :n_high], n - window, np.int64(-1))
            looked += count
            choice = np.int64(CASE_A1)
            if not share[u, best] >= t_high:
                victim, more = best, np.int64(0)
                choice = np.int64(CASE_A3)
                if share[u, best] >= t_low:
                    choice, target = np.int64(CASE_A2), n_low
        elif t_c >= 0:
            both = n_high + n_low
            best, count = _least(share[u, :both], position[u, :both], np.int64(FAR), n_high)
            best, looked, victim, more = best, looked + count + 1, t_c, np.int64(0)
            if (
                best < 0
                or share[u, t_c] < share[u, best]
                or (share[u, t_c] == share[u, best] and position[u, t_c] < position[u, best])
            ):
                best = t_c
            choice, target = np.int64(CASE_B2), best - n_high
            if share[u, best] >= t_low:
                choice, target = np.int64(CASE_B1), n_low
        out[0, u], out[1, u], out[2, u], out[3, u] = choice, victim, target, more
        out[4, u] = np.int64(choice in (CASE_A2, CASE_B1))
    return looked


@callee
def _least(share, position, newest, first):  # type: ignore[no-untyped-def]
    """Slot of the least share among tokens from slot `first` on and up to `newest`, ties to the lowest position; count.

    -1 if there is none.
    """
    best, count = np.int64(-1), np.int64(0)
    for i in range(max(first, np.int64(0)), share.size):
        if np.int64(position[i]) <= newest:
            count += 1
            if best < 0 or share[i] < share[best] or (share[i] == share[best] and position[i] < position[best]):
                best = np.int64(i)
    return best, count


def _selected(heads: Heads) -> tuple[list[np.ndarray], int, int]:
    """`_decided` for every policy, by masks."""
    rules = {"algorithm1": _algorithm1, "diffkv": _diffkv, "static": _static}[heads.device.policy](heads)
    conditions = [condition for condition, _ in rules]
    columns = zip(*(values for _, values in rules), strict=True)
    return [np.select(conditions, list(column), 0) for column in columns], heads.divisions, heads.comparisons


Rule = tuple[np.ndarray, tuple[Any, ...]]  #: where it applies, and the five outputs; the first that applies decides


def _algorithm1(heads: Heads) -> list[Rule]:
    share = heads.share = heads.shares()
    at_border = heads.high & (heads.position == (heads.n - heads.window)[:, None])
    full, t_c = at_border.any(axis=1), np.argmax(at_border, axis=1)
    s_c = np.take_along_axis(share, t_c[:, None], 1)[:, 0]
    low, high = heads.thresholds[:, 0], heads.thresholds[:, 1 if heads.device.low else 0]
    above, between = full & (s_c >= low) & (s_c >= high), full & (s_c >= low) & (s_c < high)
    v_high, s_high = heads.least(0, heads.old & heads.high & above[:, None], heads.position)
    with_t_c = (heads.used & ~heads.high) | (heads.slot == t_c[:, None])
    v_low, s_low = heads.least(1, with_t_c & between[:, None], heads.position)
    append, grown = (heads.n_high, -1, 1, 0), (heads.n_low, 0, 1)
    return [
        (~full, (W, *append)),
        (s_c < low, (C, t_c, -1, 0, 0)),
        (above & (s_high >= high), (A1, *append)),
        (above & (s_high >= low), (A2, v_high, *grown)),
        (above, (A3, v_high, -1, 0, 0)),
        (s_low >= low, (B1, t_c, *grown)),
        (between, (B2, t_c, v_low - heads.n_high, 0, 0)),
    ]


def _diffkv(heads: Heads) -> list[Rule]:
    base = np.where(heads.n > 0, np.float32(1) / np.maximum(heads.n, 1).astype(np.float32), np.float32(0))
    prune, quant = base * heads.thresholds[:, 0], base * heads.thresholds[:, 1]
    inside = np.where(heads.high, heads.slot, heads.slot - heads.n_high[:, None])
    rank = _reversed(inside % LANES) * (1 << 32) + inside
    v_high, s_high = heads.least(0, heads.old & heads.high, rank)
    v_low, s_low = heads.least(1, heads.old & ~heads.high, rank)
    few = heads.n_high + heads.n_low + 1 <= heads.window
    append, everywhere = (APPEND, heads.n_high, -1, 1, 0), np.ones_like(few)
    return [
        (few, append),
        ((s_high < prune) & (s_high < s_low), (PRUNE, v_high, -1, 0, 0)),
        ((s_high < quant) & (s_low < prune), (SWAP, v_high, v_low - heads.n_high, 0, 0)),
        (s_high < quant, (DOWNGRADE, v_high, heads.n_low, 0, 1)),
        (everywhere, append),
    ]


def _reversed(lane: np.ndarray) -> np.ndarray:
    """`lane` with its LANE_BITS bits in reverse."""
    word = np.zeros_like(lane)
    for bit in range(LANE_BITS):
        word |= ((lane >> bit) & 1) << (LANE_BITS - 1 - bit)
    return word


def _static(heads: Heads) -> list[Rule]:
    budget = np.maximum(heads.window, (heads.n + 1) * heads.device.keep_percent // 100)
    victim, _ = heads.least(0, heads.old & heads.high, heads.position)
    full = heads.n_high + 1 > budget
    return [(full, (STATIC_DROP, victim, -1, 0, 0)), (~full, (STATIC_APPEND, heads.n_high, -1, 1, 0))]
