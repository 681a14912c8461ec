"""Shards made in this process or others: each once, retried if `failed` allows, the failing one named."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from refemu.golden.campaign import pool
from refemu.golden.campaign.shards import RandomShard, Shard
from tests.golden.campaign.campaigns import Deadly

SHARDS = [RandomShard("concat", "a4", seed, 1) for seed in range(3)]


@dataclass
class Book:
    """Records a campaign's reports about its shards."""

    done: list[str] = field(default_factory=list)
    failed: list[tuple[str, str]] = field(default_factory=list)
    patience: int = 2

    def finish(self, shard: Shard) -> None:
        self.done.append(shard.name)

    def fail(self, shard: Shard, error: BaseException | str) -> None:
        self.failed.append((shard.name, str(error)))
        if len(self.failed) >= self.patience:
            raise RuntimeError("enough")


@dataclass(frozen=True, order=True)
class Broken(RandomShard):
    """Raises at every rendering."""

    def render(self) -> Iterator[tuple[str, dict[str, bytes]]]:
        raise OSError("disk full")


def test_single_process_makes_shards_in_order(tmp_path: Path) -> None:
    book = Book()
    pool.alone(SHARDS, tmp_path, book.finish, book.fail)

    assert book.done == [shard.name for shard in SHARDS] and book.failed == []
    assert all((tmp_path / shard.name).is_dir() for shard in SHARDS)


def test_single_process_retries_until_failed_raises(tmp_path: Path) -> None:
    book = Book()
    with pytest.raises(RuntimeError, match="enough"):
        pool.alone([SHARDS[0], Broken("concat", "a4", 9, 1)], tmp_path, book.finish, book.fail)

    assert book.done == [SHARDS[0].name]
    assert book.failed == [("concat-a4/random-00000009", "disk full")] * 2


def test_processes_make_each_shard_once(tmp_path: Path) -> None:
    book = Book()
    pool.pool(SHARDS, tmp_path, 2, book.finish, book.fail)

    assert sorted(book.done) == [shard.name for shard in SHARDS] and book.failed == []
    assert all((tmp_path / shard.name).is_dir() for shard in SHARDS)


def test_shards_in_flight_of_dead_worker_are_repeated(tmp_path: Path) -> None:
    """A new worker repeats each alone; a shard that kills it too is reported again."""
    for name, times in (("once", 1), ("twice", 2)):
        marks = tmp_path / name
        marks.mkdir()
        guilty = Deadly("concat", "a4", 7, 1, str(marks), times)
        book = Book(patience=99)
        pool.pool([guilty, *SHARDS], tmp_path / f"{name}-out", 1, book.finish, book.fail)
        innocent = [shard.name for shard in SHARDS]

        assert sorted(book.done) == sorted([*innocent, *([guilty.name] if times == 1 else [])])
        assert {reason for _, reason in book.failed} == {pool.LOST}
        assert [shard for shard, _ in book.failed].count(guilty.name) == times


def test_death_during_submission_loses_no_shard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The executor rejects the next shard, which was not in flight and so cannot be the cause."""
    send, sent = ProcessPoolExecutor.submit, list[str]()

    def submit(executor: ProcessPoolExecutor, make: Callable[..., str], shard: Shard, folder: str) -> Future[str]:
        sent.append(shard.name)
        if len(sent) == 2:
            raise BrokenProcessPool
        return send(executor, make, shard, folder)

    monkeypatch.setattr(ProcessPoolExecutor, "submit", submit)
    book = Book()
    pool.pool(SHARDS, tmp_path, 2, book.finish, book.fail)

    assert sent[1:3] == [SHARDS[1].name] * 2
    assert sorted(book.done) == [shard.name for shard in SHARDS] and book.failed == []


@pytest.mark.long
def test_processes_start_without_fork_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows has no fork server."""
    monkeypatch.setattr(pool.multiprocessing, "get_all_start_methods", lambda: ["spawn"])
    assert type(pool._context()).__name__ == "SpawnContext"
    book = Book()
    pool.pool(SHARDS[:1], tmp_path, 1, book.finish, book.fail)
    assert book.done == [SHARDS[0].name] and not book.failed
