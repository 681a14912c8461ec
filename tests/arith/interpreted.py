"""Kernels as plain Python: `interpreted()` runs the Python functions of the compiled ones of arith/kernels, and
`interpreted(loaded())` those of all kernels.

Inside, every kernel is its `py_func`, and so is what it calls; what only a compiler can do is replaced by its plain
compiled form. `WAYS` are the two ways to run a compiled form; with NUMBA_DISABLE_JIT they are one.
"""

import contextlib
import functools
import sys
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import Any
from unittest import mock

import numpy as np
import pytest

from refemu.arith import fp16_compiled, fp32, kernels
from refemu.arith.jit import jit_is_off


@contextlib.contextmanager
def compiled() -> Iterator[None]:
    """Kernels as they are."""
    yield


@contextlib.contextmanager
def interpreted(modules: Iterable[ModuleType] = (kernels, *kernels.MODULES)) -> Iterator[set[str]]:
    """Kernels as Python functions, wherever `modules` bind one. Yields the names of those that have run."""
    fp16_compiled.ready()
    ran: set[str] = set()
    other = {
        kernels.scalars.fma32: lambda a, b, c: np.float32(fp32.fma32(a, b, c)),
        kernels.scalars.round16: getattr(kernels.scalars._round16_portable, "py_func", None),
        kernels.scalars.narrow: getattr(kernels.scalars._narrow_portable, "py_func", None),
        kernels.scalars.widen: getattr(kernels.scalars._widen_portable, "py_func", None),
        kernels.scalars.prefetch: lambda x, i, j: None,
    }
    with contextlib.ExitStack() as stack:
        for module in modules:
            # Without JIT the kernels are Python functions, and there is nothing to patch.
            found = {name: kernel for name, kernel in vars(module).items() if hasattr(kernel, "py_func")}
            plain = {name: noted(ran, name, other.get(kernel, kernel.py_func)) for name, kernel in found.items()}
            stack.enter_context(mock.patch.multiple(module, **plain) if plain else contextlib.nullcontext())
        stack.enter_context(np.errstate(all="ignore"))
        yield ran


def noted(ran: set[str], name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, which notes its name when it runs."""

    @functools.wraps(function)
    def run(*arguments: Any) -> Any:
        ran.add(name)
        return function(*arguments)

    return run


def loaded() -> list[ModuleType]:
    """Every module of refemu that has been imported: a compiled form binds the kernels of others at import."""
    return [module for name, module in sorted(sys.modules.items()) if name.split(".")[0] == "refemu"]


WAYS = [compiled, interpreted]
needs_compiled = pytest.mark.skipif(jit_is_off(), reason="takes minutes when interpreted, or asks about compiled code")
