"""Compiled form of index_counter: integers counted in one pass over the positions. [kllm §IV-B]

Cycles are simulated only where the ports show each of them.
"""

from math import prod

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith.fp16_compiled import plain
from refemu.arith.jit import kernel
from refemu.units.derivation import Arrays, compiled_run
from refemu.units.kllm.index_counter import INPUTS, UNIT, IndexCounter, Result
from refemu.units.kllm.index_counter.index_counter import require_input


def counts(
    index: ArrayLike,
    bits: int,
    amount: ArrayLike | None = None,
    *,
    valid: ArrayLike | None = None,
    counter_bits: int = 62,
    amount_bits: int = 8,
) -> Result:
    """`index_counter.counts`, compiled."""
    counter = IndexCounter(bits, amount_bits if amount is not None else 0, counter_bits)
    q = np.asarray(index)
    if amount is None and valid is None and q.dtype.kind in "iu" and q.ndim and _fits(q, bits):
        shape, k = q.shape[:-1], q.shape[-1]
        count = np.zeros((prod(shape), 1 << bits), np.int64)
        _count_all(plain(q.reshape(prod(shape), k).astype(np.uint8, copy=False)), count)
        indices = q.size
    else:
        q, used, amounts = require_input(index, bits, amount, valid, amount_bits)
        shape, k = q.shape[:-1], q.shape[-1]
        count = np.zeros((prod(shape), 1 << bits), np.int64)
        indices = int(_count(*(x.reshape(prod(shape), k) for x in (q, used, amounts)), count))
    _require_fits(counter, count)
    cycles = prod(shape) * -(-k // INPUTS)
    return Result(count=count.reshape(*shape, 1 << bits), indices=indices, cycles=cycles)


def _fits(index: np.ndarray, bits: int) -> bool:
    """Whether every index is in range; the slower path finds the invalid one."""
    return bool(int(index.min(initial=0)) >= 0 and int(index.max(initial=0)) < 1 << bits)


@compiled_run(UNIT)
def run(counter: IndexCounter, inputs: Arrays, outputs: Arrays) -> tuple[int, int]:
    """Every cycle of every device."""
    clear, *lanes = (array.astype(np.int64) for array in inputs)
    if not counter.amount_bits:
        lanes.append(np.ones(lanes[0].shape, np.int64))
    count = np.zeros(outputs[0].shape, np.int64)
    indices = _cycles(clear, *lanes, count)
    _require_fits(counter, count.reshape(-1, 1 << counter.bits))
    outputs[0][:] = count
    _added(counter, clear, lanes[0], lanes[1], count, outputs[1:])
    return int(indices), clear.size


def _added(
    counter: IndexCounter, clear: np.ndarray, q: np.ndarray, valid: np.ndarray, count: np.ndarray, registers: Arrays
) -> None:
    """Fill what each cycle adds, (devices, cycles, lanes or indices): the difference of the counts."""
    sums = count.copy()
    sums[:, 1:] -= count[:, :-1] * (1 - clear[:, 1:, None])
    names = [port.name for port in counter.ports.state]
    for name, array in zip(names, registers, strict=True):
        if name == "sums":
            array[:] = sums
        else:
            words = valid << q if name == "one_hot" else valid * np.take_along_axis(sums, q, axis=-1)
            array[:] = words.reshape(array.shape)


def _require_fits(counter: IndexCounter, count: np.ndarray) -> None:
    """Reject a count that does not fit; the message names the first such vector, not the first cycle."""
    if int(count.max(initial=0)) >> counter.counter_bits:
        for row in count:
            counter._largest(tuple(row.tolist()))


@kernel
def _count_all(q, count):  # type: ignore[no-untyped-def]
    """Count 1 for every position, in two tables so that equal neighbours do not wait for each other."""
    other = np.empty(count.shape[1], np.int64)
    for row in range(q.shape[0]):
        mine = count[row]
        other[:] = 0
        for k in range(0, q.shape[1] - 1, 2):
            mine[q[row, k]] += 1
            other[q[row, k + 1]] += 1
        if q.shape[1] % 2:
            mine[q[row, q.shape[1] - 1]] += 1
        for i in range(mine.size):
            mine[i] += other[i]


@kernel
def _count(q, used, amount, count):  # type: ignore[no-untyped-def]
    indices = np.int64(0)
    for row in range(q.shape[0]):
        for k in range(q.shape[1]):
            count[row, q[row, k]] += used[row, k] * amount[row, k]
            indices += used[row, k]
    return indices


@kernel
def _cycles(clear, q, valid, amount, count):  # type: ignore[no-untyped-def]
    indices = np.int64(0)
    for device in range(q.shape[0]):
        for cycle in range(q.shape[1]):
            keep = (1 - clear[device, cycle]) * min(cycle, 1)
            for i in range(count.shape[2]):
                count[device, cycle, i] = count[device, cycle - keep, i] * keep
            for lane in range(q.shape[2]):
                used = valid[device, cycle, lane]
                count[device, cycle, q[device, cycle, lane]] += used * amount[device, cycle, lane]
                indices += used
    return indices
