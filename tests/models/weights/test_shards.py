"""Weights in several safetensors files: read as one; whatever files and index do not agree on is refused."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from refemu import models
from refemu.arith.checks import Refused
from refemu.models.weights.shards import INDEX, ShardedFile
from tests.models import toy_decoder

GIVEN = toy_decoder.values(toy_decoder.GPT2)
NAMES = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")


def split(folder: Path) -> Path:
    """The toy GPT-2 in two files, every other tensor in each."""
    tensors = toy_decoder.gpt2_tensors(GIVEN)
    toy_decoder.write(folder, "gpt2", tensors)
    (folder / "model.safetensors").unlink()
    where = {tensor: NAMES[number % 2] for number, tensor in enumerate(tensors)}
    for name in NAMES:
        some = {tensor: np.ascontiguousarray(tensors[tensor]) for tensor in tensors if where[tensor] == name}
        safetensors.numpy.save_file(some, folder / name)
    (folder / INDEX).write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": where}), "utf-8")
    return folder


def test_several_files_are_the_model_of_one(tmp_path: Path) -> None:
    folder = split(tmp_path / "small")
    model, by_index = models.load(folder), models.load(folder / INDEX)
    lines = "".join(f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n" for name in NAMES)

    assert (model.name, model.config) == ("small", toy_decoder.GPT2) == (by_index.name, by_index.config)
    assert all(np.array_equal(model.tensor(name), GIVEN[name]) for name in toy_decoder.GPT2.shapes)
    assert model.sha256 == hashlib.sha256(lines.encode()).hexdigest()


def test_a_file_with_all_weights_goes_first(tmp_path: Path) -> None:
    """As in transformers: an index beside it may be left from before."""
    toy_decoder.write(tmp_path, "gpt2", toy_decoder.gpt2_tensors(GIVEN))
    (tmp_path / INDEX).write_text("{}", "utf-8")

    assert models.load(tmp_path).config == toy_decoder.GPT2


def test_tensors_by_name(tmp_path: Path) -> None:
    file = ShardedFile(split(tmp_path) / INDEX)

    assert file.names == tuple(sorted(toy_decoder.gpt2_tensors(GIVEN)))
    assert file.shape("transformer.h.1.attn.c_attn.weight") == (12, 36)
    assert repr(file) == f"ShardedFile({str(tmp_path / INDEX)!r}, 2 files, {len(file.names)} tensors)"
    with pytest.raises(Refused, match=r"unknown tensor 'transformer\.wte'; did you mean 'transformer\.wte\.weight'"):
        file.tensor("transformer.wte")


def edited(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], Any]:
    """Change the map of the index."""

    def apply(folder: Path) -> None:
        found = json.loads((folder / INDEX).read_text("utf-8"))
        change(found["weight_map"])
        (folder / INDEX).write_text(json.dumps(found), "utf-8")

    return apply


BAD: list[Any] = [
    pytest.param(lambda folder: (folder / NAMES[1]).unlink(), f"{NAMES[1]}: No such file", id="lost file"),
    pytest.param(lambda folder: (folder / NAMES[0]).write_bytes(b"{}"), "neither a GGUF nor a safet", id="cut"),
    pytest.param(lambda folder: (folder / INDEX).write_text("{}"), "weight_map must say which file", id="no map"),
    pytest.param(lambda folder: (folder / INDEX).write_text("["), "not JSON", id="no json"),
    pytest.param(
        edited(lambda where: where.update(more=NAMES[0])), f"tensor more must be in {NAMES[0]}", id="more in the map"
    ),
    pytest.param(
        edited(lambda where: where.pop("transformer.wte.weight")),
        rf"tensor transformer\.wte\.weight is in {NAMES[0]}, where the index has none",
        id="fewer in the map",
    ),
    pytest.param(edited(lambda where: where.update(more="../" + NAMES[0])), "must name a file beside it", id="path"),
    *(
        pytest.param(edited(lambda where, name=name: where.update(more=name)), "must name a file beside it", id=what)
        for name, what in (("", "no name"), ("a\0b", "NUL"), ("\ud800", "surrogate"), ("\udcff", "no UTF-8"))
    ),
    pytest.param(lambda folder: (folder / INDEX).write_text("[" * 100_000), "not JSON: nested too deep", id="nested"),
    pytest.param(edited(lambda where: where.update(more=3)), "tensor more, got 3", id="number"),
]


@pytest.mark.parametrize(("damage", "message"), BAD)
def test_what_does_not_fit_together_is_refused(damage: Callable[[Path], Any], message: str, tmp_path: Path) -> None:
    damage(split(tmp_path))

    with pytest.raises(Refused, match=message):
        models.load(tmp_path)
