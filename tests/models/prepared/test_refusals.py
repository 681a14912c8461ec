"""Each of the inputs and accidents that must end with a sentence: nothing half-written, and no bits of two files."""

import os
import resource
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from refemu import checked_json, models
from refemu.arith.checks import Refused
from refemu.cli import main
from refemu.models.prepared import items
from refemu.models.prepared import prepared_cache as prepared_caches
from tests.models import toy_files
from tests.models.prepared.test_prepared_cache import home as home
from tests.models.prepared.test_prepared_cache import logits, toy

WEIGHTS = "model.safetensors"
UP, Q = "model.layers.1.mlp.up_proj.weight", "model.layers.0.self_attn.q_proj"


def half_written(home: Path) -> list[str]:
    """What of an item was begun and not finished."""
    return [path.name for path in home.rglob("*") if path.name.startswith(items.PARTIAL)]


def edited(change: Callable[[dict[str, np.ndarray]], Any]) -> Callable[[Path], None]:
    """Change the tensors of the file."""

    def apply(folder: Path) -> None:
        tensors = dict(load_file(folder / WEIGHTS))
        change(tensors)
        save_file(tensors, folder / WEIGHTS)

    return apply


def cut(folder: Path) -> None:
    os.truncate(folder / WEIGHTS, (folder / WEIGHTS).stat().st_size - 1000)


def reshape(tensors: dict[str, np.ndarray]) -> None:
    tensors[UP] = tensors[UP][:-1].copy()


def integers(tensors: dict[str, np.ndarray]) -> None:
    tensors[UP] = tensors[UP].astype(np.int32)


def infinite(tensors: dict[str, np.ndarray]) -> None:
    tensors[UP] = tensors[UP].copy()
    tensors[UP][3, 5] = np.inf


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        pytest.param(edited(lambda tensors: tensors.pop(UP)), rf"tensor {UP} is missing", id="missing"),
        pytest.param(
            edited(lambda tensors: tensors.update({f"{Q}.bias": np.zeros(64, np.float32)})),
            rf"{Q}\.bias is not part of",
            id="extra",
        ),
        pytest.param(edited(reshape), rf"{UP} must have shape \(96, 64\), got \(95, 64\)", id="another shape"),
        pytest.param(edited(integers), rf"tensor {UP} must be of type F32, F16 or BF16, got I32", id="another type"),
        pytest.param(edited(infinite), rf"tensor {UP} must be finite, got inf at index \(3, 5\)", id="infinity"),
        pytest.param(cut, "not a readable safetensors file, or cut short", id="cut"),
        pytest.param(
            lambda folder: (folder / WEIGHTS).unlink(),
            "no such file|No such file|holds no|no model.safetensors",
            id="lost",
        ),
    ],
)
def test_checkpoint_that_is_not_model_is_rejected(
    damage: Callable[[Path], None], message: str, tmp_path: Path, home: Path
) -> None:
    toy(tmp_path)
    damage(tmp_path / "toy")

    with pytest.raises(Refused, match=message):
        models.prepare(models.load(str(tmp_path / "toy")), "fp16")
    assert not half_written(home)


def change_last_bit(file: Path) -> None:
    """In place: a file that is cut while a thread reads its mapping ends the process."""
    with file.open("r+b") as stream:
        stream.seek(-1, os.SEEK_END)
        last = stream.read(1)[0]
        stream.seek(-1, os.SEEK_END)
        stream.write(bytes([last ^ 1]))


@pytest.mark.parametrize("keep", ["1", "0"])
@pytest.mark.parametrize("how", [change_last_bit, lambda file: cut(file.parent)], ids=["a bit", "cut"])
def test_weights_changed_between_loading_and_preparing_are_rejected(
    keep: str, how: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If all matrices were cached, embedding and norms would come from another file."""
    logits(toy(tmp_path))
    monkeypatch.setenv("REFEMU_PREPARED", keep)
    model = toy(tmp_path)
    how(tmp_path / "toy" / WEIGHTS)

    with pytest.raises(Refused, match=rf"{WEIGHTS}: the file changed since its sha256 was computed; start again"):
        models.prepare(model, "fp16")


@pytest.mark.parametrize("keep", ["1", "0"])
def test_weights_changed_while_they_are_prepared_are_rejected(
    keep: str, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REFEMU_PREPARED", keep)
    model = toy(tmp_path)

    def change(what: str, done: int, total: int) -> None:
        if done == 1:
            change_last_bit(tmp_path / "toy" / WEIGHTS)

    with pytest.raises(Refused, match=rf"{WEIGHTS}: the file changed since its sha256 was computed; start again"):
        models.prepare(model, "fp16", progress=change)
    assert not half_written(home)


def test_disk_filled_during_preparation_ends_with_one_line(
    tmp_path: Path, home: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A limit on file size replaces a full disk: the system itself does not write."""
    toy(tmp_path)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    command = ["ppl", "--model", str(tmp_path / "toy"), "--ids", str(ids(tmp_path)), "--win", "16"]
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
        status = main(command)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    message = capfd.readouterr().err

    assert status == 2 and "File too large" in message and "No incomplete file remains" in message
    assert "Traceback" not in message and not half_written(home)
    assert main(command) == 0, "with room again, the same command goes on"


def ids(tmp_path: Path) -> Path:
    file = tmp_path / "ids.txt"
    file.write_text(" ".join(map(str, range(3, 40))))
    return file


def test_item_of_another_version_is_rejected_with_advice(tmp_path: Path, home: Path) -> None:
    """A version that changes how items are laid out has other keys; one with this key was tampered with."""
    first = logits(toy(tmp_path))
    (folder,) = (home / prepared_caches.FOLDER).iterdir()
    description = folder / "embed.matrix" / items.DESCRIPTION
    known = checked_json.load(description)
    assert known is not None
    description.write_bytes(checked_json.dump(known | {"version": items.VERSION + 1}))

    with pytest.raises(Refused, match=rf"prepared in version {items.VERSION + 1}, .*run: refemu models prune --damag"):
        logits(toy(tmp_path))
    assert main(["models", "prune", "--damaged"]) == 0
    assert logits(toy(tmp_path)) == first


def test_version_with_other_sources_uses_another_item(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = logits(toy(tmp_path))
    monkeypatch.setattr(prepared_caches, "sources_digest", lambda names: "0" * 64)

    assert logits(toy(tmp_path)) == first
    assert len(list((home / prepared_caches.FOLDER).iterdir())) == 2


def test_the_toy_has_the_tensors_that_are_spoiled(tmp_path: Path) -> None:
    toy(tmp_path)
    tensors = load_file(tmp_path / "toy" / WEIGHTS)

    assert tensors[UP].shape == (96, 64) and f"{Q}.weight" in tensors and toy_files.CONFIG.ffn == 96
