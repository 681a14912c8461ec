"""Twin of index_function.run over whole tensors: same arguments, same Result. Read index_function.py first.

Paper: [kllm §III-C1]. Tables for all vectors come from one look-up; there is nothing to compile but the roundings.
"""

from typing import Any

import numpy as np

from refemu.arith import fp16, fp16_jit
from refemu.arith.checks import Refused, first_index
from refemu.formats.kmeans_tensor import KMeansTensor
from refemu.units import index_function
from refemu.units.index_function import IndexFunction, Result
from refemu.units.unit import admit


def run(tensor: KMeansTensor, function: Any, *, mode: str = "token", scale: Any = None) -> Result:
    """As `index_function.run`."""
    scales = np.asarray(index_function.require_input(tensor, mode, scale)).reshape(-1)
    device = IndexFunction(function, tensor.bits, 0, mode)
    codebooks = tensor.codebook.values.reshape(-1, 1 << tensor.bits)
    tables = _tables(device, codebooks, scales)
    values = device.words[tensor.outlier]
    _require_finite(device, values, "outlier")
    return index_function.result(tensor, tables, values, index_function.evaluations(tables.size, mode, tensor))


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
    wide = fp16_jit.to_f32(fp16.values(words)) * fp16_jit.to_f32(fp16.values(scales))  # 22 bits: exact
    return fp16.bits(fp16.narrow(wide))


def _require_finite(device: IndexFunction, words: np.ndarray, where: str) -> None:
    bad = words & 0x7C00 == 0x7C00
    if bad.any():
        place = first_index(bad)
        raise Refused(f"{device.name}: {device._told} is {fp16.values(words)[place]!s} at {where} {place[-1]}")


def run_ports(
    codebook: Any,
    scale: Any,
    outlier: Any = None,
    *,
    function: Any = "silu",
    bits: int = 4,
    outliers: int = 2,
    mode: str = "token",
) -> Result:
    """As `index_function.run_ports`."""
    device = IndexFunction(function, bits, outliers, mode)
    arrays = admit(device.name, device.ports.inputs, (codebook, scale, outlier)[: len(device.ports.inputs)])
    shape, n = arrays[1].shape, 1 << bits
    tables = _tables(device, arrays[0].reshape(-1, n), arrays[1].reshape(-1)).reshape(*shape, n)
    values = device.words[arrays[2]] if outliers else np.zeros((*shape, 0), np.uint16)
    _require_finite(device, values, "outlier")
    return Result(tables, values, arrays[1].size * (n + outliers))
