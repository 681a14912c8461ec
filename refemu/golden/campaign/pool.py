"""Shards made in this process, or by several processes of this machine."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.context import BaseContext
from pathlib import Path
from typing import Any

from refemu.golden.campaign import folder as campaign_folder
from refemu.golden.campaign import shards as campaign_shards
from refemu.golden.campaign.shards import Done, Failed, Shard

LOST = "a worker died while it was in flight (killed, or out of memory)"
AHEAD = 2  #: shards in flight for every worker, so that none waits for this process
SERVER = "refemu.golden.campaign.server"  #: imported by the server that workers are forked from


def alone(shards: Sequence[Shard], folder: Path, done: Done, failed: Failed) -> None:
    """Make the shards one after the other; `failed` raises if a shard must not be tried again."""
    todo = list(shards)[::-1]
    while todo:
        shard = todo.pop()
        try:
            campaign_shards.make(shard, str(folder))
        except Exception as error:
            failed(shard, error)
            todo.append(shard)
        else:
            done(shard)


def pool(shards: Sequence[Shard], folder: Path, workers: int, done: Done, failed: Failed) -> None:
    """Make the shards with `workers` processes.

    When a worker dies, any shard in flight may be the cause. A new worker then repeats each of them alone, which shows
    the cause, and the others continue.
    """
    todo = list(shards)[::-1]
    while todo:
        suspects = _until_broken(todo, folder, workers, done, failed)
        for shard in suspects:
            failed(shard, LOST)
        for shard in suspects:
            campaign_folder.sweep(folder)  # the other workers ended with the dead one, at any point
            if _until_broken([shard], folder, 1, done, failed):
                failed(shard, LOST)


def _until_broken(todo: list[Shard], folder: Path, workers: int, done: Done, failed: Failed) -> list[Shard]:
    """Make `todo`, last first, until all are made or a worker dies; returns the shards in flight then."""
    with _executor(workers) as executor:
        running: dict[Future[str], Shard] = {}
        while todo or running:
            while todo and len(running) < AHEAD * workers:
                try:
                    with _heard_later():
                        running[executor.submit(campaign_shards.make, todo[-1], str(folder))] = todo[-1]
                except BrokenProcessPool:
                    return _unfinished(running, done)
                todo.pop()
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                error = future.exception()
                if isinstance(error, BrokenProcessPool):
                    return _unfinished(running, done)
                shard = running.pop(future)
                if error is None:
                    done(shard)
                else:
                    failed(shard, error)
                    todo.append(shard)
    return []


@contextmanager
def _executor(workers: int) -> Iterator[ProcessPoolExecutor]:
    """A pool that Ctrl-C ends at once, even during shards of minutes."""
    others = multiprocessing.active_children()
    with ProcessPoolExecutor(workers, _context(), _end_with_parent) as executor:
        try:
            yield executor
        except KeyboardInterrupt:
            for process in multiprocessing.active_children():
                if process not in others:
                    process.terminate()
            raise


def _unfinished(running: dict["Future[str]", Shard], done: Done) -> list[Shard]:
    """The unfinished shards among those in flight when a worker died."""
    left = []
    for future, shard in running.items():
        if future.exception() is None:
            done(shard)
        else:
            left.append(shard)
    return left


def _end_with_parent() -> None:
    """End this worker when the campaign is killed; otherwise it would wait forever for shards."""

    def wait_and_end() -> None:
        if (parent := multiprocessing.parent_process()) is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=wait_and_end, daemon=True).start()


def _context() -> BaseContext:
    """Fork workers from a server that has imported everything; on systems without fork, start them.

    Workers are never forked from this process: it may have threads, whose locks a fork would copy.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    from multiprocessing import forkserver  # imported here, since Windows lacks it

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([SERVER])
    with _heard_later(), _on_interrupt(signal.SIG_IGN):  # ignored by the server and all workers: this process ends them
        forkserver.ensure_running()
    return context


@contextmanager
def _heard_later() -> Iterator[None]:
    """Delay Ctrl-C to the end of the block, since a worker that is still starting would print a traceback."""
    heard: list[int] = []
    with _on_interrupt(lambda number, frame: heard.append(number)) as before:
        yield
    if heard and callable(before):
        before(heard[0], None)


@contextmanager
def _on_interrupt(handler: Any) -> Iterator[Any]:
    """Replace the handler in the block and yield the former one, in the main thread only."""
    if threading.current_thread() is not threading.main_thread():
        yield None
        return
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield before
    finally:
        signal.signal(signal.SIGINT, before or signal.SIG_DFL)
