"""The four calls of page_manager, compiled: for models, and for all events of many managers.

Paper: [leankv §5.3]. A kernel that gets an invalid call changes nothing and returns -1 or False;
the readable manager gives the reason.

Everywhere: pool = cells (E, L), used (E, 2), tokens (E, 2), ring (pages,), ends (2,): pages that left and came;
entries (K,) numbers of entries. Written: counts and prefix, pages and ends of the regions of the ring, (K,), or (2K,)
with high before low; ids (pages,).
"""

import numpy as np

from refemu.arith.jit import callee, kernel
from refemu.units.leankv.page_table.compiled import append, clear, fill, split

# Entries of `sizes`: tokens of a high and of a low page (0: none), extra pages for a prompt, whether pages wait for a
# token, whether cells are scrubbed.
Z_HIGH, Z_LOW, Z_RESERVE, Z_LAZY, Z_SCRUB = range(5)


@kernel
def prompt_allocate(pool, sizes, entries, lengths, counts, prefix, ids):  # type: ignore[no-untyped-def]
    """Allocate pages for prompts of `lengths` (K,) tokens. Returns their number; -1 for an invalid call."""
    cells, used, tokens, ring, ends = pool
    total, fits = np.int64(0), True
    for i in range(entries.size):
        counts[i] = -(-lengths[i] // sizes[Z_HIGH]) + sizes[Z_RESERVE]
        total += counts[i]
        fits &= counts[i] <= cells.shape[1]
    if not fits or total > ends[1] - ends[0]:
        return np.int64(-1)
    _take(ring, ends, counts, prefix, ids)
    at = np.int64(0)
    for i in range(entries.size):
        entry, count = entries[i], counts[i]
        fill(cells, used, entry, count, ids, at)
        tokens[entry, 0], at = lengths[i], at + count
    return total


@kernel
def prompt_release(  # type: ignore[no-untyped-def]
    pool, sizes, entries, lengths, high, low, counts, prefix, lacking, after, ids
):
    """Reduce prompts of `lengths` (K,) tokens to `high` and `low`; lacking, after <- counts and prefix of new pages.

    Returns the number of recycled pages, which are first in `ids`, of new pages, and of pruned tokens; -1 pages for an
    invalid call.
    """
    cells, used, tokens, ring, ends = pool
    went, came, pruned, fits = np.int64(0), np.int64(0), np.int64(0), True
    for i in range(entries.size):
        kept = -(-high[i] // sizes[Z_HIGH]) - (-low[i] // max(sizes[Z_LOW], np.int64(1)))
        held = used[entries[i], 0]
        lacking[i] = max(kept - held, np.int64(0))
        counts[i] = held + lacking[i] - kept
        went, came, pruned = went + counts[i], came + lacking[i], pruned + lengths[i] - high[i] - low[i]
        fits &= min(high[i], low[i]) >= 0 and high[i] + low[i] <= lengths[i] and (sizes[Z_LOW] > 0 or low[i] == 0)
        fits &= held + lacking[i] <= cells.shape[1]
    if not fits or came > ends[1] - ends[0]:
        return np.int64(-1), came, pruned
    _take(ring, ends, lacking, after, ids[went:])
    new, old = went, 0
    for i in range(entries.size):
        entry = entries[i]
        fill(cells, used, entry, lacking[i], ids, new)
        new += lacking[i]
        stays = -(-high[i] // sizes[Z_HIGH])
        old += split(cells, used, entry, stays, used[entry, 0] - counts[i] - stays, sizes[Z_SCRUB], ids, old)
        tokens[entry, 0], tokens[entry, 1] = high[i], low[i]
    _give(ring, ends, counts, prefix, ids)
    return went, came, pruned


@kernel
def step_allocate(pool, sizes, entries, high, low, counts, prefix, ids):  # type: ignore[no-untyped-def]
    """Grow sections by `high` and `low` (K,). Returns the number of new pages, the most of an entry, and pruned tokens.

    -1 pages for an invalid call.
    """
    cells, used, tokens, ring, ends = pool
    total, most, pruned, fits = np.int64(0), np.int64(0), np.int64(entries.size), True
    for i in range(entries.size):
        entry, need = entries[i], np.int64(0)
        for s in range(2):
            more = s * low[i] + (1 - s) * high[i]
            full = sizes[s] > 0 and tokens[entry, s] == used[entry, s] * sizes[s]
            counts[2 * i + s] = np.int64(full and (more > 0 or sizes[Z_LAZY] == 0))
            need += counts[2 * i + s]
        total, most, pruned = total + need, max(most, need), pruned - high[i] - low[i]
        fits &= min(high[i], low[i]) >= 0 and high[i] + low[i] <= 1 and (sizes[Z_LOW] > 0 or low[i] == 0)
        fits &= used[entry, 0] + used[entry, 1] + need <= cells.shape[1]
    if not fits or total > ends[1] - ends[0]:
        return np.int64(-1), most, pruned
    _take(ring, ends, counts, prefix, ids)
    at = 0
    for i in range(entries.size):
        entry = entries[i]
        for s in range(2):
            if counts[2 * i + s] > 0:
                append(cells, used, entry, s, ids[at])
                at += 1
        tokens[entry, 0] += high[i]
        tokens[entry, 1] += low[i]
    return total, most, pruned


@kernel
def finish(pool, sizes, entries, counts, prefix, ids):  # type: ignore[no-untyped-def]
    """Recycle all pages of the entries. Returns their number."""
    cells, used, tokens, ring, ends = pool
    total = np.int64(0)
    for i in range(entries.size):
        entry = entries[i]
        counts[2 * i], counts[2 * i + 1] = used[entry, 0], used[entry, 1]
        tokens[entry, 0], tokens[entry, 1] = 0, 0
        total += clear(cells, used, entry, sizes[Z_SCRUB], ids, total)
    _give(ring, ends, counts, prefix, ids)
    return total


@callee
def _take(ring, ends, counts, prefix, ids):  # type: ignore[no-untyped-def]
    """Take pages from the ring for regions of `counts`."""
    base, total = ends[0] % ring.size, np.int64(0)
    for i in range(counts.size):
        total += counts[i]
        prefix[i] = base + total
    first = min(total, ring.size - base)
    ids[:first] = ring[base : base + first]
    ids[first:total] = ring[: total - first]
    ends[0] += total


@callee
def _give(ring, ends, counts, prefix, ids):  # type: ignore[no-untyped-def]
    """Return pages of regions of `counts` to the ring."""
    base, total = ends[1] % ring.size, np.int64(0)
    for i in range(counts.size):
        total += counts[i]
        prefix[i] = base + total
    first = min(total, ring.size - base)
    ring[base : base + first] = ids[:first]
    ring[: total - first] = ids[first:total]
    ends[1] += total
