"""Kernels as plain Python: `interpreted()` runs the functions behind the compiled ones of arith/float_jit.

Inside, every kernel is its `py_func`, and so is what it calls; what only a compiler can do is replaced by its plain
twin. `WAYS` are the two ways to run a compiled twin; with NUMBA_DISABLE_JIT they are one.
"""

import contextlib
from collections.abc import Iterator
from unittest import mock

import numpy as np
import pytest

from refemu.arith import float_jit, fp16_jit, fp32
from refemu.arith.jit import jit_is_off


@contextlib.contextmanager
def compiled() -> Iterator[None]:
    """Kernels as they are."""
    yield


@contextlib.contextmanager
def interpreted() -> Iterator[None]:
    """Kernels as Python functions."""
    fp16_jit.ready()
    plain = {name: kernel.py_func for name, kernel in vars(float_jit).items() if hasattr(kernel, "py_func")}
    if plain:
        plain |= {
            "_fma32": lambda a, b, c: np.float32(fp32.fma32(a, b, c)),
            "_round16": plain["_round16_portable"],
            "_widen": plain["_widen_portable"],
        }
    # Without JIT the kernels are Python functions, and there is nothing to patch.
    patched = mock.patch.multiple(float_jit, **plain) if plain else contextlib.nullcontext()
    with patched, np.errstate(all="ignore"):
        yield


WAYS = [compiled, interpreted]
needs_jit = pytest.mark.skipif(jit_is_off(), reason="takes minutes when interpreted, or asks about compiled code")
