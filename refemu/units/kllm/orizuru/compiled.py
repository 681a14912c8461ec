"""Compiled form of orizuru: two heaps of winners, one after the other, over every row. [kllm §IV-C]

A node holds its winner instead of a bit, as one integer: the key, then the position from the far end, so that the
greater integer is the winner that the bits name. Keys are negated for the min tree, where the right one of equal
neighbours wins.
Pops come from the kernel of selections; registers from the remaining leaves, on a heap in the paper's order.
"""

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith.fp16_compiled import plain
from refemu.arith.jit import callee, kernel
from refemu.arith.threads import share_out
from refemu.units.derivation import Arrays, compiled_run
from refemu.units.kllm import orizuru
from refemu.units.kllm.kernels.orizuru import order_keys, rank, select, setup_comparisons, setup_live
from refemu.units.kllm.orizuru import UNIT, MinLeaf, Orizuru, Result

LEAST = 32  #: least number of rows of a thread
NARROW = np.zeros(0, np.int32)  #: dtype of a rank of up to 15 levels
WIDE = np.zeros(0, np.int64)  #: dtype of a rank of more levels


@compiled_run(UNIT)
def run(device: Orizuru, inputs: Arrays, outputs: Arrays) -> tuple[int, ...]:
    """Run all rows; threads share them."""
    words = plain(inputs[0].reshape(-1, device.n))
    total, reuse = device.total_order, device.min_leaf == "not_max"
    values, counts = _popped(words, device.k, total, reuse)
    bits = np.zeros((len(words), 2, device.size - 1), np.uint8)
    left = np.zeros((len(words), 2, device.n), np.uint8)
    heap, gone = np.empty(2 * device.size, np.int64), -(1 << 62)
    _registers(words, heap, gone, int(total), int(reuse), values["index"], bits, left)
    values |= {"p": bits[:, 0], "q": bits[:, 1], "p_mask": left[:, 0], "q_mask": left[:, 1]}
    values |= {"node": np.ones(len(words), np.int64), "k": np.full(len(words), device.k)}
    for tree, name in enumerate(("max", "min")):
        values[f"{name}_index"], values[f"root_{name}"] = values["index"][tree], values["root"][tree]
        values[f"root_{name}_valid"] = np.full(len(words), device.k < device.n)
    for port, array in zip(device.ports.outputs + device.ports.state, outputs, strict=True):
        array[:] = values[port.name].reshape(array.shape)
    return counts


def pops(x: ArrayLike, k: int, *, total_order: bool = False, min_leaf: MinLeaf = "not_max") -> Result:
    """`orizuru.pops`, compiled; threads share the rows."""
    words, k = orizuru.require_input(x, k, min_leaf)
    values, counts = _popped(plain(words), k, total_order, min_leaf == "not_max")
    index, roots = values["index"], values["root"].view(np.float16)
    valid = _valid(words.shape, k)
    return Result(
        max_index=index[0],
        min_index=index[1],
        outlier_mask=values["outlier_mask"],
        root_max=roots[0],
        root_min=roots[1],
        root_max_valid=valid,
        root_min_valid=valid,
        comparisons=counts[0],
        comparisons_live=counts[1],
        cycles=counts[2],
    )


def _valid(shape: tuple[int, ...], k: int) -> np.ndarray | np.bool_:
    """Whether a tree of every row of `shape` has an available leaf after k pops."""
    left = k < shape[-1]
    return np.bool_(left) if len(shape) == 1 else np.full(shape[:-1], left)


def _popped(
    words: np.ndarray, k: int, total_order: bool, reuse: bool
) -> tuple[dict[str, np.ndarray], tuple[int, int, int]]:
    """Elements popped (2, ..., k), mask, words of the roots (2, ...), and the counters.

    words: (..., n). reuse: whether the lowest bits of the min tree are those of the max tree, reversed.
    """
    shape, n = words.shape[:-1], words.shape[-1]
    count, depth = words.size // n, orizuru.levels(n)
    index, mask = np.empty((2, *shape, k), np.int64), np.zeros(words.shape, np.bool_)
    roots = np.empty((2, *shape), np.uint16)
    rows = words.reshape(count, n), index.reshape(2, count, k), mask.reshape(count, n), roots.reshape(2, count)
    kind, gone = (NARROW, -(1 << 31)) if depth <= 15 else (WIDE, -(1 << 62))  # gone: below every rank
    parts: list[tuple[bool, int, int]] = []  # of each thread: whether a NaN is invalid, comparisons, live comparisons

    def some(first: int, last: int) -> None:
        parts.append(_rows(*rows, first, last, depth, kind, gone, int(total_order), int(reuse)))

    share_out(some, count, least=LEAST)
    comparisons = live = 0
    for nan, used, with_two in parts:
        if nan:
            orizuru.require_ordered(words, total_order)
        comparisons, live = comparisons + int(used), live + int(with_two)  # NumPy integers if kernels are interpreted
    values = {"index": index, "outlier_mask": mask, "root": roots}
    return values, (comparisons, live, count * (depth + k * (1 + depth)))


@kernel
def _rows(  # type: ignore[no-untyped-def]
    x, index, mask, roots, begin, end, depth, kind, gone, total, reuse
):
    """Run rows of words from `begin` to `end`; return whether a NaN is invalid, comparisons, and live comparisons."""
    n, count = x.shape[1], end - begin
    largest, live = np.int64(0), np.int64(count * setup_live(n, reuse))
    for r in range(begin, end):
        largest = max(largest, _peak(x[r]))
    if largest > 0x7C00 and total == 0:
        return True, np.int64(0), live
    heap, keys, lost = np.empty(2 << depth, kind.dtype), np.empty(n, np.int16), np.empty(2 << depth, np.int32)
    ends = np.empty(2, np.int64)
    for r in range(begin, end):
        row = x[r]
        live += select(row, row, False, n, heap, gone, total, reuse, keys, lost, index[:, r], mask[r], ends)
        for tree in range(2):
            roots[tree, r] = row[max(ends[tree], 0)]  # all bits of an empty tree are 0, so it shows element 0
    return False, np.int64(count * (setup_comparisons(depth, reuse) + 2 * index.shape[2] * depth)), live


@kernel
def _registers(x, heap, gone, total, reuse, index, bits, left):  # type: ignore[no-untyped-def]
    """Registers of both trees after all pops of every row; `heap` is work space of 2 * size."""
    size, keys = heap.size >> 1, np.empty(x.shape[1], np.int16)
    for r in range(x.shape[0]):
        for tree in range(2):
            order_keys(x[r], total, keys)
            rank(keys, heap, gone, np.int64(1 - 2 * tree), reuse * tree)
            for p in range(index.shape[2]):
                heap[size + index[tree, r, p]] = gone
            settle(heap)
            registers(heap, gone, bits[r, tree], left[r, tree])


@callee
def _peak(x):  # type: ignore[no-untyped-def]
    """The largest word without its sign."""
    peak = np.uint16(0)
    for i in range(x.size):
        peak = max(peak, np.uint16(x[i] & np.uint16(0x7FFF)))
    return np.int64(peak)


@kernel
def load(x, keys, heap, gone, total, sign, swap):  # type: ignore[no-untyped-def]
    """Winners of every node, in the paper's order; keys (n,) is work space."""
    order_keys(x, total, keys)
    rank(keys, heap, gone, sign, swap)
    settle(heap)


@kernel
def settle(heap):  # type: ignore[no-untyped-def]
    """Winners of every node above the leaves."""
    half = heap.size >> 1
    while half > 1:
        half >>= 1
        _level(heap[2 * half : 4 * half], heap[half : 2 * half])


@callee
def _level(below, out):  # type: ignore[no-untyped-def]
    for i in range(out.size):
        out[i] = max(below[2 * i], below[2 * i + 1])


@kernel
def registers(heap, gone, bits, left):  # type: ignore[no-untyped-def]
    """Bits of nodes 1, 2, ...: the winner is that of the right child; and which elements are available."""
    size = heap.size >> 1
    for i in range(bits.size):
        winner = np.int64(heap[i + 1])
        bits[i] = np.int64(np.int64(heap[2 * i + 3]) == winner) * np.int64(winner > gone)
    for i in range(left.size):
        left[i] = np.int64(np.int64(heap[size + i]) > gone)
