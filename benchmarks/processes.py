"""Rows in separate processes: one with an empty cache for first calls, one with the cache of the whole run.

Children are forked from a process that has imported everything and compiled nothing. Where there is no fork, rows are
measured in this process and the column of cold first calls stays empty.
"""

import multiprocessing
import os
import shutil
import tempfile
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from benchmarks import pairs
from benchmarks.pairs import AnyRow, Row

Benchmark = Callable[[], Sequence[AnyRow]]


class Failed(Exception):
    """A child did not answer; the text says why."""


def measure(benchmark: Benchmark, cache: str, cold: bool = False, pinned: bool = True) -> list[AnyRow]:
    """The rows of `benchmark`.

    cache: a folder of compiled code, which grows. cold: with first calls without a cache, for which the inputs are made
    a second time. pinned: to one core.
    """
    if "fork" not in multiprocessing.get_all_start_methods():
        return list(benchmark())
    firsts = _first_calls(benchmark, cache) if cold else []
    return joined(child(lambda: _all(benchmark, cache, pinned)), firsts)


def _first_calls(benchmark: Benchmark, cache: str) -> list[AnyRow]:
    """Rows of first calls only; compiled kernels are added to `cache`."""
    with tempfile.TemporaryDirectory() as empty:
        firsts: list[AnyRow] = child(lambda: _first(benchmark, empty))
        shutil.copytree(empty, cache, dirs_exist_ok=True)
    return firsts


def joined(rows: Sequence[AnyRow], firsts: Sequence[AnyRow]) -> list[AnyRow]:
    """`rows` with the cold first calls of `firsts`, which have the same order."""
    if len(rows) != len(firsts):
        return list(rows)
    return [_with_first(row, first) for row, first in zip(rows, firsts, strict=True)]


def _with_first(row: AnyRow, first: AnyRow) -> AnyRow:
    if isinstance(row, Row) and isinstance(first, Row):
        return replace(row, cold_s=first.first_s, compile_s=first.compile_s)
    return row


def child(call: Callable[[], Any]) -> Any:
    """The result of `call()` in a forked process; raises Failed with its traceback."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_tell, args=(sender, call))
    process.start()
    sender.close()
    try:
        answer, error = receiver.recv()
    except EOFError:
        answer, error = None, "the process ended without an answer"
    process.join()
    if error:
        raise Failed(error)
    return answer


def _tell(sender: Any, call: Callable[[], Any]) -> None:
    try:
        sender.send((call(), ""))
    except BaseException:
        sender.send((None, traceback.format_exc()))


def _first(benchmark: Benchmark, folder: str) -> list[AnyRow]:
    pairs.first_calls_only = True
    return _all(benchmark, folder, pinned=True)


def _all(benchmark: Benchmark, folder: str, pinned: bool) -> list[AnyRow]:
    from refemu.arith import jit

    if pinned and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    os.environ["REFEMU_CACHE"] = folder
    jit.enable_cache(folder)
    return list(benchmark())
