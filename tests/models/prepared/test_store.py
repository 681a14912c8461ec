"""Prepared models are listed, checked and pruned, and nothing else is."""

import json
import os
import re
import shutil
from pathlib import Path

import pytest

from refemu import checked_json, models
from refemu.arith.checks import Refused
from refemu.cli import main
from refemu.models.prepared import items, store
from refemu.models.prepared import prepared_cache as prepared_caches
from tests.models.prepared.test_items import flip
from tests.models.prepared.test_prepared_cache import home as home
from tests.models.prepared.test_prepared_cache import logits, toy


@pytest.fixture
def kept(tmp_path: Path, home: Path) -> store.PreparedModel:
    """The toy model, prepared under fp16."""
    models.prepare(toy(tmp_path), "fp16")
    (only,) = store.listing()
    return only


def reseal(file: Path, change: dict[str, object]) -> None:
    """As another version of refemu would have written it."""
    known = checked_json.load(file)
    assert known is not None
    file.write_bytes(checked_json.dump(known | change))


def outdate(kept: store.PreparedModel) -> None:
    """As another version of refemu would have written it."""
    reseal(kept.folder / prepared_caches.DESCRIPTION, {"sources": "0" * 64})


def test_a_prepared_model_is_listed_with_its_size(kept: store.PreparedModel) -> None:
    row = kept.row()

    assert (row["model"], row["recipe"], row["state"], row["items"]) == ("toy", "fp16", "usable", 10)
    assert row["bytes"] == sum(path.stat().st_size for path in kept.folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("how", ["sources", "version", "patterns of files that are gone"])
def test_what_another_version_prepared_is_outdated_and_pruned(
    how: str, kept: store.PreparedModel, tmp_path: Path
) -> None:
    file = kept.folder / prepared_caches.DESCRIPTION
    change = {"sources": {"sources": "0" * 64}, "version": {"version": 0}}.get(how, {"patterns": ["gone/*.py"]})
    reseal(file, change)
    (outdated,) = store.listing()

    assert outdated.state == "outdated"
    assert store.prune() == [kept.folder] and store.listing() == [] and not kept.folder.exists()


def test_what_is_in_use_is_not_pruned(kept: store.PreparedModel) -> None:
    assert store.prune() == [] and store.listing() == [kept]


def test_model_is_pruned_by_name_and_prepared_again(kept: store.PreparedModel, tmp_path: Path) -> None:
    before = logits(toy(tmp_path))

    assert store.prune(store.find("toy")) == [kept.folder] and not kept.folder.exists()
    assert logits(toy(tmp_path)) == before
    assert store.prune(store.find(kept.folder.name)) == [kept.folder]
    with pytest.raises(Refused, match="toy: no prepared model of this name"):
        store.find("toy")


def test_damaged_item_is_pruned_alone_and_prepared_again(kept: store.PreparedModel, tmp_path: Path) -> None:
    before, head = logits(toy(tmp_path)), kept.folder / "embed.matrix"
    flip(head / "values.npy", keep_stamp=True)
    wrong = [(place, message) for place, message in store.check([kept]) if message]

    assert [place for place, _ in wrong] == [head] and "damaged: sha256 is" in wrong[0][1]
    assert store.prune(damaged=True) == [head] and len(kept.items()) == 9
    assert logits(toy(tmp_path)) == before and not any(message for _, message in store.check([kept]))


@pytest.mark.parametrize("content", [None, b"[" * 200_000, b"{}", b"a folder"])
@pytest.mark.parametrize("place", ["embed.matrix/item.json", "embed.matrix", "prepared.json"])
def test_remedy_of_the_message_repairs_whatever_is_damaged(
    place: str, content: bytes | None, kept: store.PreparedModel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command that the message names is run, and the next start prepares what is gone."""
    before, file = logits(toy(tmp_path)), kept.folder / place
    shutil.rmtree(file) if file.is_dir() else file.unlink()
    if content == b"a folder":
        file.mkdir()
    elif content is not None:
        file.write_bytes(content)
    elif place != "embed.matrix":
        os.mkfifo(file)

    assert main(["models", "check"]) == (0 if content is None and place == "embed.matrix" else 1)
    printed = capsys.readouterr()
    remedies = re.findall(r"run: refemu (models prune(?: --damaged)?)", printed.out + printed.err)
    assert all(main(words.split()) == 0 for words in set(remedies))
    assert logits(toy(tmp_path)) == before and main(["models", "check"]) == 0


def test_a_folder_without_a_description_is_damaged(kept: store.PreparedModel) -> None:
    (kept.folder / prepared_caches.DESCRIPTION).unlink()

    assert [other.state for other in store.listing()] == ["damaged"]
    assert store.prune() == [kept.folder]


def test_what_a_killed_run_left_is_swept(kept: store.PreparedModel) -> None:
    left = kept.folder / f"{items.PARTIAL}abc"
    left.mkdir()
    (left / "x").write_text("half")
    store.prune()

    assert not left.exists() and len(kept.items()) == 10


def test_nothing_else_in_the_cache_is_touched(kept: store.PreparedModel, home: Path) -> None:
    for name in ("models/smollm2-135m/weights.gguf", "kernels/x", f"{prepared_caches.FOLDER}/note.txt"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("kept")
    outdate(kept)
    store.prune()

    assert sorted(path.name for path in home.rglob("*") if path.is_file()) == ["note.txt", "weights.gguf", "x"]


def test_the_command_lists_checks_and_prunes(kept: store.PreparedModel, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "prepared"]) == 0
    text = capsys.readouterr().out
    assert all(word in text for word in (kept.folder.name, "toy", "fp16", "usable"))
    assert main(["models", "prepared", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["prepared"][0]["path"] == str(kept.folder)
    assert main(["models", "check", "toy"]) == 0
    assert capsys.readouterr().out == "10 items checked, 0 damaged\n"
    os.truncate(kept.folder / "embed.matrix" / "values.npy", 100)
    assert main(["models", "check"]) == 1
    assert "embed.matrix/values.npy: damaged: sha256 is" in capsys.readouterr().out
    assert main(["models", "prune"]) == 0
    assert capsys.readouterr().out == "nothing to delete\n"
    assert main(["models", "prune", "--damaged", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["deleted"] == [str(kept.folder / "embed.matrix")]
    assert main(["models", "prune", "toy"]) == 0
    assert capsys.readouterr().out == f"deleted {kept.folder}\n"
    assert main(["models", "check"]) == 0
    assert capsys.readouterr().out == "0 items checked, 0 damaged\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["check", "nothing"], "no prepared model of this name"),
        (["prune", "nothing"], "no prepared model of this name"),
        (["prepared", "toy"], "takes no name, got toy"),
        (["list", "toy"], "takes no name, got toy"),
        (["check", "--damaged"], "--damaged needs prune"),
        (["prune", "--from", "x"], "--from needs fetch"),
    ],
)
def test_command_rejects_unknown_names(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", *words]) == 2
    assert message in capsys.readouterr().err
