"""Compiled twin of olive_mac.run: same arguments, same Result. Read olive_mac.py first. [olive §4.4]"""

from math import prod
from typing import Any

import numpy as np

from refemu.arith.integers import Overflow
from refemu.arith.jit import kernel
from refemu.units.olive_mac import OliveMac, Result
from refemu.units.unit import admit_events

HIGH = (1 << 31) - 1
LOW = -(1 << 31)


def run(
    load: Any,
    acc_in: Any,
    a_exp: Any,
    a_int: Any,
    b_exp: Any,
    b_int: Any,
    *,
    exponent_bits: int = 4,
    int_bits: int = 4,
    overflow: str = "wrap",
) -> Result:
    """As `olive_mac.run`."""
    mac = OliveMac(exponent_bits, int_bits, overflow)
    arrays = admit_events(mac.name, mac.ports.inputs, (load, acc_in, a_exp, a_int, b_exp, b_int))
    shape = arrays[0].shape
    devices = prod(shape[:-1])
    inputs = [array.reshape(devices, shape[-1]) for array in arrays]
    outputs: dict[str, Any] = {port.name: np.empty(shape, port.result_dtype) for port in mac.ports.outputs}
    macs, overflows = _run(
        *inputs,
        int(mac.overflow is Overflow.SATURATE),
        *(output.reshape(devices, shape[-1]) for output in outputs.values()),
    )
    return Result(**outputs, macs=int(macs), overflows=int(overflows))


@kernel
def _run(
    load,
    acc_in,
    a_exp,
    a_int,
    b_exp,
    b_int,
    saturate,  # type: ignore[no-untyped-def]
    shift,
    product,
    acc,
    overflow,
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
