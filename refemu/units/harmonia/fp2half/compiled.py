"""Compiled twin of fp2half: all columns are rounded at once, and a kernel marks what left fp16. [harmonia §IV-A (4)]"""

from collections.abc import Sequence

import numpy as np

from refemu.arith import fp16, fp16_jit
from refemu.arith.jit import kernel
from refemu.units.derived import Arrays, twin
from refemu.units.harmonia.fp2half import UNIT, Fp2Half

FINITE = 0x7F800000  # words below it, without their sign, are finite
OVERFLOW = 0x477FF000  # 65520
INFINITY = 0x7C00  # fp16 word; the one below is the largest value


@twin(UNIT)
def run(device: Fp2Half, inputs: Arrays, outputs: Arrays) -> Sequence[int]:
    """All columns."""
    (words,), (y, overflow) = inputs, outputs
    y[:] = fp16.bits(fp16.narrow(fp16_jit.round16(words.view(np.float32))))
    return len(words), _overflow(words.reshape(-1), int(device.saturate), y.reshape(-1), overflow.reshape(-1))


@kernel
def _overflow(word, saturate, y, overflow):  # type: ignore[no-untyped-def]
    """Mark what left fp16; with `saturate` also put the largest value in place of every infinity."""
    overflows = np.int64(0)
    for i in range(word.size):
        size = np.int64(word[i]) & 0x7FFFFFFF
        over = np.int64(size >= OVERFLOW) * np.int64(size < FINITE)
        half = np.int64(y[i])
        y[i] = half - saturate * np.int64(half & 0x7FFF == INFINITY)
        overflow[i] = over != 0
        overflows += over
    return overflows
