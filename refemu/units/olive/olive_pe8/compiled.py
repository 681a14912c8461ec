"""Compiled form of olive_pe8: the sum of the four shifted products is x * y, shifted once. [olive §4.5]"""

from collections.abc import Sequence

import numpy as np

from refemu.arith.jit import kernel
from refemu.units.derivation import Arrays, compiled_run
from refemu.units.olive.olive_pe8 import PES, UNIT, OlivePe8

HIGH = (1 << 31) - 1
LOW = -(1 << 31)


@compiled_run(UNIT)
def run(pe: OlivePe8, inputs: Arrays, outputs: Arrays) -> Sequence[int]:
    """Load, or multiply and add, event by event."""
    choices = int(pe.split == "sign_magnitude"), int(pe.overflow == "saturate")
    macs, overflows = _run(*inputs, *choices, *outputs)
    return macs, PES * macs, overflows


@kernel
def _run(  # type: ignore[no-untyped-def]
    load, acc_in, x_exp, x_int, y_exp, y_int, sign_magnitude, saturate, partial, shift, acc, overflow
):
    macs = np.int64(0)
    overflows = np.int64(0)
    for device in range(load.shape[0]):
        total = np.int64(0)
        for event in range(load.shape[1]):
            works = 1 - np.int64(load[device, event])
            x = np.int64(x_int[device, event]) * works
            y = np.int64(y_int[device, event]) * works
            # Truncating, not flooring, division by 16 splits the magnitude and gives both parts the sign.
            high_x = (x + 15 * sign_magnitude * np.int64(x < 0)) >> 4
            high_y = (y + 15 * sign_magnitude * np.int64(y < 0)) >> 4
            low_x, low_y = x - 16 * high_x, y - 16 * high_y
            exponent = (np.int64(x_exp[device, event]) + np.int64(y_exp[device, event])) * works
            partial[device, event, 0] = high_x * high_y
            partial[device, event, 1] = high_x * low_y
            partial[device, event, 2] = low_x * high_y
            partial[device, event, 3] = low_x * low_y
            shift[device, event, 0] = exponent + 8 * works
            shift[device, event, 1] = exponent + 4 * works
            shift[device, event, 2] = exponent + 4 * works
            shift[device, event, 3] = exponent
            # A shift of 40 has the low 32 bits, the sign and the overflow of any longer one, and fits int64.
            total = total * works + np.int64(acc_in[device, event]) * (1 - works)
            total += x * y * (np.int64(1) << min(exponent, 40))
            over = np.int64(total > HIGH) + np.int64(total < LOW)
            wrapped = ((total - LOW) & 0xFFFFFFFF) + LOW
            total = saturate * max(min(total, HIGH), LOW) + (1 - saturate) * wrapped
            acc[device, event] = total
            overflow[device, event] = over != 0
            macs += works
            overflows += over
    return macs, overflows
