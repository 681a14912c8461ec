"""Kernels as plain Python: `interpreted()` runs the functions behind the compiled ones of arith/float_jit.

Inside, every kernel is its `py_func`, and so is what it calls; what only a compiler can do is replaced by its plain
twin. `WAYS` are the two ways to run a compiled twin; with NUMBA_DISABLE_JIT they are one.
"""

import contextlib
from collections.abc import Iterator
from unittest import mock

import numpy as np

from refemu.arith import float_jit, fp16_jit, fp32


@contextlib.contextmanager
def compiled() -> Iterator[None]:
    """Kernels as they are."""
    yield


@contextlib.contextmanager
def interpreted() -> Iterator[None]:
    """Kernels as Python functions."""
    fp16_jit.ready()
    plain = {name: kernel.py_func for name, kernel in vars(float_jit).items() if hasattr(kernel, "py_func")}
    if plain:  # else JIT is off, and they are
        plain |= {
            "_fma32": lambda a, b, c: np.float32(fp32.fma32(a, b, c)),
            "_round16": plain["_round16_portable"],
            "_widen": plain["_widen_portable"],
        }
    with mock.patch.multiple(float_jit, **plain), np.errstate(all="ignore"):
        yield


WAYS = [compiled, interpreted]
