"""Compiled twin of fp2half.run: same arguments, same Result. Read fp2half.py first. [harmonia §IV-A (4)]"""

from typing import Any

import numpy as np

from refemu.arith import fp16, fp16_jit
from refemu.arith.jit import kernel
from refemu.units.fp2half import LANES, Fp2Half, Result
from refemu.units.unit import admit

FINITE = 0x7F800000  # words below it, without their sign, are finite
OVERFLOW = 0x477FF000  # 65520
INFINITY = 0x7C00  # fp16 word; the one below is the largest value


def run(x: Any, *, saturate: bool = False) -> Result:
    """As `fp2half.run`."""
    device = Fp2Half(saturate)
    (words,) = admit(device.name, device.ports.inputs, (x,))
    flat = fp16_jit.plain(words)
    y = fp16.bits(fp16.narrow(fp16_jit.round16(flat.view(np.float32)))).copy()
    overflow = np.empty(words.shape, np.bool_)
    overflows = _overflow(flat.reshape(-1), int(saturate), y.reshape(-1), overflow.reshape(-1))
    return Result(y, overflow, words.size // LANES, int(overflows))


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
