"""The readable form in place of a kernel that is not compiled yet, as long as that takes less time than the compiler.

Both forms have the same bits. REFEMU_COMPILE, read when this module is imported: `later` for this, which is the command
line's default, or `always`, the library's.
"""

import os
import time
from collections.abc import Callable
from typing import Any, TypeVar

from refemu.arith.checks import require_choice

SECONDS = 0.25  #: of the processor, for which the readable form of a kernel runs at most: most kernels compile in it
RATE = 10e-9  #: seconds of a readable form for a multiplication or element; it decides where a call is too long

Result = TypeVar("Result")
_spent: dict[int, float | None] = {}  #: seconds of the readable form by the kernel's id; None once the kernel is used
#: whether readable forms run at all
LATER = (
    require_choice(os.environ.get("REFEMU_COMPILE") or "always", ["always", "later"], "REFEMU_COMPILE", "value")
    == "later"
)


def early(kernel: Any, work: int, readable: Callable[[], Result], seconds: float = SECONDS) -> Result | None:
    """The result of the readable form of a call; None where the kernel is compiled, cached or worth compiling.

    Parameters
    ----------
    kernel : callable
        What the call would compile first.
    work : int
        Multiplications or elements of the call.
    readable : callable
        The same call of the readable form; its result is not None.
    seconds : float
        What all such calls may take, in seconds of the processor: half the time of the compiler, if that is long.

    Returns
    -------
    object or None
        Its result.
    """
    if not LATER:
        return None
    key = id(kernel)
    if key not in _spent:
        _spent[key] = 0.0 if is_deferred(kernel) else None
    spent = _spent[key]
    if spent is None or spent + work * RATE > seconds:
        _spent[key] = None
        return None
    start = time.thread_time()
    result = readable()
    _spent[key] = spent + time.thread_time() - start
    return result


def is_deferred(kernel: Any) -> bool:
    """Whether little work does not compile `kernel`: it is neither Python, nor compiled, nor in the cache."""
    if not LATER or getattr(kernel, "overloads", True):
        return False
    return kernel._cache.cache_path is None or not os.path.exists(kernel._cache._cache_file._index_path)
