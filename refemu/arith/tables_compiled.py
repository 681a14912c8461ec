"""Compiled form of `tables`: same names, same arguments, same words. Kernels: `kernels`."""

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith import fp16, kernels, tables
from refemu.arith.checks import RefusedType
from refemu.arith.fp16_compiled import elementwise, plain
from refemu.arith.jit.tiers import early

__all__ = ["apply16", "take16", "values16"]


def apply16(name: tables.FunctionName, codes: ArrayLike, mode: tables.TableMode = "table") -> np.ndarray:
    """`tables.apply16`; compiled for uint16 codes."""
    words = np.asarray(codes)
    if mode != "table" or words.dtype != np.uint16:
        return tables.apply16(name, words, mode)
    return take16(tables.table16(name), words)


def take16(table: np.ndarray, words: np.ndarray) -> np.ndarray:
    """table[words]; table uint16 (65536,), read-only, words uint16 of any shape. Returns uint16, same shape."""
    flat = plain(words).reshape(-1)
    out = np.empty(words.shape, np.uint16)
    whole = flat.size // 4 * 4
    fours = flat[:whole].view(np.uint64)
    kernels.take_fours(table, fours if fours.flags.aligned else fours.copy(), out.reshape(-1)[:whole].view(np.uint64))
    out.reshape(-1)[whole:] = table[flat[whole:]]
    return out


def values16(name: str, x: ArrayLike) -> np.ndarray:
    """Function `name` of float32 `x` of any shape, rounded to fp16 before, as fp16-valued float32."""
    array = np.asarray(x)
    if array.dtype != np.float32:
        raise RefusedType(f"values16: float32 is needed, got dtype {array.dtype}")
    table = tables.table16(name)
    kernel = kernels.values_by_table
    results = early(kernel, array.size, lambda: fp16.to_f32(fp16.values(table[fp16.bits(fp16.to_f16(array))])))
    return results if results is not None else elementwise(lambda values, out: kernel(values, table, out), array)
