"""Campaigns: equal bytes for any number of workers and after any interruption; partial files are detected."""

import errno
import itertools
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import filelock
import pytest

from refemu import golden
from refemu.arith.checks import Refused
from refemu.cli import main
from refemu.golden.campaign import folder as campaign_folder
from refemu.golden.campaign import plan, pool
from refemu.golden.campaign import shards as campaign_shards
from refemu.golden.campaign.shards import Shard
from tests.golden.campaign import deadly
from tests.golden.campaign.campaigns import UNITS, files


def test_sets_of_a_campaign_pass_check(whole: tuple[Path, plan.Outcome]) -> None:
    folder, outcome = whole
    assert outcome.made == outcome.shards > 12
    assert golden.check(folder).equal
    for name, config in (("outlier_decoder", "e2m1"), ("olive_mac", "wrap")):
        rows = [golden.load(place).rows for place in sorted((folder / f"{name}-{config}").iterdir())]
        assert sum(rows) >= 3 << 12
        assert max(rows) <= 1 << 12


def test_shards_are_disjoint_and_reproducible(small: plan.RandomRequest) -> None:
    shards = [shard for shard in small.shards() if (shard.unit, shard.config) == ("olive_mac", "wrap")]
    assert [(s.seed, s.seeds) for s in shards] == sorted((s.seed, s.seeds) for s in shards)
    assert all(a.seed + a.seeds == b.seed for a, b in itertools.pairwise(shards))
    assert small.shards() == plan.request(3 << 12, units_=[*UNITS[::-1], *UNITS]).shards()


def test_named_units_without_random_cases_are_rejected(fake_units: None) -> None:
    assert plan.request(9, units_=["meter"]).units == {"meter": 1}
    with pytest.raises(Refused, match=r"each must have random cases, got none for inverter$"):
        plan.request(9, units_=["inverter", "meter", "inverter"])


def test_two_workers_give_the_same_bytes(
    small: plan.RandomRequest, whole: tuple[Path, plan.Outcome], tmp_path: Path
) -> None:
    """The worker processes know only the shards, which carry the smaller size."""
    outcome = plan.run(small, tmp_path / "two", workers=2)
    assert outcome == whole[1]
    assert files(tmp_path / "two") == files(whole[0])


def test_finished_shards_remain_and_damaged_are_replaced(
    small: plan.RandomRequest, whole: tuple[Path, plan.Outcome], tmp_path: Path
) -> None:
    plan.run(small, tmp_path)
    vectors = sorted(tmp_path.rglob("vectors.npz"))
    before = {path: path.stat().st_mtime_ns for path in vectors}
    vectors[0].write_bytes(vectors[0].read_bytes()[:-1])
    vectors[1].unlink()
    half = vectors[2].parent.with_name(".random-00000000.new-abc")
    half.mkdir()
    outcome = plan.run(small, tmp_path)

    assert outcome.made == 2
    assert not half.exists()
    assert files(tmp_path) == files(whole[0])
    assert [path.stat().st_mtime_ns == before[path] for path in vectors[2:]] == [True] * len(vectors[2:])


def test_incomplete_sets_are_replaced_unless_foreign(
    small: plan.RandomRequest, whole: tuple[Path, plan.Outcome], tmp_path: Path
) -> None:
    shutil.copytree(whole[0], tmp_path, dirs_exist_ok=True)
    places = [tmp_path / shard.name for shard in small.shards()[:4]]
    (places[0] / "manifest.json").unlink()
    (places[1] / "manifest.json").write_text("{")
    (places[2] / "vectors.npz").unlink()
    assert plan.run(small, tmp_path).made == 3
    assert files(tmp_path) == files(whole[0])
    (places[3] / "manifest.json").unlink()
    (places[3] / "notes.txt").write_text("mine")
    with pytest.raises(Refused, match=r"failed twice: .* has notes.txt, which refemu did not write"):
        plan.run(small, tmp_path)
    assert (places[3] / "notes.txt").read_text() == "mine"


@pytest.mark.long
def test_campaign_killed_at_random_is_resumed(whole: tuple[Path, plan.Outcome], tmp_path: Path) -> None:
    """The process group is killed twice with -9, then runs to the end."""
    code = (
        "import sys; from refemu.golden.campaign import plan as campaign; campaign.ROWS = 1 << 12\n"
        "if __name__ == '__main__':\n"
        f"    campaign.run(campaign.request(3 << 12, units_={UNITS}), sys.argv[1], workers=2)"
    )
    (tmp_path / "go.py").write_text(code)
    out = tmp_path / "out"
    for pause in (1.5, 2.2):
        process = subprocess.Popen([sys.executable, str(tmp_path / "go.py"), str(out)], start_new_session=True)
        time.sleep(pause)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    subprocess.run([sys.executable, str(tmp_path / "go.py"), str(out)], check=True, timeout=120)
    assert files(out) == files(whole[0])


def test_shard_failing_once_is_retried(
    small: plan.RandomRequest, whole: tuple[Path, plan.Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, told = campaign_shards.make, list[str]()
    unlucky = small.shards()[1]

    def breaks(shard: Shard, out: str) -> str:
        if shard == unlucky and not told:
            raise OSError(28, "No space left on device")
        return make(shard, out)

    monkeypatch.setattr(campaign_shards, "make", breaks)
    assert plan.run(small, tmp_path, notice=told.append) == whole[1]
    assert told == [f"shard {unlucky.name} failed: [Errno 28] No space left on device; it is tried once more"]


def test_shard_failing_twice_ends_the_campaign(
    small: plan.RandomRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, unlucky = campaign_shards.make, small.shards()[3]

    def breaks(shard: Shard, out: str) -> str:
        if shard == unlucky:
            raise OSError(28, "No space left on device")
        return make(shard, out)

    monkeypatch.setattr(campaign_shards, "make", breaks)
    with pytest.raises(Refused, match=f"{unlucky.name} failed twice: .* run the same command to resume"):
        plan.run(small, tmp_path)
    assert golden.check(tmp_path).equal
    monkeypatch.undo()
    monkeypatch.setattr(plan, "ROWS", 1 << 12)
    assert plan.run(small, tmp_path).made < len(small.shards())


def test_foreign_folder_is_rejected(small: plan.RandomRequest, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(Refused, match=r"has notes.txt but no campaign.json"):
        plan.run(small, tmp_path)
    plan.run(plan.request(10, units_=["outlier_decoder"]), tmp_path / "own")
    with pytest.raises(Refused, match="has another campaign"):
        plan.run(plan.request(11, units_=["outlier_decoder"]), tmp_path / "own")
    stated = tmp_path / "own" / "campaign.json"
    stated.write_text(stated.read_text().replace('"refemu_version": "', '"refemu_version": "9.'))
    with pytest.raises(Refused, match=r"was made by refemu 9\."):
        plan.run(plan.request(10, units_=["outlier_decoder"]), tmp_path / "own")
    stated.write_text("{")
    with pytest.raises(Refused, match="not a campaign of refemu: Expecting property name"):
        plan.run(plan.request(10, units_=["outlier_decoder"]), tmp_path / "own")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: "[" * 100_000, "campaign.json: not a campaign of refemu: nested too deep"),
        (
            lambda text: text.replace("{", '{"more": 1,', 1),
            "another campaign: it has more fields than rows, seed, units",
        ),
        (lambda text: text.replace('"request": {', '"request": 5, "rest": {', 1), "has another campaign: 5"),
        (lambda text: "[]", "is not a campaign that this version of refemu knows"),
    ],
)
def test_invalid_request_in_folder_is_rejected(
    change: Callable[[str], str], message: str, small: plan.RandomRequest, tmp_path: Path
) -> None:
    wanted = plan.request(10, units_=["outlier_decoder"])
    plan.run(wanted, tmp_path / "own")
    stated = tmp_path / "own" / "campaign.json"
    stated.write_text(change(stated.read_text()))

    with pytest.raises(Refused, match=message):
        plan.run(wanted, tmp_path / "own")


def test_two_campaigns_in_one_folder_are_rejected(small: plan.RandomRequest, tmp_path: Path) -> None:
    held = campaign_folder.held(tmp_path, small.stated())
    with held, pytest.raises(Refused, match="another campaign is running in this folder"):
        plan.run(small, tmp_path)


def test_removed_lock_is_taken_again(
    small: plan.RandomRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other campaign ended and removed the file after it was opened here and before it was locked."""
    lock = filelock.lock_descriptor

    def late(descriptor: int, **options: Any) -> bool:
        (tmp_path / campaign_folder.LOCK).unlink()
        return lock(descriptor, **options)

    monkeypatch.setattr(filelock, "lock_descriptor", late)
    with pytest.raises(Refused, match="another campaign is running in this folder"):
        plan.run(small, tmp_path)


def test_file_system_without_locks_is_rejected(
    small: plan.RandomRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(descriptor: int, **options: Any) -> bool:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(filelock, "lock_descriptor", missing)
    with pytest.raises(Refused, match=r"must be on a file system with locks, .*, got Function not implemented"):
        plan.run(small, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_too_many_shards_are_rejected(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(plan, "SHARDS", 5)
    plan.request(5 << 16, units_=["flint_decoder"]).shards()
    with pytest.raises(Refused, match=r"327681 rows are more than 5 shards; ask for fewer rows or units"):
        plan.run(plan.request((5 << 16) + 1, units_=["flint_decoder"]), tmp_path / "none")
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("moment", ["start", "middle"])
def test_ctrl_c_ends_campaign_and_workers(moment: str, tmp_path: Path) -> None:
    """The whole group gets the signal: one line at once, since workers do not finish their shards."""
    out = tmp_path / "out"
    code = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from refemu.cli import main; sys.exit(main())"
    )
    command = [
        sys.executable,
        "-c",
        code,
        "generate",
        "-o",
        str(out),
        "--unit",
        "sub_pe",
        "--cases",
        str(1 << 26),
        "--workers",
        "2",
    ]
    process = subprocess.Popen(
        command,
        start_new_session=True,
        stderr=subprocess.PIPE,
        text=True,
    )
    if moment == "start":  # the campaign, its resource tracker, and the server while it imports
        await_(lambda: len(processes_of(process.pid)) == 3)
        time.sleep(0.1)
    else:
        await_(lambda: any(out.glob("*/random-*")))
    os.killpg(process.pid, signal.SIGINT)
    assert process.communicate(timeout=60)[1] == "refemu: interrupted; unfinished files were removed\n"
    assert process.returncode == 130
    await_(lambda: not processes_of(process.pid))
    assert list(out.rglob(".*")) == []
    assert moment == "start" or golden.check(out).equal


def test_command_runs_a_campaign(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["generate", "-o", str(tmp_path / "c"), "--unit", "flint_decoder", "--cases", "1000"]
    assert main(words) == 0
    first = capsys.readouterr().out
    assert main(words) == 0
    again = capsys.readouterr().out
    assert "1 shard in" in first and "0 of them new" in again
    assert first.splitlines()[-1] == again.splitlines()[-1]
    assert main(["generate", "-o", str(tmp_path / "d"), "--workers", "2"]) == 2
    assert "give --cases N" in capsys.readouterr().err
    assert main([*words, "--kinds", "edge"]) == 2
    assert "leave out --kinds" in capsys.readouterr().err


def test_workers_end_with_a_killed_campaign(tmp_path: Path) -> None:
    """Only the campaign is killed: its workers notice, and the lock is free for the next one."""
    code = (
        "import sys; from refemu.golden.campaign import plan as campaign\n"
        "if __name__ == '__main__':\n"
        "    campaign.run(campaign.request(1 << 26, units_=['sub_pe']), sys.argv[1], workers=2)"
    )
    (tmp_path / "go.py").write_text(code)
    process = subprocess.Popen([sys.executable, str(tmp_path / "go.py"), str(tmp_path / "out")], start_new_session=True)
    await_(lambda: any((tmp_path / "out").glob("*/random-*")))
    process.kill()
    process.wait()
    await_(lambda: not processes_of(process.pid))


def await_(happens: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not happens():
        assert time.monotonic() < end
        time.sleep(0.1)


def processes_of(group: int) -> list[int]:
    """Live processes of a process group, without zombies."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, member = path.read_text().rpartition(") ")[2].split()[:3]
        except OSError:
            continue
        if int(member) == group and state != "Z":
            found.append(int(path.parent.name))
    return found


def test_shard_of_dead_worker_is_retried(
    small: plan.RandomRequest, whole: tuple[Path, plan.Outcome], tmp_path: Path
) -> None:
    """All shards in flight are repeated, one worker each; no other shard is blamed."""
    answer = deadly.campaign(tmp_path / "out", deadly=3, times=1)
    assert plan.Outcome(**answer["outcome"]) == whole[1]
    assert files(tmp_path / "out") == files(whole[0])
    assert f"shard {small.shards()[3].name} failed: {pool.LOST}; it is tried once more" in answer["told"]
    assert len(answer["told"]) <= pool.AHEAD * 2


def test_shard_that_kills_workers_is_named(small: plan.RandomRequest, tmp_path: Path) -> None:
    answer = deadly.campaign(tmp_path / "out", deadly=2, times=9)
    assert f"shard {small.shards()[2].name} failed twice: a worker died" in answer["refused"]
    assert golden.check(tmp_path / "out").equal


@pytest.mark.long
@pytest.mark.parametrize("workers", [1, 2])
def test_full_disk_ends_the_campaign_with_advice(
    whole: tuple[Path, plan.Outcome], tmp_path: Path, workers: int
) -> None:
    """A limit of 100 kB a file makes writes fail within a file, as on a full disk."""
    code = (
        "import resource, sys; from refemu.golden.campaign import plan as campaign\n"
        "from refemu.arith.checks import Refused\n"
        "campaign.ROWS = 1 << 12\n"
        "if __name__ == '__main__':\n"
        "    if len(sys.argv) > 2:\n"
        "        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))\n"
        "    try:\n"
        f"        campaign.run(campaign.request(3 << 12, units_={UNITS}), sys.argv[1], workers={workers})\n"
        "    except Refused as error:\n"
        "        sys.exit(f'refused: {error}')"
    )
    (tmp_path / "go.py").write_text(code)
    command = [sys.executable, str(tmp_path / "go.py"), str(tmp_path / "out")]
    done = subprocess.run([*command, "full"], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert "failed twice" in done.stderr and "cannot be written: File too large; nothing was written" in done.stderr
    assert "run the same command to resume" in done.stderr
    left = files(tmp_path / "out")
    assert left.items() < files(whole[0]).items(), "what is there is whole"
    subprocess.run(command, check=True, timeout=120)
    assert files(tmp_path / "out") == files(whole[0])


def test_leftovers_of_a_kill_are_recovered(
    small: plan.RandomRequest, whole: tuple[Path, plan.Outcome], tmp_path: Path
) -> None:
    (tmp_path / ".campaign.json.new").write_text("{")  # killed while the request was written
    plan.run(small, tmp_path)
    first, second = (tmp_path / shard.name for shard in small.shards()[:2])
    first.rename(first.with_name(f".{first.name}.old"))  # killed between the two renames of a replacement
    shutil.copytree(second, second.with_name(f".{second.name}.old"))  # killed after both
    assert plan.run(small, tmp_path).made == 0
    assert files(tmp_path) == files(whole[0])
