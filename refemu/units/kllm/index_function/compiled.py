"""Compiled form of index_function: the tables of all vectors come from one look-up. [kllm §III-C1]

Only the roundings are compiled, by kernels of `arith`.
"""

import numpy as np

from refemu.arith import fp16, fp16_compiled
from refemu.arith.checks import Refused, first_index
from refemu.formats.kllm.kmeans_tensor import KMeansTensor
from refemu.units.derivation import Arrays, compiled_run
from refemu.units.kllm.index_function import UNIT, Evaluation, Function, IndexFunction, Mode, index_function


@compiled_run(UNIT)
def run(device: IndexFunction, inputs: Arrays, outputs: Arrays) -> tuple[int]:
    """Run all vectors."""
    codebooks, scales = inputs[:2]
    outputs[0][:] = _tables(device, codebooks, scales)
    for words, values in zip(inputs[2:], outputs[1:], strict=True):  # one port of outliers, or none
        values[:] = device.words[words]
        _require_finite(device, values.reshape(-1, device.outliers), "outlier")
    return (scales.size * (device.last + 1),)


def apply(tensor: KMeansTensor, function: Function, *, mode: Mode = "token", scale: float | None = None) -> Evaluation:
    """`index_function.apply`, compiled."""
    scales = np.asarray(index_function.require_input(tensor, mode, scale)).reshape(-1)
    device = IndexFunction(function, tensor.bits, 0, mode)
    codebooks = tensor.codebook.values.reshape(-1, 1 << tensor.bits)
    tables = _tables(device, codebooks, scales)
    values = device.words[tensor.outlier]
    _require_finite(device, values, "outlier")
    return index_function.evaluation(tensor, tables, values, index_function.evaluations(tables.size, mode, tensor))


def _tables(device: IndexFunction, codebooks: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """Rows of words, one per scale or codebook."""
    if device.mode == "literal":
        words = _product(device.words[codebooks], scales[:, None])
    else:
        words = device.words[_product(codebooks, scales[:, None])]
    words = np.where(words == 0x8000, np.uint16(0), words)
    _require_finite(device, words, "centroid")
    return words


def _product(words: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """Words of r16(s * c)."""
    wide = fp16_compiled.to_f32(fp16.values(words)) * fp16_compiled.to_f32(fp16.values(scales))  # 22 bits: exact
    return fp16.bits(fp16.narrow(wide))


def _require_finite(device: IndexFunction, words: np.ndarray, where: str) -> None:
    bad = words & 0x7C00 == 0x7C00
    if bad.any():
        place = first_index(bad)
        raise Refused(
            f"{device.name}: {device.title} must be finite, got {fp16.values(words)[place]!s} at {where} {place[-1]}"
        )
