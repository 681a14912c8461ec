"""Every type of tensor in GGUF files against its definition, value by value; other types are rejected."""

from pathlib import Path

import gguf
import numpy as np
import pytest

from refemu.arith.checks import Refused
from refemu.models.weights.files import GGUF_TYPES, GgufFile
from tests.oracles import gguf_blocks

ROWS, BLOCKS = 6, 4
SIMPLE = {"F32": np.float32, "F16": np.float16}


def blocks(kind: str, seed: int = 1) -> np.ndarray:
    """Random bytes (ROWS, BLOCKS, size) whose float16 values are finite and whose small scales are not NaN."""
    size, halves = gguf_blocks.SIZES[kind]
    rng = np.random.default_rng(seed)
    raw = rng.integers(0, 256, (ROWS, BLOCKS, size), np.uint8)
    for at in halves:
        raw[..., at : at + 2] = (rng.normal(0, 3, (ROWS, BLOCKS, 1)).astype(np.float16)).view(np.uint8)
    if kind == "MXFP4":
        raw[..., 0] = rng.integers(0, 250, (ROWS, BLOCKS))
        raw[0, :, 0] = 0, 1, 2, 249
    if kind == "NVFP4":
        raw[..., :4] = rng.integers(0, 0x7F, (ROWS, BLOCKS, 4))
    if kind == "IQ1_M":  # the highest nibble of the scale is that of the last word
        raw[..., 55] = rng.choice([0x30, 0xB0, 0x00], (ROWS, BLOCKS))
    return raw


def written(path: Path, kind: str, data: np.ndarray) -> GgufFile:
    """A file of one tensor."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tensor("a", data, raw_dtype=gguf.GGMLQuantizationType[kind])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return GgufFile(path)


def defined(kind: str, block: bytes) -> list[float]:
    if kind in gguf_blocks.PLAIN:
        return gguf_blocks.PLAIN[kind](block)
    table = getattr(gguf.quants, kind)
    table.init_grid()
    return gguf_blocks.GRIDDED[kind](block, table.grid.reshape(table.grid_shape).tolist())


@pytest.mark.parametrize("kind", gguf_blocks.SIZES)
def test_a_block_is_what_its_definition_says(kind: str, tmp_path: Path) -> None:
    raw = blocks(kind)
    file = written(tmp_path / "a.gguf", kind, raw.reshape(ROWS, -1))
    wanted = np.array([[defined(kind, block.tobytes()) for block in row] for row in raw]).reshape(ROWS, -1)

    assert file.shape("a") == wanted.shape
    assert np.array_equal(file.tensor("a"), wanted.astype(np.float32))
    assert len(np.unique(wanted)) > 40


@pytest.mark.parametrize("kind", SIMPLE)
def test_floats_are_read_exactly(kind: str, tmp_path: Path) -> None:
    data = np.random.default_rng(2).normal(size=(3, 32)).astype(SIMPLE[kind])

    assert np.array_equal(written(tmp_path / "a.gguf", kind, data).tensor("a"), data.astype(np.float32))


def test_bfloat16_is_the_upper_half_of_float32(tmp_path: Path) -> None:
    data = np.random.default_rng(3).normal(size=(3, 32)).astype(np.float32)
    words = (data.view(np.uint32) >> 16).astype(np.uint16)
    found = written(tmp_path / "a.gguf", "BF16", words.view(np.uint8)).tensor("a")

    assert np.array_equal(found.view(np.uint32), words.astype(np.uint32) << 16)


def test_all_types_that_the_library_decodes_are_here() -> None:
    """One that a later version of the library adds is read once it has a definition here."""
    decoded = set()
    for kind, (count, size) in gguf.GGML_QUANT_SIZES.items():
        try:
            gguf.quants.dequantize(np.zeros((1, size), np.uint8), kind)
        except NotImplementedError:
            continue
        assert count
        decoded.add(kind.name)

    assert decoded >= set(GGUF_TYPES) == {*gguf_blocks.SIZES, *SIMPLE, "BF16"}


@pytest.mark.parametrize("kind", ["I8", "I16", "I32", "I64", "F64", "Q8_K", "Q8_1"])
def test_other_types_are_rejected_by_name(kind: str, tmp_path: Path) -> None:
    _, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]]
    file = written(tmp_path / "a.gguf", kind, np.zeros((2, size), np.uint8))

    for read in (file.tensor, file.half, file.require_type):
        with pytest.raises(Refused, match=f"tensor a must be of type F32, F16, BF16, Q4_0, .*, got {kind}"):
            read("a")
