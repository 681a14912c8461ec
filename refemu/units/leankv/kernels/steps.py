"""Calls of the memory managers of many layers, one request each, and a check of what they store. [leankv §5.3]"""

import numpy as np

from refemu.arith.jit import kernel
from refemu.units.leankv.twins.page_manager.events import (
    Z_SCRUB,
    finish,
    prompt_allocate,
    prompt_release,
    step_allocate,
)

LOAD, ADMIT, STEP = range(3)  # operations; any other is the end of a request
MOST = Z_SCRUB + 1  # of `sizes`: most tokens of a prompt
SEEN, PROMPT = range(2)  # of a row of `requests`: tokens so far (0: there is none), tokens of the prompt


@kernel
def call(op, prompt, grow, sizes, sums, cells, used, tokens, ring, ends, requests, loaded, taken, totals):
    """Whether the call of every device (D,) is admitted; grow (D, H, 2): tokens that a prompt keeps or sections gain.

    sizes: as the manager's kernels have them, and most tokens of a prompt. sums: levels and additions of prefix sums
    over H and 2 H elements. taken (D, H, 2) <- pages that a step takes. totals += pages allocated, recycled, levels,
    additions, tokens pruned.
    """
    heads, pages = cells.shape[1], ring.shape[1]
    entries, ids = np.arange(heads), np.empty(pages, np.int64)
    counts, prefix = np.empty(2 * heads, np.int64), np.empty(2 * heads, np.int64)
    lacking, after, lengths = np.empty(heads, np.int64), np.empty(heads, np.int64), np.empty(heads, np.int64)
    for d in range(op.size):
        pool = (cells[d], used[d], tokens[d], ring[d], ends[d])
        high, low = grow[d, :, 0].copy(), grow[d, :, 1].copy()
        if op[d] == LOAD:
            continue
        if (op[d] == ADMIT) != (requests[d, SEEN] == 0):
            return False
        if op[d] == ADMIT:
            if prompt[d] < 1 or prompt[d] > sizes[MOST]:
                return False
            lengths[:] = prompt[d]
            came = prompt_allocate(pool, sizes, entries, lengths, counts[:heads], prefix[:heads], ids)
            if came < 0:
                return False
            went, more, pruned = prompt_release(
                pool, sizes, entries, lengths, high, low, counts[:heads], prefix[:heads], lacking, after, ids
            )
            if went < 0:
                return False
            requests[d, SEEN], requests[d, PROMPT] = prompt[d], prompt[d]
            loaded[d, :, :] = 0
            scans = 2 + np.int64(more > 0)
            totals[0] += came + more
            totals[1] += went
            totals[2] += scans * sums[0]
            totals[3] += scans * sums[1]
            totals[4] += pruned
        elif op[d] == STEP:
            came, _, pruned = step_allocate(pool, sizes, entries, high, low, counts, prefix, ids)
            if came < 0:
                return False
            at = 0
            for i in range(2 * heads):
                if counts[i] > 0:
                    taken[d, i // 2, i % 2] = ids[at]
                    at += 1
            requests[d, SEEN] += 1
            totals[0] += came
            totals[2] += sums[2]
            totals[3] += sums[3]
            totals[4] += pruned
        else:
            totals[1] += finish(pool, sizes, entries, counts, prefix, ids)
            totals[2] += sums[2]
            totals[3] += sums[3]
            requests[d, SEEN], requests[d, PROMPT] = 0, 0
            loaded[d, :, :] = 0
    return True


@kernel
def misplaced(position, lengths, border):
    """Whether a low token is of the window: position (D, H, slots), lengths (D, H, 2), border (D,) the oldest of it."""
    for d in range(position.shape[0]):
        for h in range(position.shape[1]):
            for i in range(lengths[d, h, 0], lengths[d, h, 0] + lengths[d, h, 1]):
                if np.int64(position[d, h, i]) >= border[d]:
                    return True
    return False
