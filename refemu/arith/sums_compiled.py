"""Compiled forms of the plain sums of `sums`: same names, same arguments, same bits. Kernels: refemu.arith.kernels."""

import math

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith import kernels
from refemu.arith.fp16 import canonical
from refemu.arith.fp16_compiled import plain
from refemu.arith.jit import quiet
from refemu.arith.orders import Order, Sequential, lower
from refemu.arith.sums import require_terms


def total32(x: ArrayLike, *, order: Order) -> np.ndarray:
    """`sums.total32`."""
    return _total(require_terms(x, np.dtype(np.float32), order, "total32"), order)


def total64(x: ArrayLike, *, order: Order) -> np.ndarray:
    """`sums.total64`."""
    return _total(require_terms(x, np.dtype(np.float64), order, "total64"), order)


def rows(x: np.ndarray) -> np.ndarray:
    """x (..., K) as (rows, K), also for K = 0, where -1 says nothing."""
    return x.reshape(math.prod(x.shape[:-1]), x.shape[-1])


def _total(x: np.ndarray, order: Order) -> np.ndarray:
    flat = plain(rows(x))
    with np.errstate(all="ignore"):
        if isinstance(order, Sequential):
            sums = np.zeros(flat.shape[0], x.dtype)
            kernels.total_rows(flat, flat.shape[1], sums)
        else:
            program, slots = lower(order, x.shape[-1])
            work = np.empty((slots, flat.shape[0]), x.dtype)
            kernels.run_program_of_terms(program, plain(flat.T), work)
            sums = work[0]
    return canonical(sums).reshape(x.shape[:-1])


def running32(x: np.ndarray, clear: np.ndarray) -> np.ndarray:
    """`sums.running32`."""
    out = np.empty(rows(x).shape, np.float32)
    with quiet():
        kernels.running_sums(plain(rows(x)), plain(rows(clear).astype(np.uint8)), out)
    return out.reshape(x.shape)
