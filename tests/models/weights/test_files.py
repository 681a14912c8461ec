"""Weight files: every block type decodes to the values of its definition; a broken file is rejected by name."""

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refemu.arith.checks import Refused
from refemu.models.weights.files import GgufFile, SafetensorsFile, open_weights
from tests.models import toy_files


def decode_q4_1(raw: bytes) -> list[np.float32]:
    """Blocks of 20 bytes: fp16 scale and minimum, then 32 nibbles; element i + 16 is the high nibble of byte i."""
    out = []
    for at in range(0, len(raw), 20):
        scale, minimum = (np.float32(x) for x in struct.unpack_from("<ee", raw, at))
        nibbles = [raw[at + 4 + i % 16] >> 4 * (i // 16) & 15 for i in range(32)]
        out += [np.float32(scale * np.float32(q)) + minimum for q in nibbles]
    return out


def decode_q8_0(raw: bytes) -> list[np.float32]:
    """Blocks of 34 bytes: fp16 scale, then 32 signed bytes."""
    out = []
    for at in range(0, len(raw), 34):
        scale, *codes = struct.unpack_from("<e32b", raw, at)
        out += [np.float32(scale) * np.float32(q) for q in codes]
    return out


@pytest.fixture
def toy(tmp_path: Path) -> GgufFile:
    types = {"embed": "Q8_0", "blk.0.q": "Q4_1", "blk.0.k": "F16", "blk.0.v": "BF16"}
    return GgufFile(toy_files.write_gguf(tmp_path / "toy.gguf", toy_files.values(toy_files.CONFIG), types))


def raw_bytes(file: GgufFile, name: str) -> bytes:
    return file._tensors[name].data.tobytes()


@pytest.mark.parametrize(("name", "decode"), [("token_embd.weight", decode_q8_0), ("blk.0.attn_q.weight", decode_q4_1)])
def test_block_types_decode_to_the_bit(toy: GgufFile, name: str, decode: Any) -> None:
    expected = np.array(decode(raw_bytes(toy, name)), np.float32).reshape(toy.shape(name))

    assert toy.tensor(name).tobytes() == expected.tobytes()


def test_float_types_decode_exactly(toy: GgufFile) -> None:
    given = toy_files.values(toy_files.CONFIG)

    assert np.array_equal(toy.tensor("blk.0.attn_output.weight"), given["blk.0.o"])
    assert np.array_equal(toy.tensor("blk.0.attn_k.weight"), given["blk.0.k"].astype(np.float16))
    assert not (toy.tensor("blk.0.attn_v.weight").view(np.uint32) & 0xFFFF).any()


@pytest.mark.parametrize("kind", ["F32", "BF16", "Q8_0"])
def test_file_in_another_byte_order_is_rejected(tmp_path: Path, kind: str) -> None:
    """The library would decode its tensors in this machine's order: another model, and no error."""
    values, types = toy_files.values(toy_files.CONFIG), dict.fromkeys(["embed", "blk.0.q"], kind)
    path = toy_files.write_gguf(tmp_path / "big.gguf", values, types, order=toy_files.gguf.GGUFEndian.BIG)
    with pytest.raises(Refused, match=r"big\.gguf: the file has another byte order than this machine; convert it"):
        GgufFile(path)


def test_a_linear_layer_is_out_by_in(toy: GgufFile) -> None:
    assert toy.shape("blk.0.ffn_down.weight") == (64, 96) == toy.tensor("blk.0.ffn_down.weight").shape


def test_every_call_decodes_into_a_new_array(toy: GgufFile) -> None:
    for name in ("token_embd.weight", "output_norm.weight"):
        first = toy.tensor(name)
        first[...] = 0

        assert toy.tensor(name).any() and type(first) is np.ndarray and first.dtype == np.float32


def test_metadata_are_plain_values(toy: GgufFile) -> None:
    assert toy.metadata("general.architecture") == "llama"
    assert toy.metadata("llama.block_count") == 2
    assert toy.metadata("tokenizer.ggml.merges") == toy_files.MERGES
    assert toy.metadata("nothing", 7) == 7


def test_repr_names_the_file(toy: GgufFile, tmp_path: Path) -> None:
    folder = toy_files.write_safetensors(tmp_path / "hf", toy_files.values(toy_files.CONFIG))

    assert repr(toy) == f"GgufFile({str(tmp_path / 'toy.gguf')!r}, 20 tensors)"
    assert repr(open_weights(folder / "model.safetensors")).endswith("model.safetensors', 20 tensors)")


@pytest.mark.parametrize("cut", [3, 5, 20, 100, 1000, 20_000, -1])
def test_a_truncated_gguf_is_rejected(toy: GgufFile, tmp_path: Path, cut: int) -> None:
    (tmp_path / "cut.gguf").write_bytes(toy.path.read_bytes()[:cut])

    with pytest.raises(Refused, match=r"cut\.gguf: (not a readable GGUF file, or cut short|must be a GGUF)"):
        open_weights(tmp_path / "cut.gguf").tensor("blk.1.ffn_up.weight")


def test_array_longer_than_file_is_rejected_at_once(toy: GgufFile, tmp_path: Path) -> None:
    """The count of tokens, 8 bytes after the key, the type of the value and the type of the elements."""
    whole = bytearray(toy.path.read_bytes())
    at = whole.index(b"tokenizer.ggml.tokens") + len(b"tokenizer.ggml.tokens") + 8
    whole[at : at + 8] = struct.pack("<Q", 1 << 62)
    (tmp_path / "bad.gguf").write_bytes(whole)

    with pytest.raises(Refused, match="reach beyond byte"):
        GgufFile(tmp_path / "bad.gguf")


def test_random_header_damage_never_causes_internal_errors(toy: GgufFile, tmp_path: Path) -> None:
    whole, rng = toy.path.read_bytes(), np.random.Generator(np.random.PCG64(1))
    refused = 0
    for at in rng.integers(4, 1500, 60).tolist():
        damaged = bytearray(whole)
        damaged[at] ^= 1 << int(rng.integers(8))
        (tmp_path / "bad.gguf").write_bytes(damaged)
        try:
            GgufFile(tmp_path / "bad.gguf")
        except Refused:
            refused += 1

    assert refused > 5


def bf16_file(path: Path, words: list[int], dtype: str = "BF16") -> Path:
    header = json.dumps({"a": {"dtype": dtype, "shape": [len(words)], "data_offsets": [0, 2 * len(words)]}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + struct.pack(f"<{len(words)}H", *words))
    return path


def test_bfloat16_is_the_upper_half_of_float32(tmp_path: Path) -> None:
    words = [0x0000, 0x8000, 0x3F80, 0xC2F7, 0x0001, 0x7F7F]
    file = SafetensorsFile(bf16_file(tmp_path / "a.safetensors", words))

    assert file.tensor("a").view(np.uint32).tolist() == [word << 16 for word in words]


def test_safetensors_in_float32_and_float16_are_read_exactly(tmp_path: Path) -> None:
    given = toy_files.values(toy_files.CONFIG)
    given["blk.0.q"] = given["blk.0.q"].astype(np.float16)
    file = open_weights(toy_files.write_safetensors(tmp_path, given) / "model.safetensors")

    for raw, name in (("self_attn.q_proj", "q"), ("mlp.down_proj", "down")):
        found = file.tensor(f"model.layers.0.{raw}.weight")
        assert found.dtype == np.float32 and np.array_equal(found, given[f"blk.0.{name}"])
    assert file.shape("model.layers.0.mlp.down_proj.weight") == (64, 96)


@pytest.mark.parametrize(
    ("words", "dtype", "message"),
    [
        pytest.param([0x7FC0, 0], "BF16", r"tensor a must be finite, got nan at index \(0,\)", id="nan"),
        pytest.param([0, 0xFC00], "F16", r"tensor a must be finite, got -inf at index \(1,\)", id="inf"),
        pytest.param([1, 2], "I16", "tensor a must be of type F32, F16 or BF16, got I16", id="integers"),
    ],
)
def test_values_that_are_not_weights_are_rejected(tmp_path: Path, words: list[int], dtype: str, message: str) -> None:
    with pytest.raises(Refused, match=message):
        SafetensorsFile(bf16_file(tmp_path / "a.safetensors", words, dtype)).tensor("a")


def test_nan_in_gguf_is_rejected_with_its_index(tmp_path: Path) -> None:
    given = toy_files.values(toy_files.CONFIG)
    given["blk.1.gate"][5, 7] = np.nan

    with pytest.raises(Refused, match=r"blk\.1\.ffn_gate\.weight must be finite, got nan at index \(5, 7\)"):
        GgufFile(toy_files.write_gguf(tmp_path / "a.gguf", given)).tensor("blk.1.ffn_gate.weight")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(b"", "must be a GGUF or safetensors file, got no bytes", id="empty"),
        pytest.param(b"PK\x03\x04more than that", "got 504b0304 at its start", id="zip"),
        pytest.param(b"\x05\0\0\0\0\0\0\0{}", "not a readable safetensors file, or cut short", id="cut safetensors"),
        pytest.param(None, "No such file", id="missing"),
    ],
)
def test_foreign_files_are_rejected(tmp_path: Path, content: bytes | None, message: str) -> None:
    if content is not None:
        (tmp_path / "a.bin").write_bytes(content)

    with pytest.raises(Refused, match=message):
        open_weights(tmp_path / "a.bin")


def test_unknown_tensor_error_names_the_nearest(toy: GgufFile) -> None:
    with pytest.raises(Refused, match=r"did you mean 'blk\.0\.attn_q\.weight'"):
        toy.tensor("blk.0.attn_qq.weight")


@pytest.mark.model
def test_quantized_tensors_of_smollm2_decode_exactly(smollm2: Any) -> None:
    """Every tensor: its first and its last row through the slow definition."""
    file = smollm2.weights.file
    decoders = {"Q4_1": (decode_q4_1, 20), "Q8_0": (decode_q8_0, 34)}
    compared = 0
    for name in file.names:
        if file._tensors[name].tensor_type.name in decoders:
            decode, size = decoders[file._tensors[name].tensor_type.name]
            found, raw = file.tensor(name), raw_bytes(file, name)
            row = found.shape[1] // 32 * size
            expected = np.array([decode(raw[:row]), decode(raw[-row:])], np.float32)
            assert found[[0, -1]].tobytes() == expected.tobytes()
            compared += 1

    assert compared == 211
