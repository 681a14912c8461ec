"""Small weight files for tests: a Llama-like decoder as GGUF and as safetensors, and a forward in float64."""

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import safetensors.numpy

from refemu.models.config import ModelConfig
from refemu.models.weights import gguf_decoders, hf_decoders

CONFIG = ModelConfig(
    blocks=2,
    width=64,
    ffn=96,
    heads=4,
    kv_heads=2,
    head_dim=16,
    vocab=300,
    context=128,
    rope_base=50_000.0,
    tied_head=True,
)

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
MERGES = ["t h", "Ġ th", "Ġth e", "i n", "1 2"]


def raw_name_gguf(name: str) -> str:
    """`blk.3.q` -> `blk.3.attn_q.weight`."""
    prefix, _, part = name.rpartition(".")
    return gguf_decoders.raw_name(part, prefix) + ".weight"


def raw_name_hf(name: str) -> str:
    """`blk.3.q` -> `model.layers.3.self_attn.q_proj.weight`."""
    return hf_decoders.llama_source(name, ModelConfig(**{**vars(CONFIG), "tied_head": False, "blocks": 13})).raw


def values(config: ModelConfig, seed: int = 0) -> dict[str, np.ndarray]:
    """Seeded float32 weights by canonical name."""
    rng = np.random.Generator(np.random.PCG64(seed))
    return {name: rng.normal(0, 0.1, shape).astype(np.float32) for name, shape in config.shapes.items()}


def byte_characters() -> list[str]:
    """GPT-2's character of each byte, in the order of the bytes."""
    plain = {*range(33, 127), *range(161, 173), *range(174, 256)}
    rest = iter(range(256, 512))
    return [chr(byte) if byte in plain else chr(next(rest)) for byte in range(256)]


def vocabulary() -> list[str]:
    """Special tokens, bytes, merged tokens, and unused ones up to the size of `CONFIG`."""
    known = [*SPECIAL, *byte_characters(), *(merge.replace(" ", "") for merge in MERGES)]
    return known + [f"<unused{i}>" for i in range(CONFIG.vocab - len(known))]


def write_gguf(
    path: Path,
    tensors: dict[str, np.ndarray],
    types: dict[str, str] | None = None,
    settings: dict[str, Any] | None = None,
    extra: dict[str, np.ndarray] | None = None,
    order: gguf.GGUFEndian = gguf.GGUFEndian.LITTLE,
) -> Path:
    """A GGUF file of `tensors` (canonical names) with sizes of `CONFIG`; `types` by canonical name, F32 else."""
    writer = gguf.GGUFWriter(path, "llama", endianess=order)
    add = {str: writer.add_string, bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32}
    for key, value in {**_settings(), **(settings or {})}.items():
        if value is not None:
            add[type(value)](key, value)
    writer.add_token_list(vocabulary())
    writer.add_token_types([3 if token in SPECIAL else 1 for token in vocabulary()])
    writer.add_token_merges(MERGES)
    for name, tensor in tensors.items():
        kind = gguf.GGMLQuantizationType[(types or {}).get(name, "F32")]
        writer.add_tensor(raw_name_gguf(name), gguf.quants.quantize(tensor, kind), raw_dtype=kind)
    for name, tensor in (extra or {}).items():
        writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _settings() -> dict[str, Any]:
    sizes = {
        "block_count": CONFIG.blocks,
        "embedding_length": CONFIG.width,
        "context_length": CONFIG.context,
        "feed_forward_length": CONFIG.ffn,
        "attention.head_count": CONFIG.heads,
        "attention.head_count_kv": CONFIG.kv_heads,
        "rope.freq_base": CONFIG.rope_base,
        "rope.dimension_count": CONFIG.head_dim,
        "attention.layer_norm_rms_epsilon": CONFIG.rms_eps,
    }
    tokenizer = {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "smollm"}
    return {f"llama.{key}": value for key, value in sizes.items()} | tokenizer


def write_safetensors(folder: Path, tensors: dict[str, np.ndarray], **settings: Any) -> Path:
    """A folder with model.safetensors and config.json, as Hugging Face lays them out."""
    folder.mkdir(parents=True, exist_ok=True)
    safetensors.numpy.save_file(
        {raw_name_hf(name): value for name, value in tensors.items()}, folder / "model.safetensors"
    )
    known = {
        "model_type": "llama",
        "num_hidden_layers": CONFIG.blocks,
        "hidden_size": CONFIG.width,
        "intermediate_size": CONFIG.ffn,
        "num_attention_heads": CONFIG.heads,
        "num_key_value_heads": CONFIG.kv_heads,
        "vocab_size": CONFIG.vocab,
        "max_position_embeddings": CONFIG.context,
        "rope_theta": CONFIG.rope_base,
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": True,
        "hidden_act": "silu",
    }
    merged = {key: value for key, value in {**known, **settings}.items() if value is not ...}
    (folder / "config.json").write_text(json.dumps(merged), "utf-8")
    return folder


def forward(model: Any, ids: list[int]) -> dict[str, np.ndarray]:
    """Every tensor between the layers of a decoder with interleaved rotary pairs, in float64, defined independently."""
    c, found = model.config, {}
    w = {name: model.tensor(name).astype(np.float64) for name in (*c.shapes, "head")}
    angle = np.arange(len(ids))[:, None] * c.rope_base ** (-2 * np.arange(c.head_dim // 2) / c.head_dim)
    cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]

    def norm(x: np.ndarray, name: str) -> np.ndarray:
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + c.rms_eps) * w[name]

    def rotate(x: np.ndarray) -> np.ndarray:
        a, b = x[..., ::2], x[..., 1::2]
        return np.stack([a * cos - b * sin, a * sin + b * cos], axis=-1).reshape(x.shape)

    x = w["embed"][ids]
    for block in (f"blk.{layer}." for layer in range(c.blocks)):
        found[block + "x"] = x
        y = found[block + "qkv_in"] = norm(x, block + "attn_norm")
        q, k, v = ((y @ w[block + part].T).reshape(len(ids), -1, c.head_dim) for part in "qkv")
        found[block + "k"] = k
        keys, mixed = (np.repeat(z, c.heads // c.kv_heads, axis=1) for z in (rotate(k), v))
        scores = np.einsum("thd,shd->hts", rotate(q), keys) / np.sqrt(c.head_dim)
        scores = np.where(np.tril(np.ones(scores.shape[1:])) > 0, scores, -np.inf)
        p = np.exp(scores - scores.max(-1, keepdims=True))
        y = found[block + "o_in"] = np.einsum("hts,shd->thd", p / p.sum(-1, keepdims=True), mixed).reshape(len(ids), -1)
        x = x + y @ w[block + "o"].T
        y = norm(x, block + "ffn_norm")
        gate = y @ w[block + "gate"].T
        y = found[block + "down_in"] = gate / (1 + np.exp(-gate)) * (y @ w[block + "up"].T)
        x = x + y @ w[block + "down"].T
    found["x"] = x
    found["logits"] = norm(x, "norm") @ w["head"].T
    return found
