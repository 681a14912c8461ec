"""Shards of a campaign on a Dask cluster. Workers compute the bytes; this process writes them."""

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from pathlib import Path
from typing import Any

import refemu
from refemu.arith.checks import Refused
from refemu.golden.campaign import shards as campaign_shards
from refemu.golden.campaign.shards import Done, Failed, Files, Shard

AHEAD = 2  #: shards in flight for every thread of the cluster: enough to keep it busy, few enough for memory
TIMEOUT = 10  #: seconds for the scheduler to answer
PATIENCE = 60  #: seconds without workers while shards are in flight
STAY = "finished shards are saved; run the same command to resume"
_LOOK = 1  # seconds between two looks at an idle cluster


def run(shards: Sequence[Shard], folder: Path, scheduler: str, done: Done, failed: Failed) -> None:
    """Make `shards` below `folder` on the cluster at `scheduler`.

    Dask gives the shards of a lost worker to another one. Refused: no dask, no answer, no workers, workers with another
    version of refemu, a scheduler or all workers that disappear.
    """
    client = _client(scheduler)
    log = logging.getLogger("distributed.client")
    level = log.level
    log.setLevel(logging.CRITICAL)  # a lost scheduler is reported below, in one line instead of forty
    try:
        _Work(client, scheduler, folder, done, failed).make(list(shards))
    except (OSError, CancelledError) as error:  # errors of files are Refused
        raise Refused(f"campaign: the scheduler at {scheduler} disappeared; {STAY}") from error
    finally:
        client.close(timeout=TIMEOUT)
        log.setLevel(level)


def _client(scheduler: str) -> Any:
    try:
        client = _within(lambda: _connected(scheduler))
    except ImportError:
        raise Refused("campaign: a scheduler needs the library distributed; run: pip install distributed") from None
    except ValueError as error:
        raise Refused(f"campaign: {scheduler} is not an address of a Dask scheduler: {error}") from error
    except (OSError, TimeoutError) as error:
        raise Refused(
            f"campaign: no Dask scheduler answers at {scheduler} within {TIMEOUT} s: {str(error) or 'it says nothing'}"
        ) from error
    except Exception as error:  # of any kind: read as Dask's, the answer of a web server asks for exabytes
        raise Refused(f"campaign: the server at {scheduler} is not a Dask scheduler: {error}") from error
    try:
        versions = _within(lambda: client.run(_version))
    except TimeoutError:
        client.close(timeout=TIMEOUT)
        raise Refused(f"campaign: a worker at {scheduler} does not answer within {TIMEOUT} s: is it stopped?") from None
    except Exception as error:  # refemu is missing there, or fails to import
        client.close(timeout=TIMEOUT)
        raise Refused(f"campaign: a worker at {scheduler} does not run refemu {refemu.__version__}: {error}") from error
    unlike = {worker: version for worker, version in versions.items() if version != refemu.__version__}
    if unlike or not versions:
        client.close(timeout=TIMEOUT)
        worker, version = next(iter(unlike.items()), ("", ""))
        raise Refused(
            f"campaign: every worker at {scheduler} must have refemu {refemu.__version__}, "
            f"worker {worker} has {version}"
            if unlike
            else f"campaign: {scheduler} has no workers"
        )
    return client


def _connected(scheduler: str) -> Any:
    from distributed import Client

    return Client(scheduler, timeout=f"{TIMEOUT}s")


def _within(call: Callable[[], Any]) -> Any:
    """Result of `call`, made in a thread, since Dask waits forever for a silent server."""
    future: Future[Any] = Future()

    def answer() -> None:
        try:
            future.set_result(call())
        except Exception as error:
            future.set_exception(error)

    threading.Thread(target=answer, daemon=True).start()
    return future.result(timeout=TIMEOUT + _LOOK)


def _version() -> str:
    return refemu.__version__


def _render(shard: Shard) -> dict[str, Files]:
    return dict(shard.render())


class _Work:
    """Shards in flight on a cluster."""

    def __init__(self, client: Any, scheduler: str, folder: Path, done: Done, failed: Failed) -> None:
        self._client, self._scheduler, self._folder = client, scheduler, folder
        self._done, self._failed = done, failed
        self._running: dict[str, tuple[Any, Shard]] = {}
        self._silent = 0  # seconds without workers

    def make(self, todo: list[Shard]) -> None:
        """Make `todo`; a failed shard goes to the end of the list."""
        threads: dict[str, int] = self._client.nthreads()
        limit = AHEAD * max(1, sum(threads.values()))
        while todo or self._running:
            while todo and len(self._running) < limit:
                shard = todo.pop(0)
                key = f"refemu-{shard.name}"
                self._running[key] = self._client.submit(_render, shard, key=key, retries=0, pure=False), shard
            for key in self._finished():
                future, shard = self._running[key]
                if future.status != "finished":
                    error = future.exception() if future.status == "error" else None
                    self._failed(shard, error or f"Dask says it is {future.status}")
                    todo.append(shard)
                elif (files := self._fetched(future)) is None:
                    continue
                else:
                    campaign_shards.keep(shard, files.items(), self._folder)
                    self._done(shard)
                del self._running[key]
                future.release()

    def _fetched(self, future: Any) -> dict[str, Files] | None:
        """Files from a worker; None if they were lost with it and must be recomputed."""
        try:
            files: dict[str, Files] = future.result(timeout=PATIENCE)
        except TimeoutError:
            self._require_cluster(PATIENCE)
            return None
        return files

    def _finished(self) -> list[str]:
        """Shards in flight that are no longer pending; waits a moment if there are none."""
        from distributed import wait

        try:
            wait([future for future, _ in self._running.values()], timeout=_LOOK, return_when="FIRST_COMPLETED")
        except TimeoutError:
            self._require_cluster(_LOOK)
            return []
        self._silent = 0
        return [key for key, (future, _) in self._running.items() if future.status != "pending"]

    def _require_cluster(self, waited: int) -> None:
        """Raise Refused after PATIENCE seconds without workers. waited: seconds to add."""
        self._silent = 0 if self._client.nthreads() else self._silent + waited
        if self._silent >= PATIENCE:
            raise Refused(f"campaign: no workers at {self._scheduler} for {PATIENCE} s; {STAY}")
