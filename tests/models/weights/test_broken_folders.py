"""Folders of every family with a tensor missing, extra, misshapen, of another type, or with a file cut short."""

from pathlib import Path

import numpy as np
import pytest

from refemu import models
from refemu.arith.checks import Refused
from tests.models import toy_folders

every = pytest.mark.parametrize("kind", toy_folders.FAMILIES)
counts = pytest.mark.parametrize("several", [False, True], ids=["one", "two"])


def down(kind: str) -> str:
    """The tensor of the last block that the tests damage."""
    ends = ("down_proj.weight", "dense_4h_to_h.weight", "mlp.c_proj.weight", "fc2.weight")
    return [name for name in toy_folders.tensors(kind) if name.endswith(ends)][-1]


@every
@counts
def test_folder_of_every_family_loads_its_weights(kind: str, several: bool, tmp_path: Path) -> None:
    """Checks that only the changes of the other tests are rejected."""
    model = models.load(toy_folders.write(tmp_path / "whole", kind, toy_folders.tensors(kind), several))

    assert model.config == toy_folders.config(kind)
    for name, weight in toy_folders.values(kind).items():
        assert np.array_equal(model.tensor(name), weight), name


@every
@counts
def test_a_missing_tensor_is_rejected(kind: str, several: bool, tmp_path: Path) -> None:
    name = down(kind)
    less = {other: tensor for other, tensor in toy_folders.tensors(kind).items() if other != name}

    with pytest.raises(Refused, match=f"tensor {name} is missing"):
        models.load(toy_folders.write(tmp_path, kind, less, several))


@every
@counts
def test_a_foreign_tensor_is_rejected(kind: str, several: bool, tmp_path: Path) -> None:
    more = toy_folders.tensors(kind) | {"model.layers.1.self_attn.sinks": np.zeros(6, np.float32)}

    with pytest.raises(
        Refused, match=r"tensor model\.layers\.1\.self_attn\.sinks is not part of .* as refemu models it"
    ):
        models.load(toy_folders.write(tmp_path, kind, more, several))


@every
@counts
def test_a_misshapen_tensor_is_rejected(kind: str, several: bool, tmp_path: Path) -> None:
    name, whole = down(kind), toy_folders.tensors(kind)

    with pytest.raises(Refused, match=rf"tensor {name} must have shape \(\d+, \d+\), got \({len(whole[name]) - 1}, "):
        models.load(toy_folders.write(tmp_path, kind, whole | {name: whole[name][:-1]}, several))


@every
@counts
@pytest.mark.parametrize(("dtype", "said"), [(np.int32, "I32"), (np.float64, "F64")])
def test_a_tensor_of_another_type_is_rejected(kind: str, several: bool, dtype: type, said: str, tmp_path: Path) -> None:
    """As the folder is opened, not once hours of preparation have come to it."""
    name, whole = down(kind), toy_folders.tensors(kind)

    with pytest.raises(Refused, match=f"tensor {name} must be of type F32, F16 or BF16, got {said}"):
        models.load(toy_folders.write(tmp_path, kind, whole | {name: whole[name].astype(dtype)}, several))


@every
@counts
def test_a_file_that_is_cut_is_rejected(kind: str, several: bool, tmp_path: Path) -> None:
    """By its last byte, too; of two files, the second is cut."""
    folder = toy_folders.write(tmp_path, kind, toy_folders.tensors(kind), several)
    path = folder / (toy_folders.SHARDS[1] if several else "model.safetensors")
    content = path.read_bytes()

    for length in (0, 7, 100, len(content) // 2, len(content) * 999 // 1000, len(content) - 1):
        path.write_bytes(content[:length])
        with pytest.raises(Refused, match=f"{path.name}: (must be a GGUF or|not a readable) safetensors file"):
            models.load(folder)
    path.write_bytes(content)
    assert models.load(folder).config == toy_folders.config(kind)


@every
def test_a_lost_file_is_rejected(kind: str, tmp_path: Path) -> None:
    folder = toy_folders.write(tmp_path, kind, toy_folders.tensors(kind), several=True)
    (folder / toy_folders.SHARDS[0]).unlink()

    with pytest.raises(Refused, match=f"{toy_folders.SHARDS[0]}: No such file"):
        models.load(folder)


@every
def test_a_config_that_is_cut_is_rejected(kind: str, tmp_path: Path) -> None:
    path = toy_folders.write(tmp_path, kind, toy_folders.tensors(kind)) / "config.json"
    path.write_text(path.read_text("utf-8")[:-1], "utf-8")

    with pytest.raises(Refused, match=r"config\.json: not JSON"):
        models.load(tmp_path)
