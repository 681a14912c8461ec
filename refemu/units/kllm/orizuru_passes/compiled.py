"""Compiled form of orizuru_passes: the kernel of selections on every chunk and on the candidates. [kllm §IV-C]"""

import numpy as np

from refemu.arith import integers
from refemu.arith.fp16_compiled import plain
from refemu.arith.jit import callee, kernel
from refemu.arith.threads import share_out
from refemu.units.derivation import Arrays, compiled_run
from refemu.units.kllm.kernels.orizuru import select, setup_comparisons, setup_live
from refemu.units.kllm.orizuru_passes import UNIT, OrizuruPasses

LEAST = 16  #: least number of rows of a thread
COUNTERS = 4


@compiled_run(UNIT)
def run(device: OrizuruPasses, inputs: Arrays, outputs: Arrays) -> list[int]:
    """Run all rows; threads share them."""
    words = plain(inputs[0].reshape(-1, device.n))
    count = len(words)
    index = np.empty((2, count, device.k), np.int64)
    mask, ends = np.zeros((count, device.n), np.bool_), np.empty((2, count), np.int64)
    counts = np.zeros((count, COUNTERS), np.int64)
    total, reuse = int(device.total_order), int(device.min_leaf == "not_max")

    def some(first: int, last: int) -> None:
        _rows(words, device.inputs, total, reuse, first, last, index, mask, ends, counts)

    share_out(some, count, least=LEAST)
    roots = words[np.arange(count), np.maximum(ends, 0)]
    values = {"outlier_mask": mask, "cycles_taken": counts[:, 2], "passes_taken": counts[:, 3]}
    for tree, name in enumerate(("max", "min")):
        values |= {f"{name}_index": index[tree], f"root_{name}": roots[tree], f"root_{name}_valid": ends[tree] >= 0}
    for port, array in zip(device.ports.outputs, outputs, strict=True):
        array[:] = values[port.name].reshape(array.shape)
    return [int(integers.total(column)) for column in counts.T]


@kernel
def _rows(  # type: ignore[no-untyped-def]
    x, inputs, total, reuse, begin, end, index, mask, ends, counts
):
    """Run rows from `begin` to `end`: passes over chunks until the candidates fit, then the last pass."""
    n, k = x.shape[1], index.shape[2]
    popped, left, marks = np.empty((2, k), np.int64), np.empty(2, np.int64), np.empty(n, np.bool_)
    for r in range(begin, end):
        elements = np.empty((2, n), np.int64)
        for i in range(n):
            elements[:, i] = i
        apart = False
        while elements.shape[1] > inputs:
            count = elements.shape[1]
            most = min(count, (k + 1) * ((count + inputs - 1) // inputs))
            candidates, size = np.empty((2, most), np.int64), 0
            for first in range(0, count, inputs):
                chunk = elements[:, first : min(first + inputs, count)]
                pops = min(k, chunk.shape[1])
                _one_pass(x[r], chunk, apart, total, reuse, popped[:, :pops], marks, left, counts[r])
                for tree in range(2):
                    for p in range(pops):
                        candidates[tree, size + p] = popped[tree, p]
                    if left[tree] >= 0:
                        candidates[tree, size + pops] = left[tree]
                size += pops + np.int64(left[0] >= 0)
            elements, apart = candidates[:, :size].copy(), True
        _one_pass(x[r], elements, apart, total, reuse, index[:, r], marks, ends[:, r], counts[r])
        for tree in range(2):
            for p in range(k):
                mask[r, index[tree, r, p]] = True


@callee
def _one_pass(x, elements, apart, total, reuse, popped, marks, left, counts):  # type: ignore[no-untyped-def]
    """Run one pass over elements (2, count) of the token x: popped (2, k), remaining at the roots, counts."""
    count, k, depth = elements.shape[1], popped.shape[1], 1
    while 1 << depth < count:
        depth += 1
    top, low = np.empty(count, np.uint16), np.empty(count, np.uint16)
    for i in range(count):
        top[i], low[i] = x[elements[0, i]], x[elements[1, i]]
    shared = reuse * (1 - np.int64(apart))
    heap, keys, lost = np.empty(2 << depth, np.int64), np.empty(count, np.int16), np.empty(2 << depth, np.int32)
    gone = -(np.int64(1) << 62)
    live = select(top, low, apart, count, heap, gone, total, shared, keys, lost, popped, marks, left)
    for tree in range(2):
        for p in range(k):
            popped[tree, p] = elements[tree, popped[tree, p]]
        if left[tree] >= 0:
            left[tree] = elements[tree, left[tree]]
    counts[0] += setup_comparisons(depth, shared) + 2 * k * depth
    counts[1] += setup_live(count, shared) + live
    counts[2] += depth + k * (1 + depth)
    counts[3] += 1
