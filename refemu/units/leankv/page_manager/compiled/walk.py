"""All events of many page managers, compiled: the slots of their sequences, and every register after each event.

Paper: [leankv §5.3]. The calls themselves are the kernels of events.py.
"""

import numpy as np

from refemu.arith.jit import callee, kernel
from refemu.units.leankv.page_manager.compiled.events import finish, prompt_allocate, prompt_release, step_allocate
from refemu.units.leankv.page_manager.registers import FINISH, PROMPT, RELEASE, STEP

H_NAME, H_PROMPT, H_RUNNING = range(3)  # entries of a row of `held`, one a slot: name (-1: free), tokens, compressed
ALLOCATED, RECYCLED, LEVELS, ADDS, SHORTFALL, STEP_PAGES, PRUNED = range(7)  # of `totals`, in the order of the counters


@kernel
def walk(  # type: ignore[no-untyped-def]
    op, members, names, prompts, high, low, sizes, sums, moved, registers, requests, totals
):
    """Run all events and return whether each is admitted; inputs by port, (devices, events, lanes).

    sizes: as in events.py. sums: (elements, 2) levels and additions of a prefix sum. moved: counts,
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
            pool = cells[device, after], used[device, after], tokens[device, after], ring[device, after], ends[device, after]
            elements = size * (1 + kind // 2)  # high and low pages separate in a step and a finish
            called, long, out = entries[:size], lengths[:size], ids[device, event]
            pages, places = counts[device, event, :elements], prefix[device, event, :elements]
            more_high, more_low = high[device, event, :size], low[device, event, :size]
            came, went, most, pruned = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
            if kind == PROMPT:
                came = prompt_allocate(pool, sizes, called, long, pages, places, out)
            elif kind == RELEASE:
                kept = more_high, more_low, pages, places, lacking[device, event, :size], room[:size], out
                went, came, pruned = prompt_release(pool, sizes, called, long, *kept)
                totals[SHORTFALL] += came
            elif kind == STEP:
                came, most, pruned = step_allocate(pool, sizes, called, more_high, more_low, pages, places, out)
            else:
                went = finish(pool, sizes, called, pages, places, out)
            if min(came, went) < 0:
                return False
            scans = 1 + np.int64(kind == RELEASE and came > 0)
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
