"""Compiled twin of weighted_sum: same arguments, same Result. Read weighted_sum.py first. [kllm §III-B1 step 3]"""

from typing import Any

import numpy as np

from refemu.arith import dot_jit, fp16, fp16_jit
from refemu.arith.orders import Exact
from refemu.formats.kllm_arith import KllmArith
from refemu.units import weighted_sum
from refemu.units.unit import admit
from refemu.units.weighted_sum import Result, WeightedSum, result

BATCH = 1024  #: sums at once: what they are made of stays in a cache


def run(count: Any, codebook: Any, *, bits: int = 8, preset: str | KllmArith = "paper") -> Result:
    """As `weighted_sum.run`."""
    device = WeightedSum(bits, preset)
    counts, words = admit(device.name, device.ports.inputs, (count, codebook))
    shape, size = counts.shape[:-1], 1 << bits
    numbers, table = counts.reshape(-1, size), fp16.values(words).reshape(-1, size)
    if device.arith.acc == "exact":
        return result(_exact(numbers, table).reshape(shape), size)
    return result(fp16_jit.round16(sums(numbers, table, device.arith)).reshape(shape), size)


def sums(count: np.ndarray, table: np.ndarray, arith: KllmArith) -> np.ndarray:
    """As `weighted_sum.sums` from +0, of rows (N, 2**n)."""
    out = np.empty(len(count), np.float32)
    for low in range(0, len(count), BATCH):
        part = slice(low, low + BATCH)
        out[part] = _sums(count[part], np.asarray(table[part], np.float32), arith)
    return out


def _sums(count: np.ndarray, entries: np.ndarray, arith: KllmArith) -> np.ndarray:
    if arith.acc != "fp32" and not fp16_jit.holds_fp16(entries):
        return weighted_sum.sums(count, entries, arith)
    numbers = count.astype(np.float32)  # exact below 2**24; what is rounded to another fp16 value is infinite there
    if arith.acc != "fp32":
        numbers = fp16_jit.round16(numbers)
    return dot_jit.dot(numbers, entries, order=arith.order, acc=arith.acc)


def _exact(count: np.ndarray, table: np.ndarray) -> np.ndarray:
    """A count below 2**16 is the sum of two fp16 values, its upper five bits and its lower eleven."""
    wide = np.asarray(table, np.float32)
    finite = np.asarray(np.isfinite(wide).all(axis=-1))
    numbers = np.concatenate([count & ~np.uint16(2047), count & np.uint16(2047)], axis=-1).astype(np.float32)
    entries = np.where(finite[:, None], wide, np.float32(0))
    total = dot_jit.dot(numbers, np.concatenate([entries, entries], axis=-1), order=Exact(), acc="exact", out="fp16")
    return np.where(finite, total, np.float32(np.nan))
