"""Campaigns: same bytes for any number of workers, after any interruption; nothing half-written is taken for whole."""

import itertools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from refemu import golden
from refemu.arith.checks import Refused
from refemu.cli import main
from refemu.golden import campaign
from refemu.golden.campaign import Shard

UNITS = ["outlier_decoder", "olive_mac"]


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> campaign.Request:
    """Three or four shards for each of four configurations and more."""
    monkeypatch.setattr(campaign, "ROWS", 1 << 12)
    return campaign.request(3 << 12, units_=UNITS)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, campaign.Outcome]:
    """The campaign of `small`, made in one go by one process."""
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(campaign, "ROWS", 1 << 12)
        return folder, campaign.run(campaign.request(3 << 12, units_=UNITS), folder)


def test_a_campaign_is_sets_that_check_as_any(whole: tuple[Path, campaign.Outcome]) -> None:
    folder, outcome = whole
    assert outcome.made == outcome.shards > 12
    assert golden.check(folder).equal
    for name, config in (("outlier_decoder", "e2m1"), ("olive_mac", "wrap")):
        rows = [golden.load(place).rows for place in sorted((folder / f"{name}-{config}").iterdir())]
        assert sum(rows) >= 3 << 12
        assert max(rows) <= 1 << 12


def test_shards_do_not_overlap_and_follow_from_the_request(small: campaign.Request) -> None:
    shards = [shard for shard in small.shards() if (shard.unit, shard.config) == ("olive_mac", "wrap")]
    assert [(s.seed, s.seeds) for s in shards] == sorted((s.seed, s.seeds) for s in shards)
    assert all(a.seed + a.seeds == b.seed for a, b in itertools.pairwise(shards))
    assert small.shards() == campaign.request(3 << 12, units_=[*UNITS[::-1], *UNITS]).shards()


def test_two_workers_give_the_same_bytes(
    small: campaign.Request, whole: tuple[Path, campaign.Outcome], tmp_path: Path
) -> None:
    """The workers are processes that know the shards only: the smaller size travels in them."""
    outcome = campaign.run(small, tmp_path / "two", workers=2)
    assert outcome == whole[1]
    assert files(tmp_path / "two") == files(whole[0])


def test_finished_shards_are_kept_and_damaged_ones_made_again(
    small: campaign.Request, whole: tuple[Path, campaign.Outcome], tmp_path: Path
) -> None:
    campaign.run(small, tmp_path)
    vectors = sorted(tmp_path.rglob("vectors.npz"))
    before = {path: path.stat().st_mtime_ns for path in vectors}
    vectors[0].write_bytes(vectors[0].read_bytes()[:-1])
    vectors[1].unlink()
    half = vectors[2].parent.with_name(".random-00000000.new-abc")
    half.mkdir()
    outcome = campaign.run(small, tmp_path)

    assert outcome.made == 2
    assert not half.exists()
    assert files(tmp_path) == files(whole[0])
    assert [path.stat().st_mtime_ns == before[path] for path in vectors[2:]] == [True] * len(vectors[2:])


def test_killed_at_a_random_moment_and_continued(whole: tuple[Path, campaign.Outcome], tmp_path: Path) -> None:
    """kill -9 of the whole group, twice, then to the end."""
    code = ("import sys; from refemu.golden import campaign; campaign.ROWS = 1 << 12\n"
            "if __name__ == '__main__':\n"
            f"    campaign.run(campaign.request(3 << 12, units_={UNITS}), sys.argv[1], workers=2)")
    (tmp_path / "go.py").write_text(code)
    out = tmp_path / "out"
    for pause in (1.5, 2.2):
        process = subprocess.Popen([sys.executable, str(tmp_path / "go.py"), str(out)], start_new_session=True)
        time.sleep(pause)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    subprocess.run([sys.executable, str(tmp_path / "go.py"), str(out)], check=True, timeout=120)
    assert files(out) == files(whole[0])


def test_a_shard_that_fails_once_is_named_and_tried_again(
    small: campaign.Request, whole: tuple[Path, campaign.Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, told = campaign.make, list[str]()
    unlucky = small.shards()[1]

    def breaks(shard: Shard, out: str) -> str:
        if shard == unlucky and not told:
            raise OSError(28, "No space left on device")
        return make(shard, out)

    monkeypatch.setattr(campaign, "make", breaks)
    assert campaign.run(small, tmp_path, notice=told.append) == whole[1]
    assert told == [f"shard {unlucky.name} failed: [Errno 28] No space left on device; it is tried once more"]


def test_a_shard_that_fails_twice_ends_the_campaign_and_the_others_stay(
    small: campaign.Request, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, unlucky = campaign.make, small.shards()[3]

    def breaks(shard: Shard, out: str) -> str:
        if shard == unlucky:
            raise OSError(28, "No space left on device")
        return make(shard, out)

    monkeypatch.setattr(campaign, "make", breaks)
    with pytest.raises(Refused, match=f"{unlucky.name} failed twice: .* the same command goes on from there"):
        campaign.run(small, tmp_path)
    assert golden.check(tmp_path).equal
    monkeypatch.undo()
    monkeypatch.setattr(campaign, "ROWS", 1 << 12)
    assert campaign.run(small, tmp_path).made < len(small.shards())


def test_folders_of_others_are_refused(small: campaign.Request, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(Refused, match=r"holds notes.txt but no campaign.json"):
        campaign.run(small, tmp_path)
    campaign.run(campaign.request(10, units_=["outlier_decoder"]), tmp_path / "own")
    with pytest.raises(Refused, match="holds another campaign"):
        campaign.run(campaign.request(11, units_=["outlier_decoder"]), tmp_path / "own")
    stated = tmp_path / "own" / "campaign.json"
    stated.write_text(stated.read_text().replace('"refemu_version": "', '"refemu_version": "9.'))
    with pytest.raises(Refused, match=r"was made by refemu 9\."):
        campaign.run(campaign.request(10, units_=["outlier_decoder"]), tmp_path / "own")
    stated.write_text("{")
    with pytest.raises(Refused, match="is no campaign of refemu"):
        campaign.run(campaign.request(10, units_=["outlier_decoder"]), tmp_path / "own")


def test_two_at_once_in_one_folder_are_refused(small: campaign.Request, tmp_path: Path) -> None:
    with campaign._held(tmp_path, small), pytest.raises(Refused, match="another campaign is running in this folder"):
        campaign.run(small, tmp_path)


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["generate", "-o", str(tmp_path / "c"), "--unit", "flint_decoder", "--cases", "1000"]
    assert main(words) == 0
    first = capsys.readouterr().out
    assert main(words) == 0
    again = capsys.readouterr().out
    assert "1 shards" in first and "0 of them made now" in again
    assert first.splitlines()[-1] == again.splitlines()[-1]
    assert main(["generate", "-o", str(tmp_path / "d"), "--workers", "2"]) == 2
    assert "give --cases N" in capsys.readouterr().err
    assert main([*words, "--kinds", "edge"]) == 2
    assert "leave out --kinds" in capsys.readouterr().err


def test_no_scheduler_there(small: campaign.Request, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from refemu.golden import cluster

    monkeypatch.setattr(cluster, "TIMEOUT", "1s")
    with pytest.raises(Refused, match=r"no Dask scheduler answers at tcp://127.0.0.1:9"):
        campaign.run(small, tmp_path, scheduler="tcp://127.0.0.1:9")


def test_a_cluster_that_loses_a_worker_gives_the_same_bytes(
    small: campaign.Request, whole: tuple[Path, campaign.Outcome], tmp_path: Path
) -> None:
    """A local scheduler, two worker processes; one is killed in the middle."""
    from distributed import LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        victim = next(iter(cluster.workers.values()))
        killed = list[int]()

        def kill(what: str, done: int, total: int) -> None:
            if done == 4 and not killed:
                killed.append(victim.pid)
                os.kill(victim.pid, signal.SIGKILL)

        outcome = campaign.run(small, tmp_path, scheduler=cluster.scheduler_address, progress=kill)
    assert killed
    assert outcome == whole[1]
    assert files(tmp_path) == files(whole[0])
