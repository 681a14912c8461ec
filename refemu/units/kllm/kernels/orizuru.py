"""Pops of both trees without their registers: ranks of the leaves, a heap of winners, live repairs. [kllm §IV-C]

A rank is one integer for value and place, so that the greatest rank is the winner that the bits of a tree name. Ranks
are distinct, so winners do not depend on which nodes are compared: a level of the heap is the elementwise maximum of
the two halves of the level below. Only the count of live repairs needs the paper's tree.
"""

import numpy as np

from refemu.arith.jit import callee, kernel


@kernel
def select(x, y, apart, n, heap, gone, total, reuse, keys, lost, index, mask, ends):
    """Pop the largest of `x` and the smallest of `y` (n,); returns repairs with an available value on both sides.

    apart: whether `y` differs from `x`. heap (2 * size,), keys (n,) and lost (2 * size,) are work space. index
    (2, k): popped leaves. mask (n,): set where either tree pops. ends (2,): remaining leaves at the roots,
    -1 if none.
    """
    live = np.int64(0)
    for tree in range(2):
        words = (x, y)[tree]
        swap = reuse * tree
        if tree == 0 or apart:
            order_keys(words, total, keys)
        rank(keys, heap, gone, 1 - 2 * tree, swap)
        build(heap)
        pop(heap, gone, index[tree], mask, swap)
        live += live_repairs(index[tree], n, lost)
        ends[tree] = (first(heap, swap) + 1) * np.int64(np.int64(heap[1]) > gone) - 1
    return live


@callee
def setup_comparisons(depth, reuse):
    """Comparisons that build both trees over 2**depth leaves."""
    return (2 << depth) - 2 - ((1 << depth) >> 1 if reuse else 0)


@callee
def setup_live(n, reuse):
    """Comparisons with two available sides: every value but one loses one, in the min tree above the lowest level."""
    return 2 * (n - 1) - (n // 2 if reuse else 0)


@callee
def order_keys(words, total, keys):
    """Integers of the same order as fp16 words; -0 is 0, or -1 in a total order."""
    zero = np.int16(1 - total)
    for i in range(words.size):
        word = np.int16(words[i])
        negative = np.int16(word >> 15)
        keys[i] = np.int16(np.int16(np.int16(word & np.int16(0x7FFF)) ^ negative) + np.int16(negative & zero))


@kernel
def rank(keys, heap, gone, sign, swap):
    """Leaves of the heap: key, then position from the far end; leaf i counts as position i ^ swap."""
    kind = heap.dtype.type
    size = heap.size >> 1
    leaves = heap[size:]
    last, weight, other = kind(size - 1), kind(size * sign), kind(swap)
    for i in range(keys.size):
        leaves[i] = kind(kind(keys[i]) * weight) + kind(last - kind(kind(i) ^ other))
    leaves[keys.size :] = gone


@callee
def build(heap):
    """Winners of every level: of node j and of node j + half of the level below."""
    half = heap.size >> 2
    while half:
        winners(heap[2 * half : 3 * half], heap[3 * half : 4 * half], heap[half : 2 * half])
        half >>= 1


@callee
def winners(left, right, out):
    """The greater of each pair."""
    for i in range(out.size):
        out[i] = max(left[i], right[i])


@kernel
def first(heap, swap):
    """The leaf whose rank is at the root."""
    last = (heap.size >> 1) - 1
    return (last - (np.int64(heap[1]) & last)) ^ swap


@kernel
def pop(heap, gone, popped, mask, swap):
    """Pop the first leaf, once for every place of `popped`."""
    size = heap.size >> 1
    for p in range(popped.size):
        leaf = first(heap, swap)
        popped[p] = leaf
        mask[leaf] = True
        winner, place, width = np.int64(gone), leaf, size
        heap[size + leaf] = winner
        while width > 1:
            half = width >> 1
            winner = max(winner, np.int64(heap[width + (place ^ half)]))
            place &= half - 1
            width = half
            heap[width + place] = winner


@callee
def live_repairs(popped, n, lost):
    """Repairs of the paper's tree with an available leaf on both sides, after each pop.

    lost (2 * size,): work space; popped leaves below a node on a path, and below its neighbour.
    """
    size, live, top = lost.size >> 1, np.int64(0), np.int64(1)
    if n == size:  # sides of more leaves than pops are always available
        while top < size and (size // (2 * top)) > popped.size:
            top <<= 1
            live += popped.size
    for p in range(popped.size):
        node = size + popped[p]
        while node >= 2 * top:
            lost[node], lost[node ^ 1] = 0, 0
            node >>= 1
    for p in range(popped.size):
        node, level = size + popped[p], 0
        while node >= 2 * top:
            lost[node] += 1
            live += np.int64(min(_left(node, level, n, lost), _left(node ^ 1, level, n, lost)) > 0)
            node >>= 1
            level += 1
    return live


@callee
def _left(node, level, n, lost):
    """Available leaves below a node, or less than 1 if none."""
    size = lost.size >> 1
    return min(1 << level, n - ((node << level) - size)) - lost[node]
