"""Threads that share out independent outputs; no bit depends on their number, because no sum is ever split.

A compiled form cuts its outputs into units (tiles, rows, heads, requests) and hands them to `share_out`:

    def run(first, last):  # units first to last, by a kernel, which releases Python's lock
        kernels.some_kernel(x, out, first, last)

    share_out(run, units, threads)

If `threads` is None, the default, the number of the block applies, or that of the process:

    set_threads(4)  # from now on
    with using_threads(2):  # inside the block, then as before
        model.prefill(tokens)

So a scheme passes no number through its calls. The command line sets it to `from_environment()`, what REFEMU_THREADS
says. A unit of a compiled form that calls another compiled form runs that one alone: threads do not multiply.
"""

import contextlib
import contextvars
import functools
import itertools
import os
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from refemu.arith.checks import Refused, require_int

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

__all__ = [
    "from_environment",
    "get_threads",
    "processors",
    "set_threads",
    "share_out",
    "using_threads",
    "workers",
    "worth",
]

MOST = 1024  #: threads that may be asked for
BREAK_EVEN = 1 << 19  #: multiplications from which on another thread gains more than its start costs
_threads = 1  # of the process
_block: contextvars.ContextVar[int | None] = contextvars.ContextVar("threads of a block", default=None)
_here = threading.local()  # .inside: this thread runs a part


def set_threads(threads: int) -> None:
    """Set the process's default number of threads, for calls that do not state one.

    Parameters
    ----------
    threads : int
        1 to 1024.

    Raises
    ------
    Refused
        The number is out of range.
    """
    global _threads
    _threads = _checked(threads)


def get_threads() -> int:
    """Number of threads that are used where a call states none: the block's, or the process's, which is 1 at first.

    Returns
    -------
    int
        Threads.
    """
    of_block = _block.get()
    return _threads if of_block is None else of_block


@contextlib.contextmanager
def using_threads(threads: int) -> Iterator[None]:
    """Set the number of threads for a block, in the thread or task that runs it.

    Parameters
    ----------
    threads : int
        1 to 1024.

    Returns
    -------
    context manager
        For `with`.

    Raises
    ------
    Refused
        The number is out of range.
    """
    token = _block.set(_checked(threads))
    try:
        yield
    finally:
        _block.reset(token)


def from_environment() -> int:
    """Number of threads that REFEMU_THREADS states, 1 without it.

    Returns
    -------
    int
        1 to 1024.

    Raises
    ------
    Refused
        The variable holds anything else.
    """
    text = os.environ.get("REFEMU_THREADS", "").strip() or "1"
    if not text.isdecimal() or not 1 <= int(text) <= MOST:
        raise Refused(f"REFEMU_THREADS: an integer in [1, {MOST}] is needed, got {text!r}")
    return int(text)


def processors() -> int:
    """Processors that this process may use; more threads than these gain nothing and change no bit.

    Returns
    -------
    int
        At least 1.
    """
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def workers(threads: int | None = None) -> int:
    """Number of threads that `share_out` would use at most: 1 where this thread runs a part itself.

    Parameters
    ----------
    threads : int, optional
        As `share_out` takes it.

    Returns
    -------
    int
        Threads.

    Raises
    ------
    Refused
        The number of threads is out of range.
    """
    count = get_threads() if threads is None else _checked(threads)
    return 1 if getattr(_here, "inside", False) else count


def worth(products: int) -> int:
    """Fewest units of so many multiplications that are worth another thread: `least` of `share_out`.

    Parameters
    ----------
    products : int
        Multiplications of one unit.

    Returns
    -------
    int
        Units, at least 1.
    """
    return -(-BREAK_EVEN // max(products, 1))


def share_out(run: Callable[[int, int], object], units: int, threads: int | None = None, least: int = 1) -> None:
    """Run a function over all of [0, units), in several parts at the same time.

    The caller works too, and does not wait for threads that have not begun. Each part sees the caller's context, such
    as np.errstate. An error of a part is raised here, after all parts have ended.

    Parameters
    ----------
    run : callable
        run(first, last) works on units `first` to `last`, which depend on no other; called once with (0, 0) where there
        are none.
    units : int
        Number of units.
    threads : int, optional
        Most parts at a time; by default `get_threads()`.
    least : int
        Least units of a part, so that it is worth its start, some 50 microseconds.

    Raises
    ------
    Refused
        The number of threads is out of range.
    """
    count = workers(threads)
    parts = min(count, units // max(least, 1))
    if parts <= 1:
        run(0, units)
        return
    edges = [units * part // parts for part in range(parts + 1)]
    turns = itertools.count()  # each number is taken once

    errors: list[tuple[int, BaseException]] = []

    def work() -> None:
        while (part := next(turns)) < parts:
            try:
                _part(run, edges[part], edges[part + 1])
            except BaseException as error:
                errors.append((part, error))

    pool = _pool(count - 1, os.getpid())
    others = [pool.submit(contextvars.copy_context().run, work) for _ in range(parts - 1)]
    work()
    for other in others:  # one that has not begun is not needed: all parts are taken
        if not other.cancel():
            other.result()
    if errors:
        raise min(errors, key=lambda error: error[0])[1]


def _part(run: Callable[[int, int], object], first: int, last: int) -> None:
    _here.inside = True
    try:
        run(first, last)
    finally:
        _here.inside = False


def _checked(threads: int) -> int:
    require_int(threads, 1, MOST, "threads", "number")
    return threads


@functools.cache
def _pool(size: int, process: int) -> "ThreadPoolExecutor":
    """`size` threads that stay; a forked process has none of its parent's, hence its id as a key."""
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(size, thread_name_prefix="refemu")
