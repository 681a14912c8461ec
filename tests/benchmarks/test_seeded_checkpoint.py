"""Seeded checkpoints at a toy shape: what is written is what is read, the same each time, whole or not at all."""

import hashlib
import json
import math
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import safetensors

from benchmarks import seeded_checkpoint
from refemu import models

TOY = {"blocks": 2, "width": 32, "ffn": 48, "heads": 4, "kv_heads": 2, "head_dim": 8}


class Usage(NamedTuple):
    """Of a disk."""

    free: int


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(seeded_checkpoint.SHAPES, "toy", TOY)
    monkeypatch.setattr(seeded_checkpoint, "VOCAB", 300)


def digests(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


@pytest.mark.parametrize("shard", [1 << 30, 10_000])
def test_a_checkpoint_is_the_model_of_its_shape(shard: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one file or in several, each of which holds a tensor at least."""
    monkeypatch.setattr(seeded_checkpoint, "SHARD", shard)
    folder = seeded_checkpoint.write("toy", tmp_path / "new" / "toy")
    model, sizes = models.load(folder), seeded_checkpoint.config("toy")
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    listed = index["weight_map"]

    assert model.config == sizes
    for name, size in sizes.shapes.items():
        assert np.array_equal(model.tensor(name), seeded_checkpoint.weight(name, size))
    assert set(listed.values()) == {path.name for path in folder.glob("*.safetensors")}
    assert (len(set(listed.values())) > 3) is (shard == 10_000)
    assert index["metadata"]["total_size"] == sum(2 * math.prod(size) for size in sizes.shapes.values())
    for path in folder.glob("*.safetensors"):
        with safetensors.safe_open(path, "np") as file:
            assert file.metadata() == {"format": "pt"}  # required by transformers
    assert np.isfinite(models.run(model, [1, 2, 3]).logits).all()


def test_equal_calls_write_equal_files(tmp_path: Path) -> None:
    first, second = (digests(seeded_checkpoint.write("toy", tmp_path / name)) for name in ("a", "b"))

    assert first == second and {path.name for path in tmp_path.iterdir()} == {"a", "b"}


def test_weights_are_seeded_normals_with_outliers() -> None:
    """A deviation of 0.02, a thousandth of the values at either end four times as far out; gains are 1."""
    w = seeded_checkpoint.weight("blk.0.q", (400, 500)).astype(np.float64)
    inner = w[np.abs(w) < 0.1]
    other = seeded_checkpoint.weight("blk.1.q", (400, 500))

    assert abs(inner.std() - 0.02) < 5e-4 and abs(w.mean()) < 2e-4
    assert 0.0015 < (np.abs(w) > 0.2).mean() < 0.0025 and not ((np.abs(w) > 0.07) & (np.abs(w) < 0.2)).any()
    assert (w != other).mean() > 0.99 and other.dtype == np.float16
    assert (seeded_checkpoint.weight("norm", (9,)) == 1).all()


def test_the_shapes_are_those_of_the_models() -> None:
    """Llama 2 7 B and TinyLlama 1.1 B, by the number of their weights."""
    with pytest.MonkeyPatch.context() as real:
        real.setattr(seeded_checkpoint, "VOCAB", 32_000)
        counts = {
            shape: sum(int(np.prod(size)) for size in seeded_checkpoint.config(shape).shapes.values())
            for shape in ("1b", "7b")
        }

    assert counts == {"1b": 1_100_048_384, "7b": 6_738_415_616}


def test_full_disk_is_rejected_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda place: Usage(20_000))

    with pytest.raises(SystemExit, match=r"toy: 0 MB are needed, 0 are free"):
        seeded_checkpoint.write("toy", tmp_path / "toy")
    assert list(tmp_path.iterdir()) == []


def test_a_checkpoint_that_is_interrupted_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that is there is taken for a whole checkpoint by the next measurement."""

    def stopped(name: str, size: tuple[int, ...]) -> np.ndarray:
        if name == "blk.1.up":
            raise KeyboardInterrupt
        return np.ones(size, np.float16)

    monkeypatch.setattr(seeded_checkpoint, "weight", stopped)
    with pytest.raises(KeyboardInterrupt):
        seeded_checkpoint.write("toy", tmp_path / "toy")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_there_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="exists already"):
        seeded_checkpoint.write("toy", tmp_path)
