"""Decoders in Hugging Face folders, by `model_type`: sizes from `config.json`, places of the weights.

GPT-2 and OPT are in `decoder_checkpoint`. Unmodelled parts are rejected by name (docs/your-model.md).
"""

import re
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from refemu.arith import rotary
from refemu.arith.checks import Refused
from refemu.models.config import Activation, ModelConfig
from refemu.models.weights import decoder_checkpoint
from refemu.models.weights.checkpoint import Settings, float32, naming, read_json
from refemu.models.weights.files import WeightFile
from refemu.models.weights.hf_settings import HfSettings, hf_settings, rotary_settings
from refemu.models.weights.sources import Converted, Source, raw_name

STORED_NAME = re.compile(r"model\.layers\.([0-9]{1,9})\.self_attn\.rotary_emb\.inv_freq")
STORED_FREQUENCY = 1 / 256  #: relative difference of a frequency stored in bfloat16
NAMES = {
    "embed": "embed_tokens",
    "norm": "norm",
    "attn_norm": "input_layernorm",
    "q": "self_attn.q_proj",
    "k": "self_attn.k_proj",
    "v": "self_attn.v_proj",
    "q_norm": "self_attn.q_norm",
    "k_norm": "self_attn.k_norm",
    "o": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "gate": "mlp.gate_proj",
    "up": "mlp.up_proj",
    "down": "mlp.down_proj",
}  #: names of Llama and of families named like it
GEMMA2_NAMES = {
    **NAMES,
    "attn_post_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "ffn_post_norm": "post_feedforward_layernorm",
}
MIXTRAL_NAMES = {
    **NAMES,
    "router": "block_sparse_moe.gate",
    "gate": "block_sparse_moe.experts.{}.w1",
    "up": "block_sparse_moe.experts.{}.w3",
    "down": "block_sparse_moe.experts.{}.w2",
}
QWEN3_MOE_NAMES = {
    **NAMES,
    "router": "mlp.gate",
    **{part: f"mlp.experts.{{}}.{part}_proj" for part in ("gate", "up", "down")},
}
PHI3_NAMES = {
    **NAMES,
    **dict.fromkeys("qkv", "self_attn.qkv_proj"),
    **dict.fromkeys(("gate", "up"), "mlp.gate_up_proj"),
}
BLOOM_NAMES = {
    "embed": "word_embeddings",
    "embed_norm": "word_embeddings_layernorm",
    "norm": "ln_f",
    "attn_norm": "input_layernorm",
    **dict.fromkeys("qkv", "self_attention.query_key_value"),
    "o": "self_attention.dense",
    "ffn_norm": "post_attention_layernorm",
    "up": "mlp.dense_h_to_4h",
    "down": "mlp.dense_4h_to_h",
}
HEAD = "lm_head.weight"
GELU: dict[str, Activation] = {"gelu_pytorch_tanh": "gelu_tanh"}
BLOOM_CONTEXT = 2048  #: if `config.json` states none; ALiBi has no limit


_GEMMA3 = "two rotary bases, one for blocks with a window (rope_local_base_freq), and norms of q and k with gain 1 + w"
#: families that are not supported, and the parts that refemu would need
MISSING = {
    "gemma3_text": _GEMMA3,
    "gemma3": f"image inputs; {_GEMMA3}",
    "falcon": "attention and feed-forward halves in parallel, with one norm and query_key_value of several forms",
    "qwen2_moe": "an expert that all tokens share (shared_expert)",
    "deepseek_v3": "latent attention (kv_a_proj_with_mqa) and routing by groups",
    "gpt_oss": "attention sinks, and biases of experts",
    "llama4": "image inputs, blocks without rotary positions, an expert that all tokens share",
}


class Family(NamedTuple):
    """How to read the folders of a `model_type`."""

    config: Callable[[Path], ModelConfig]
    weights: Callable[[WeightFile, ModelConfig], Converted]


def open_decoder(file: WeightFile, folder: Path) -> tuple[ModelConfig, Converted]:
    """Sizes and weights of the decoder that `config.json` describes. Refused: an unknown `model_type`."""
    chosen = family(folder)
    with naming(folder / "config.json"):
        sizes = chosen.config(folder)
    return sizes, chosen.weights(file, sizes)


def family(folder: Path) -> Family:
    """The family that `config.json` names. Refused: an unknown `model_type`."""
    where = folder / "config.json"
    kind = read_json(where).get("model_type")
    if isinstance(kind, str) and kind in MISSING:
        raise Refused(f"{where}: model_type {kind!r} is not supported: refemu lacks {MISSING[kind]}")
    if not isinstance(kind, str) or kind not in FAMILIES:
        got = "none" if kind is None else repr(kind)
        raise Refused(f"{where}: model_type must be one of {', '.join(FAMILIES)}, bert, got {got}")
    return FAMILIES[kind]


def llama_config(folder: Path) -> ModelConfig:
    """Sizes of Llama 1 to 3.2 and similar families."""
    read = _read(folder, "llama", {"attention_bias": False, "mlp_bias": False})
    return read.finished(ModelConfig(**_sizes(read)))


def mistral_config(folder: Path) -> ModelConfig:
    """Sizes of Mistral: Llama with a sliding window in every block, or none."""
    read = _read(folder, "mistral", {"attention_bias": False, "mlp_bias": False})
    sizes = _sizes(read)
    return read.finished(
        ModelConfig(**sizes, windows=_windows(read, sizes["blocks"], read.cap("sliding_window", 4096)))
    )


def qwen2_config(folder: Path) -> ModelConfig:
    """Sizes of Qwen2 and Qwen2.5: Llama with biases on q, k and v."""
    read = _read(folder, "qwen2", {})
    sizes = _sizes(read)
    return read.finished(ModelConfig(**sizes, qkv_bias=True, windows=_qwen_windows(read, sizes["blocks"])))


def qwen3_config(folder: Path) -> ModelConfig:
    """Sizes of Qwen3: Llama with norms on q and k."""
    read = _read(folder, "qwen3", {"attention_bias": False})
    sizes = _sizes(read, head_dim=128)
    return read.finished(ModelConfig(**sizes, qk_norm=True, windows=_qwen_windows(read, sizes["blocks"])))


def mixtral_config(folder: Path) -> ModelConfig:
    """Sizes of Mixtral: Mistral with a mixture of experts in every block."""
    read = _read(folder, "mixtral", {"attention_bias": False})
    _ignore(read, "output_router_logits", "router_aux_loss_coef", "router_jitter_noise")
    sizes = _sizes(read)
    return read.finished(
        ModelConfig(
            **sizes,
            windows=_windows(read, sizes["blocks"], read.cap("sliding_window", 0)),
            experts=read.whole("num_local_experts", 8),
            experts_used=read.whole("num_experts_per_tok", 2),
        )
    )


def qwen3_moe_config(folder: Path) -> ModelConfig:
    """Sizes of Qwen3-MoE: Qwen3 with a mixture of experts in every block."""
    read = _read(folder, "qwen3_moe", {"attention_bias": False, "decoder_sparse_step": 1, "mlp_only_layers": []})
    _ignore(read, "output_router_logits", "router_aux_loss_coef")
    sizes = _sizes(read) | {"ffn": read.whole("moe_intermediate_size")}
    return read.finished(
        ModelConfig(
            **sizes,
            qk_norm=True,
            windows=_qwen_windows(read, sizes["blocks"]),
            experts=read.whole("num_experts", read.whole("num_local_experts", 128)),
            experts_used=read.whole("num_experts_per_tok", 8),
            experts_normalized=read.truth("norm_topk_prob", False),
        )
    )


def _ignore(read: HfSettings, *keys: str) -> None:
    """Mark settings of training as read."""
    for key in keys:
        read.any(key)


def phi3_config(folder: Path) -> ModelConfig:
    """Sizes of Phi-3 and Phi-4: Llama with fused layers, partial rotation, LongRoPE."""
    read = _read(folder, "phi3", {"attention_bias": False, "mlp_bias": False})
    sizes = _sizes(read)
    return read.finished(ModelConfig(**sizes, windows=_windows(read, sizes["blocks"], read.cap("sliding_window", 0))))


def gemma2_config(folder: Path) -> ModelConfig:
    """Sizes of Gemma 2."""
    read = _read(
        folder, "gemma2", {"attention_bias": False, "use_bidirectional_attention": False}, act="hidden_activation"
    )
    read.expect("hidden_act", "gelu_pytorch_tanh", "as hidden_activation")
    sizes = _sizes(read, head_dim=256, tied=True, eps=1e-6)
    window, blocks = int(read.cap("sliding_window", 4096)), sizes["blocks"]
    return read.finished(
        ModelConfig(
            **sizes,
            activation=read.choice("hidden_activation", GELU, "gelu_pytorch_tanh"),
            post_norms=True,
            scaled_embed=True,
            windows=_by_type(read, blocks, window, [i % 2 == 0 for i in range(blocks)]),
            attention_cap=float32(read.cap("attn_logit_softcapping", 50.0)),
            logit_cap=float32(read.cap("final_logit_softcapping", 30.0)),
            scale_dim=read.real("query_pre_attn_scalar", 256),
        )
    )


def bloom_config(folder: Path) -> ModelConfig:
    """Sizes of BLOOM."""
    read = hf_settings(folder)
    read.expect("model_type", "bloom", "a BLOOM-like decoder")
    read.expect("apply_residual_connection_post_layernorm", False, "as in BLOOM")
    width = read.whole("n_embed") if read.any("n_embed") is not None else read.whole("hidden_size")
    read.expect("hidden_size", width, "the same as n_embed")
    heads = read.whole("n_head") if read.any("n_head") is not None else read.whole("num_attention_heads")
    blocks = read.whole("n_layer") if read.any("n_layer") is not None else read.whole("num_hidden_layers")
    if heads < 1 or width % heads:
        raise Refused(f"{read.path}: the width must be a multiple of the number of heads, got {width}, {heads}")
    read.expect("n_inner", 4 * width, "the width of BLOOM's feed-forward half")
    return read.finished(
        ModelConfig(
            blocks=blocks,
            width=width,
            ffn=4 * width,
            heads=heads,
            kv_heads=heads,
            head_dim=width // heads,
            vocab=read.whole("vocab_size"),
            context=read.whole("seq_length", BLOOM_CONTEXT),
            rms_eps=float32(read.real("layer_norm_epsilon", 1e-5)),
            tied_head=read.truth("tie_word_embeddings", True),
            norm="layer",
            positions="alibi",
            activation="gelu_tanh",
            gated=False,
            bias=True,
            embed_norm=True,
        )
    )


def llama_weights(file: WeightFile, config: ModelConfig) -> Converted:
    """The weights of a file named like Llama's; the rotary frequencies of old files are checked."""
    layers = ((name, STORED_NAME.fullmatch(name)) for name in file.names)
    stored = tuple(name for name, layer in layers if layer and int(layer[1]) < config.blocks)
    wanted = np.array(rotary.inverse_powers(config.head_dim, config.rope_base) if stored else (), np.float64)
    for name in stored:
        values = file.tensor(name)
        if values.shape != wanted.shape or np.any(abs(values - wanted) > wanted * STORED_FREQUENCY):
            raise Refused(f"{file.path}: tensor {name} must hold the frequencies of rope_theta {config.rope_base:g}")
    return Converted(file, config, lambda name: llama_source(name, config), stored)


def mixtral_weights(file: WeightFile, config: ModelConfig) -> Converted:
    """The weights of a Mixtral-like file."""
    return Converted(file, config, lambda name: experts_source(name, config, MIXTRAL_NAMES))


def qwen3_moe_weights(file: WeightFile, config: ModelConfig) -> Converted:
    """The weights of a Qwen3-MoE-like file."""
    return Converted(file, config, lambda name: experts_source(name, config, QWEN3_MOE_NAMES))


def phi3_weights(file: WeightFile, config: ModelConfig) -> Converted:
    """The weights of a Phi-3-like file."""
    return Converted(file, config, lambda name: phi3_source(name, config))


def gemma2_weights(file: WeightFile, config: ModelConfig) -> Converted:
    """The weights of a Gemma-2-like file; the gain of a norm is 1 + its tensor."""
    return Converted(file, config, lambda name: gemma2_source(name, config))


def bloom_weights(file: WeightFile, config: ModelConfig) -> Converted:
    """The weights of a BLOOM-like file."""
    start = "transformer." if "transformer.word_embeddings.weight" in file.names else ""
    return Converted(file, config, lambda name: bloom_source(name, config, start))


def llama_source(name: str, config: ModelConfig) -> Source:
    """`blk.3.q` is `model.layers.3.self_attn.q_proj.weight`."""
    if name == "head":
        return Source(HEAD, config.shapes[name])
    return Source(raw_name(name, NAMES, "model.layers.", "model.")[1], config.shapes[name])


def experts_source(name: str, config: ModelConfig, names: dict[str, str]) -> Source:
    """`blk.3.expert.5.up` is `model.layers.3.block_sparse_moe.experts.5.w3.weight` of Mixtral."""
    if ".expert." not in name:
        return Source(
            HEAD if name == "head" else raw_name(name, names, "model.layers.", "model.")[1], config.shapes[name]
        )
    block, _, rest = name.partition(".expert.")
    number, _, part = rest.partition(".")
    raw = raw_name(f"{block}.{part}", names, "model.layers.")[1]
    return Source(raw.format(number), config.shapes[name])


def phi3_source(name: str, config: ModelConfig) -> Source:
    """`blk.3.k` follows the rows of q in `model.layers.3.self_attn.qkv_proj.weight`, `up` those of `gate`."""
    if name == "head":
        return Source(HEAD, config.shapes[name])
    part, raw = raw_name(name, PHI3_NAMES, "model.layers.", "model.")
    return fused(Source(raw, config.shapes[name]), name, part, config)


def fused(source: Source, name: str, part: str, config: ModelConfig) -> Source:
    """The rows of a weight in a tensor that concatenates the layers of its group."""
    group = next((names for names in (("q", "k", "v"), ("gate", "up")) if part in names), None)
    if group is None:
        return source
    rows = [config.shapes[name.replace(f".{part}", f".{other}")][0] for other in group]
    place = group.index(part)
    ends = list(accumulate(rows, initial=0))
    return Source(source.raw, (ends[-1], *source.shape[1:]), first=ends[place], count=rows[place])


def gemma2_source(name: str, config: ModelConfig) -> Source:
    """`blk.3.ffn_norm` is 1 + `model.layers.3.pre_feedforward_layernorm.weight`."""
    if name == "head":
        return Source(HEAD, config.shapes[name])
    raw = raw_name(name, GEMMA2_NAMES, "model.layers.", "model.")[1]
    return Source(raw, config.shapes[name], plus=1.0 if name.endswith("norm") else 0.0)


def bloom_source(name: str, config: ModelConfig, start: str = "transformer.") -> Source:
    """`blk.3.k` is the middle third of every head's rows in `transformer.h.3.self_attention.query_key_value.weight`."""
    shape = config.shapes[name]
    if name == "head":
        return Source(HEAD, shape)
    part, raw = raw_name(name, BLOOM_NAMES, f"{start}h.", start)
    if part in ("q", "k", "v"):
        return Source(raw, (3 * shape[0], *shape[1:]), part=("qkv".index(part), 3, config.head_dim))
    return Source(raw, shape)


def _read(folder: Path, kind: str, wanted: dict[str, Any], act: str = "hidden_act") -> HfSettings:
    read = hf_settings(folder)
    read.expect("model_type", kind, "the family of this reader")
    if act == "hidden_act":
        read.expect(act, "silu", "as refemu models the layers")
    for key, value in wanted.items():
        read.expect(key, value, "as refemu models the layers")
    return read


def _sizes(read: HfSettings, head_dim: int = 0, tied: bool = False, eps: float | None = None) -> dict[str, Any]:
    """Fields that all families named like Llama have. head_dim: if none is stated; 0: width / heads."""
    heads, width = read.whole("num_attention_heads"), read.whole("hidden_size")
    dim = read.whole("head_dim", head_dim or width // max(heads, 1))
    return {
        "blocks": read.whole("num_hidden_layers"),
        "width": width,
        "ffn": read.whole("intermediate_size"),
        "heads": heads,
        "kv_heads": read.whole("num_key_value_heads", heads),
        "head_dim": dim,
        "vocab": read.whole("vocab_size"),
        "context": read.whole("max_position_embeddings"),
        **rotary_settings(read, dim),
        "rms_eps": float32(read.real("rms_norm_eps", eps)),
        "tied_head": read.truth("tie_word_embeddings", tied),
    }


def _qwen_windows(read: HfSettings, blocks: int) -> tuple[int, ...]:
    """The windows of Qwen's blocks: from block `max_window_layers` on, if `use_sliding_window` is true."""
    window = int(read.cap("sliding_window", 4096)) if read.truth("use_sliding_window", False) else 0
    read.any("sliding_window")
    first = read.whole("max_window_layers", 28)
    return _by_type(read, blocks, window, [i >= first for i in range(blocks)])


def _windows(read: HfSettings, blocks: int, window: float) -> tuple[int, ...]:
    """One window for all blocks; 0: none."""
    return _by_type(read, blocks, int(window), [True] * blocks)


def _by_type(read: HfSettings, blocks: int, window: int, sliding: list[bool]) -> tuple[int, ...]:
    """A window for each block. sliding: which blocks have one, if `layer_types` is missing."""
    kinds = {"sliding_attention": True, "full_attention": False}
    stated = read.any("layer_types")
    if stated is not None:
        listed = Settings(f"{read.path}: layer_types.", dict(enumerate(map(str, stated))).get)
        if len(stated) != blocks:
            raise Refused(f"{read.path}: layer_types must name {blocks} blocks, got {len(stated)}")
        sliding = [listed.choice(i, kinds) for i in range(blocks)]  # type: ignore[arg-type]
    windows = tuple(window if here else 0 for here in sliding)
    return windows if any(windows) else ()


FAMILIES = {
    "llama": Family(llama_config, llama_weights),
    "mistral": Family(mistral_config, llama_weights),
    "qwen2": Family(qwen2_config, llama_weights),
    "qwen3": Family(qwen3_config, llama_weights),
    "mixtral": Family(mixtral_config, mixtral_weights),
    "qwen3_moe": Family(qwen3_moe_config, qwen3_moe_weights),
    "phi3": Family(phi3_config, phi3_weights),
    "gemma2": Family(gemma2_config, gemma2_weights),
    "bloom": Family(bloom_config, bloom_weights),
    "gpt2": Family(decoder_checkpoint.gpt2_config, decoder_checkpoint.gpt2_weights),
    "opt": Family(decoder_checkpoint.opt_config, decoder_checkpoint.opt_weights),
}  #: by `model_type`
