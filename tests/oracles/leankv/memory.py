"""LeanKV's memory management with dictionaries and queues [leankv §5.2, §5.3].

prefix(counts, base)      inclusive sums, levels, additions
FreeList                  the circular list as a queue of free ids, and the ring of its storage
Manager                   pages of every (sequence, layer, head), by events; `cells(...)` is its table entry
"""

from collections import deque
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

Head = tuple[int, int, int]  #: sequence, layer, head


def prefix(counts: Sequence[int], base: int = 0) -> tuple[list[int], int, int]:
    """Inclusive sums plus `base`; levels and additions of a Hillis-Steele network."""
    m = len(counts)
    levels = (m - 1).bit_length() if m else 0
    additions = sum(max(0, m - 2**d) for d in range(levels))
    return [base + total for total in accumulate(counts)], levels, additions


class FreeList:
    """Ids leave at the front and come back at the end."""

    def __init__(self, pages: int) -> None:
        self.ring = list(range(pages))
        self.free = deque(self.ring)
        self.head, self.tail = 0, pages

    @property
    def bounds(self) -> tuple[int, int]:
        """First and last free place of the ring."""
        return self.head % len(self.ring), (self.tail - 1) % len(self.ring)

    def allocate(self, counts: Sequence[int]) -> list[list[int]]:
        """As many ids as each asks for, in turn; nothing changes if there are too few."""
        if sum(counts) > len(self.free):
            raise LookupError(f"{sum(counts)} pages needed, {len(self.free)} free")
        self.head += sum(counts)
        return [[self.free.popleft() for _ in range(count)] for count in counts]

    def recycle(self, parts: Sequence[Sequence[int]]) -> None:
        """Ids of each in turn."""
        for page in (page for part in parts for page in part):
            self.free.append(page)
            self.ring[self.tail % len(self.ring)] = page
            self.tail += 1


class Held(NamedTuple):
    """Pages of one head; a prompt's are all in `high` until the release."""

    high: list[int]
    low: list[int]


class Manager:
    """All pages. `t_high`, `t_low`: tokens per page; `reserve` pages more for a prompt; `length` cells of an entry."""

    def __init__(
        self,
        pages: int,
        layers: int,
        heads: int,
        t_high: int,
        t_low: int | None,
        max_len: int,
        reserve: int = 0,
        extra: int = 1,
        slots: int = 1 << 30,
    ) -> None:
        self.list = FreeList(pages)
        self.layers, self.heads, self.t_high, self.t_low = layers, heads, t_high, t_low
        self.reserve = reserve if t_low else 0
        self.length = -(-max_len // t_high) + extra
        self.pages: dict[Head, Held] = {}
        self.tokens: dict[Head, tuple[int, int]] = {}
        self.slots: dict[int, int] = {}
        self.free_slots, self.next_slot, self.all_slots = deque[int](), 0, slots

    def all_heads(self, sequences: Sequence[int]) -> list[Head]:
        """In the order of every prefix sum."""
        return [(s, layer, head) for s in sequences for layer in range(self.layers) for head in range(self.heads)]

    def prompt_allocate(self, prompts: dict[int, int]) -> None:
        """Sequence -> prompt length: enough high pages for each head, and the reserve."""
        heads = self.all_heads(list(prompts))
        counts = [-(-prompts[s] // self.t_high) + self.reserve for s, _, _ in heads]
        for head, ids in zip(heads, self.list.allocate(counts), strict=True):
            self.pages[head] = Held(ids, [])
        for sequence in prompts:
            if self.next_slot < self.all_slots:
                self.slots[sequence], self.next_slot = self.next_slot, self.next_slot + 1
            else:
                self.slots[sequence] = self.free_slots.popleft()

    def prompt_release(self, kept: dict[Head, tuple[int, int]]) -> None:
        """Tokens (high, low) of every head of the prompts: what it lacks comes, what is left goes."""
        heads = self.all_heads(list(dict.fromkeys(s for s, _, _ in kept)))
        need = {head: (-(-kept[head][0] // self.t_high), -(-kept[head][1] // (self.t_low or 1))) for head in heads}
        lacking = [max(0, sum(need[head]) - len(self.pages[head].high)) for head in heads]
        for head, ids in zip(heads, self.list.allocate(lacking), strict=True):
            self.pages[head].high.extend(ids)
        surplus = []
        for head in heads:
            ids, (high, low) = self.pages[head].high, need[head]
            self.pages[head] = Held(ids[:high], ids[high : high + low])
            surplus.append(ids[high + low :])
            self.tokens[head] = kept[head]
        self.list.recycle(surplus)

    def step_allocate(self, deltas: dict[Head, tuple[int, int]], lazy: bool = True) -> dict[Head, int]:
        """Deltas (high, low) of every head: a page where a full section grows; not `lazy`: wherever one is full.

        Counts of pages per head. The tokens of the step are added.
        """
        heads = self.all_heads(list(dict.fromkeys(s for s, _, _ in deltas)))
        counts = []
        for head in heads:
            (high, low), grow = self.tokens[head], deltas[head]
            full_high = high == len(self.pages[head].high) * self.t_high
            full_low = self.t_low is not None and low == len(self.pages[head].low) * self.t_low
            counts += [int(full_high and (grow[0] > 0 or not lazy)), int(full_low and (grow[1] > 0 or not lazy))]
        regions = self.list.allocate(counts)
        for i, head in enumerate(heads):
            self.pages[head].high.extend(regions[2 * i])
            self.pages[head].low.extend(regions[2 * i + 1])
            high, low = self.tokens[head]
            self.tokens[head] = (high + deltas[head][0], low + deltas[head][1])
        return {head: counts[2 * i] + counts[2 * i + 1] for i, head in enumerate(heads)}

    def finish(self, sequences: Sequence[int]) -> None:
        """All pages of the sequences go back: of each head the high ones, then the low ones."""
        heads = self.all_heads(sequences)
        self.list.recycle([self.pages[head].high + self.pages[head].low for head in heads])
        for head in heads:
            del self.pages[head], self.tokens[head]
        self.free_slots.extend(self.slots.pop(s) for s in sequences)

    def cells(self, head: Head) -> dict[int, int]:
        """Cell -> page: high ones from the left, low ones from the right."""
        held = self.pages[head]
        if len(held.high) + len(held.low) > self.length:
            raise LookupError(f"{len(held.high) + len(held.low)} cells of {self.length}")
        return dict(enumerate(held.high)) | {self.length - 1 - j: page for j, page in enumerate(held.low)}
