"""Compiled form of orizuru_clocked: every operation event by event, on the heaps of compiled orizuru. [kllm §IV-C]

A heap knows the winners of all nodes at once; bits are copied from it when the event comes that sets them.
"""

from collections.abc import Sequence

import numpy as np

from refemu.arith.jit import callee, kernel
from refemu.units.derivation import Arrays, compiled_run
from refemu.units.kernels import cycle_accurate as clocked_kernels
from refemu.units.kllm.kernels.orizuru import first as best
from refemu.units.kllm.orizuru.compiled import load, registers
from refemu.units.kllm.orizuru_clocked import UNIT, ClockedOrizuru

GONE = -(1 << 62)  #: below every winner: an empty place
#: contents of each array of `_traced`, by event: for both trees, except the mask, the node and the counts
NAMES = (("max_index", "min_index"), ("root_max", "root_min"), ("root_max_valid", "root_min_valid"))
REGISTERS = (("p", "q"), ("p_mask", "q_mask"))


@compiled_run(UNIT)
def run(device: ClockedOrizuru, inputs: Arrays, outputs: Arrays) -> Sequence[int]:
    """Trace every operation once; a row shows its state after the last event."""
    start, x = inputs
    events, size = device.inner.last + 1, device.inner.size
    plan = clocked_kernels.plan(start, events)
    words = plan.taken(x.reshape(*start.shape, device.n)).astype(np.int64)
    shape = len(words), events
    pairs = [np.zeros((*shape, 2, lanes), np.int64) for lanes in (device.k, 1, 1, size - 1, device.n)]
    mask, node = np.zeros((*shape, device.n), np.int64), np.zeros(shape, np.int64)
    counts = np.zeros((3, *shape), np.int64)
    total, reuse = int(device.total_order), int(device.min_leaf == "not_max")
    _traced(words, np.int64(total), np.int64(reuse), *pairs, mask, node, counts)
    values = {"outlier_mask": mask, "node": node, "k": np.full(shape, device.k)}
    for names, array in zip(NAMES + REGISTERS, pairs, strict=True):
        values |= {name: array[:, :, tree] for tree, name in enumerate(names)}
    rows = {"busy": plan.busy, "valid": plan.valid, "phase": plan.phase, "x_held": plan.shown(words, 0)}
    reset = {"k": device.k} | dict.fromkeys(("root_max_valid", "root_min_valid", "p_mask", "q_mask"), 1)
    for port, out in zip(device.ports.outputs + device.ports.state, outputs, strict=True):
        name = port.name
        array = rows[name] if name in rows else plan.traced(values[name], reset.get(name, 0))
        out[:] = array.reshape(out.shape)
    return [plan.counted(each) for each in counts]


@kernel
def _traced(  # type: ignore[no-untyped-def]
    words, total, reuse, popped, roots, valid, bits, alive, mask, node, counts
):
    """Fill the arrays (operations, events, ...) with every register after each event."""
    size = bits.shape[3] + 1
    built, left = np.zeros((2, size - 1), np.int64), np.zeros(alive.shape[3], np.int64)
    heaps, keys = np.empty((2, 2 * size), np.int64), np.empty(words.shape[1], np.int16)
    for r in range(words.shape[0]):
        for tree in range(2):
            swap = reuse * tree
            load(words[r], keys, heaps[tree], np.int64(GONE), total, np.int64(1 - 2 * tree), swap)
            registers(heaps[tree], np.int64(GONE), built[tree], left)
        alive[r, 0] = 1
        event = np.int64(0)
        _rooted(words[r], bits[r, event], alive[r, event], roots[r, event], valid[r, event])
        for tree in range(2):
            first = size >> 1
            while first:
                event = _next(event, popped[r], bits[r], alive[r], mask[r])
                compared = 1 - reuse * tree * np.int64(first == size >> 1)
                counts[0, r, event], counts[2, r, event] = first * compared, 1 - tree
                half = size // first >> 1  # leaves below each side of a node
                for place in range(first, 2 * first):
                    bits[r, event, tree, place - 1] = built[tree, place - 1]
                    right = (2 * (place - first) + 1) * half
                    counts[1, r, event] += np.int64(right < words.shape[1]) * compared
                node[r, event] = first
                _rooted(words[r], bits[r, event], alive[r, event], roots[r, event], valid[r, event])
                first >>= 1
        for tree in range(2):
            heap = heaps[tree]
            for pop in range(popped.shape[3]):
                event = _next(event, popped[r], bits[r], alive[r], mask[r])
                gone = best(heap, reuse * tree)
                popped[r, event, tree, pop], mask[r, event, gone], alive[r, event, tree, gone] = gone, 1, 0
                place, winner = size + gone, np.int64(GONE)
                heap[place], node[r, event], counts[2, r, event] = winner, place, 1 - tree
                _rooted(words[r], bits[r, event], alive[r, event], roots[r, event], valid[r, event])
                while place > 1:
                    event = _next(event, popped[r], bits[r], alive[r], mask[r])
                    other = np.int64(heap[place ^ 1])
                    counts[1, r, event] = np.int64(min(winner, other) > GONE)
                    winner = max(winner, other)
                    place >>= 1
                    heap[place] = winner
                    bits[r, event, tree, place - 1] = np.int64(heap[2 * place + 1] == winner) * np.int64(winner > GONE)
                    counts[0, r, event], counts[2, r, event], node[r, event] = 1, 1 - tree, place
                    _rooted(words[r], bits[r, event], alive[r, event], roots[r, event], valid[r, event])


@callee
def _next(event, popped, bits, alive, mask):  # type: ignore[no-untyped-def]
    """The next event; registers keep their values."""
    popped[event + 1], bits[event + 1] = popped[event], bits[event]
    alive[event + 1], mask[event + 1] = alive[event], mask[event]
    return event + 1


@callee
def _rooted(words, bits, alive, roots, valid):  # type: ignore[no-untyped-def]
    """Words and validity at both roots, by the present bits."""
    size = bits.shape[1] + 1
    for tree in range(2):
        place = np.int64(1)
        while place < size:
            place = 2 * place + bits[tree, place - 1]
        roots[tree, 0], valid[tree, 0] = words[place - size], alive[tree, place - size]
