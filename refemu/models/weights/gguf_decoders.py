"""Decoders in GGUF files, by architecture: sizes from the metadata, places of the weights.

Names of tensors are those of the gguf package. The converters of that format permute q and k of `llama` so that rotary
pairs are interleaved, put gains of 1 + w into the norms of `gemma2`, and split fused layers head by head for `bloom`.
Unmodelled parts are rejected by name (docs/your-model.md).
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from refemu.arith.attention.rope_scaling import FactorScaling, LinearScaling, RopeScaling, YarnScaling, yarn_gain
from refemu.arith.checks import Refused
from refemu.models.config import ModelConfig
from refemu.models.encoder.config import BIAS
from refemu.models.extras import need
from refemu.models.weights.checkpoint import Settings, float32, naming
from refemu.models.weights.files import Gguf
from refemu.models.weights.hf_decoders import fused
from refemu.models.weights.sources import Converted, Source

TENSORS = {
    "embed": "TOKEN_EMBD",
    "embed_norm": "TOKEN_EMBD_NORM",
    "position": "POS_EMBD",
    "norm": "OUTPUT_NORM",
    "head": "OUTPUT",
    "attn_norm": "ATTN_NORM",
    "q": "ATTN_Q",
    "k": "ATTN_K",
    "v": "ATTN_V",
    "q_norm": "ATTN_Q_NORM",
    "k_norm": "ATTN_K_NORM",
    "o": "ATTN_OUT",
    "attn_post_norm": "ATTN_POST_NORM",
    "ffn_norm": "FFN_NORM",
    "gate": "FFN_GATE",
    "up": "FFN_UP",
    "down": "FFN_DOWN",
    "ffn_post_norm": "FFN_POST_NORM",
}  #: part -> the gguf package's name of the tensor
FUSED = {"q": "ATTN_QKV", "k": "ATTN_QKV", "v": "ATTN_QKV", "gate": "FFN_UP"}  #: tensors that contain several layers
FREQS, LONG, SHORT = "rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"
GEMMA2_27B = 46  #: blocks of the one Gemma 2 that does not scale logits by the head width

Read = Callable[[Gguf, Settings], dict[str, Any]]


def open_decoder(file: Gguf) -> tuple[ModelConfig, Converted]:
    """Sizes and weights of the decoder in a file; raises Refused for an unknown architecture."""
    sizes = gguf_config(file)
    factors = tuple(name for name in (FREQS, LONG, SHORT) if name in file.names)
    return sizes, Converted(file, sizes, partial(source, file, sizes), factors, head="output.weight")


def gguf_config(file: Gguf) -> ModelConfig:
    """Sizes from GGUF metadata."""
    kind = file.metadata("general.architecture")
    if not isinstance(kind, str) or kind not in ARCHITECTURES:
        raise Refused(f"{file.path}: architecture must be one of {', '.join(ARCHITECTURES)}, bert, got {kind!r}")
    read = Settings(f"{file.path}: {kind}.", lambda key, default: file.metadata(f"{kind}.{key}", default))
    read.expect("expert_count", 0, "no experts")
    read.expect("expert_used_count", 0, "no experts")
    read.expect("attention.causal", True, "no token sees later ones")
    with naming(file.path):
        config = ModelConfig(**_sizes(file, read), **ARCHITECTURES[kind](file, read))
    keys = [key.removeprefix(f"{kind}.") for key in file.keys if key.startswith(f"{kind}.")]
    read.require_all_read(keys, ("vocab_size", "rope.scaling.finetuned", "tensor_data_layout"))
    return config


def source(file: Gguf, config: ModelConfig, name: str) -> Source:
    """Place of a weight: `blk.3.q` is `blk.3.attn_q.weight`, or the first rows of `blk.3.attn_qkv.weight`."""
    prefix, _, part = name.removesuffix(BIAS).rpartition(".")
    ending, shape = BIAS if name.endswith(BIAS) else ".weight", config.shapes[name]
    joined = prefix and part in FUSED and raw_name(part, prefix) + ending not in file.names
    if joined:
        return fused(Source(raw_name(part, prefix, FUSED[part]) + ending, shape), name, part, config)
    place = Source(raw_name(part, prefix) + ending, shape)
    halves = config.gated and part == "up" and raw_name("gate", prefix) + ending not in file.names
    return fused(place, name, part, config) if halves else place


def raw_name(part: str, prefix: str = "", tensor: str | None = None) -> str:
    """Name of a tensor without its suffix; tensor: the gguf package's name of it, by default that of the part."""
    constants = need("gguf", "reading a GGUF file").constants
    pattern: str = constants.TENSOR_NAMES[constants.MODEL_TENSOR[tensor or TENSORS[part]]]
    return pattern.format(bid=prefix.removeprefix("blk."))


def _sizes(file: Gguf, read: Settings) -> dict[str, Any]:
    """Fields that all architectures have."""
    heads, width = read.whole("attention.head_count"), read.whole("embedding_length")
    head_dim = read.whole("attention.key_length", width // max(heads, 1))
    read.expect("attention.value_length", head_dim, "values as wide as keys")
    return {
        "blocks": read.whole("block_count"),
        "width": width,
        "ffn": read.whole("feed_forward_length"),
        "heads": heads,
        "kv_heads": read.whole("attention.head_count_kv", heads),
        "head_dim": head_dim,
        "vocab": file.shape("token_embd.weight")[0],
        "context": read.whole("context_length"),
        "tied_head": "output.weight" not in file.names,
    }


def _rotary(file: Gguf, read: Settings, interleaved: bool = False) -> dict[str, Any]:
    """Fields of the rotation and of RMSNorm."""
    heads, width = read.whole("attention.head_count"), read.whole("embedding_length")
    head_dim = read.whole("attention.key_length", width // max(heads, 1))
    rotated = read.whole("rope.dimension_count", head_dim)
    return {
        "rope_base": read.real("rope.freq_base", 10_000.0),
        "rope_interleaved": interleaved,
        "rotary_dim": None if rotated == head_dim else rotated,
        "rope_scaling": _scaling(file, read),
        "rms_eps": read.real("attention.layer_norm_rms_epsilon"),
    }


def _scaling(file: Gguf, read: Settings) -> RopeScaling | None:
    kinds = {"none": "none", "linear": "linear", "yarn": "yarn", "longrope": "longrope"}
    kind = read.choice("rope.scaling.type", kinds, "none")
    if FREQS in file.names:  # llama3's frequencies, as the converter computed them
        if kind != "none":
            raise Refused(f"{file.path}: with {FREQS} rope.scaling.type must be 'none', got {kind!r}")
        return FactorScaling(tuple(file.tensor(FREQS).tolist()))
    if LONG in file.names or SHORT in file.names or kind == "longrope":
        return _longrope(file, read)
    if kind == "none":
        read.expect("rope.scaling.factor", 1.0, "no scaling")
        return None
    factor = read.real("rope.scaling.factor")
    if kind == "linear":
        return LinearScaling(factor)
    original = read.whole("rope.scaling.original_context_length")
    read.expect("rope.scaling.yarn_ext_factor", 1.0, "YaRN in full")
    weight = read.real("rope.scaling.attn_factor", 1.0) * read.real("rope.scaling.yarn_attn_factor", 1.0)
    fast, slow = read.real("rope.scaling.yarn_beta_fast", 32.0), read.real("rope.scaling.yarn_beta_slow", 1.0)
    return YarnScaling(factor, original, fast=fast, slow=slow, gain=weight * yarn_gain(factor))


def _longrope(file: Gguf, read: Settings) -> FactorScaling:
    for name in (LONG, SHORT):
        if name not in file.names:
            raise Refused(f"{file.path}: tensor {name} is missing")
    long, short = (tuple(file.tensor(name).tolist()) for name in (LONG, SHORT))
    original = read.whole("rope.scaling.original_context_length")
    return FactorScaling(short, long, original, read.real("rope.scaling.attn_factor", 1.0))


def _windows(read: Settings, every: int = 1) -> tuple[int, ...]:
    """A window in the first of every `every` blocks."""
    window, blocks = read.whole("attention.sliding_window", 0), read.whole("block_count")
    return tuple(window if block % every == 0 else 0 for block in range(blocks)) if window else ()


def _llama(file: Gguf, read: Settings) -> dict[str, Any]:
    return {**_rotary(file, read, interleaved=True), "windows": _windows(read)}


def _qwen2(file: Gguf, read: Settings) -> dict[str, Any]:
    return {**_rotary(file, read), "qkv_bias": True}


def _qwen3(file: Gguf, read: Settings) -> dict[str, Any]:
    return {**_rotary(file, read), "qk_norm": True}


def _phi3(file: Gguf, read: Settings) -> dict[str, Any]:
    return {**_rotary(file, read), "windows": _windows(read)}


def _gemma2(file: Gguf, read: Settings) -> dict[str, Any]:
    wide = read.whole("block_count") == GEMMA2_27B
    return {
        **_rotary(file, read),
        "activation": "gelu_tanh",
        "post_norms": True,
        "scaled_embed": True,
        "windows": _windows(read, every=2),
        "attention_cap": float32(read.real("attn_logit_softcapping", 50.0)),
        "logit_cap": float32(read.real("final_logit_softcapping", 30.0)),
        "scale_dim": read.whole("embedding_length") / read.whole("attention.head_count") if wide else None,
    }


def _layernorm(file: Gguf, read: Settings) -> dict[str, Any]:
    """Fields of decoders with LayerNorm, biases and no gate."""
    return {
        "rms_eps": read.real("attention.layer_norm_epsilon"),
        "norm": "layer",
        "activation": "gelu_tanh",
        "gated": False,
        "bias": True,
    }


def _gpt2(file: Gguf, read: Settings) -> dict[str, Any]:
    return {**_layernorm(file, read), "positions": "learned"}


def _bloom(file: Gguf, read: Settings) -> dict[str, Any]:
    read.expect("attention.max_alibi_bias", 8.0, "BLOOM's slopes")
    return {**_layernorm(file, read), "positions": "alibi", "embed_norm": True}


ARCHITECTURES: dict[str, Read] = {
    "llama": _llama,
    "qwen2": _qwen2,
    "qwen3": _qwen3,
    "phi3": _phi3,
    "gemma2": _gemma2,
    "bloom": _bloom,
    "gpt2": _gpt2,
}  #: by general.architecture
