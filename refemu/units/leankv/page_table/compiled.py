"""Compiled form of page_table: every event of many tables in one kernel, and kernels of the events of one entry.

Compiled page_manager calls the latter too. The kernel rejects an event without a reason; the readable table then runs
for its message. Paper: [leankv §5.2].
"""

from collections.abc import Sequence

import numpy as np

from refemu.arith.jit import callee, kernel
from refemu.units.derivation import Arrays, Rejected, compiled_run
from refemu.units.leankv.page_table import UNIT, PageTable

U = np.uint64


@compiled_run(UNIT)
def run(table: PageTable, inputs: Arrays, outputs: Arrays) -> Sequence[int]:
    """All events of all tables; `ids` and `cells` keep an axis of lanes where there is one cell."""
    page, ids, count, high_pages, low_pages, used, tokens, cells = outputs
    shape, counters = page.shape, np.zeros(2, np.int64)
    lanes = ids.reshape(*shape, table.cells), used, tokens, cells.reshape(*shape, table.entries * table.cells)
    events = [array.astype(np.int64) for array in inputs]
    if not _run(*events, table.scrub, page, count, high_pages, low_pages, *lanes, counters):
        raise Rejected
    return counters.tolist()


@kernel
def _run(  # type: ignore[no-untyped-def]
    op, entry, section, value, other, scrub, page, count, high_pages, low_pages, ids, used, tokens, cells, counters
):
    """Whether every event is admitted."""
    entries, length = used.shape[2] // 2, ids.shape[2]
    for device in range(op.shape[0]):
        table, runs = np.full((entries, length), -1, np.int64), np.zeros((entries, 2), np.int64)
        held, returned = np.zeros((entries, 2), np.int64), np.empty(length, np.int64)
        for event in range(op.shape[1]):
            e, s, v, w = (entry[device, event], section[device, event], value[device, event], other[device, event])
            looked_up, back, kind = np.int64(-1), np.int64(0), op[device, event]
            if kind == 0:
                back = clear(table, runs, e, scrub, returned, 0)
                held[e, 0], held[e, 1] = 0, 0
            elif kind == 1:
                if runs[e, 0] + runs[e, 1] == length:
                    return False
                append(table, runs, e, s, v)
                counters[0] += 1
            elif kind == 2:
                if runs[e, 1] > 0 or v + w > runs[e, 0]:
                    return False
                back = split(table, runs, e, v, w, scrub, returned, 0)
                counters[0] += w
            elif kind == 3:
                held[e, 0], held[e, 1] = v, w
            else:
                if v >= runs[e, s]:
                    return False
                looked_up = table[e, v] * (1 - s) + table[e, (length - 1 - v) * s] * s
            counters[1] += back
            page[device, event], count[device, event] = looked_up, back
            high_pages[device, event], low_pages[device, event] = runs[e, 0], runs[e, 1]
            for i in range(length):
                ids[device, event, i] = -1
            for i in range(back):
                ids[device, event, i] = returned[i]
            for i in range(entries):
                for j in range(2):
                    used[device, event, 2 * i + j], tokens[device, event, 2 * i + j] = runs[i, j], held[i, j]
                for j in range(length):
                    cells[device, event, i * length + j] = table[i, j]
    return True


# Kernels of one entry take whole tables and its number: a view of a row costs more than the row. Indices are uint64: a
# signed one can be negative, which costs as much as the copy.


@callee
def append(cells, used, entry, section, page):  # type: ignore[no-untyped-def]
    """`PageTable.append` of one page to one entry: cells (E, L), used (E, 2)."""
    j = used[entry, section]
    if section == 1:
        j = cells.shape[1] - 1 - j
    cells[entry, j] = page
    used[entry, section] += 1


@callee
def fill(cells, used, entry, count, ids, at):  # type: ignore[no-untyped-def]
    """`append` of `count` high pages: ids from `at` on."""
    row, begun, first = U(entry), U(used[entry, 0]), U(at)
    for j in range(U(count)):
        cells[row, begun + j] = ids[first + j]
    used[entry, 0] += count


@callee
def split(cells, used, entry, high, low, scrub, returned, at):  # type: ignore[no-untyped-def]
    """`PageTable.split`; returns the number of pages in `returned`, from `at` on."""
    held, length = used[entry, 0], cells.shape[1]
    row, first, begun, last = U(entry), U(high), U(at), U(length - 1)
    for j in range(U(held - high - low)):
        returned[begun + j] = cells[row, U(high + low) + j]
    if high + 2 * low <= length:
        for j in range(U(low)):
            cells[row, last - j] = cells[row, first + j]
    else:  # the low pages go to where some of them are
        ids = cells[entry, high : high + low].copy()
        for j in range(U(low)):
            cells[row, last - j] = ids[j]
    if scrub:
        for j in range(first, U(min(held, length - low))):
            cells[row, j] = -1
    used[entry, 0], used[entry, 1] = high, low
    return held - high - low


@callee
def clear(cells, used, entry, scrub, returned, at):  # type: ignore[no-untyped-def]
    """`PageTable.clear`; returns the number of pages in `returned`, from `at` on."""
    high, low, length = used[entry, 0], used[entry, 1], cells.shape[1]
    row, first, second, last = U(entry), U(at), U(at + high), U(length - 1)
    for j in range(U(high)):
        returned[first + j] = cells[row, j]
    for j in range(U(low)):
        returned[second + j] = cells[row, last - j]
    if scrub:
        for j in range(U(length)):
            cells[row, j] = -1
    used[entry, 0], used[entry, 1] = 0, 0
    return high + low
