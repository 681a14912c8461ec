"""Compiled twin of concat.run: same arguments, same Result. Read concat.py first. [kllm §III-B]"""

from typing import Any

import numpy as np

from refemu.arith.jit import kernel
from refemu.units.concat import Concat, Result
from refemu.units.unit import admit_events


def run(a: Any, b: Any, *, a_bits: int = 4, b_bits: int = 4) -> Result:
    """As `concat.run`."""
    device = Concat(a_bits, b_bits)
    left, right = admit_events(device.name, device.ports.inputs, (a, b))
    q = np.empty(left.shape, np.uint8)
    _concat(left.reshape(-1), right.reshape(-1), b_bits, q.reshape(-1))
    return Result(q, q.size)


@kernel
def _concat(a, b, b_bits, q):  # type: ignore[no-untyped-def]
    for i in range(q.size):
        q[i] = (np.int64(a[i]) << b_bits) | np.int64(b[i])
