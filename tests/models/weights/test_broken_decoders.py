"""Files of every architecture, truncated or with a missing, extra or misshapen tensor: each is rejected by name."""

from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import pytest

from refemu import models
from refemu.arith.checks import Refused
from tests.models import toy_families

Tensors = dict[str, np.ndarray]


def rewritten(source: Path, path: Path, change: Callable[[Tensors], Tensors]) -> Path:
    """A copy of a GGUF file with other tensors and the same settings."""
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(path, reader.fields["general.architecture"].contents())
    for key, field in reader.fields.items():
        if not key.startswith(("GGUF.", "general.architecture")):
            writer.add_key_value(key, field.contents(), field.types[0])
    for name, tensor in change({tensor.name: np.array(tensor.data) for tensor in reader.tensors}).items():
        writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture
def whole(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    kind: str = request.param
    return toy_families.write_gguf(tmp_path / "toy.gguf", kind, toy_families.values(kind))


every = pytest.mark.parametrize("whole", toy_families.CONFIGS, indirect=True)
NAME = "blk.1.ffn_down.weight"


@every
def test_an_unchanged_copy_is_read(whole: Path, tmp_path: Path) -> None:
    """Checks that only the changes of the other tests are rejected."""
    copy = models.load(rewritten(whole, tmp_path / "copy.gguf", dict))

    assert copy.config == models.load(whole).config


@every
def test_a_missing_tensor_is_rejected(whole: Path, tmp_path: Path) -> None:
    path = rewritten(whole, tmp_path / "less.gguf", lambda all_: {n: t for n, t in all_.items() if n != NAME})

    with pytest.raises(Refused, match=r"less\.gguf: tensor blk\.1\.ffn_down\.weight is missing"):
        models.load(path)


@every
def test_a_foreign_tensor_is_rejected(whole: Path, tmp_path: Path) -> None:
    extra = {"blk.1.attn_sinks.weight": np.zeros(6, np.float32)}
    path = rewritten(whole, tmp_path / "more.gguf", lambda all_: all_ | extra)

    with pytest.raises(Refused, match=r"more\.gguf: tensor blk\.1\.attn_sinks\.weight is not part of "):
        models.load(path)


@every
def test_a_misshapen_tensor_is_rejected(whole: Path, tmp_path: Path) -> None:
    path = rewritten(whole, tmp_path / "odd.gguf", lambda all_: all_ | {NAME: all_[NAME][:-1]})

    with pytest.raises(Refused, match=r"tensor blk\.1\.ffn_down\.weight must have shape \(12, \d+\), got \(11, \d+\)"):
        models.load(path)


@every
@pytest.mark.parametrize("share", [0.05, 0.5, 0.9])
def test_a_file_that_is_cut_is_rejected(whole: Path, share: float, tmp_path: Path) -> None:
    content = whole.read_bytes()
    (tmp_path / "cut.gguf").write_bytes(content[: int(len(content) * share)])

    with pytest.raises(Refused, match=r"cut\.gguf: not a readable GGUF file, or cut short"):
        models.load(tmp_path / "cut.gguf")


@every
def test_file_may_end_after_last_tensor_or_padding(whole: Path, tmp_path: Path) -> None:
    """Other lengths are cuts. The format asks for padding between tensors only, so the last may be without it."""
    content, last = whole.read_bytes(), gguf.GGUFReader(whole).tensors[-1]
    end = int(last.data_offset + last.n_bytes)
    read = []
    for length in range(end - 5, len(content) + 1):
        (tmp_path / "cut.gguf").write_bytes(content[:length])
        try:
            models.load(tmp_path / "cut.gguf")
            read.append(length)
        except Refused as refused:
            assert "cut.gguf: not a readable GGUF file, or cut short" in str(refused)

    assert read == [end, len(content)] and end < len(content)


@every
def test_a_tensor_of_another_type_is_rejected(whole: Path, tmp_path: Path) -> None:
    """As the file is opened, not once hours of preparation have come to it."""
    path = rewritten(whole, tmp_path / "whole.gguf", lambda all_: all_ | {NAME: all_[NAME].astype(np.int32)})

    with pytest.raises(
        Refused, match=r"whole\.gguf: tensor blk\.1\.ffn_down\.weight must be of type F32, F16, BF16, .*, got I32"
    ):
        models.load(path)
