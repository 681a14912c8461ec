"""Shards of a campaign on a Dask cluster. Workers compute the bytes; this process writes them."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import refemu
from refemu.arith.checks import Refused
from refemu.arith.integers import total
from refemu.golden import campaign, store
from refemu.golden.campaign import Shard

AHEAD = 2  #: shards in flight for every thread of the cluster: enough to keep it busy, few enough to hold
TIMEOUT = "10s"  #: for the scheduler to answer


def run(shards: Sequence[Shard], folder: Path, scheduler: str, done: Callable[[Shard], None],
        failed: Callable[[Shard, BaseException], None]) -> None:
    """Make `shards` below `folder` on the cluster at `scheduler`.

    Dask gives the shards of a lost worker to another one. Refused: no dask here, no answer, no workers, workers with
    another refemu.
    """
    client = _client(scheduler)
    try:
        _work(client, list(shards), folder, done, failed)
    finally:
        client.close()


def _client(scheduler: str) -> Any:
    try:
        from distributed import Client
    except ImportError:
        raise Refused("campaign: a scheduler needs dask: pip install 'refemu[cluster]'") from None
    try:
        client = Client(scheduler, timeout=TIMEOUT)
        versions = client.run(_version)
    except (OSError, ValueError, TimeoutError) as error:
        raise Refused(f"campaign: no Dask scheduler answers at {scheduler}: {error}") from error
    unlike = {worker: version for worker, version in versions.items() if version != refemu.__version__}
    if unlike or not versions:
        worker, version = next(iter(unlike.items()), ("none", "none"))
        client.close()
        raise Refused(f"campaign: every worker at {scheduler} must have refemu {refemu.__version__}, "
                      f"worker {worker} has {version}")
    return client


def _version() -> str:
    return refemu.__version__


def _work(client: Any, todo: list[Shard], folder: Path, done: Callable[[Shard], None],
          failed: Callable[[Shard, BaseException], None]) -> None:
    from distributed import as_completed

    limit = AHEAD * max(1, int(total(list(client.nthreads().values()))))
    running: dict[Any, Shard] = {}
    finished = as_completed([])
    while todo or running:
        while todo and len(running) < limit:
            shard = todo.pop(0)
            future = client.submit(campaign.render, shard, key=f"refemu-{shard.name}", retries=0)
            running[future.key] = shard
            finished.add(future)
        future = next(finished)
        shard = running.pop(future.key)
        if future.status == "finished":
            store.replace(folder / shard.name, future.result())
            done(shard)
        else:
            failed(shard, future.exception() or RuntimeError(f"its state is {future.status}"))
            todo.append(shard)
        future.release()
