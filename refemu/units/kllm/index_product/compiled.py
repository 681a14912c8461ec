"""Compiled twin of index_product: only outliers, one element in a hundred, are multiplied. [kllm §III-B1]"""

import numpy as np

from refemu.arith import fp16, fp16_jit
from refemu.formats.kllm.kllm_arith import KllmArith, Preset
from refemu.formats.kllm.kmeans_tensor import KMeansTensor
from refemu.units.derived import Arrays, twin
from refemu.units.kllm.index_product import UNIT, IndexProduct, Product
from refemu.units.kllm.index_product.index_product import product_by


def product(a: KMeansTensor, b: KMeansTensor, *, preset: Preset | KllmArith = "paper") -> Product:
    """`index_product.product`, compiled."""
    return product_by(run, a, b, preset)


@twin(UNIT)
def run(device: IndexProduct, inputs: Arrays, outputs: Arrays) -> tuple[int, int, int]:
    """All elements at once."""
    a, b, a_mask, b_mask, a_value, b_value = inputs
    q, mask, outlier, overflow = outputs
    mask[:] = (a_mask | b_mask) > 0
    q[:] = np.where(mask, 0, (a.astype(np.int64) << device.b_bits) | b)
    x, y = (fp16_jit.to_f32(fp16.values(value[mask])) for value in (a_value, b_value))
    with np.errstate(all="ignore"):
        values = fp16_jit.round16(x * y)
    infinite = np.isfinite(x) & np.isfinite(y) & ~np.isfinite(values)
    outlier[:], overflow[:] = 0, False
    outlier[mask], overflow[mask] = fp16.bits(fp16.to_f16(values)), infinite
    return mask.size, values.size, int(np.count_nonzero(infinite))
