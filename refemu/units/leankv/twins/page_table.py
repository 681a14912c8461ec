"""Compiled twin of page_table.run; page_manager_events_jit appends, splits and clears entries by the same kernels.

Paper: [leankv §5.2]. Read page_table.py first.
"""

from math import prod
from typing import Any

import numpy as np

from refemu.arith.checks import refuse_as
from refemu.arith.jit import kernel
from refemu.units import page_table
from refemu.units.page_table import PageTable, Result
from refemu.units.unit import admit_events


def run(
    op: Any,
    entry: Any,
    section: Any,
    value: Any,
    other: Any,
    *,
    slots: int = 1,
    layers: int = 1,
    heads: int = 2,
    cells: int = 7,
    scrub: bool = False,
) -> Result:
    """As `page_table.run`."""
    model = PageTable(slots, layers, heads, cells, scrub)
    declared = model.ports
    arrays = admit_events(model.name, declared.inputs, (op, entry, section, value, other))
    shape = arrays[0].shape
    flat = prod(shape[:-1]), shape[-1]
    outputs: dict[str, Any] = {
        port.name: np.empty(shape + ((port.lanes,) if port.lanes > 1 else ()), port.result_dtype)
        for port in declared.outputs + declared.state
    }
    lanes = {port.name: port.lanes for port in declared.outputs + declared.state}
    views = [outputs[name].reshape(*flat, lanes[name]) for name in ("ids", "used", "tokens", "cells")]
    counters = np.zeros(2, np.int64)
    fine = _run(
        *(np.ascontiguousarray(array).astype(np.int64).reshape(flat) for array in arrays),
        model.scrub,
        *(outputs[name].reshape(flat) for name in ("page", "count", "high_pages", "low_pages")),
        *views,
        counters,
    )
    if not fine:
        refuse_as(
            page_table.run,
            op,
            entry,
            section,
            value,
            other,
            slots=slots,
            layers=layers,
            heads=heads,
            cells=cells,
            scrub=scrub,
        )
    written, given_back = counters.tolist()
    return Result(**outputs, written=written, given_back=given_back)


@kernel
def _run(
    op,
    entry,
    section,
    value,
    other,
    scrub,
    page,
    count,
    high_pages,  # type: ignore[no-untyped-def]
    low_pages,
    ids,
    used,
    tokens,
    cells,
    counters,
):
    """Whether every event is admitted."""
    entries, length = used.shape[2] // 2, ids.shape[2]
    for device in range(op.shape[0]):
        table, runs = np.full((entries, length), -1, np.int64), np.zeros((entries, 2), np.int64)
        held, given = np.zeros((entries, 2), np.int64), np.empty(length, np.int64)
        for event in range(op.shape[1]):
            e, s, v, w = (entry[device, event], section[device, event], value[device, event], other[device, event])
            found, back, kind = np.int64(-1), np.int64(0), op[device, event]
            if kind == 0:
                back = clear(table[e], runs[e], scrub, given)
                held[e, 0], held[e, 1] = 0, 0
            elif kind == 1:
                if runs[e, 0] + runs[e, 1] == length:
                    return False
                append(table[e], runs[e], s, v)
                counters[0] += 1
            elif kind == 2:
                if runs[e, 1] > 0 or v + w > runs[e, 0]:
                    return False
                back = split(table[e], runs[e], v, w, scrub, given)
                counters[0] += w
            elif kind == 3:
                held[e, 0], held[e, 1] = v, w
            else:
                if v >= runs[e, s]:
                    return False
                found = table[e, v] * (1 - s) + table[e, (length - 1 - v) * s] * s
            counters[1] += back
            page[device, event], count[device, event] = found, back
            high_pages[device, event], low_pages[device, event] = runs[e, 0], runs[e, 1]
            for i in range(length):
                ids[device, event, i] = -1
            for i in range(back):
                ids[device, event, i] = given[i]
            for i in range(entries):
                for j in range(2):
                    used[device, event, 2 * i + j], tokens[device, event, 2 * i + j] = runs[i, j], held[i, j]
                for j in range(length):
                    cells[device, event, i * length + j] = table[i, j]
    return True


@kernel
def append(cells, used, section, page):  # type: ignore[no-untyped-def]
    """`PageTable.append` of one page to one entry: cells (L,), used (2,)."""
    j = used[section]
    if section == 1:
        j = cells.size - 1 - j
    cells[j] = page
    used[section] += 1


@kernel
def split(cells, used, high, low, scrub, given):  # type: ignore[no-untyped-def]
    """`PageTable.split`; returns how many pages stand in `given`."""
    held = used[0]
    ids = cells[:held].copy()
    if scrub:
        for j in range(high, held):
            cells[j] = -1
    for j in range(low):
        cells[cells.size - 1 - j] = ids[high + j]
    used[0], used[1] = high, low
    for j in range(high + low, held):
        given[j - high - low] = ids[j]
    return held - high - low


@kernel
def clear(cells, used, scrub, given):  # type: ignore[no-untyped-def]
    """`PageTable.clear`; returns how many pages stand in `given`."""
    high, low = used[0], used[1]
    for j in range(high):
        given[j] = cells[j]
    for j in range(low):
        given[high + j] = cells[cells.size - 1 - j]
    if scrub:
        for j in range(cells.size):
            cells[j] = -1
    used[0], used[1] = 0, 0
    return high + low
