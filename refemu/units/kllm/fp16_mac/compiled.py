"""Compiled form of fp16_mac: all steps in float32, rounded by the kernels of `arith`. [kllm §IV-A]

For directions other than nearest even, and for flags, all steps are integers.
"""

import numpy as np

from refemu.arith import fp16, fp16_compiled
from refemu.units.derivation import Arrays, compiled_run
from refemu.units.kllm.fp16_mac import DIRECTIONS, UNIT, Fp16Mac
from refemu.units.kllm.kernels.fp16_mac import multiply_add_all


@compiled_run(UNIT)
def run(mac: Fp16Mac, inputs: Arrays, outputs: Arrays) -> tuple[int, int]:
    """Compute every step."""
    return _nearest_even(mac, inputs, outputs) if mac.plain else _in_directions(mac, inputs, outputs)


def _nearest_even(mac: Fp16Mac, inputs: Arrays, outputs: Arrays) -> tuple[int, int]:
    a, b, acc = (fp16_compiled.to_f32(fp16.values(array)) for array in inputs)
    y, overflow, products = outputs
    with np.errstate(all="ignore"):
        product = fp16_compiled.round16(a * b)
        total = fp16_compiled.round16(acc + product) if mac.rounding == "fp16" else fp16_compiled.fma16(a, b, acc)
    products[:] = fp16.to_f16(product).view(np.uint16)
    y[:] = fp16.to_f16(total).view(np.uint16)
    overflow[:] = np.isfinite(a) & np.isfinite(b) & np.isfinite(acc) & ~np.isfinite(total)
    return total.size, int(np.count_nonzero(overflow))


def _in_directions(mac: Fp16Mac, inputs: Arrays, outputs: Arrays) -> tuple[int, int]:
    a, b, acc, *rm = inputs
    y, last, products = outputs
    mode = rm[0] if rm else np.full(a.size, DIRECTIONS.index(mac._fixed()), np.uint8)
    flags = last if mac.ieee_flags else np.empty(a.size, np.uint8)
    quiet = mac.inf_zero_nan == "quiet"
    multiply_add_all(a, b, acc, mode, mac.rounding == "fp16_fma", mac.tininess == "before", quiet, products, y, flags)
    if mac.ieee_flags:
        return y.size, int(np.count_nonzero(flags & 4))
    last[:] = ~_is_infinite_or_nan(a) & ~_is_infinite_or_nan(b) & ~_is_infinite_or_nan(acc) & _is_infinite_or_nan(y)
    return y.size, int(np.count_nonzero(last))


def _is_infinite_or_nan(words: np.ndarray) -> np.ndarray:
    return words & 0x7C00 == 0x7C00
