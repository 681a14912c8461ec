"""Small decoders of every family as Hugging Face lays them out and as GGUF converters do, for tests.

`tensors` writes canonical weights under Hugging Face's names; `write_gguf` converts these as llama.cpp does:
names by the gguf package's maps, q and k of Llama permuted, gains of Gemma 2 plus one, rows of BLOOM sorted.
"""

import dataclasses
from pathlib import Path
from typing import Any

import gguf
import numpy as np

from refemu.arith.attention.rope_scaling import FactorScaling
from refemu.models.builtin import tiny_decoders
from refemu.models.config import ModelConfig
from tests.models import toy_decoder

COMMON: dict[str, Any] = {"blocks": 2, "width": 12, "ffn": 20, "heads": 6, "kv_heads": 2, "head_dim": 4, "vocab": 17}
ROTARY: dict[str, Any] = {**COMMON, "context": 24, "rope_interleaved": False, "tied_head": False}
CONFIGS = {
    "llama": ModelConfig(**ROTARY),
    "qwen2": ModelConfig(**ROTARY, qkv_bias=True),
    "qwen3": ModelConfig(**{**ROTARY, "tied_head": True}, qk_norm=True),
    "phi3": ModelConfig(
        **ROTARY,
        windows=(4, 4),
        rope_scaling=FactorScaling((1.0, 1.5), (2.0, 5.0), original=8, gain=1.25),
    ),
    "gemma2": dataclasses.replace(
        tiny_decoders.GEMMA2,
        **{**ROTARY, "tied_head": True},
        windows=(4, 0),
        attention_cap=2.5,
        logit_cap=1.5,
        scale_dim=None,
    ),
    "bloom": dataclasses.replace(
        tiny_decoders.BLOOM, **{**COMMON, "ffn": 48, "kv_heads": 6, "head_dim": 2}, context=24
    ),
    "gpt2": toy_decoder.GPT2,
}
ARCHITECTURES = {name: getattr(gguf.MODEL_ARCH, name.upper()) for name in CONFIGS}
LLAMA = {
    "embed": "model.embed_tokens",
    "norm": "model.norm",
    "head": "lm_head",
    "attn_norm": "input_layernorm",
    "q": "self_attn.q_proj",
    "k": "self_attn.k_proj",
    "v": "self_attn.v_proj",
    "q_norm": "self_attn.q_norm",
    "k_norm": "self_attn.k_norm",
    "o": "self_attn.o_proj",
    "attn_post_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "gate": "mlp.gate_proj",
    "up": "mlp.up_proj",
    "down": "mlp.down_proj",
    "ffn_post_norm": "post_feedforward_layernorm",
}
BLOOM = {
    "embed": "transformer.word_embeddings",
    "embed_norm": "transformer.word_embeddings_layernorm",
    "norm": "transformer.ln_f",
    "attn_norm": "input_layernorm",
    "o": "self_attention.dense",
    "ffn_norm": "post_attention_layernorm",
    "up": "mlp.dense_h_to_4h",
    "down": "mlp.dense_4h_to_h",
}


def values(kind: str, seed: int = 3) -> dict[str, np.ndarray]:
    """Seeded float32 weights by canonical name, each an fp16 value."""
    return toy_decoder.values(CONFIGS[kind], seed)


def tensors(kind: str, w: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The tensors of a Hugging Face file."""
    if kind == "gpt2":
        return toy_decoder.gpt2_tensors(w)
    names = BLOOM if kind == "bloom" else LLAMA
    blocks = "transformer.h." if kind == "bloom" else "model.layers."
    found = {}
    for name, weight in w.items():
        ending = ".bias" if name.endswith(".bias") else ".weight"
        prefix, _, part = name.removesuffix(".bias").rpartition(".")
        raw = names.get(part)
        if part == "ffn_norm" and kind not in ("gemma2", "bloom"):
            raw = "post_attention_layernorm"
        if raw is not None:
            found[(prefix.replace("blk.", blocks) + "." if prefix else "") + raw + ending] = weight
    for layer in range(CONFIGS[kind].blocks):
        at, to = f"blk.{layer}.", f"{blocks}{layer}."
        if kind == "phi3":
            for part in "qkv":
                del found[f"{to}self_attn.{part}_proj.weight"]
            found[f"{to}self_attn.qkv_proj.weight"] = np.concatenate([w[at + part] for part in "qkv"])
            halves = [found.pop(f"{to}mlp.{part}_proj.weight") for part in ("gate", "up")]
            found[f"{to}mlp.gate_up_proj.weight"] = np.concatenate(halves)
        if kind == "bloom":
            for ending in (".weight", ".bias"):
                parts = [w[at + part + ending.replace(".weight", "")] for part in "qkv"]
                heads = [part.reshape(6, 2, *part.shape[1:]) for part in parts]
                whole = np.stack(heads, axis=1).reshape(36, *parts[0].shape[1:])
                found[f"{to}self_attention.query_key_value{ending}"] = whole
    if kind == "gemma2":
        found = {name: value - np.float32(1) if "norm" in name else value for name, value in found.items()}
    return found


def write_gguf(path: Path, kind: str, w: dict[str, np.ndarray], **settings: Any) -> Path:
    """A GGUF file of the model."""
    c, arch = CONFIGS[kind], ARCHITECTURES[kind]
    writer, names = gguf.GGUFWriter(path, gguf.MODEL_ARCH_NAMES[arch]), gguf.get_tensor_name_map(arch, c.blocks)
    for key, value in {**_settings(kind), **settings}.items():
        add = {str: writer.add_string, int: writer.add_uint32, float: writer.add_float32}[type(value)]
        add(key if key.startswith("tokenizer.") else f"{gguf.MODEL_ARCH_NAMES[arch]}.{key}", value)
    for raw, tensor in tensors(kind, w).items():
        stem, _, ending = raw.rpartition(".")
        name = names.get_name(stem) or _beside_the_map(stem)
        writer.add_tensor(f"{name}.{ending}", np.ascontiguousarray(_converted(kind, raw, tensor)))
    if isinstance(c.rope_scaling, FactorScaling):
        writer.add_tensor("rope_factors_short.weight", np.array(c.rope_scaling.short, np.float32))
        writer.add_tensor("rope_factors_long.weight", np.array(c.rope_scaling.long, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _beside_the_map(stem: str) -> str:
    """What the map writes without the prefix of BLOOM's files."""
    if stem.endswith("word_embeddings_layernorm"):
        return "token_embd_norm"
    return stem.replace("transformer.h.", "blk.").replace("post_attention_layernorm", "ffn_norm")


def _converted(kind: str, raw: str, tensor: np.ndarray) -> np.ndarray:
    """A tensor as the converter of the format stores it."""
    c = CONFIGS[kind]
    if kind == "llama" and ("q_proj" in raw or "k_proj" in raw):
        heads = len(tensor) // c.head_dim
        return tensor.reshape(heads, 2, c.head_dim // 2, -1).swapaxes(1, 2).reshape(tensor.shape)
    if kind == "gemma2" and "norm" in raw:
        return tensor + np.float32(1)
    if kind == "bloom" and "query_key_value" in raw:
        parts = tensor.reshape(c.heads, 3, c.head_dim, *tensor.shape[1:])
        return np.concatenate([parts[:, part].reshape(-1, *tensor.shape[1:]) for part in range(3)])
    if kind == "gpt2" and raw.endswith(("c_attn.weight", "c_proj.weight", "c_fc.weight")):
        return tensor.T
    return tensor


def _settings(kind: str) -> dict[str, Any]:
    c = CONFIGS[kind]
    found: dict[str, Any] = {
        "block_count": c.blocks,
        "embedding_length": c.width,
        "context_length": c.context,
        "feed_forward_length": c.ffn,
        "attention.head_count": c.heads,
        "attention.head_count_kv": c.kv_heads,
    }
    if c.norm == "layer":
        return {**found, "attention.layer_norm_epsilon": c.rms_eps}
    found |= {
        "attention.layer_norm_rms_epsilon": c.rms_eps,
        "attention.key_length": c.head_dim,
        "attention.value_length": c.head_dim,
    }
    if c.rope_scaling is not None:
        found |= {"rope.scaling.original_context_length": 8, "rope.scaling.attn_factor": 1.25}
    if kind == "gemma2":
        found |= {"attn_logit_softcapping": 2.5, "final_logit_softcapping": 1.5}
    return found | ({"attention.sliding_window": 4} if c.windows else {})
