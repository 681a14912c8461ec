"""Compiled twin of fp16_mac.run: same arguments, same Result. Read fp16_mac.py first. [kllm §IV-A]"""

from typing import Any

import numpy as np

from refemu.arith import fp16, fp16_jit
from refemu.units.fp16_mac import Fp16Mac, Result
from refemu.units.unit import admit


def run(a: Any, b: Any, acc: Any, *, rounding: str = "fp16") -> Result:
    """As `fp16_mac.run`."""
    mac = Fp16Mac(rounding)
    arrays = admit(mac.name, mac.ports.inputs, (a, b, acc))
    x, y, s = (fp16_jit.to_f32(fp16.values(array)) for array in arrays)
    with np.errstate(all="ignore"):
        total = fp16_jit.round16(s + fp16_jit.round16(x * y)) if rounding == "fp16" else fp16_jit.fma16(x, y, s)
        overflow = np.isfinite(x) & np.isfinite(y) & np.isfinite(s) & ~np.isfinite(total)
    return Result(fp16.to_f16(total).view(np.uint16), np.asarray(overflow), total.size, int(np.count_nonzero(overflow)))
