"""Prepared models are cached by their dependencies, shared by schemes, and give the bits of the first start."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refemu import models
from refemu.arith.checks import Refused
from refemu.models.model import Model
from refemu.models.prepared import items
from refemu.models.prepared import prepared_cache as prepared_caches
from refemu.models.prepared.prepared_cache import Recipe
from refemu.models.weights.files import SafetensorsFile
from tests.models import toy_files

IDS = list(range(3, 40))


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A separate cache, for models of any size."""
    monkeypatch.setenv("REFEMU_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("REFEMU_PREPARED", "1")
    monkeypatch.setattr(prepared_caches, "LEAST", 0)
    return tmp_path / "home"


def toy(tmp_path: Path, seed: int = 0) -> Model:
    return models.load(toy_files.write_safetensors(tmp_path / "toy", toy_files.values(toy_files.CONFIG, seed)))


def kept(home: Path) -> dict[str, list[str]]:
    """Items by folder."""
    folders = sorted((home / prepared_caches.FOLDER).iterdir()) if (home / prepared_caches.FOLDER).exists() else []
    return {f.name: sorted(path.name for path in f.iterdir() if path.is_dir()) for f in folders}


def logits(model: Model, scheme: str = "fp16") -> bytes:
    return models.run(model, IDS, scheme).logits.tobytes()


def refuse_to_read(self: Any, name: str) -> np.ndarray:
    if len(self.shape(name)) > 1:
        raise AssertionError(f"{name} was read again")
    return np.ones(self.shape(name), np.float32)


def test_second_start_reads_no_matrix_with_equal_bits(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REFEMU_PREPARED", "0")
    fresh = logits(toy(tmp_path))
    assert kept(home) == {}
    monkeypatch.setenv("REFEMU_PREPARED", "1")
    first = logits(toy(tmp_path))
    (folder,) = kept(home)
    vectors = {name: toy(tmp_path).tensor(name) for name, s in toy_files.CONFIG.shapes.items() if len(s) == 1}
    monkeypatch.setattr(Model, "half", lambda self, name: np.float16(vectors[name]))  # KeyError: a matrix
    second = logits(toy(tmp_path))

    assert fresh == first == second
    assert kept(home)[folder] == sorted(
        ["embed.half", "embed.matrix", *(f"blk.{n}.{part}.matrix" for n in (0, 1) for part in ("o", "down"))]
        + [f"blk.{n}.q+blk.{n}.k+blk.{n}.v.matrix" for n in (0, 1)]
        + [f"blk.{n}.gate+blk.{n}.up.matrix" for n in (0, 1)]
    )


def test_schemes_with_the_same_layers_share_them(tmp_path: Path, home: Path) -> None:
    model = toy(tmp_path)
    logits(model, "fp16")
    before = kept(home)
    for scheme in ("fp16:acc=fp16", "leankv:k_vec=1,k_group=4,v_vec=2,v_group=2,align=4+4,page_bytes=112,window=4"):
        logits(model, scheme)

    assert kept(home) == before and len(before) == 1


def test_cached_tensors_are_those_of_the_run(tmp_path: Path, home: Path) -> None:
    """A changed cached tensor changes the logits: nothing else is prepared."""
    first = logits(toy(tmp_path))
    (folder,) = (home / prepared_caches.FOLDER).iterdir()
    arrays = dict(items.read(folder / "embed.matrix") or {})
    other = arrays["values"].copy()
    other[0, 0, 0] ^= 1 << 9
    import shutil

    shutil.rmtree(folder / "embed.matrix")
    items.write(folder / "embed.matrix", arrays | {"values": other})

    assert logits(toy(tmp_path)) != first


def test_other_weights_have_another_cache_folder(tmp_path: Path, home: Path) -> None:
    one, two = toy(tmp_path / "a"), toy(tmp_path / "b", seed=1)

    assert logits(one) != logits(two) and len(kept(home)) == 2
    assert logits(toy(tmp_path / "b", seed=1)) == logits(two)


@pytest.mark.parametrize("change", ["settings", "sources", "weights", "version"])
def test_the_key_holds_what_the_tensors_depend_on(change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, recipe = toy(tmp_path), Recipe("x", ("formats/integer.py",), {"low": 75})
    before = prepared_caches.key(model, recipe)
    if change == "settings":
        recipe = Recipe("x", recipe.sources, {"low": 76})
    elif change == "sources":
        recipe = Recipe("x", ("formats/groups.py",), {"low": 75})
    elif change == "weights":
        model = toy(tmp_path / "other", seed=1)
    else:
        monkeypatch.setattr(items, "VERSION", items.VERSION + 1)

    assert prepared_caches.key(model, recipe) != before


def test_small_and_untrained_models_are_not_cached(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    models.prepare("tiny", "fp16")
    monkeypatch.setattr(prepared_caches, "LEAST", 1 << 24)
    models.prepare(toy(tmp_path), "fp16")
    monkeypatch.setattr(prepared_caches, "LEAST", 0)
    models.prepare(toy(tmp_path), "fp16", backend="numpy")

    assert kept(home) == {}


def test_changed_weight_file_is_rejected_before_caching(tmp_path: Path, home: Path) -> None:
    model = toy(tmp_path)
    file = tmp_path / "toy" / "model.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)

    with pytest.raises(
        Refused, match=r"model.safetensors: the file changed since its sha256 was computed; start again"
    ):
        models.prepare(model, "fp16")
    assert [name for folder in kept(home).values() for name in folder] == []


def test_weight_file_changed_between_runs_is_prepared_again(tmp_path: Path, home: Path) -> None:
    first = logits(toy(tmp_path))
    assert logits(toy(tmp_path, seed=1)) != first
    assert logits(toy(tmp_path)) == first and len(kept(home)) == 2


def test_full_disk_gives_one_line_and_no_folder(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import shutil

    from tests.models.prepared.test_items import Usage

    monkeypatch.setattr(shutil, "disk_usage", lambda folder: Usage(1, 1, 0))

    with pytest.raises(Refused, match=r"not enough disk space for a prepared model: .* REFEMU_PREPARED=0"):
        models.prepare(toy(tmp_path), "fp16")
    assert kept(home) == {}


def test_interrupted_preparation_resumes(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, count = items.write, iter(range(100))

    def interrupted(place: Path, arrays: Any) -> None:
        if next(count) == 5:
            raise KeyboardInterrupt
        write(place, arrays)

    monkeypatch.setattr(items, "write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        models.prepare(toy(tmp_path), "fp16")
    (there,) = kept(home).values()
    assert 3 <= len(there) < 10 and not any(name.startswith(items.PARTIAL) for name in there)
    monkeypatch.setattr(items, "write", write)
    second = logits(toy(tmp_path))
    monkeypatch.setenv("REFEMU_PREPARED", "0")

    assert second == logits(toy(tmp_path))


TWO = """
import sys
from refemu import models
from refemu.models.prepared import prepared_cache
prepared_cache.LEAST = 0
print(models.run(models.load(sys.argv[1]), list(range(3, 40))).logits.tobytes().hex())
"""


def test_two_processes_that_prepare_one_model_agree(tmp_path: Path, home: Path) -> None:
    toy(tmp_path)
    command = [sys.executable, "-c", TWO, str(tmp_path / "toy")]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, env=dict(os.environ)) for _ in range(2)]
    outputs = [process.communicate()[0] for process in running]

    assert [process.returncode for process in running] == [0, 0] and outputs[0] == outputs[1] != b""
    (folder,) = (home / prepared_caches.FOLDER).iterdir()
    for item in folder.iterdir():
        if item.is_dir():
            items.check(item)
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]


def test_a_prepared_model_says_what_it_is(tmp_path: Path, home: Path) -> None:
    models.prepare(toy(tmp_path), "fp16")
    (folder,) = (home / prepared_caches.FOLDER).iterdir()
    description = json.loads((folder / prepared_caches.DESCRIPTION).read_text())

    assert description["model"] == "toy" and description["recipe"] == "fp16"
    assert description["weights_sha256"] == toy(tmp_path).sha256


def test_tensors_in_half_are_those_of_tensor_rounded(tmp_path: Path) -> None:
    model = toy(tmp_path)
    for name in model.config.shapes:
        assert model.half(name).tobytes() == np.asarray(model.tensor(name)).astype(np.float16).tobytes(), name


class Doubled:
    """Weights of a family that are not those of the file, by a reader that knows `tensor` alone."""

    def __init__(self, weights: Any) -> None:
        self._weights = weights

    def tensor(self, name: str) -> np.ndarray:
        doubled: np.ndarray = 2 * self._weights.tensor(name)
        return doubled


def test_a_reader_that_transforms_is_never_passed_by(tmp_path: Path) -> None:
    from refemu.models.weights import files

    class Derived(SafetensorsFile):
        def tensor(self, name: str) -> np.ndarray:
            return 3 * super().tensor(name)

    model = toy(tmp_path)
    file = Derived(tmp_path / "toy" / "model.safetensors")
    raw = file.names[0]
    assert np.array_equal(files.half(Doubled(model), "embed"), (2 * model.tensor("embed")).astype(np.float16))
    assert np.array_equal(files.half(file, raw), file.tensor(raw).astype(np.float16))
