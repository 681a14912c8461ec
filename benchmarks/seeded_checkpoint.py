"""Write a seeded Llama-like checkpoint of a given shape: fp16 safetensors shards, their index and `config.json`.

    python -m benchmarks.seeded_checkpoint 7b FOLDER

Weights are words of PCG64 of NumPy, seed by tensor, looked up in a table of 65,536 normal quantiles times 0.02,
of which the last thousandth at either end is four times as far out. Equal calls write equal files.
"""

import argparse
import functools
import hashlib
import json
import shutil
import tempfile
from pathlib import Path
from statistics import NormalDist

import numpy as np

from refemu.arith import fp16
from refemu.models.config import ModelConfig
from refemu.models.weights.hf_decoders import llama_source

SHAPES = {
    "smallest": {"blocks": 1, "width": 128, "ffn": 128, "heads": 2, "kv_heads": 1, "head_dim": 64, "vocab": 256},
    "two-blocks": {"blocks": 2, "width": 2048, "ffn": 5632, "heads": 32, "kv_heads": 4, "head_dim": 64},
    "1b": {"blocks": 22, "width": 2048, "ffn": 5632, "heads": 32, "kv_heads": 4, "head_dim": 64},  # TinyLlama 1.1 B
    "7b": {"blocks": 32, "width": 4096, "ffn": 11008, "heads": 32, "kv_heads": 32, "head_dim": 128},  # Llama 2 7 B
}
FORMAT = {"format": "pt"}  #: metadata that transformers requires of a shard
VOCAB, CONTEXT, SCALE, SHARD = 32_000, 4096, 0.02, 2 << 30


def config(shape: str) -> ModelConfig:
    """Sizes of a shape."""
    return ModelConfig(**{"vocab": VOCAB, **SHAPES[shape]}, context=CONTEXT, rope_interleaved=False, tied_head=False)


def write(shape: str, folder: Path) -> Path:
    """Write the checkpoint into a new folder atomically; raises Refused for a disk without space for it."""
    sizes = config(shape)
    needed = total_bytes(sizes)
    if folder.exists():
        raise SystemExit(f"{folder}: exists already")
    folder.parent.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder.parent).free
    if free < 1.1 * needed:
        raise SystemExit(f"{folder}: {needed // 10**6} MB are needed, {free // 10**6} are free")
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f"{folder.name}.") as place:
        _fill(Path(place), sizes)
        Path(place).rename(folder)
        Path(place).mkdir()  # for the manager to delete
    return folder


def total_bytes(sizes: ModelConfig) -> int:
    """Bytes of all tensors."""
    return sum(2 * int(np.prod(size)) for size in sizes.shapes.values())


def _fill(folder: Path, sizes: ModelConfig) -> None:
    """Shards of little more than `SHARD` bytes, their index, the settings."""
    from safetensors.numpy import save_file

    where: dict[str, str] = {}
    held: dict[str, np.ndarray] = {}
    number = 1
    for name, size in sizes.shapes.items():
        raw = llama_source(name, sizes).raw
        where[raw], held[raw] = _shard(number), weight(name, size)
        if sum(tensor.nbytes for tensor in held.values()) > SHARD:
            save_file(held, folder / _shard(number), FORMAT)
            held, number = {}, number + 1
    if held:
        save_file(held, folder / _shard(number), FORMAT)
    index = {"metadata": {"total_size": total_bytes(sizes)}, "weight_map": where}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=1))
    (folder / "config.json").write_text(json.dumps(settings(sizes), indent=1))


def weight(name: str, size: tuple[int, ...]) -> np.ndarray:
    """A weight, float16; a norm's gain is 1."""
    if len(size) == 1:
        return np.ones(size, np.float16)
    seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little")
    words = np.random.Generator(np.random.PCG64(seed)).integers(0, 1 << 16, size, np.uint16)
    return quantiles().take(words)


@functools.cache
def quantiles() -> np.ndarray:
    """float16 (65536,): normal quantiles, the outermost four times as far out."""
    inverse = NormalDist(0, SCALE).inv_cdf
    values = np.array([inverse((word + 0.5) / 65536) for word in range(1 << 16)], np.float32)
    values[:65] *= 4
    values[-65:] *= 4
    return fp16.to_f16(values)


def settings(sizes: ModelConfig) -> dict[str, object]:
    """Content of `config.json`."""
    return {
        "model_type": "llama",
        "hidden_size": sizes.width,
        "num_hidden_layers": sizes.blocks,
        "num_attention_heads": sizes.heads,
        "num_key_value_heads": sizes.kv_heads,
        "head_dim": sizes.head_dim,
        "intermediate_size": sizes.ffn,
        "vocab_size": sizes.vocab,
        "max_position_embeddings": sizes.context,
        "rms_norm_eps": 1e-5,
        "hidden_act": "silu",
        "rope_theta": 10000.0,
        "tie_word_embeddings": False,
    }


def _shard(number: int) -> str:
    return f"model-{number:05d}.safetensors"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write a seeded checkpoint.")
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    print(write(arguments.shape, arguments.folder))
