"""Compiled form of fdgf: nested counters in place of the readable form's list of passes. [harmonia §IV-D]"""

from collections.abc import Sequence

import numpy as np

from refemu.arith.jit import callee, kernel
from refemu.units.derivation import Arrays, compiled_run
from refemu.units.harmonia.fdgf import UNIT, FdgfController

START, FETCH_A, FETCH_B, COMPUTE, READ, STORE, DONE = range(1, 8)


@compiled_run(UNIT)
def run(device: FdgfController, inputs: Arrays, outputs: Arrays) -> Sequence[int]:
    """Run all events; the dataflow of every product is chosen in advance."""
    start, rows, inner, columns, forced, v = (array.astype(np.int64) for array in inputs)
    flow = forced.copy()
    for place in zip(*np.nonzero((start == 1) & (forced == 0)), strict=True):
        flow[place] = device.choose(*(int(sizes[place]) for sizes in (rows, inner, columns)))
    out, counts = np.zeros((14, *start.shape), np.int64), np.zeros(4, np.int64)
    _events(start, rows, inner, columns, flow, v, np.int64(device.m), np.int64(device.k), out, counts)
    single = [output for output in outputs if output.ndim == 2]
    for output, values in zip((*single, *np.moveaxis(outputs[8], -1, 0)), out, strict=True):
        output[:] = values
    return counts.tolist()


@kernel
def _events(start, rows, inner, columns, flow, v, m, k, out, counts):  # type: ignore[no-untyped-def]
    for d in range(start.shape[0]):
        code, way, wide_blocks, fetched = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
        size_m, size_n, size_k = np.int64(0), np.int64(0), np.int64(0)
        reset = (np.int64(0), np.int64(0), np.int64(0), np.int64(0), np.int64(0), np.int64(0))
        mt, kt, row8, col16, place, g = reset
        for t in range(start.shape[1]):
            count, a_address, b_address = np.int64(0), np.int64(0), np.int64(0)
            outer, passing = 2 + np.int64(way == 1), 3 - np.int64(way == 1)  # the operand that stays, that passes
            fetch = np.int64(0)
            if start[d, t]:
                code, way, wide_blocks, fetched = np.int64(START), flow[d, t], v[d, t], np.int64(0)
                size_m, size_n, size_k = rows[d, t], inner[d, t], columns[d, t]
                mt, kt, row8, col16, place, g = reset
            elif code == START:
                fetch = outer
            elif code == outer:
                fetch = passing
            elif code == passing:
                code = np.int64(COMPUTE)
                count = min(m, size_m - mt * m) * min(k, size_k - kt * k)
                counts[1] += 1
            elif code in (COMPUTE, READ):
                groups = (size_n + 31) // 32
                high, wide = (min(m, size_m - mt * m) + 7) // 8, (min(k, size_k - kt * k) + 15) // 16
                if row8 == high or col16 == wide:
                    code = np.int64(STORE)
                    count = min(m, size_m - mt * m) * min(k, size_k - kt * k)
                    row8, col16, place = np.int64(0), np.int64(0), np.int64(0)
                    counts[3] += 1
                else:
                    code, count = np.int64(READ), np.int64(1)
                    a_address, b_address = row8 * groups + g, col16 * groups + g
                    counts[2] += 1
                    g += 1
                    if g == groups:
                        g, place = np.int64(0), place + 1
                        row8, col16 = _next_pass(row8, col16, high, wide, way, wide_blocks)
            elif code == STORE:
                more_m, more_k = (mt + 1) * m < size_m, (kt + 1) * k < size_k
                if more_m and (way == 1 or not more_k):
                    fetch, mt, kt = np.int64(FETCH_A), mt + 1, kt * np.int64(way == 1)
                elif more_k:
                    fetch, kt, mt = np.int64(FETCH_B), kt + 1, mt * np.int64(way == 2)
                else:
                    code = np.int64(DONE)
            if fetch:
                code = fetch
                length = min(m, size_m - mt * m) * np.int64(fetch == FETCH_A)
                length += min(k, size_k - kt * k) * np.int64(fetch == FETCH_B)
                count = size_n * length
                fetched += count
                counts[0] += 1
            out[0, d, t], out[1, d, t], out[2, d, t], out[3, d, t] = code, way, mt, kt
            out[4, d, t], out[5, d, t], out[6, d, t], out[7, d, t] = count, a_address, b_address, fetched
            out[8, d, t], out[9, d, t], out[10, d, t] = wide_blocks, place, g
            out[11, d, t], out[12, d, t], out[13, d, t] = size_m, size_n, size_k


@callee
def _next_pass(row8, col16, high, wide, way, v):  # type: ignore[no-untyped-def]
    """The pass after this one; row8 = high or col16 = wide after the last."""
    tall, broad = 1 + 3 * v, 2 - v
    top, left = row8 - row8 % tall, col16 - col16 % broad
    if col16 + 1 < min(left + broad, wide):
        return row8, col16 + 1
    if row8 + 1 < min(top + tall, high):
        return row8 + 1, left
    if way == 1:  # the block below, else the top of the next column of blocks
        if top + tall < high:
            return top + tall, left
        return np.int64(0), min(left + broad, wide)
    if left + broad < wide:
        return top, left + broad
    return min(top + tall, high), np.int64(0)
