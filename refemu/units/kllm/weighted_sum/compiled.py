"""Compiled form of weighted_sum: the kernels of `arith.dot`, over many sums at once. [kllm §III-B1 step 3]"""

import numpy as np

from refemu.arith import dot_compiled, fp16, fp16_compiled
from refemu.arith.orders import Exact, Sequential
from refemu.formats.kllm.kllm_arith import KllmArith
from refemu.units.derivation import Arrays, compiled_run
from refemu.units.kllm import weighted_sum
from refemu.units.kllm.weighted_sum import UNIT, WeightedSum

BATCH = 1024  #: sums at once: their operands stay in a cache


@compiled_run(UNIT)
def run(device: WeightedSum, inputs: Arrays, outputs: Arrays) -> tuple[int, int, int]:
    """Compute every sum; MACs are executed for all counts."""
    (count, words), (y, overflow, acc, done) = inputs, outputs
    table = fp16.values(words)
    exact = device.arith.acc == "exact"
    total = _exact(count, table) if exact else sums(count, table, device.arith)
    values = total if exact else fp16_compiled.round16(total)
    acc[:] = fp16.canonical(total if device.arith.order == Sequential() else values).view(np.uint32)
    done[:] = 1 << device.bits
    y[:], overflow[:] = fp16.bits(fp16.to_f16(values)), ~np.isfinite(values)
    return count.size, count.size, int(np.count_nonzero(overflow))


def sums(count: np.ndarray, table: np.ndarray, arith: KllmArith) -> np.ndarray:
    """As `weighted_sum.sums` from +0, of rows (N, 2**n)."""
    out = np.empty(len(count), np.float32)
    for low in range(0, len(count), BATCH):
        part = slice(low, low + BATCH)
        out[part] = _sums(count[part], np.asarray(table[part], np.float32), arith)
    return out


def _sums(count: np.ndarray, entries: np.ndarray, arith: KllmArith) -> np.ndarray:
    if arith.acc != "fp32" and not fp16_compiled.holds_fp16(entries):
        return weighted_sum.sums(count, entries, arith)
    numbers = count.astype(np.float32)  # exact below 2**24; larger counts are infinite in fp16
    if arith.acc != "fp32":
        numbers = fp16_compiled.round16(numbers)
    return dot_compiled.dot(numbers, entries, order=arith.order, acc=arith.acc)


def _exact(count: np.ndarray, table: np.ndarray) -> np.ndarray:
    """A count below 2**16 is the sum of two fp16 values, its upper five bits and its lower eleven."""
    wide = np.asarray(table, np.float32)
    finite = np.asarray(np.isfinite(wide).all(axis=-1))
    numbers = np.concatenate([count & ~np.uint16(2047), count & np.uint16(2047)], axis=-1).astype(np.float32)
    entries = np.where(finite[:, None], wide, np.float32(0))
    total = dot_compiled.dot(
        numbers, np.concatenate([entries, entries], axis=-1), order=Exact(), acc="exact", out="fp16"
    )
    return np.where(finite, total, np.float32(np.nan))
