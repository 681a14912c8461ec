"""Compiled twin of olive_mac: shifts are capped where the low 32 bits are settled, sums fit int64. [olive §4.4]"""

from collections.abc import Sequence

import numpy as np

from refemu.arith.jit import kernel
from refemu.units.derived import Arrays, twin
from refemu.units.olive.olive_mac import UNIT, OliveMac

HIGH = (1 << 31) - 1
LOW = -(1 << 31)


@twin(UNIT)
def run(mac: OliveMac, inputs: Arrays, outputs: Arrays) -> Sequence[int]:
    """Load or multiply and add, event by event; devices side by side."""
    return _run(*inputs, int(mac.overflow == "saturate"), *outputs)


@kernel
def _run(  # type: ignore[no-untyped-def]
    load, acc_in, a_exp, a_int, b_exp, b_int, saturate, shift, product, acc, overflow
):
    macs = np.int64(0)
    overflows = np.int64(0)
    for device in range(load.shape[0]):
        total = np.int64(0)
        for event in range(load.shape[1]):
            loads = np.int64(load[device, event])
            exponent = (np.int64(a_exp[device, event]) + np.int64(b_exp[device, event])) * (1 - loads)
            integer = np.int64(a_int[device, event]) * np.int64(b_int[device, event]) * (1 - loads)
            # A shift of 40 has the low 32 bits, the sign and the overflow of any longer one, and fits int64.
            total = total * (1 - loads) + np.int64(acc_in[device, event]) * loads
            total += integer * (np.int64(1) << min(exponent, 40))
            over = np.int64(total > HIGH) + np.int64(total < LOW)
            wrapped = ((total - LOW) & 0xFFFFFFFF) + LOW
            total = saturate * max(min(total, HIGH), LOW) + (1 - saturate) * wrapped
            shift[device, event] = exponent
            product[device, event] = integer
            acc[device, event] = total
            overflow[device, event] = over != 0
            macs += 1 - loads
            overflows += over
    return macs, overflows
