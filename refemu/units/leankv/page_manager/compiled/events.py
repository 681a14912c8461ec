"""The four calls of page_manager, compiled: for models, and the walk over all events of many managers.

Paper: [leankv §5.3]. A kernel that gets an invalid call changes nothing and returns -1 or False;
the readable manager gives the reason.

Everywhere: pool = cells (E, L), used (E, 2), tokens (E, 2), ring (pages,), ends (2,): pages that left and came;
entries (K,) numbers of entries. Written: counts and prefix, pages and ends of the regions of the ring, (K,), or (2K,)
with high before low; ids (pages,).
"""

import numpy as np

from refemu.arith.jit import callee, kernel
from refemu.units.leankv.page_manager.registers import FINISH, PROMPT, RELEASE, STEP
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


H_NAME, H_PROMPT, H_RUNNING = range(3)  # entries of a row of `held`, one a slot: name (-1: free), tokens, compressed
ALLOCATED, RECYCLED, LEVELS, ADDS, SHORTFALL, STEP_PAGES, PRUNED = range(7)  # of `totals`, in the order of the counters


@kernel
def walk(  # type: ignore[no-untyped-def]
    op, members, names, prompts, high, low, sizes, sums, moved, registers, requests, totals
):
    """Run all events and return whether each is admitted; inputs by port, (devices, events, lanes).

    sizes: as above. sums: (elements, 2) levels and additions of a prefix sum. moved: counts,
    prefix, ids, lacking, (devices, events, lanes), zeros and -1 for ids. registers: a pool before the first event and
    after every one, (devices, 1 + events, ...). requests: `held`; slots in the order in which they are free; numbers
    of slots that left this order and came; work space for a prefix. totals: counters.
    """
    counts, prefix, ids, lacking = moved
    cells, used, tokens, ring, ends = registers
    held, free, queue, entries, lengths, room = requests
    heads = entries.size // free.size
    for device in range(op.shape[0]):
        for slot in range(free.size):
            held[slot, H_NAME], free[slot] = -1, slot
        queue[0], queue[1] = 0, free.size
        for event in range(op.shape[1]):
            kind, size = op[device, event], members[device, event] * heads
            lists = names[device, event], prompts[device, event], members[device, event]
            if not _named(kind, lists, (held, free, queue), entries, lengths, heads):
                return False
            for entry in range(entries.size):
                _carry(cells[device, event, entry], cells[device, event + 1, entry])
                _carry(used[device, event, entry], used[device, event + 1, entry])
                _carry(tokens[device, event, entry], tokens[device, event + 1, entry])
            _carry(ring[device, event], ring[device, event + 1])
            _carry(ends[device, event], ends[device, event + 1])
            after = event + 1
            pool = (
                cells[device, after],
                used[device, after],
                tokens[device, after],
                ring[device, after],
                ends[device, after],
            )
            moves = counts[device, event], prefix[device, event], lacking[device, event], room, ids[device, event]
            kept = high[device, event, :size], low[device, event, :size]
            if not called(kind, pool, sizes, entries[:size], lengths[:size], *kept, moves, sums, totals):
                return False
    return True


@callee
def called(kind, pool, sizes, entries, lengths, high, low, moves, sums, totals):  # type: ignore[no-untyped-def]
    """Make a call for entries, with their prompts of `lengths` and what they retain or gain; whether it is admitted.

    moves: counts, prefix, lacking, after, ids, as above, of at least as many elements. sums, totals: as of `walk`.
    """
    elements = entries.size * (1 + kind // 2)  # high and low pages separate in a step and a finish
    counts, prefix, lacking, after = moves[0][:elements], moves[1][:elements], moves[2][:elements], moves[3][:elements]
    came, went, most, pruned, scans = np.int64(0), np.int64(0), np.int64(0), np.int64(0), np.int64(1)
    if kind == PROMPT:
        came = prompt_allocate(pool, sizes, entries, lengths, counts, prefix, moves[4])
    elif kind == RELEASE:
        tables = counts, prefix, lacking, after, moves[4]
        went, came, pruned = prompt_release(pool, sizes, entries, lengths, high, low, *tables)
        totals[SHORTFALL] += came
        scans += came > 0
    elif kind == STEP:
        came, most, pruned = step_allocate(pool, sizes, entries, high, low, counts, prefix, moves[4])
    else:
        went = finish(pool, sizes, entries, counts, prefix, moves[4])
    if min(came, went) < 0:
        return False
    totals[ALLOCATED] += came
    totals[RECYCLED] += went
    totals[LEVELS] += scans * sums[elements, 0]
    totals[ADDS] += scans * sums[elements, 1]
    totals[STEP_PAGES] = max(totals[STEP_PAGES], most)
    totals[PRUNED] += pruned
    return True


@callee
def _named(kind, lists, slots, entries, lengths, heads):  # type: ignore[no-untyped-def]
    """entries, lengths <- those of all heads of the sequences; change their phase; return whether all are valid."""
    names, prompts, count = lists
    held, free, queue = slots
    fine = kind != PROMPT or count <= queue[1] - queue[0]
    for i in range(count):
        slot = np.int64(-1)
        for s in range(free.size):
            if held[s, H_NAME] == names[i]:
                slot = np.int64(s)
        if kind == PROMPT:
            fine &= slot < 0 and prompts[i] > 0
            slot = free[queue[0] % free.size]
            queue[0] += 1
            held[slot, H_NAME], held[slot, H_PROMPT], held[slot, H_RUNNING] = names[i], prompts[i], 0
        else:
            fine &= slot >= 0 and (kind == FINISH or held[slot, H_RUNNING] == np.int64(kind == STEP))
        for h in range(heads):
            entries[i * heads + h], lengths[i * heads + h] = slot * heads + h, held[slot, H_PROMPT]
    for i in range(count):
        slot = entries[i * heads] // heads
        for j in range(i):
            fine &= entries[j * heads] != entries[i * heads]
        if kind == RELEASE:
            held[slot, H_RUNNING] = 1
        if kind == FINISH:
            held[slot, H_NAME], free[queue[1] % free.size] = -1, slot
            queue[1] += 1
    return fine


@callee
def _carry(register, after):  # type: ignore[no-untyped-def]
    """Copy a register to the next event."""
    for i in range(register.size):
        after[i] = register[i]
