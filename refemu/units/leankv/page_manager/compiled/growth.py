"""Steps of compiled page_manager whose tokens are known in advance: as `step_allocate` with `lazy_pages`, in blocks.

Paper: [leankv §5.3]. A block has the classes of the tokens that a sequence gains in its next 64 steps, and what each
step changes: a head takes a page once in about 32 tokens. A step then moves the list of free pages and writes ids into
cells; `tokens` and `used` follow when they are read.

Everywhere: pool as in events.py; ahead = classes (R, 2, H) uint64, of which bit t says whether a token is stored, and
at the high precision, in step t of a block; gains (R, 64, 4): tokens and pages, high and low, of all heads by step;
firsts (R, 65) and moves (R, M): numbers of the cells that get pages in each step; places (R, 3): steps of the block
that were made, that `tokens` and `used` contain, and for which the cells suffice; R slots, H heads of all layers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from refemu.arith.jit import callee, kernel
from refemu.units.leankv.page_manager.requests import Request, Shape

BLOCK = 64  #: steps of a block
U = np.uint64
ALL = U(0xFFFFFFFFFFFFFFFF)
PAIRS, FOURS, BYTES, ONES = (U(int(2 * digits, 16)) for digits in ("5" * 8, "3" * 8, "0F" * 4, "01" * 4))


@dataclass(frozen=True)
class Steps:
    """Sequences that grow together, step by step."""

    names: list[int]
    requests: dict[int, Request]  #: by slot
    slots: np.ndarray  #: int64 (S,)
    sums: tuple[int, int]  #: levels and additions of the prefix sum of a step


def arrays(shape: Shape) -> tuple[np.ndarray, ...]:
    """`ahead` of a manager without blocks."""
    slots, heads = shape.slots, shape.layers * shape.heads
    least = min(shape.high_tokens, shape.low_tokens or shape.high_tokens)
    return (
        np.zeros((slots, 2, heads), np.uint64),
        np.zeros((slots, BLOCK, 4), np.int64),
        np.zeros((slots, BLOCK + 1), np.int64),
        np.zeros((slots, heads * min(BLOCK // least + 2, BLOCK)), np.int64),
        np.full((slots, 3), BLOCK),
    )


def growth(steps: Steps, ahead: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Tokens that heads gain in the next step: high and low, int64 (S, H) each."""
    at = ahead[-1][steps.slots, 0].astype(np.uint64)
    stored, high = (ahead[0][steps.slots, part] >> at[:, None] & U(1) for part in range(2))
    return [part.astype(np.int64) for part in (stored & high, stored & ~high)]


@kernel
def needed(slots: Any, ahead: Any) -> Any:
    """Pages that the next step takes, and the number of slots whose block has ended."""
    _, _, firsts, _, places = ahead
    pages, ended = np.int64(0), 0
    for s in range(slots.size):
        slot, at = slots[s], places[slots[s], 0]
        if at == BLOCK:
            ended += 1
        else:
            pages += firsts[slot, at + 1] - firsts[slot, at]
    return pages, ended


@kernel
def foresee(pool: Any, sizes: Any, slots: Any, classes: Any, ahead: Any) -> Any:
    """Begin blocks of some slots; classes (S, 2, H). False, and nothing changed: low tokens without a low precision."""
    cells, used, tokens, _, _ = pool
    known, gains, firsts, moves, places = ahead
    heads, length, digits = classes.shape[2], cells.shape[1], 1
    while heads > 1 << (digits - 1):
        digits += 1
    if sizes[1] == 0:
        for s in range(slots.size):
            for h in range(heads):
                if classes[s, 0, h] & ~classes[s, 1, h]:
                    return False
    settle(pool, sizes, slots, ahead)
    turn = -(-BLOCK // sizes[0])  # most high pages of a head in a block
    tries = turn + -(-BLOCK // sizes[1]) * np.int64(sizes[1] > 0)
    codes, planes = np.empty((tries, heads), np.int16), np.empty((2, digits, 1 << (digits - 1)), np.uint64)
    shift = np.empty(tries, np.int64)  # of a row: cells from the first free one of the run
    highs = 0  # rows of high pages, which come first
    bits, index = np.empty(heads, np.uint64), np.empty(heads, np.int64)
    when, what = np.empty((2, tries * heads), np.int64)
    tally, cursors = np.empty(2 * BLOCK, np.int64), np.empty(BLOCK, np.int64)
    for s in range(slots.size):
        slot, count, space = slots[s], np.int64(0), np.int64(BLOCK)
        known[slot], tally[:], rows = classes[s], 0, 0
        for section in range(2):
            flip = U(0) - U(section)
            for h in range(heads):
                entry = slot * heads + h
                bits[h] = classes[s, 0, h] & (classes[s, 1, h] ^ flip)
                index[h] = used[entry, section] * sizes[section] - tokens[entry, section]
            for i in range(turn + section * (tries - 2 * turn)):
                if _turns(bits, index, i * sizes[section], BLOCK * section, codes[rows]) > 0:
                    shift[rows], rows = i * (1 - 2 * section), rows + 1
            _count(bits, planes[section])
            if section == 0:
                highs = rows
        for h in range(heads):  # unsigned indices, here and below: a signed one can be negative, which takes time
            entry, begun = slot * heads + h, count
            high, low = entry * length + used[entry, 0], (entry + 1) * length - 1 - used[entry, 1]
            for row in range(U(highs)):
                when[U(count)], what[U(count)] = codes[row, h], high + shift[row]
                count += np.int64(codes[row, h] >= 0)
            for row in range(U(highs), U(rows)):
                when[U(count)], what[U(count)] = codes[row, h], low + shift[row]
                count += np.int64(codes[row, h] >= 0)
            left = length - used[entry, 0] - used[entry, 1]
            if count - begun > left:
                space = min(space, _step(when[begun:count], left))
        for move in range(U(count)):
            tally[U(when[move])] += 1
        firsts[slot, 0] = 0
        for t in range(BLOCK):
            for section in range(2):
                gained = np.int64(0)
                for plane in range(digits):
                    gained += np.int64((planes[section, plane, 0] >> U(t)) & U(1)) << plane
                gains[slot, t, section], gains[slot, t, 2 + section] = gained, tally[BLOCK * section + t]
            cursors[t] = firsts[slot, t]
            firsts[slot, t + 1] = firsts[slot, t] + tally[t] + tally[BLOCK + t]
        for move in range(U(count)):
            at = U(when[move] % BLOCK)
            moves[slot, U(cursors[at])] = what[move]
            cursors[at] += 1
        places[slot, 0], places[slot, 1], places[slot, 2] = 0, 0, space
    return True


@callee
def _turns(bits, index, more, code, codes):  # type: ignore[no-untyped-def]
    """codes (H,) <- code + where the 1 of `bits` (H,) with number `index` + more is, or -1; returns how many are."""
    count = np.int64(0)
    for h in range(bits.size):
        place, there = _place(bits[h], index[h] + more), np.int64(index[h] + more < _ones(bits[h]))
        codes[h] = (code + place + 1) * there - 1
        count += there
    return count


@kernel
def grow(pool: Any, slots: Any, ahead: Any, held: Any, gained: Any) -> Any:
    """Make the next step of its blocks; held (R, 4) += tokens and pages, high and low, that slots gain; gained: sums.

    False, and nothing changed, if pages or cells are lacking or a block has ended.
    """
    cells, _, _, ring, ends = pool
    _, gains, firsts, moves, places = ahead
    total, fits = np.int64(0), True
    for s in range(slots.size):
        slot, at = slots[s], places[slots[s], 0]
        fits &= at < places[slot, 2]
        if fits:
            total += firsts[slot, at + 1] - firsts[slot, at]
    if not fits or total > ends[1] - ends[0]:
        return False
    gained[:] = 0
    flat, front = cells.reshape(-1), U(ends[0] % ring.size)
    for s in range(slots.size):
        slot, at = slots[s], places[slots[s], 0]
        for i in range(U(firsts[slot, at]), U(firsts[slot, at + 1])):
            flat[U(moves[slot, i])] = ring[front]
            front += U(1)
            if front == U(ring.size):
                front = U(0)
        for i in range(4):
            held[slot, i] += gains[slot, at, i]
            gained[i] += gains[slot, at, i]
        places[slot, 0] = at + 1
    ends[0] += total
    return True


@kernel
def settle(pool: Any, sizes: Any, slots: Any, ahead: Any) -> Any:
    """Add to `tokens` and `used` what slots gained in steps of their blocks."""
    _, used, tokens, _, _ = pool
    classes, _, _, _, places = ahead
    heads = classes.shape[2]
    turns = -(-BLOCK // sizes[0]), -(-BLOCK // max(sizes[1], np.int64(1)))
    for s in range(slots.size):
        slot = slots[s]
        now, before = places[slot, 0], places[slot, 1]
        if now > before:
            steps = (ALL >> U(BLOCK - now)) & (ALL << U(before))
            for h in range(heads):
                for section in range(2):
                    bits, entry = classes[slot, 1, h] ^ (U(0) - U(section)), slot * heads + h
                    tokens[entry, section] += _ones(steps & classes[slot, 0, h] & bits)
                    more = tokens[entry, section] - used[entry, section] * sizes[section]
                    for k in range(turns[section]):  # no division: it takes longer than the rest
                        used[entry, section] += np.int64(more > k * sizes[section])
            places[slot, 1] = now


@callee
def _step(codes, index):  # type: ignore[no-untyped-def]
    """In which step a head takes the page with this index; codes modulo 64 are steps, in any order."""
    for step in range(BLOCK):
        before = np.int64(0)
        for code in codes:
            before += np.int64(code % BLOCK <= step)
        if before > index:
            return step
    return BLOCK


@callee
def _count(bits, planes):  # type: ignore[no-untyped-def]
    """planes (digits, 2 ** (digits - 1)) <- in column 0, binary digits of the sums of each bit of `bits` (H,).

    Columns are added pairwise, with one digit more each time.
    """
    width = planes.shape[1]
    carry = np.empty(width, np.uint64)
    planes[0] = U(0)
    planes[0, : bits.size] = bits
    for digits in range(1, planes.shape[0]):
        width //= 2
        carry[:width] = U(0)
        for digit in range(digits):
            for i in range(width):
                a, b, c = planes[digit, i], planes[digit, width + i], carry[i]
                both = a ^ b
                planes[digit, i], carry[i] = both ^ c, (a & b) | (both & c)
        planes[digits, :width] = carry[:width]


@callee
def _ones(bits):  # type: ignore[no-untyped-def]
    """How many bits are 1."""
    return np.int64((_in_bytes(bits) * ONES) >> U(56))


@callee
def _in_bytes(bits):  # type: ignore[no-untyped-def]
    """Numbers of ones in every byte."""
    twos = bits - ((bits >> U(1)) & PAIRS)
    fours = (twos & FOURS) + ((twos >> U(2)) & FOURS)
    return (fours + (fours >> U(4))) & BYTES


@callee
def _place(bits, index):  # type: ignore[no-untyped-def]
    """Where the 1 with this index is, by halves; there is one."""
    place, rest = np.int64(0), np.int64(index)
    for half in (32, 16, 8, 4, 2, 1):
        ones = _ones((bits >> U(place)) & (ALL >> U(64 - half)))
        beyond = np.int64(rest >= ones)
        rest -= beyond * ones
        place += beyond * half
    return place
