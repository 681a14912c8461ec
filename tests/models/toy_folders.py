"""Small decoders of every family in Hugging Face's layout, for tests: `config.json` with one weight file or two."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

from refemu.models.config import ModelConfig
from refemu.models.weights.shards import INDEX
from tests.models import toy_decoder, toy_families

SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")
LONG = {"rope_type": "longrope", "short_factor": [1.0, 1.5], "long_factor": [2.0, 5.0], "attention_factor": 1.25}
GEMMA2 = {"attn_logit_softcapping": 2.5, "final_logit_softcapping": 1.5, "query_pre_attn_scalar": 5}
#: settings in `config.json` besides the sizes common to all families named like Llama
BESIDE: dict[str, dict[str, Any]] = {
    "llama": {},
    "mistral": {"sliding_window": None},
    "qwen2": {},
    "qwen3": {},
    "phi3": {"sliding_window": 4, "rope_scaling": LONG, "original_max_position_embeddings": 8},
    "gemma2": {**GEMMA2, "sliding_window": 4, "hidden_activation": "gelu_pytorch_tanh"},
}
FAMILIES = (*BESIDE, "bloom", "gpt2", "opt")


def config(kind: str) -> ModelConfig:
    """Sizes of the model of a family."""
    if kind in ("gpt2", "opt"):
        return toy_decoder.CONFIGS[kind]
    if kind == "gemma2":
        return dataclasses.replace(toy_families.CONFIGS[kind], scale_dim=5.0)
    return toy_families.CONFIGS["llama" if kind == "mistral" else kind]


def values(kind: str) -> dict[str, np.ndarray]:
    """Seeded float32 weights by canonical name, each an fp16 value."""
    return toy_decoder.values(config(kind))


def tensors(kind: str) -> dict[str, np.ndarray]:
    """The tensors of the files."""
    if kind == "opt":
        return toy_decoder.opt_tensors(values(kind))
    return toy_families.tensors("llama" if kind == "mistral" else kind, values(kind))


def settings(kind: str) -> dict[str, Any]:
    """Content of `config.json`."""
    if kind in toy_decoder.SETTINGS:
        return toy_decoder.SETTINGS[kind]
    c = config(kind)
    if kind == "bloom":
        sizes = {"hidden_size": c.width, "n_head": c.heads, "n_layer": c.blocks, "vocab_size": c.vocab}
        return {"model_type": kind, **sizes, "seq_length": c.context}
    return {
        "model_type": kind,
        "num_hidden_layers": c.blocks,
        "hidden_size": c.width,
        "intermediate_size": c.ffn,
        "num_attention_heads": c.heads,
        "num_key_value_heads": c.kv_heads,
        "head_dim": c.head_dim,
        "vocab_size": c.vocab,
        "max_position_embeddings": c.context,
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": c.tied_head,
        **({} if kind == "gemma2" else {"hidden_act": "silu"}),
        **BESIDE[kind],
    }


def write(folder: Path, kind: str, given: dict[str, np.ndarray], several: bool = False) -> Path:
    """The folder of a model whose files hold the tensors `given`. several: every other tensor in a second file."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(settings(kind)), "utf-8")
    whole = {name: np.ascontiguousarray(tensor) for name, tensor in given.items()}
    if not several:
        safetensors.numpy.save_file(whole, folder / "model.safetensors")
        return folder
    where = {name: SHARDS[number % 2] for number, name in enumerate(whole)}
    for shard in SHARDS:
        some = {name: tensor for name, tensor in whole.items() if where[name] == shard}
        safetensors.numpy.save_file(some, folder / shard)
    (folder / INDEX).write_text(json.dumps({"weight_map": where}), "utf-8")
    return folder
