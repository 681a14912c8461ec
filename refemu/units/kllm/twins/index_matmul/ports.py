"""Compiled twin of index_matmul between the ports: same arguments, same Result. [kllm §III-B, §III-D]

Every output brings operands and codebooks of its own, so what is done is done for thousands of them at once: counts by
the twin of index_counter, weighted sums by that of weighted_sum, positions left out as sums over all positions of which
the others are -0 times +0, which changes no sum.
"""

from math import prod
from typing import Any

import numpy as np

from refemu.arith import dot_jit, fp16, fp16_jit, integers
from refemu.arith.orders import Sequential
from refemu.arith.sums_jit import total64
from refemu.formats.kllm_arith import KllmArith
from refemu.units import index_counter_jit, weighted_sum_jit
from refemu.units.index_matmul import IndexMatmul, Result, inputs_of
from refemu.units.index_matmul_arith_parts import merge
from refemu.units.index_matmul_jit import between, totals
from refemu.units.index_matmul_problem_parts import Column, column_at_ports
from refemu.units.unit import admit
from refemu.units.weighted_sum_jit import BATCH

FRACTION = 24  #: fp16 values are multiples of 2**-24


def run_ports(
    *,
    k: int = 16,
    a_bits: int = 4,
    b_bits: int = 4,
    integer: bool = False,
    preset: str | KllmArith = "paper",
    **inputs: Any,
) -> Result:
    """As `index_matmul.run_ports`."""
    device = IndexMatmul(k, a_bits, b_bits, integer, preset)
    names = inputs_of(device)
    arrays = admit(device.name, device.ports.inputs, [inputs[name] for name in names])
    shape = arrays[names.index("a_scale")].shape
    outputs, left_out = prod(shape), 0
    lanes = {
        name: () if name.endswith("_scale") else (port.lanes,)
        for name, port in zip(names, device.ports.inputs, strict=True)
    }
    flat = {name: array.reshape(outputs, *lanes[name]) for name, array in zip(names, arrays, strict=True)}
    y = np.empty(outputs, np.uint16)
    for low in range(0, outputs, BATCH):
        part = slice(low, low + BATCH)
        columns = column_at_ports({name: array[part] for name, array in flat.items()}, integer, device.arith)
        y[part] = fp16.bits(fp16_jit.to_f16(_outputs(device, columns)))
        left_out += int(np.count_nonzero(columns.left_out))
    overflow = y & 0x7C00 == 0x7C00
    counters = totals(integer, outputs, outputs * k, left_out, 1 << device.bits, int(np.count_nonzero(overflow)))
    return Result(y.reshape(shape), overflow.reshape(shape), **counters)


def _outputs(device: IndexMatmul, columns: Column) -> np.ndarray:
    """Y of each output, float32, fp16 values."""
    counts, arith = _counts(device, columns), device.arith
    if arith.acc == "exact":
        return _exact(device, columns, counts)
    inside = weighted_sum_jit.sums(counts, columns.table, arith).astype(np.float64)
    a, b = _left_out(columns)
    outside = dot_jit.dot(a, b, order=Sequential(), acc=arith.acc).astype(np.float64)
    return merge(inside, columns.scale, outside, arith)


def _counts(device: IndexMatmul, columns: Column) -> np.ndarray:
    """What the counters hold of each output, int64 (outputs, entries)."""
    used = ~columns.left_out
    if device.integer:
        return index_counter_jit.run(columns.b, device.bits, columns.a, valid=used, amount_bits=device.a_bits).count
    return index_counter_jit.run((columns.a << device.b_bits) | columns.b, device.bits, valid=used).count


def _left_out(columns: Column) -> tuple[np.ndarray, np.ndarray]:
    """Both operands where they are not counted, elsewhere -0 and +0."""
    return (
        np.where(columns.left_out, columns.a_value, np.float32(-0.0)),
        np.where(columns.left_out, columns.b_value, np.float32(0)),
    )


def _exact(device: IndexMatmul, columns: Column, counts: np.ndarray) -> np.ndarray:
    """Y by bounds in float64 where the table's entries and the sums leave them tight, else by the unit."""
    largest = integers.peak(counts) * counts.shape[1] * int(fp16.MAX) << FRACTION
    y, doubtful = np.zeros(len(counts), np.float32), np.ones(len(counts), np.bool_)
    if largest < 1 << 63 and fp16_jit.holds_fp16(columns.table):
        entries = integers.from_float(np.ldexp(columns.table.astype(np.float64), FRACTION))
        dense = np.ldexp(integers.total(counts * entries, axis=-1).astype(np.float64), -FRACTION) * columns.scale
        a, b = (side.astype(np.float64) for side in _left_out(columns))
        sparse, size = (total64(terms, order=Sequential()) for terms in (a * b, np.abs(a * b)))
        y, doubtful = between(dense, sparse, size * (device.k + 1), np.asarray)
    for row in np.flatnonzero(doubtful):
        one = Column(*(array[row] for array in columns[:7]))
        y[row] = fp16.values(np.uint16(device.outputs(one).y))
    return y
