"""Compiled form of free_page_list: every event of many lists in one kernel. [leankv §5.2]

The kernel rejects an event without a reason; the readable list then runs for its message.
"""

from collections.abc import Sequence

import numpy as np

from refemu.arith.jit import kernel
from refemu.units.derivation import Arrays, Rejected, compiled_run
from refemu.units.leankv.free_page_list import UNIT, FreePageList


@compiled_run(UNIT)
def run(device: FreePageList, inputs: Arrays, outputs: Arrays) -> Sequence[int]:
    """All events of all lists; `ids`, `taken` and `ring` keep an axis of lanes where there is one page."""
    op, count, ids = (array.astype(np.int64) for array in inputs)
    taken, start, end, free, ring, head, tail = outputs
    wide, counters = (*op.shape, device.pages), np.zeros(3, np.int64)
    rows = taken.reshape(wide), start, end, free, ring.reshape(wide), head, tail
    if not _run(op, count, ids.reshape(wide), *rows, counters):
        raise Rejected
    return counters.tolist()


@kernel
def _run(  # type: ignore[no-untyped-def]
    op, count, ids, taken, list_start, list_end, free, ring, head, tail, counters
):
    """Whether every event is admitted."""
    pages = ids.shape[2]
    places, owned = np.empty(pages, np.int64), np.empty(pages, np.int64)
    for device in range(op.shape[0]):
        first, last = np.int64(0), np.int64(pages)
        for page in range(pages):
            places[page], owned[page] = page, 0
        for event in range(op.shape[1]):
            amount = count[device, event]
            for lane in range(pages):
                taken[device, event, lane] = -1
            if op[device, event] == 0:
                if amount > last - first:
                    return False
                for i in range(amount):
                    page = places[(first + i) % pages]
                    taken[device, event, i], owned[page] = page, 1
                counters[0] += amount
                counters[2] += (first + amount) // pages - first // pages
                first += amount
            else:
                for i in range(amount):
                    page = ids[device, event, i]
                    if owned[page] == 0:
                        return False
                    places[(last + i) % pages], owned[page] = page, 0
                counters[1] += amount
                counters[2] += (last + amount) // pages - last // pages
                last += amount
            list_start[device, event], list_end[device, event] = first % pages, (last - 1) % pages
            free[device, event], head[device, event], tail[device, event] = last - first, first, last
            for page in range(pages):
                ring[device, event, page] = places[page]
    return True
