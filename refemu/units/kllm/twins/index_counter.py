"""Compiled twin of index_counter: same arguments, same Result. Read index_counter.py first. [kllm §IV-B]

Counts are integers, so no cycle is simulated but where the ports show every one of them.
"""

from math import prod
from typing import Any

import numpy as np

from refemu.arith.checks import Refused
from refemu.arith.fp16_jit import plain
from refemu.arith.jit import kernel
from refemu.units.index_counter import INPUTS, IndexCounter, Result, admitted
from refemu.units.unit import admit_events


def run(
    index: Any, bits: int, amount: Any = None, *, valid: Any = None, counter_bits: int = 62, amount_bits: int = 8
) -> Result:
    """As `index_counter.run`."""
    counter = IndexCounter(bits, amount_bits if amount is not None else 0, counter_bits)
    q = np.asarray(index)
    if amount is None and valid is None and q.dtype.kind in "iu" and q.ndim and _fits(q, bits):
        shape, k = q.shape[:-1], q.shape[-1]
        count = np.zeros((prod(shape), 1 << bits), np.int64)
        _count_all(plain(q.reshape(prod(shape), k).astype(np.uint8, copy=False)), count)
        indices = q.size
    else:
        q, used, amounts = admitted(index, bits, amount, valid, amount_bits)
        shape, k = q.shape[:-1], q.shape[-1]
        count = np.zeros((prod(shape), 1 << bits), np.int64)
        indices = int(_count(*(x.reshape(prod(shape), k) for x in (q, used, amounts)), count))
    largest = int(count.max(initial=0))
    if largest >> counter_bits:
        _refuse(counter, count)
    return Result(count.reshape(*shape, 1 << bits), indices, prod(shape) * -(-k // INPUTS), largest.bit_length())


def _fits(index: np.ndarray, bits: int) -> bool:
    """Whether every index is in range; the slower path says which one is not."""
    return bool(int(index.min(initial=0)) >= 0 and int(index.max(initial=0)) < 1 << bits)


def run_ports(
    clear: Any,
    q: Any,
    valid: Any,
    amount: Any = None,
    *,
    bits: int = 8,
    amount_bits: int = 0,
    counter_bits: int = 16,
    lanes: int = INPUTS,
) -> Result:
    """As `index_counter.run_ports`."""
    counter = IndexCounter(bits, amount_bits, counter_bits, lanes)
    given = (clear, q, valid) if amount is None else (clear, q, valid, amount)
    clears, *rest = admit_events(counter.name, counter.ports.inputs, given)
    shape, devices = clears.shape, prod(clears.shape[:-1])
    if amount is None:
        rest.append(np.ones(rest[0].shape, np.int64))
    count = np.zeros((*shape, 1 << bits), np.int64)
    wide = [np.ascontiguousarray(x, np.int64).reshape(devices, shape[-1], lanes) for x in rest]
    indices = _cycles(
        np.ascontiguousarray(clears, np.int64).reshape(devices, shape[-1]),
        *wide,
        count.reshape(devices, shape[-1], 1 << bits),
    )
    largest = int(count.max(initial=0))
    if largest >> counter_bits:
        _refuse(counter, count.reshape(-1, 1 << bits))
    dtype = counter.ports.outputs[0].result_dtype
    return Result(count.astype(dtype), int(indices), clears.size, largest.bit_length())


def _refuse(counter: IndexCounter, count: np.ndarray) -> None:
    """Refuse what the unit refuses; here the first vector that ends too large is named, not the first cycle."""
    for row in count:
        counter._require_fits(tuple(row.tolist()))
    raise Refused(f"{counter.name}: a count does not fit counter_bits={counter.counter_bits}")


@kernel
def _count_all(q, count):  # type: ignore[no-untyped-def]
    """Every position counts 1; two tables, so that equal neighbours do not wait for each other."""
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
