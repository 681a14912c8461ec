"""Compiled forms of `fp16`: same names, same arguments, same bits; NaN canonical. Kernels: refemu.arith.kernels."""

import functools
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith import fp16, kernels, selftest
from refemu.arith.checks import RefusedType
from refemu.arith.jit import ROUND16, quiet
from refemu.arith.jit.tiers import early


@functools.cache
def ready() -> None:
    """Check once a process that the environment rounds to nearest and compiled code rounds 64 hard cases right."""
    selftest.require_round_to_nearest()
    selftest.check_kernel(_round16_unchecked, f"round16 ({ROUND16})")


def _round16_unchecked(x: np.ndarray) -> np.ndarray:
    out = np.empty_like(x)
    with quiet():
        kernels.round16_all(x, out)
    return out


def plain(x: np.ndarray) -> np.ndarray:
    """`x` contiguous and writable, so that a kernel sees one array type."""
    array = np.ascontiguousarray(x)
    return array if array.flags.writeable else array.copy()


def elementwise(run: Callable[..., None], *arrays: np.ndarray) -> np.ndarray:
    """Kernel `run` over `arrays`, which broadcast, into a new float32 array."""
    ready()
    whole = arrays if len({array.shape for array in arrays}) == 1 else np.broadcast_arrays(*arrays)
    out = np.empty(whole[0].shape, np.float32)
    with quiet():
        run(*[plain(array).reshape(-1) for array in whole], out.reshape(-1))
    return out


def require_fp16(x: ArrayLike, thing: str, name: str) -> np.ndarray:
    """`fp16.require_fp16`: a KV cache passes here at every decode step, so the values are looked at in a kernel."""
    array = np.asarray(x)
    if array.dtype == np.float16:
        return to_f32(array)
    if array.dtype == np.float32 and holds_fp16(array):
        return array
    return fp16.require_fp16(array, thing, name)


def holds_fp16(x: np.ndarray) -> bool:
    """Whether every value of float32 `x` is an fp16 value."""
    all_fit = early(kernels.all_fp16, x.size, lambda: bool(fp16.is_fp16(x).all()))
    with quiet():
        return bool(kernels.all_fp16(plain(x).reshape(-1))) if all_fit is None else all_fit


def round16(x: ArrayLike) -> np.ndarray:
    """`fp16.round16` of mode IEEE."""
    array = np.asarray(x)
    if array.dtype != np.float32:
        return fp16.canonical(fp16.round16(array))  # float16, or an error
    rounded = early(kernels.round16_all, array.size, lambda: fp16.canonical(fp16.round16(array)))
    return elementwise(kernels.round16_all, array) if rounded is None else rounded


def round16_of_f64(x: ArrayLike) -> np.ndarray:
    """`fp16.round16_of_f64` of mode IEEE."""
    array = np.asarray(x)
    if array.dtype != np.float64:
        raise RefusedType(f"round16_of_f64: float64 is needed, got dtype {array.dtype}")
    rounded = early(kernels.round16_of_f64_all, array.size, lambda: fp16.round16_of_f64(array))
    return elementwise(kernels.round16_of_f64_all, array) if rounded is None else rounded


def to_f16(x: ArrayLike) -> np.ndarray:
    """`fp16.to_f16` of mode IEEE; compiled for float32."""
    array = np.asarray(x)
    if array.dtype != np.float32:
        return fp16.to_f16(array)
    if (narrow := early(kernels.narrow_all, array.size, lambda: fp16.to_f16(array))) is not None:
        return narrow
    ready()
    out = np.empty(array.shape, np.uint16)
    with quiet():
        kernels.narrow_all(plain(array).reshape(-1), out.reshape(-1))
    return out.view(np.float16)


def to_f32(x: ArrayLike) -> np.ndarray:
    """`fp16.to_f32`: float16 as fp16-valued float32."""
    words = fp16.bits(x)
    wide = early(kernels.widen_all, words.size, lambda: fp16.to_f32(fp16.values(words)))
    return elementwise(kernels.widen_all, words) if wide is None else wide


def fma16(a: ArrayLike, b: ArrayLike, c: ArrayLike) -> np.ndarray:
    """`fp16.fma16` of mode IEEE; the values are looked at while they are multiplied."""
    operands = [np.asarray(x) for x in (a, b, c)]
    dtypes = {x.dtype for x in operands}
    if dtypes == {np.dtype(np.float16)}:
        return elementwise(kernels.fma16_of_words, *map(fp16.bits, operands))
    if dtypes == {np.dtype(np.float32)}:
        strange = []
        out = elementwise(lambda *arrays: strange.append(kernels.fma16_all(*arrays)), *operands)
        if not strange[0]:
            return out
    return fma16(*(require_fp16(x, "fma16", name) for x, name in zip(operands, "abc", strict=True)))
