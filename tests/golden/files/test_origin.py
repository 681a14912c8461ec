"""Origins of sets: known here after `generate` or an equal `check`; resealed and foreign sets are not."""

import json
import os
import shutil
from pathlib import Path

import pytest

from refemu import golden
from refemu.cli import main
from refemu.golden.files import manifest as manifests
from refemu.golden.files import origin


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REFEMU_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(origin, "_state", lambda: "present")
    return tmp_path / "home"


@pytest.fixture
def made(tmp_path: Path) -> Path:
    return Path(golden.generate(tmp_path, units=["concat:a4"], kinds=["paper"])[0].path)


def reseal(folder: Path) -> None:
    """Change a text of a set as anybody can."""
    document = json.loads((folder / "manifest.json").read_bytes())
    document["cases"][0]["why"] = "made up"
    (folder / "manifest.json").write_bytes(manifests.canonical(manifests.sealed(document)))


def test_generated_set_is_known_and_diff_says_nothing(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", str(made), str(made)]) == 0
    assert "origin" not in capsys.readouterr().out and origin.of(made / "manifest.json").known


def test_resealed_set_is_unknown_until_checked(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reseal(made)
    assert main(["diff", str(made), str(made)]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("origin: not checked here") and last.endswith(f"refemu check {made}")
    assert main(["check", str(made)]) == 1 and not origin.of(made).known


def test_foreign_set_is_known_after_check(made: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(home)
    assert main(["diff", str(made), str(made), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["origin"] == {"known": False, "by": "refemu 0.1.0"}
    assert main(["check", str(made)]) == 0 and origin.of(made).known


def test_other_sources_know_nothing(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(origin, "_state", lambda: "other")
    assert not origin.of(made).known


def test_sources_changed_a_moment_ago_note_nothing(made: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(origin, "_state", lambda: origin.UNSTABLE)
    origin.note("0" * 64)
    assert not (home / origin.FOLDER / origin.UNSTABLE).exists()


def test_old_notes_of_other_sources_are_deleted(home: Path) -> None:
    for name, age in (("old", origin.OLD + 9), ("new", 9)):
        (home / origin.FOLDER / name).mkdir(parents=True)
        stamp = os.stat(home).st_mtime - age
        os.utime(home / origin.FOLDER / name, (stamp, stamp))
    origin.note("0" * 64)
    assert {path.name for path in (home / origin.FOLDER).iterdir()} == {"new", "present"}


@pytest.mark.parametrize(
    ("more", "by"),
    [
        ({}, "refemu 0.1.0"),
        ({"unit": "mx/dot", "distribution_version": "2.1"}, "refemu 0.1.0 with mx 2.1"),
        (
            {"source": {"model": "m", "weights_sha256": "a" * 64}},
            "refemu 0.1.0 with weights of m (sha256 aaaaaaaaaaaa...)",
        ),
    ],
)
def test_manifest_says_who_can_vouch(more: dict[str, object], by: str) -> None:
    assert origin.vouching({"refemu_version": "0.1.0", "unit": "concat", **more}) == by


@pytest.mark.long
def test_grade_says_whether_the_set_is_known(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["grade", str(made), "--class", "bits"])
    assert "origin" not in capsys.readouterr().out
    reseal(made)
    main(["grade", str(made), "--class", "bits"])
    assert capsys.readouterr().out.splitlines()[-1].startswith("origin: not checked here")
