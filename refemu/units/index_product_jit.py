"""Compiled twin of index_product: same arguments, same results. Read index_product.py first. [kllm §III-B1]"""

from typing import Any

import numpy as np

from refemu.arith import fp16, fp16_jit
from refemu.formats.kllm_arith import KllmArith
from refemu.formats.kmeans_tensor import KMeansTensor
from refemu.units.index_product import IndexProduct, Product, Result, product
from refemu.units.unit import admit


def run(a: KMeansTensor, b: KMeansTensor, *, preset: str | KllmArith = "paper") -> Product:
    """As `index_product.run`."""
    return product(a, b, preset, run_ports)


def run_ports(
    a: Any, b: Any, a_mask: Any, b_mask: Any, a_value: Any, b_value: Any, *, a_bits: int = 4, b_bits: int = 4
) -> Result:
    """As `index_product.run_ports`; only outliers, one element in a hundred, are multiplied."""
    device = IndexProduct(a_bits, b_bits)
    i, j, *masks, x, y = admit(device.name, device.ports.inputs, (a, b, a_mask, b_mask, a_value, b_value))
    mask = np.asarray((masks[0] | masks[1]) > 0)
    q = np.where(mask, 0, (i.astype(np.int64) << b_bits) | j).astype(device.ports.outputs[0].dtype)
    factors = [fp16_jit.to_f32(fp16.values(value[mask])) for value in (x, y)]
    with np.errstate(all="ignore"):
        values = fp16_jit.round16(factors[0] * factors[1])
    left = np.isfinite(factors[0]) & np.isfinite(factors[1]) & ~np.isfinite(values)
    outlier, overflow = np.zeros(mask.shape, np.uint16), np.zeros(mask.shape, np.bool_)
    outlier[mask], overflow[mask] = fp16.bits(fp16.to_f16(values)), left
    return Result(q, mask, outlier, overflow, mask.size, values.size, int(np.count_nonzero(left)))
