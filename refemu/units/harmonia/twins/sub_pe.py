"""Compiled twin of sub_pe: one loop over dot products and lanes. [harmonia §IV-B, Fig. 13]"""

from collections.abc import Sequence

import numpy as np

from refemu.arith.jit import kernel
from refemu.units.derived import Arrays, twin
from refemu.units.harmonia.sub_pe import LANES, UNIT, SubPe


@twin(UNIT)
def run(device: SubPe, inputs: Arrays, outputs: Arrays) -> Sequence[int]:
    """All dot products."""
    _psums(*inputs, *outputs)
    psums = outputs[0].size
    return psums, LANES * psums


@kernel
def _psums(a_sign, a_mag, b_sign, b_mag, psum):  # type: ignore[no-untyped-def]
    for i in range(psum.size):
        total = np.int64(0)
        for k in range(a_mag.shape[1]):
            sign = np.int64(1) - 2 * (np.int64(a_sign[i, k]) ^ np.int64(b_sign[i, k]))
            total += sign * np.int64(a_mag[i, k]) * np.int64(b_mag[i, k])
        psum[i] = total
