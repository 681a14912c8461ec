"""Sizes and tensor names of a GPT-2-like or OPT-like decoder, from a safetensors file and its `config.json`.

GPT-2 stores its linear layers (in, out), with query, key and value in one tensor; the position embedding of OPT begins
with two rows that no token reads. As in `checkpoint`, a setting or tensor that is not modelled is rejected.
"""

from pathlib import Path

from refemu.arith.checks import Refused
from refemu.models.config import Activation, ModelConfig
from refemu.models.weights.checkpoint import float32, require_blocks
from refemu.models.weights.files import WeightFile
from refemu.models.weights.hf_settings import hf_settings
from refemu.models.weights.sources import Converted, Source, raw_name

ACTIVATIONS: dict[str, Activation] = {
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu": "gelu_erf",
    "relu": "relu",
}
HEAD = "lm_head.weight"
OFFSET = 2  #: rows of OPT's position embedding before position 0
OPT_EPS = 1e-5  #: epsilon of LayerNorm, which OPT's configuration does not state

GPT2_NAMES = {
    "attn_norm": "ln_1",
    "q": "attn.c_attn",
    "k": "attn.c_attn",
    "v": "attn.c_attn",
    "o": "attn.c_proj",
    "ffn_norm": "ln_2",
    "up": "mlp.c_fc",
    "down": "mlp.c_proj",
    "embed": "wte",
    "position": "wpe",
    "norm": "ln_f",
}
OPT_NAMES = {
    "attn_norm": "self_attn_layer_norm",
    "q": "self_attn.q_proj",
    "k": "self_attn.k_proj",
    "v": "self_attn.v_proj",
    "o": "self_attn.out_proj",
    "ffn_norm": "final_layer_norm",
    "up": "fc1",
    "down": "fc2",
    "embed": "embed_tokens",
    "position": "embed_positions",
    "norm": "final_layer_norm",
}


def gpt2_config(folder: Path) -> ModelConfig:
    """Sizes from the `config.json` of a GPT-2-like decoder."""
    where, read = folder / "config.json", hf_settings(folder)
    read.expect("model_type", "gpt2", "a GPT-2-like decoder")
    for key, wanted in (
        ("scale_attn_weights", True),
        ("scale_attn_by_inverse_layer_idx", False),
        ("add_cross_attention", False),
    ):
        read.expect(key, wanted, "as in GPT-2")
    width, heads = read.whole("n_embd"), read.whole("n_head")
    return read.finished(
        ModelConfig(
            blocks=read.whole("n_layer"),
            width=width,
            heads=heads,
            kv_heads=heads,
            head_dim=_head_dim(where, width, heads),
            ffn=read.whole("n_inner", 4 * width),
            vocab=read.whole("vocab_size"),
            context=read.whole("n_positions"),
            rms_eps=float32(read.real("layer_norm_epsilon", 1e-5)),
            norm="layer",
            positions="learned",
            gated=False,
            activation=read.choice("activation_function", ACTIVATIONS, "gelu_new"),
            bias=True,
            tied_head=read.truth("tie_word_embeddings", True),
        )
    )


def opt_config(folder: Path) -> ModelConfig:
    """Sizes from the `config.json` of an OPT-like decoder; LayerNorm after a block half is rejected."""
    where, read = folder / "config.json", hf_settings(folder)
    read.expect("model_type", "opt", "an OPT-like decoder")
    width, heads = read.whole("hidden_size"), read.whole("num_attention_heads")
    read.expect("do_layer_norm_before", True, "LayerNorm after a block half is not modelled")
    for key, wanted in (
        ("_remove_final_layer_norm", False),
        ("layer_norm_elementwise_affine", True),
        ("word_embed_proj_dim", width),
    ):
        read.expect(key, wanted, "as in OPT")
    return read.finished(
        ModelConfig(
            blocks=read.whole("num_hidden_layers"),
            width=width,
            heads=heads,
            kv_heads=heads,
            head_dim=_head_dim(where, width, heads),
            ffn=read.whole("ffn_dim"),
            vocab=read.whole("vocab_size"),
            context=read.whole("max_position_embeddings"),
            rms_eps=float32(OPT_EPS),
            norm="layer",
            positions="learned",
            gated=False,
            activation=read.choice("activation_function", ACTIVATIONS, "relu"),
            bias=read.truth("enable_bias", True),
            tied_head=read.truth("tie_word_embeddings", True),
        )
    )


def gpt2_weights(file: WeightFile, config: ModelConfig) -> Converted:
    """The weights of a GPT-2-like file; the causal masks of old files are skipped."""
    require_blocks(file, config.blocks)
    start = "transformer." if "transformer.wte.weight" in file.names else ""
    masks = tuple(f"{start}h.{layer}.attn.{name}" for layer in range(config.blocks) for name in ("bias", "masked_bias"))
    return Converted(file, config, lambda name: gpt2_source(name, config, start), masks)


def opt_weights(file: WeightFile, config: ModelConfig) -> Converted:
    """The weights of an OPT-like file."""
    start = "decoder." if "decoder.embed_tokens.weight" in file.names else "model.decoder."
    return Converted(file, config, lambda name: opt_source(name, config, start))


def gpt2_source(name: str, config: ModelConfig, start: str = "transformer.") -> Source:
    """`blk.3.k` is the middle third of the transposed `transformer.h.3.attn.c_attn.weight`."""
    shape = config.shapes[name]
    if name == "head":
        return Source(HEAD, shape)
    part, raw = raw_name(name, GPT2_NAMES, f"{start}h.", start)
    transpose = name.startswith("blk.") and len(shape) == 2
    if part in ("q", "k", "v"):
        count, shape = shape[0], (3 * shape[0], *shape[1:])
        return Source(raw, shape[::-1], transpose, "qkv".index(part) * count, count)
    return Source(raw, shape[::-1] if transpose else shape, transpose)


def opt_source(name: str, config: ModelConfig, start: str = "model.decoder.") -> Source:
    """`blk.3.up` is `model.decoder.layers.3.fc1.weight`; position 0 is row 2."""
    shape = config.shapes[name]
    if name == "head":
        return Source(HEAD, shape)
    part, raw = raw_name(name, OPT_NAMES, f"{start}layers.", start)
    if part == "position":
        return Source(raw, (shape[0] + OFFSET, shape[1]), first=OFFSET)
    return Source(raw, shape)


def _head_dim(where: Path, width: int, heads: int) -> int:
    if heads < 1 or width % heads:
        raise Refused(f"{where}: the width must be a multiple of the number of heads, got {width}, {heads}")
    return width // heads
