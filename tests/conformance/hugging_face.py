"""Untrained models of Hugging Face transformers. Without the extra `hf` tests are skipped, in CI they fail."""

import importlib
from typing import Any

import numpy as np

from tests.conformance.conftest import absent
from tests.models import toy_decoder

COMMON = {
    "num_hidden_layers": 2,
    "hidden_size": 12,
    "intermediate_size": 20,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 4,
    "vocab_size": 17,
    "max_position_embeddings": 24,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
BLOOM = {"n_layer": 2, "hidden_size": 12, "n_head": 3, "vocab_size": 17, "bos_token_id": 1, "eos_token_id": 2}
BART = {"d_model": 12, "encoder_layers": 1, "decoder_layers": 1, "vocab_size": 17, "max_position_embeddings": 24}
SETTINGS: dict[str, dict[str, Any]] = {
    "gpt2": toy_decoder.SETTINGS["gpt2"],
    "opt": toy_decoder.SETTINGS["opt"],
    "bloom": BLOOM,
    "falcon": {"num_hidden_layers": 1, "hidden_size": 12, "num_attention_heads": 3, "vocab_size": 17},
    "phi3": {**COMMON, "num_attention_heads": 3, "num_key_value_heads": 1},  # heads of 4: it has no head_dim
    "bart": {
        **BART,
        "encoder_ffn_dim": 20,
        "decoder_ffn_dim": 20,
        "encoder_attention_heads": 3,
        "decoder_attention_heads": 3,
    },
}
CLASSES = {
    "gpt2": ("GPT2LMHeadModel", "GPT2Config"),
    "opt": ("OPTForCausalLM", "OPTConfig"),
    "bart": ("BartForConditionalGeneration", "BartConfig"),
    **{
        name.lower(): (f"{name}ForCausalLM", f"{name}Config")
        for name in ("Llama", "Mistral", "Mixtral", "Qwen2", "Qwen3", "Phi3", "Gemma2", "Bloom")
    },
    "qwen3_moe": ("Qwen3MoeForCausalLM", "Qwen3MoeConfig"),
    "gemma3": ("Gemma3ForCausalLM", "Gemma3TextConfig"),
    "falcon": ("FalconForCausalLM", "FalconConfig"),
}


def library(name: str) -> Any:
    """torch or transformers, quiet."""
    try:
        module = importlib.import_module(name)
    except ImportError:
        absent(f"{name} is not installed: pip install -e '.[hf]'")
    if name == "transformers":
        module.logging.set_verbosity_error()
        module.logging.disable_progress_bar()
    return module


def make(kind: str, **changes: Any) -> Any:
    """An untrained model of transformers whose weights are all fp16 values."""
    torch, hf = library("torch"), library("transformers")
    settings = {**SETTINGS.get(kind, COMMON), **changes}
    settings.pop("model_type", None)
    model_class, config_class = (getattr(hf, name) for name in CLASSES[kind])
    torch.manual_seed(1)
    config = config_class(**settings)
    if kind == "gemma2":
        config._attn_implementation = "eager"  # the only one with soft caps; that of OPT has a float32 softmax
    if kind in ("mixtral", "qwen3_moe"):
        config._experts_implementation = "eager"  # the default has no float64
    model = model_class(config).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():  # initial weights are tiny, biases 0: rows would hardly differ
            norm = weight.ndim == 1 and not name.endswith("bias") and kind != "gemma2"
            weight.copy_((float(norm) + torch.randn_like(weight) / 4).half().float())
    return model


def logits(model: Any, ids: list[int], kind: str) -> np.ndarray:
    """What transformers computes in "float64" or "float32"; the model is left in float32, as it is saved."""
    torch = library("torch")
    with torch.no_grad():
        found = model.to(getattr(torch, kind))(torch.tensor([ids])).logits[0].numpy().astype(np.float64)
    model.to(torch.float32)
    return np.asarray(found)
