"""Compiled twin of sub_pe.run: same arguments, same Result. Read sub_pe.py first. [harmonia §IV-B, Fig. 13]"""

from typing import Any

import numpy as np

from refemu.arith.jit import kernel
from refemu.units.sub_pe import LANES, Result, SubPe
from refemu.units.unit import admit


def run(a_sign: Any, a_mag: Any, b_sign: Any, b_mag: Any) -> Result:
    """As `sub_pe.run`."""
    device = SubPe()
    arrays = admit(device.name, device.ports.inputs, (a_sign, a_mag, b_sign, b_mag))
    shape = arrays[0].shape[:-1]
    psum = np.empty(shape, np.int32)
    _psums(*(array.reshape(-1, LANES).copy() for array in arrays), psum.reshape(-1))
    return Result(psum, psum.size, LANES * psum.size)


@kernel
def _psums(a_sign, a_mag, b_sign, b_mag, psum):  # type: ignore[no-untyped-def]
    for i in range(psum.size):
        total = np.int64(0)
        for k in range(a_mag.shape[1]):
            sign = np.int64(1) - 2 * (np.int64(a_sign[i, k]) ^ np.int64(b_sign[i, k]))
            total += sign * np.int64(a_mag[i, k]) * np.int64(b_mag[i, k])
        psum[i] = total
