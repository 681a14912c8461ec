"""Compiled twin of concat: every edge at once, since the register keeps nothing of the edge before. [kllm §III-B]"""

import numpy as np

from refemu.arith.jit import kernel
from refemu.units.derived import Arrays, twin
from refemu.units.kllm.concat import UNIT, Concat


@twin(UNIT)
def run(device: Concat, inputs: Arrays, outputs: Arrays) -> tuple[int]:
    """Devices side by side."""
    (q,) = outputs
    _concat(*(array.reshape(-1) for array in inputs), device.b_bits, q.reshape(-1))
    return (q.size,)


@kernel
def _concat(a, b, b_bits, q):  # type: ignore[no-untyped-def]
    for i in range(q.size):
        q[i] = (np.int64(a[i]) << b_bits) | np.int64(b[i])
