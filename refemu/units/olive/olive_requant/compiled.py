"""Compiled form of olive_requant: a loop up to the quotients, then compiled ovp_encoder. [olive §4.1]"""

from collections.abc import Sequence

import numpy as np

from refemu.arith.jit import kernel
from refemu.arith.kernels.scalars import narrow, widen
from refemu.units.derivation import Arrays, compiled_run
from refemu.units.olive.olive_requant import UNIT, OliveRequant
from refemu.units.olive.ovp_encoder import UNIT as ENCODER
from refemu.units.olive.ovp_encoder import OvpEncoder


@compiled_run(UNIT)
def run(stage: OliveRequant, inputs: Arrays, outputs: Arrays) -> Sequence[int]:
    """Rescale and divide every output, encode every pair."""
    acc, scale_a, scale_w, bias, scale_next = inputs
    y, overflow, *encoded, acc_f32, rescale, scaled, biased, grid = outputs
    scales = scale_a.view(np.float32), scale_w.view(np.float32), scale_next.view(np.float32)
    reals = [array.view(np.float32) for array in (acc_f32, rescale, scaled, biased, grid)]
    counts = np.zeros(3, np.int64)
    _requant(acc, scales[0], scales[1], bias, scales[2], y, overflow, *reals, counts)
    pairs = ENCODER.run_compiled(grid, fmt=stage.fmt)
    for port, array in zip(stage.encoder.ports.outputs, encoded, strict=True):
        array[:] = getattr(pairs, port.name)
    return [*counts.tolist(), *(getattr(pairs, name) for name in OvpEncoder.counters)]


@kernel
def _requant(  # type: ignore[no-untyped-def]
    acc, scale_a, scale_w, bias, scale_next, y, overflow, acc_f32, rescale, scaled, biased, grid, counts
):
    largest = np.uint32(0x7F7FFFFF).view(np.float32)
    inexact, beyond, wide = np.int64(0), np.int64(0), np.int64(0)
    for i in range(acc.shape[0]):
        for lane in range(acc.shape[1]):
            real = np.float32(acc[i, lane])
            factor = np.float32(scale_a[i] * scale_w[i, lane])
            value = np.float32(real * factor)
            total = np.float32(value + widen(bias[i, lane]))
            word = narrow(total)
            quotient = np.float32(widen(word) / scale_next[i])
            infinite = abs(quotient) > largest
            if infinite:
                quotient = np.float32(np.copysign(largest, quotient))
            acc_f32[i, lane], rescale[i, lane], scaled[i, lane] = real, factor, value
            biased[i, lane], y[i, lane], grid[i, lane] = total, word, quotient
            over = (word & np.uint16(0x7FFF)) >= np.uint16(0x7C00)
            overflow[i, lane] = over
            inexact += np.int64(np.float64(real) != np.float64(acc[i, lane]))
            beyond += np.int64(over)
            wide += np.int64(infinite)
    counts[0], counts[1], counts[2] = inexact, beyond, wide
