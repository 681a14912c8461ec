"""The only place that names numba's `njit`; see `kernel`."""

from collections.abc import Callable
from typing import Any

import numba


def kernel(function: Callable[..., Any]) -> Any:
    """Compile `function`: numpy's error model (vectorisable), no fastmath, GIL released."""
    return numba.njit(error_model="numpy", nogil=True)(function)


def helper(function: Callable[..., Any]) -> Any:
    """Like `kernel`, inlined into the kernels of the same file."""
    return numba.njit(error_model="numpy", nogil=True, inline="always")(function)
