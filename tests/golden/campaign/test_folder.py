"""The folder of a campaign: locked, claimed by one request, cleaned after a kill."""

import json
from pathlib import Path
from typing import Any

import pytest

from refemu import __version__
from refemu.arith.checks import Refused
from refemu.golden.campaign.folder import LOCK, REQUEST, SCHEMA, held, sweep

ASKED = {"rows": 10, "units": {"concat": 1}}


def claimed(folder: Path, request: dict[str, Any] = ASKED) -> None:
    with held(folder, request):
        pass


def test_request_is_written_and_lock_released(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    with held(folder, ASKED):
        assert (folder / LOCK).exists()

    assert json.loads((folder / REQUEST).read_bytes()) == {
        "schema": SCHEMA,
        "refemu_version": __version__,
        "request": ASKED,
    }
    assert not (folder / LOCK).exists()
    claimed(folder)  # the same request resumes


def test_second_process_is_rejected(tmp_path: Path) -> None:
    with (
        held(tmp_path, ASKED),
        pytest.raises(Refused, match="another campaign is running in this folder"),
        held(tmp_path, ASKED),
    ):
        pass


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({**ASKED, "rows": 11}, "its rows are 10, asked are 11"),
        ({"rows": 10, "units": {"orizuru": 1}}, "its units are concat, asked are orizuru"),
        ({"rows": 10}, "one of rows, units"),
    ],
)
def test_different_request_is_rejected(tmp_path: Path, request_: dict[str, Any], message: str) -> None:
    claimed(tmp_path)

    with pytest.raises(Refused, match=message):
        claimed(tmp_path, request_)


@pytest.mark.parametrize(
    ("recorded", "message"),
    [
        ([1], "is not a campaign that this version of refemu knows"),
        ({"schema": "other/1"}, "is not a campaign that this version of refemu knows"),
        ({"schema": SCHEMA, "refemu_version": "0.0.1", "request": ASKED}, "was made by refemu 0.0.1"),
    ],
)
def test_foreign_request_is_rejected(tmp_path: Path, recorded: Any, message: str) -> None:
    (tmp_path / REQUEST).write_text(json.dumps(recorded))

    with pytest.raises(Refused, match=message):
        claimed(tmp_path)


def test_folder_of_something_else_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")

    with pytest.raises(Refused, match=f"has notes.txt but no {REQUEST}"):
        claimed(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["notes.txt"]


def test_folder_that_cannot_be_made_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(Refused, match="cannot be written"):
        claimed(tmp_path / "file" / "folder")


def test_sweep_enters_every_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders whose names begin with a dot are removed, not entered."""
    (tmp_path / "olive_mac-wrap" / "random-00000000").mkdir(parents=True)
    (tmp_path / ".hidden" / "inside").mkdir(parents=True)
    seen: list[str] = []
    monkeypatch.setattr(
        "refemu.golden.files.store.sweep", lambda path: seen.append(path.relative_to(tmp_path).as_posix())
    )
    sweep(tmp_path)

    assert sorted(seen) == [".", "olive_mac-wrap", "olive_mac-wrap/random-00000000"]


def test_ctrl_c_sweeps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Path] = []
    monkeypatch.setattr("refemu.golden.campaign.folder.sweep", calls.append)
    with pytest.raises(KeyboardInterrupt), held(tmp_path, ASKED):
        raise KeyboardInterrupt

    assert calls == [tmp_path, tmp_path]
    assert not (tmp_path / LOCK).exists()
