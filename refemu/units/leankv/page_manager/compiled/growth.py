"""Steps of compiled page_manager whose tokens are known in advance: as `step_allocate` with `lazy_pages`, in blocks.

Paper: [leankv §5.3]. A block has the classes of the tokens that a sequence gains in its next 64 steps. What a step
changes is then a list: a head takes a page once in about 32 tokens. Registers of a manager with blocks are exact in
pages after every step; `tokens` follow when they are read.

Everywhere: pool as in events.py; ahead = classes (R, 2, H) uint64, of which bit t says whether a token is stored, and
at the high precision, in step t of a block; gains (R, 64, 2), stored and high tokens of all heads by step; firsts
(R, 65) and moves (R, M): of each step, the sections that take a page, 2 * head + section; places (R, 2): steps of the
block that were made, and steps that `tokens` contain; R slots, H heads of all layers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from refemu.arith.jit import helper, kernel
from refemu.units.leankv.page_manager.requests import Request, Shape
from refemu.units.leankv.page_table.compiled import append

BLOCK = 64  #: steps of a block
U = np.uint64
ALL = U(0xFFFFFFFFFFFFFFFF)
PAIRS, FOURS, BYTES, ONES = (U(int(2 * digits, 16)) for digits in ("5" * 8, "3" * 8, "0F" * 4, "01" * 4))


@dataclass(frozen=True)
class Steps:
    """Sequences that grow together, step by step."""

    names: list[int]
    requests: list[Request]
    slots: np.ndarray  #: int64 (S,)
    sums: tuple[int, int]  #: levels and additions of the prefix sum of a step


def arrays(shape: Shape) -> tuple[np.ndarray, ...]:
    """`ahead` of a manager without blocks."""
    slots, heads = shape.slots, shape.layers * shape.heads
    least = min(shape.high_tokens, shape.low_tokens or shape.high_tokens)
    return (
        np.zeros((slots, 2, heads), np.uint64),
        np.zeros((slots, BLOCK, 2), np.int64),
        np.zeros((slots, BLOCK + 1), np.int64),
        np.zeros((slots, heads * min(BLOCK // least + 2, BLOCK)), np.int32),
        np.full((slots, 2), BLOCK),
    )


def growth(steps: Steps, ahead: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Tokens that heads gain in the next step: high and low, int64 (S, H) each."""
    at = ahead[-1][steps.slots, 0].astype(np.uint64)
    stored, high = (ahead[0][steps.slots, part] >> at[:, None] & U(1) for part in range(2))
    return [part.astype(np.int64) for part in (high, stored - high)]


@kernel
def needed(slots: Any, ahead: Any, due: Any) -> Any:
    """Pages that the next step takes, and slots whose block has ended, which are first in `due`."""
    classes, gains, firsts, moves, places = ahead
    pages, ended = np.int64(0), 0
    for s in range(slots.size):
        slot, at = slots[s], places[slots[s], 0]
        if at == BLOCK:
            due[ended] = slot
            ended += 1
        else:
            pages += firsts[slot, at + 1] - firsts[slot, at]
    return pages, ended


@kernel
def foresee(pool: Any, sizes: Any, slots: Any, classes: Any, ahead: Any) -> Any:
    """Begin blocks of some slots; classes (S, 2, H). False, and nothing changed: low tokens without a low precision."""
    cells, used, tokens, ring, ends = pool
    known, gains, firsts, moves, places = ahead
    when, what = np.empty(moves.shape[1], np.int64), np.empty(moves.shape[1], np.int32)
    steps, heads = np.empty((2, BLOCK), np.int64), classes.shape[2]
    if sizes[1] == 0:
        for s in range(slots.size):
            for h in range(heads):
                if classes[s, 0, h] & ~classes[s, 1, h]:
                    return False
    settle(pool, slots, ahead)
    for s in range(slots.size):
        slot, count = slots[s], 0
        steps[:], firsts[slot] = 0, 0
        for h in range(heads):
            stored, high = classes[s, 0, h], classes[s, 0, h] & classes[s, 1, h]
            known[slot, 0, h], known[slot, 1, h] = stored, high
            for t in range(BLOCK):
                steps[0, t] += np.int64((stored >> U(t)) & U(1))
                steps[1, t] += np.int64((high >> U(t)) & U(1))
            for section in range(2):
                bits = high if section == 0 else stored & ~high
                entry, gained = slot * heads + h, _ones(bits)
                place = used[entry, section] * sizes[section] - tokens[entry, section]
                while place < gained:
                    when[count], what[count] = _place(bits, place), 2 * h + section
                    firsts[slot, when[count] + 1] += 1
                    place, count = place + sizes[section], count + 1
        for t in range(BLOCK):
            gains[slot, t, 0], gains[slot, t, 1] = steps[0, t], steps[1, t]
            firsts[slot, t + 1] += firsts[slot, t]
            steps[0, t] = firsts[slot, t]
        for i in range(count):
            moves[slot, steps[0, when[i]]] = what[i]
            steps[0, when[i]] += 1
        places[slot, 0], places[slot, 1] = 0, 0
    return True


@kernel
def grow(pool: Any, slots: Any, ahead: Any, held: Any) -> Any:
    """Make the next step of its blocks; held (R, 4) += tokens and pages, high and low, that slots gain.

    Returns the number of new pages, and of stored tokens; -1 pages, and nothing changed, if pages or cells are lacking
    or a block has ended.
    """
    cells, used, tokens, ring, ends = pool
    classes, gains, firsts, moves, places = ahead
    total, stored, heads, fits = np.int64(0), np.int64(0), classes.shape[2], True
    for s in range(slots.size):
        slot, at = slots[s], places[slots[s], 0]
        if at == BLOCK:
            return np.int64(-1), stored
        for i in range(firsts[slot, at], firsts[slot, at + 1]):
            entry = slot * heads + moves[slot, i] // 2
            fits &= used[entry, 0] + used[entry, 1] < cells.shape[1]
        total += firsts[slot, at + 1] - firsts[slot, at]
    if not fits or total > ends[1] - ends[0]:
        return np.int64(-1), stored
    front = ends[0] % ring.size
    for s in range(slots.size):
        slot, at, low = slots[s], places[slots[s], 0], np.int64(0)
        first, last = firsts[slot, at], firsts[slot, at + 1]
        for i in range(first, last):
            entry, section = slot * heads + moves[slot, i] // 2, np.int64(moves[slot, i] % 2)
            append(cells[entry], used[entry], section, ring[front])
            low += section
            front = front + 1 if front + 1 < ring.size else np.int64(0)
        held[slot, 0] += gains[slot, at, 1]
        held[slot, 1] += gains[slot, at, 0] - gains[slot, at, 1]
        held[slot, 2] += last - first - low
        held[slot, 3] += low
        stored += gains[slot, at, 0]
        places[slot, 0] = at + 1
    ends[0] += total
    return total, stored


@kernel
def settle(pool: Any, slots: Any, ahead: Any) -> Any:
    """Add to `tokens` what slots gained in steps of their blocks."""
    cells, used, tokens, ring, ends = pool
    classes, gains, firsts, moves, places = ahead
    heads = classes.shape[2]
    for s in range(slots.size):
        slot = slots[s]
        now, before = places[slot, 0], places[slot, 1]
        if now > before:
            made = (ALL >> U(BLOCK - now)) & (ALL << U(before))
            for h in range(heads):
                stored, high = classes[slot, 0, h] & made, classes[slot, 1, h] & made
                tokens[slot * heads + h, 0] += _ones(high)
                tokens[slot * heads + h, 1] += _ones(stored & ~high)
            places[slot, 1] = now


@helper
def _ones(bits):  # type: ignore[no-untyped-def]
    """How many bits are 1."""
    return np.int64((_in_bytes(bits) * ONES) >> U(56))


@helper
def _in_bytes(bits):  # type: ignore[no-untyped-def]
    """Numbers of ones in every byte."""
    twos = bits - ((bits >> U(1)) & PAIRS)
    fours = (twos & FOURS) + ((twos >> U(2)) & FOURS)
    return (fours + (fours >> U(4))) & BYTES


@helper
def _place(bits, index):  # type: ignore[no-untyped-def]
    """Where the 1 with this index is; there is one."""
    sums, byte, rest = _in_bytes(bits) * ONES, np.int64(0), np.int64(index)
    for i in range(7):  # a byte of `sums` has the ones up to it
        byte += np.int64(np.int64((sums >> U(8 * i)) & U(255)) <= index)
    if byte > 0:
        rest -= np.int64((sums >> U(8 * byte - 8)) & U(255))
    left = (bits >> U(8 * byte)) & U(255)
    for _ in range(rest):
        left &= left - U(1)
    lowest = left & (~left + U(1))
    return 8 * byte + _ones(lowest - U(1))
