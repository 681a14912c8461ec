"""Compiled form of index_matmul between the ports, over thousands of outputs at once. [kllm §III-B, §III-D]

Every output has its own operands and codebooks, so thousands are computed together: counts by compiled index_counter,
weighted sums by compiled weighted_sum, excluded positions by sums over all positions, where the others are -0 times
+0, which changes no sum.
"""

import numpy as np

from refemu.arith import dot_compiled, fp16, fp16_compiled, integers
from refemu.arith.orders import Sequential
from refemu.arith.sums_compiled import total64
from refemu.units.derivation import Arrays, compiled_run
from refemu.units.kllm.index_counter import compiled as index_counter_compiled
from refemu.units.kllm.index_matmul import UNIT, IndexMatmul
from refemu.units.kllm.index_matmul.arithmetic import mean_term, merge
from refemu.units.kllm.index_matmul.compiled.index_matmul import between, biased, totals
from refemu.units.kllm.index_matmul.problem import Column, column_at_ports
from refemu.units.kllm.weighted_sum import compiled as weighted_sum_compiled
from refemu.units.kllm.weighted_sum.compiled import BATCH

FRACTION = 24  #: fp16 values are multiples of 2**-24


@compiled_run(UNIT)
def run(device: IndexMatmul, inputs: Arrays, outputs: Arrays) -> list[int]:
    """Compute the outputs batch by batch."""
    words = {port.name: array for port, array in zip(device.ports.inputs, inputs, strict=True)}
    y, overflow = outputs
    left_out = 0
    for low in range(0, y.size, BATCH):
        part = slice(low, low + BATCH)
        columns = column_at_ports({name: array[part] for name, array in words.items()}, device.integer, device.arith)
        y[part] = fp16.bits(fp16_compiled.to_f16(_outputs(device, columns)))
        left_out += int(np.count_nonzero(columns.left_out))
    overflow[:] = y & 0x7C00 == 0x7C00
    overflows = int(np.count_nonzero(overflow))
    return list(totals(device.integer, y.size, y.size * device.k, left_out, 1 << device.bits, overflows).values())


def _outputs(device: IndexMatmul, columns: Column) -> np.ndarray:
    """Y of each output, float32, fp16 values."""
    counts, arith = _counts(device, columns), device.arith
    if arith.acc == "exact":
        return _exact(device, columns, counts)
    inside = weighted_sum_compiled.sums(counts, columns.table, arith).astype(np.float64)
    a, b = _left_out(columns)
    outside = dot_compiled.dot(a, b, order=Sequential(), acc=arith.acc).astype(np.float64)
    shift = None if columns.shift is None else mean_term(*columns.shift)
    return merge(inside, columns.scale, outside, arith, columns.bias, shift)


def _counts(device: IndexMatmul, columns: Column) -> np.ndarray:
    """Counters of each output, int64 (outputs, entries)."""
    used = ~columns.left_out
    if device.integer:
        return index_counter_compiled.counts(
            columns.b, device.bits, columns.a, valid=used, amount_bits=device.a_bits
        ).count
    return index_counter_compiled.counts((columns.a << device.b_bits) | columns.b, device.bits, valid=used).count


def _left_out(columns: Column) -> tuple[np.ndarray, np.ndarray]:
    """Both operands at excluded positions, elsewhere -0 and +0."""
    return (
        np.where(columns.left_out, columns.a_value, np.float32(-0.0)),
        np.where(columns.left_out, columns.b_value, np.float32(0)),
    )


def _exact(device: IndexMatmul, columns: Column, counts: np.ndarray) -> np.ndarray:
    """Y by bounds in float64 where table entries and sums keep them tight, else by the unit."""
    largest = integers.peak(counts) * counts.shape[1] * int(fp16.MAX) << FRACTION
    y, doubtful = np.zeros(len(counts), np.float32), np.ones(len(counts), np.bool_)
    if largest < 1 << 63 and fp16_compiled.holds_fp16(columns.table):
        entries = integers.from_float(np.ldexp(columns.table.astype(np.float64), FRACTION))
        dense = np.ldexp(integers.total(counts * entries, axis=-1).astype(np.float64), -FRACTION) * columns.scale
        a, b = (side.astype(np.float64) for side in _left_out(columns))
        sparse, size = (total64(terms, order=Sequential()) for terms in (a * b, np.abs(a * b)))
        y, doubtful = between(dense, *biased(sparse, size, columns.bias, device.k + 1), np.asarray)
    for row in np.flatnonzero(doubtful):
        output = Column(*(array[row] for array in columns[:7]))
        if columns.bias is not None:
            output = output._replace(bias=columns.bias[row])
        y[row] = fp16.values(np.uint16(device.outputs(output).y))
    return y
