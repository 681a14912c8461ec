"""Compiled twin of free_page_list.run: same arguments, same Result. Read free_page_list.py first. [leankv §5.2]"""

from math import prod
from typing import Any

import numpy as np

from refemu.arith.checks import refuse_as
from refemu.arith.jit import kernel
from refemu.units import free_page_list
from refemu.units.free_page_list import FreePageList, Result
from refemu.units.unit import admit_events


def run(op: Any, count: Any, ids: Any, *, pages: int = 32) -> Result:
    """As `free_page_list.run`."""
    model = FreePageList(pages)
    declared = model.ports
    arrays = admit_events(model.name, declared.inputs, (op, count, ids))
    shape = arrays[0].shape
    devices = prod(shape[:-1])
    flat = [np.ascontiguousarray(array).astype(np.int64) for array in arrays]
    outputs: dict[str, Any] = {
        port.name: np.empty(shape + ((pages,) if port.lanes > 1 else ()), port.result_dtype)
        for port in declared.outputs + declared.state
    }
    views = [
        output.reshape(devices, shape[-1], *((pages,) if name in ("taken", "ring") else ()))
        for name, output in outputs.items()
    ]
    counters = np.zeros(3, np.int64)
    if not _run(
        flat[0].reshape(devices, shape[-1]),
        flat[1].reshape(devices, shape[-1]),
        flat[2].reshape(devices, shape[-1], pages),
        *views,
        counters,
    ):
        refuse_as(free_page_list.run, op, count, ids, pages=pages)
    allocated, recycled, wraps = counters.tolist()
    return Result(**outputs, allocated=allocated, recycled=recycled, wraps=wraps)


@kernel
def _run(
    op,
    count,
    ids,
    taken,
    list_start,
    list_end,
    free,  # type: ignore[no-untyped-def]
    ring,
    head,
    tail,
    counters,
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
