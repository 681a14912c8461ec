"""Compiled form of index_function: the tables of all vectors come from one look-up. [kllm §III-C1]

Only the roundings are compiled, by kernels of `arith`.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from refemu.arith import fp16, fp16_compiled
from refemu.units.derivation import Arrays, compiled_run
from refemu.units.kllm import index_function
from refemu.units.kllm.index_function import UNIT, Evaluation, IndexFunction
from refemu.units.kllm.index_function.index_function import require_finite


@compiled_run(UNIT)
def run(device: IndexFunction, inputs: Arrays, outputs: Arrays) -> tuple[int]:
    """Run all vectors."""
    codebooks, scales = inputs[:2]
    outputs[0][:] = _tables(device, codebooks, scales)
    for words, values in zip(inputs[2:], outputs[1:], strict=True):  # one port of outliers, or none
        values[:] = device.words[words]
        require_finite(device, values.reshape(-1, device.outliers), "outlier")
    return (scales.size * (device.last + 1),)


#: `index_function.apply`, compiled
apply: Callable[..., Evaluation] = partial(index_function.apply, vectors=run)


def _tables(device: IndexFunction, codebooks: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """Rows of words, one per scale or codebook."""
    if device.mode == "literal":
        words = _product(device.words[codebooks], scales[:, None])
    else:
        words = device.words[_product(codebooks, scales[:, None])]
    words = np.where(words == 0x8000, np.uint16(0), words)
    require_finite(device, words, "centroid")
    return words


def _product(words: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """Words of r16(s * c)."""
    wide = fp16_compiled.to_f32(fp16.values(words)) * fp16_compiled.to_f32(fp16.values(scales))  # 22 bits: exact
    return fp16.bits(fp16.narrow(wide))
