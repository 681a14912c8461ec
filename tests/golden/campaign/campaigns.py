"""Campaigns that tests share, and shards that kill or block their worker."""

import contextlib
import dataclasses
import gc
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from refemu.golden.campaign import plan
from refemu.golden.campaign.shards import RandomShard, Shard

UNITS = ["outlier_decoder", "olive_mac"]
MODEL = {"schemes": ["olive-4"], "window": 16}


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@dataclasses.dataclass(frozen=True)
class Rigged:
    """A request with some of its shards replaced."""

    inner: plan.RandomRequest
    exchange: Callable[[int, RandomShard], Shard]
    named: tuple[str, ...] = ()

    @property
    def units(self) -> Mapping[str, int]:
        return self.inner.units

    def stated(self) -> Mapping[str, Any]:
        return self.inner.stated()

    def shards(self) -> Sequence[Shard]:
        return [self.exchange(index, shard) for index, shard in enumerate(self.inner.shards())]


@dataclasses.dataclass(frozen=True, order=True)
class Deadly(RandomShard):
    """Kills the process that renders it, a given number of times."""

    marks: str = ""  #: a folder that remembers how often
    times: int = 1

    def render(self) -> Iterator[tuple[str, dict[str, bytes]]]:
        mark = Path(self.marks) / f"{len(list(Path(self.marks).iterdir()))}-{os.getpid()}"
        if len(list(Path(self.marks).iterdir())) < self.times:
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        yield from super().render()


@dataclasses.dataclass(frozen=True, order=True)
class Stuck(Deadly):
    """Waits to be killed at its first rendering."""

    def render(self) -> Iterator[tuple[str, dict[str, bytes]]]:
        mark = Path(self.marks) / "pid"
        if not mark.exists():
            mark.with_name("fresh").write_text(str(os.getpid()))
            mark.with_name("fresh").rename(mark)
            time.sleep(300)
        yield from RandomShard.render(self)


def killer(marks: Path) -> threading.Thread:
    """Kills the waiting worker within its shard."""

    def kill() -> None:
        while not (marks / "pid").exists():
            time.sleep(0.05)
        os.kill(int((marks / "pid").read_text()), signal.SIGKILL)

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    return thread


@contextlib.contextmanager
def local_cluster(**options: Any) -> Iterator[Any]:
    """A local scheduler and workers. The loop has ten seconds to start, and a second try on a stalled machine."""
    from distributed import LocalCluster

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # from one that did not start
        for left in (2, 1, 0):
            try:
                made = LocalCluster(dashboard_address=None, **options)
                break
            except AssertionError:
                if not left:
                    raise
        gc.collect()
    with made:
        yield made
