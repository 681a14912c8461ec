"""Compiled twin of orizuru: two heaps of winners, one after the other, over every row. [kllm §IV-C]

A node holds no bit but its winner, as one integer: the key, then the position from the far end, so that the greater
integer is the winner that the bits name. Keys are negated for the min tree, whose equal neighbours go right first.
"""

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith.fp16_jit import plain
from refemu.arith.jit import kernel
from refemu.arith.threads import share_out
from refemu.units.derived import Arrays, twin
from refemu.units.kllm import orizuru
from refemu.units.kllm.orizuru import UNIT, MinLeaf, Orizuru, Result

LEAST = 32  #: rows that a thread has at least
NARROW = 15  #: levels up to which a winner fits 32 bits


@twin(UNIT)
def run(device: Orizuru, inputs: Arrays, outputs: Arrays) -> tuple[int, ...]:
    """All rows; threads share them."""
    words = inputs[0].reshape(-1, device.n)
    bits = np.zeros((len(words), 2, device.size - 1), np.uint8)
    left = np.zeros((len(words), 2, device.n), np.uint8)
    values, counts = _popped(words, device.k, device.total_order, device.min_leaf == "not_max", (bits, left))
    values |= {"p": bits[:, 0], "q": bits[:, 1], "p_mask": left[:, 0], "q_mask": left[:, 1]}
    values |= {"node": np.ones(len(words), np.int64), "k": np.full(len(words), device.k)}
    for port, array in zip(device.ports.outputs + device.ports.state, outputs, strict=True):
        array[:] = values[port.name].reshape(array.shape)
    return counts


def pops(x: ArrayLike, k: int, *, total_order: bool = False, min_leaf: MinLeaf = "not_max") -> Result:
    """`orizuru.pops`, compiled; threads share the rows."""
    words, k = orizuru.require_input(x, k, min_leaf)
    shape = words.shape[:-1]
    none = np.zeros((words.size // words.shape[-1], 2, 0), np.uint8)
    values, counts = _popped(words, k, total_order, min_leaf == "not_max", (none, none))
    return Result(
        max_index=values["max_index"].reshape(*shape, k),
        min_index=values["min_index"].reshape(*shape, k),
        outlier_mask=values["outlier_mask"].reshape(words.shape),
        root_max=values["root_max"].view(np.float16).reshape(shape)[()],
        root_min=values["root_min"].view(np.float16).reshape(shape)[()],
        root_max_valid=values["root_max_valid"].reshape(shape)[()],
        root_min_valid=values["root_min_valid"].reshape(shape)[()],
        comparisons=counts[0],
        comparisons_live=counts[1],
        cycles=counts[2],
    )


def _popped(
    words: np.ndarray, k: int, total_order: bool, reuse: bool, registers: tuple[np.ndarray, np.ndarray]
) -> tuple[dict[str, np.ndarray], tuple[int, int, int]]:
    """Output ports of rows of words (..., n), one row after the other, and the counters.

    reuse: whether the lowest bits of the min tree are those of the max tree, reversed. registers: bits of the nodes and
    available elements of both trees at the end, (rows, 2, ...); of size 0 where nobody asks.
    """
    n = words.shape[-1]
    flat = plain(words.reshape(-1, n) if words.size else words.reshape(0, n))
    count, depth = flat.shape[0], orizuru.levels(n)
    top, low, mask = np.empty((count, k), np.int64), np.empty((count, k), np.int64), np.empty((count, n), np.bool_)
    roots, valid = np.empty((count, 2), np.uint16), np.empty((count, 2), np.bool_)
    gone = -(1 << 31 if depth <= NARROW else 1 << 62)  # below every winner: an empty place
    parts: list[tuple[bool, int]] = []  # of each thread: whether a NaN is refused, and live repairs

    def rows(first: int, last: int) -> None:
        heap, part = np.empty(2 << depth, np.int32 if depth <= NARROW else np.int64), slice(first, last)
        outputs = top[part], low[part], mask[part], roots[part], valid[part], registers[0][part], registers[1][part]
        parts.append(_run(flat[part], heap, gone, int(total_order), int(reuse), *outputs))

    share_out(rows, count, least=LEAST)
    size, half = 1 << depth, (n + 1) // 2
    live = count * (n - 1 + (half if reuse else n) - 1)  # every value but one loses a comparison with an available one
    for nan, repairs in parts:
        if nan:
            orizuru.require_ordered(words, total_order)
        live += int(repairs)  # of NumPy where kernels are interpreted
    comparisons = 2 * size - 2 - (size // 2 if reuse else 0) + 2 * k * depth
    values = {
        "max_index": top,
        "min_index": low,
        "outlier_mask": mask,
        "root_max": roots[:, 0],
        "root_min": roots[:, 1],
        "root_max_valid": valid[:, 0],
        "root_min_valid": valid[:, 1],
    }
    return values, (count * comparisons, live, count * (depth + k * (1 + depth)))


@kernel
def _run(x, heap, gone, total, reuse, top, low, mask, roots, valid, bits, left):  # type: ignore[no-untyped-def]
    """Rows of words; `heap` is work space of 2 * size. Returns whether a NaN was refused, and live repairs."""
    largest, live = np.int64(0), np.int64(0)
    for r in range(x.shape[0]):
        largest = max(largest, _peak(x[r]))
    if largest > 0x7C00 and total == 0:
        return True, live
    for r in range(x.shape[0]):
        mask[r, :] = False
        load(x[r], heap, gone, total, np.int64(1), np.int64(0))
        live += _pop(heap, gone, top[r], mask[r], np.int64(0))
        _root(x[r], heap, gone, roots[r], valid[r], np.int64(0), np.int64(0))
        registers(heap, gone, bits[r, 0], left[r, 0])
        load(x[r], heap, gone, total, np.int64(-1), reuse)
        live += _pop(heap, gone, low[r], mask[r], reuse)
        _root(x[r], heap, gone, roots[r], valid[r], np.int64(1), reuse)
        registers(heap, gone, bits[r, 1], left[r, 1])
    return False, live


@kernel
def _peak(x):  # type: ignore[no-untyped-def]
    """The largest word without its sign."""
    peak = np.uint16(0)
    for i in range(x.size):
        peak = max(peak, np.uint16(x[i] & np.uint16(0x7FFF)))
    return np.int64(peak)


@kernel
def load(x, heap, gone, total, sign, swap):  # type: ignore[no-untyped-def]
    """Winners of every node; leaf i counts as position i ^ swap, from the far end."""
    size = heap.size >> 1
    for i in range(x.size):
        word = np.int64(x[i])
        negative = word >> 15
        key = ((word & 0x7FFF) ^ -negative) + negative * (1 - total)
        heap[size + i] = sign * key * size + (size - 1 - (i ^ swap))
    heap[size + x.size :] = gone
    half = size
    while half > 1:
        half >>= 1
        _level(heap[2 * half : 4 * half], heap[half : 2 * half])


@kernel
def _level(below, out):  # type: ignore[no-untyped-def]
    for i in range(out.size):
        out[i] = max(below[2 * i], below[2 * i + 1])


@kernel
def _pop(heap, gone, popped, mask, swap):  # type: ignore[no-untyped-def]
    """Pop as many as `popped` holds. Returns the repairs that had an available value on both sides."""
    size, live = heap.size >> 1, np.int64(0)
    for p in range(popped.size):
        leaf = best(heap, swap)
        popped[p] = leaf
        mask[leaf] = True
        node = size + leaf
        winner = np.int64(gone)
        heap[node] = winner
        while node > 1:
            other = np.int64(heap[node ^ 1])
            live += np.int64(min(winner, other) > gone)
            winner = max(winner, other)
            node >>= 1
            heap[node] = winner
    return live


@kernel
def registers(heap, gone, bits, left):  # type: ignore[no-untyped-def]
    """Bits of nodes 1, 2, ...: the winner is that of the right child; and which elements are available."""
    size = heap.size >> 1
    for i in range(bits.size):
        winner = np.int64(heap[i + 1])
        bits[i] = np.int64(np.int64(heap[2 * i + 3]) == winner) * np.int64(winner > gone)
    for i in range(left.size):
        left[i] = np.int64(np.int64(heap[size + i]) > gone)


@kernel
def best(heap, swap):  # type: ignore[no-untyped-def]
    """The leaf of the winner at the root."""
    size = heap.size >> 1
    return (size - 1 - (np.int64(heap[1]) & (size - 1))) ^ swap


@kernel
def _root(x, heap, gone, root, valid, tree, swap):  # type: ignore[no-untyped-def]
    """Word and validity of the root; all bits of an empty tree are 0, so it shows element 0."""
    alive = np.int64(np.int64(heap[1]) > gone)
    root[tree] = x[best(heap, swap) * alive]
    valid[tree] = alive != 0
