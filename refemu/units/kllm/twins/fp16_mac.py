"""Compiled twin of fp16_mac: all steps in float32, rounded by the kernels of `arith`. [kllm §IV-A]"""

import numpy as np

from refemu.arith import fp16, fp16_jit
from refemu.units.derived import Arrays, twin
from refemu.units.kllm.fp16_mac import UNIT, Fp16Mac


@twin(UNIT)
def run(mac: Fp16Mac, inputs: Arrays, outputs: Arrays) -> tuple[int, int]:
    """Every step by itself."""
    a, b, acc = (fp16_jit.to_f32(fp16.values(array)) for array in inputs)
    y, overflow, products = outputs
    with np.errstate(all="ignore"):
        product = fp16_jit.round16(a * b)
        total = fp16_jit.round16(acc + product) if mac.rounding == "fp16" else fp16_jit.fma16(a, b, acc)
    products[:] = fp16.to_f16(product).view(np.uint16)
    y[:] = fp16.to_f16(total).view(np.uint16)
    overflow[:] = np.isfinite(a) & np.isfinite(b) & np.isfinite(acc) & ~np.isfinite(total)
    return total.size, int(np.count_nonzero(overflow))
