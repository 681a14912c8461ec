"""Weights in several files, safetensors and GGUF: read as one; files that do not fit together are rejected."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import safetensors.numpy

from refemu import models
from refemu.arith.checks import Refused
from refemu.models.weights.shards import INDEX, GgufParts, ShardedFile, model_name
from tests.models import toy_decoder, toy_families

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
    """As in transformers: an index in the folder may be left over."""
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
    pytest.param(lambda folder: (folder / NAMES[0]).write_bytes(b"{}"), "must be a GGUF or safetensors file", id="cut"),
    pytest.param(lambda folder: (folder / INDEX).write_text("{}"), "weight_map must say which file", id="no map"),
    pytest.param(lambda folder: (folder / INDEX).write_text("["), "not JSON", id="no json"),
    pytest.param(
        edited(lambda where: where.update(more=NAMES[0])), f"tensor more must be in {NAMES[0]}", id="more in the map"
    ),
    pytest.param(
        edited(lambda where: where.pop("transformer.wte.weight")),
        rf"tensor transformer\.wte\.weight is in {NAMES[0]}, but not in the index",
        id="fewer in the map",
    ),
    pytest.param(
        edited(lambda where: where.update(more="../" + NAMES[0])), "must name a file in its folder", id="path"
    ),
    *(
        pytest.param(
            edited(lambda where, name=name: where.update(more=name)), "must name a file in its folder", id=what
        )
        for name, what in (("", "no name"), ("a\0b", "NUL"), ("\ud800", "surrogate"), ("\udcff", "no UTF-8"))
    ),
    pytest.param(lambda folder: (folder / INDEX).write_text("[" * 100_000), "not JSON: nested too deep", id="nested"),
    pytest.param(edited(lambda where: where.update(more=3)), "tensor more, got 3", id="number"),
]


@pytest.mark.parametrize(("damage", "message"), BAD)
def test_what_does_not_fit_together_is_rejected(damage: Callable[[Path], Any], message: str, tmp_path: Path) -> None:
    damage(split(tmp_path))

    with pytest.raises(Refused, match=message):
        models.load(tmp_path)


PARTS = tuple(f"toy-0000{number}-of-00004.gguf" for number in (1, 2, 3, 4))


def in_parts(source: Path, folder: Path, tensors: int = 6) -> Path:
    """The model of a GGUF file as the gguf package splits it; the first part."""
    reader = gguf.GGUFReader(source)
    kind = reader.fields["general.architecture"].contents()
    writer = gguf.GGUFWriter(folder / "toy.gguf", kind, split_max_tensors=tensors)
    for key, field in reader.fields.items():
        if not key.startswith(("GGUF.", "general.architecture")):
            writer.add_key_value(key, field.contents(), field.types[0])
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, np.array(tensor.data))
    finish(writer)
    return min(folder.glob("toy-00001-of-*.gguf"))


def finish(writer: gguf.GGUFWriter) -> None:
    """Write the file."""
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def part(path: Path, settings: dict[str, int], tensors: dict[str, np.ndarray]) -> None:
    """One part as a writer might have made it."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.kv_data[0].clear()  # without general.architecture
    for key, value in settings.items():
        writer.add_uint16(key, value)
    for name, tensor in tensors.items():
        writer.add_tensor(name, tensor)
    finish(writer)


@pytest.mark.parametrize("kind", toy_families.CONFIGS)
def test_parts_of_split_model_equal_one_file(kind: str, tmp_path: Path) -> None:
    one = toy_families.write_gguf(tmp_path / "one.gguf", kind, toy_families.values(kind))
    first = in_parts(one, tmp_path)
    whole, model, by_last = models.load(one), models.load(first), models.load(max(tmp_path.glob("toy-*.gguf")))

    assert len(list(tmp_path.glob("toy-*.gguf"))) > 2
    assert model.config == whole.config and model.name == "toy"
    assert model.sha256 == by_last.sha256 != whole.sha256
    for name in whole.config.shapes:
        assert np.array_equal(model.tensor(name), whole.tensor(name)), name
        assert np.array_equal(model.weights.half(name), whole.weights.half(name)), name


def test_the_sha256_of_parts_is_that_of_all(tmp_path: Path) -> None:
    first = in_parts(toy_families.write_gguf(tmp_path / "one.gguf", "llama", toy_families.values("llama")), tmp_path)
    parts = sorted(tmp_path.glob("toy-*.gguf"))
    lines = "".join(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in parts)

    assert models.load(first).sha256 == hashlib.sha256(lines.encode()).hexdigest()
    assert GgufParts(first).paths == tuple(parts)


@pytest.mark.parametrize("file", ["llama.gguf", "v-1-of-2.gguf", "v-00001-of-00002.safetensors"])
def test_other_names_are_not_shortened(file: str) -> None:
    assert model_name(Path(file)) == Path(file).stem


def damaged(number: int, damage: Callable[[Path], Any]) -> Callable[[Path], Any]:
    """Damage of a part, from 1 on."""
    return lambda folder: damage(folder / PARTS[number - 1])


def other(**change: int) -> Callable[[Path], None]:
    """A part with other settings, or a tensor more."""

    def damage(path: Path) -> None:
        reader = gguf.GGUFReader(path)
        tensors = {tensor.name: np.array(tensor.data) for tensor in reader.tensors}
        settings = {key: field.contents() for key, field in reader.fields.items() if not key.startswith("GGUF.")}
        more = {name: np.zeros(4, np.float32) for name in change if name.endswith(".weight")}
        changed = {key.replace("_", ".", 1): value for key, value in change.items() if key not in more}
        part(path, settings | changed, tensors | more)

    return damage


SPLIT: list[Any] = [
    pytest.param(damaged(3, Path.unlink), f"{PARTS[2]}: No such file", id="lost part"),
    pytest.param(damaged(4, lambda path: path.write_bytes(b"GGUF")), f"{PARTS[3]}: not a readable GGUF", id="cut"),
    pytest.param(
        damaged(2, other(split_no=2)), rf"{PARTS[1]}: split\.no .* must be \(1, 4\), .* got \(2, 4\)", id="no"
    ),
    pytest.param(damaged(2, other(split_count=3)), rf"{PARTS[1]}: .* must be \(1, 4\), .* got \(1, 3\)", id="count"),
    pytest.param(damaged(2, other(llama_x=1)), rf"{PARTS[1]}: settings .* first part, got llama\.x", id="settings"),
    pytest.param(damaged(4, lambda path: part(path, LAST, {})), r"must have 21 tensors in all, got 1\d", id="tensors"),
    pytest.param(
        damaged(4, other(**{"output_norm.weight": 1, "token_embd.weight": 1})),
        rf"{PARTS[3]}: tensor token_embd\.weight is in {PARTS[0]} already",
        id="twice",
    ),
    pytest.param(damaged(4, other(**{"more.weight": 1})), "must have 21 tensors in all, got 22", id="one more"),
    pytest.param(
        damaged(2, lambda path: safetensors.numpy.save_file({"a": np.zeros(1, np.float32)}, path)),
        f"{PARTS[1]}: part 1 .* must be a GGUF file, got safetensors",
        id="safetensors",
    ),
    pytest.param(
        damaged(1, lambda path: path.rename(path.with_name("x-00005-of-00004.gguf"))),
        r"x-00005-of-00004.gguf: the number of a part must be in \[1, 4\], got 00005",
        id="number",
    ),
    pytest.param(
        damaged(1, lambda path: path.rename(path.with_name("x.gguf"))), "x.gguf: the name of a part of", id="renamed"
    ),
]
LAST = {"split.no": 3, "split.count": 4, "split.tensors.count": 21}


@pytest.mark.parametrize(("damage", "message"), SPLIT)
def test_parts_that_do_not_fit_together_are_rejected(
    damage: Callable[[Path], Any], message: str, tmp_path: Path
) -> None:
    one = toy_families.write_gguf(tmp_path / "one.gguf", "llama", toy_families.values("llama"))
    first = in_parts(one, tmp_path)
    damage(tmp_path)

    with pytest.raises(Refused, match=message):
        models.load(first if first.exists() else next(tmp_path.glob("x*"), first))
