"""A block of threads on a GPU: what its warps read, its shared memory and registers, conflicts, and how many fit.

Paper: [leankv §6.2]: one block for each head and sequence, a warp for each page, a tree at the end. Decision:
D-leankv-72 (what is in shared memory, and where).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from refemu.arith import integers
from refemu.units.declaration import decides
from refemu.units.leankv.paged_attention import WARP, Arithmetic, Pages, head_loads

BANKS = 32  #: banks of shared memory, of 4 bytes


@dataclass(frozen=True)
class Multiprocessor:
    """Limits of a multiprocessor of compute capability 8.9, as of an L40, from the vendor's programming guide."""

    threads: int = 1536  #: threads at a time
    blocks: int = 24  #: blocks at a time
    shared: int = 100 << 10  #: bytes of shared memory
    reserved: int = 1 << 10  #: bytes of it that the system takes for each block
    registers: int = 1 << 16  #: of 32 bits
    grain: int = 256  #: registers are given to a warp in multiples of this


@dataclass(frozen=True)
class WarpReads:
    """Reads of a warp of a head."""

    warp: int  #: number in the block
    pages: int  #: pages that it takes
    loads: int  #: load instructions
    sectors: int  #: 32-byte sectors that they touch
    tokens: int  #: tokens in them
    expansions: int  #: elements of keys and values that it dequantizes


@dataclass(frozen=True)
class Occupancy:
    """Blocks on a multiprocessor."""

    threads: int  #: of a block
    shared: int  #: bytes of a block
    registers: int  #: of a thread, for accumulators and a query alone
    blocks: int  #: that fit together
    bound: str  #: what limits them: "threads", "blocks", "shared" or "registers"
    share: float  #: of the multiprocessor's threads


def reads(pages: Pages, entry: Sequence[int], high: int, low: int, warps: int) -> list[WarpReads]:
    """Count what each warp of a head reads. pages, entry, high, low, warps: as for `head_loads`. [leankv §6.2]"""
    counts = np.zeros((warps, 5), np.int64)
    for each in head_loads(pages, entry, high, low, warps):
        counts[each.warp, 1] += 1
        counts[each.warp, 2] += each.load.sectors(each.page * pages.high.size)
    for page, tokens in zip(pages.sections, (high, low), strict=True):
        for number in range(-(-tokens // page.tokens)):
            counts[number % warps, 0] += 1
            counts[number % warps, 3] += min(page.tokens, tokens - number * page.tokens)
    counts[:, 4] = 2 * pages.high.head_size * counts[:, 3]
    return [WarpReads(warp, *row) for warp, row in enumerate(counts.tolist())]


def balance(work: Sequence[int]) -> float:
    """Mean over maximum of the work of each warp or head: 1 if all are equal. [leankv §6.2]"""
    return int(integers.total(np.array(work, np.int64))) / (len(work) * max(work)) if any(work) else 1.0


@decides("D-leankv-72")
def occupancy(
    pages: Pages, arithmetic: Arithmetic, heads: int, tokens: int, limits: Multiprocessor | None = None
) -> Occupancy:
    """Count the blocks that fit on a multiprocessor. [leankv §6.2]"""
    limits, features = limits or Multiprocessor(), pages.high.head_size
    threads = arithmetic.warps * WARP
    queries, logits, partial = 2 * heads * features, 4 * heads * tokens, 4 * heads * arithmetic.warps
    joined = 4 * heads * features * (arithmetic.warps + 1 >> 1)
    shared = queries + max(logits, joined) + 2 * partial
    group = arithmetic.key_threads or pages.high.k_group
    registers = heads * -(-features // pages.high.v_group) + -(-features // (2 * group))
    whole = arithmetic.warps * (-(-registers * WARP // limits.grain) * limits.grain)
    fitting = {
        "threads": limits.threads // threads,
        "blocks": limits.blocks,
        "shared": limits.shared // (shared + limits.reserved),
        "registers": limits.registers // whole,
    }
    bound = min(fitting, key=lambda name: fitting[name])
    return Occupancy(threads, shared, registers, fitting[bound], bound, fitting[bound] * threads / limits.threads)


@decides("D-leankv-72")
def bank_conflicts(pages: Pages, arithmetic: Arithmetic) -> dict[str, int]:
    """Count the passes of a warp's access to shared memory: 1 without a conflict. [leankv §6.2]"""
    page, lane = pages.high, np.arange(WARP)
    group = arithmetic.key_threads or page.k_group
    features = page.head_size // group  # of a thread, one after the other
    rows, slots = lane // page.v_group, arithmetic.value_slots or page.v_vec
    return {
        "queries": _passes(lane % group * features // 2),
        "logits": _passes(lane // group),
        "probabilities": _passes(rows * slots),
        "accumulators": _passes(lane % page.v_group * (page.head_size // page.v_group)),
    }


def _passes(words: np.ndarray) -> int:
    """Most different words of one bank; threads that read the same word share a pass."""
    return int(np.bincount(np.unique(words) % BANKS).max())
