"""Settings of Hugging Face's `config.json`: those that do not change results, and rotary positions.

A key with the value null counts as missing. `finished` rejects every other key that nobody read.
"""

from pathlib import Path
from typing import Any

from refemu.arith.attention.rope_scaling import (
    FactorScaling,
    LinearScaling,
    Llama3Scaling,
    RopeScaling,
    YarnScaling,
    longrope_gain,
    yarn_gain,
)
from refemu.arith.checks import Refused
from refemu.models.config import ModelConfig
from refemu.models.weights.checkpoint import Settings, read_json

#: keys that no logit depends on: training, generation, token ids, types and names
HARMLESS = frozenset(
    [
        "_name_or_path",
        "_commit_hash",
        "_attn_implementation_autoset",
        "unsloth_fixed",
        "unsloth_version",
        "architectures",
        "auto_map",
        "transformers_version",
        "transformers.js_config",
        "torch_dtype",
        "dtype",
        "use_cache",
        "_attn_implementation",
        "attn_implementation",
        "cache_implementation",
        "bos_token_id",
        "eos_token_id",
        "pad_token_id",
        "sep_token_id",
        "unk_token_id",
        "decoder_start_token_id",
        "initializer_range",
        "initializer_factor",
        "attention_dropout",
        "attn_pdrop",
        "embd_pdrop",
        "resid_pdrop",
        "hidden_dropout",
        "hidden_dropout_prob",
        "attention_probs_dropout_prob",
        "dropout",
        "activation_dropout",
        "layerdrop",
        "classifier_dropout",
        "init_std",
        "pretraining_tp",
        "slow_but_exact",
        "gradient_checkpointing",
        "n_ctx",
        "task_specific_params",
        "summary_type",
        "summary_use_proj",
        "summary_activation",
        "summary_proj_to_labels",
        "summary_first_dropout",
        "reorder_and_upcast_attn",
        "prefix",
        "id2label",
        "label2id",
        "problem_type",
        "finetuning_task",
        "num_labels",
        "output_attentions",
        "output_hidden_states",
        "return_dict",
        "torchscript",
        "chunk_size_feed_forward",
        "tokenizer_class",
        "max_length",
        "min_length",
        "max_new_tokens",
        "do_sample",
        "early_stopping",
        "num_beams",
        "num_beam_groups",
        "diversity_penalty",
        "temperature",
        "top_k",
        "top_p",
        "typical_p",
        "repetition_penalty",
        "length_penalty",
        "no_repeat_ngram_size",
        "encoder_no_repeat_ngram_size",
        "num_return_sequences",
        "bad_words_ids",
        "suppress_tokens",
        "begin_suppress_tokens",
        "forced_bos_token_id",
        "forced_eos_token_id",
        "exponential_decay_length_penalty",
        "tf_legacy_loss",
        "output_scores",
        "return_dict_in_generate",
        "remove_invalid_values",
        "is_llama_config",
        "masked_softmax_fusion",
        "attention_softmax_in_fp32",
        "bias_dropout_fusion",
        "offset_alibi",
        "skip_bias_add",
        "skip_bias_add_qkv",
    ]
)
#: values that these keys of any decoder must have, where present
PLAIN: dict[str, Any] = {
    "is_encoder_decoder": False,
    "is_decoder": False,
    "add_cross_attention": False,
    "cross_attention_hidden_size": None,
    "tie_encoder_decoder": False,
    "pruned_heads": {},
    "use_bfloat16": False,
    "rope_interleaved": False,
    "use_mrope": False,
    "lm_head_bias": False,
    "full_attn_mod": 1,
    "interpolate_factor": 1,
}


class HfSettings(Settings):
    """The settings of a `config.json`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.content: dict[str, Any] = read_json(path)  #: nulls included
        self._there = {key: value for key, value in self.content.items() if value is not None}
        super().__init__(f"{path}: ", self._there.get)

    def cap(self, key: str, default: float) -> float:
        """A soft cap: `default` where the key is missing, 0 where it is null."""
        self.any(key)
        return 0.0 if self.content.get(key, default) is None else self.real(key, default)

    def finished(self, config: ModelConfig) -> ModelConfig:
        """The sizes, once every key is known."""
        for key, wanted in PLAIN.items():
            self.expect(key, wanted, "as refemu models decoders")
        self.require_all_read(self._there, HARMLESS)
        return config


def hf_settings(folder: Path) -> HfSettings:
    """The settings in a folder."""
    return HfSettings(folder / "config.json")


def rotary_settings(read: HfSettings, head_dim: int) -> dict[str, Any]:
    """Fields of a `ModelConfig` about rotary positions: base, rotated channels, scaling."""
    rope, where = _rope(read)
    inner = Settings(where, rope.get)
    context = read.whole("max_position_embeddings")
    original = inner.whole("original_max_position_embeddings", read.whole("original_max_position_embeddings", context))
    share = inner.real("partial_rotary_factor", read.real("partial_rotary_factor", 1.0))
    base = inner.real("rope_theta", read.real("rope_theta", 10_000.0))
    kind = inner.choice("rope_type", {**SCALINGS, "dynamic": _dynamic}, inner.any("type", "default"))
    rotated = int(head_dim * share)
    scaling = kind(inner, context, original)
    inner.require_all_read(rope)
    return {
        "rope_base": base,
        "rope_interleaved": False,
        "rotary_dim": None if rotated == head_dim else rotated,
        "rope_scaling": scaling,
    }


def _rope(read: HfSettings) -> tuple[dict[str, Any], str]:
    """The settings of the rotation, and how an error about one of them begins."""
    for key in ("rope_parameters", "rope_scaling"):
        rope = read.any(key)
        if rope is not None:
            if not isinstance(rope, dict):
                raise Refused(f"{read.path}: {key} must be an object, got {type(rope).__name__}")
            return {name: value for name, value in rope.items() if value is not None}, f"{read.path}: {key}."
    return {}, f"{read.path}: rope_parameters."


def _plain(rope: Settings, context: int, original: int) -> None:
    return None


def _linear(rope: Settings, context: int, original: int) -> LinearScaling:
    return LinearScaling(rope.real("factor"))


def _llama3(rope: Settings, context: int, original: int) -> Llama3Scaling:
    low, high = rope.real("low_freq_factor"), rope.real("high_freq_factor")
    return Llama3Scaling(rope.real("factor"), low, high, original)


def _yarn(rope: Settings, context: int, original: int) -> YarnScaling:
    factor = rope.real("factor", context / original if original != context else None)
    first, second = rope.real("mscale", 0.0), rope.real("mscale_all_dim", 0.0)
    gain = yarn_gain(factor, first) / yarn_gain(factor, second) if first and second else yarn_gain(factor)
    return YarnScaling(
        factor,
        original,
        fast=rope.real("beta_fast", 32.0) or 32.0,
        slow=rope.real("beta_slow", 1.0) or 1.0,
        truncate=rope.truth("truncate", True),
        gain=rope.real("attention_factor", gain),
    )


def _longrope(rope: Settings, context: int, original: int) -> FactorScaling:
    gain = longrope_gain(rope.real("factor", context / original), original)
    return FactorScaling(
        rope.reals("short_factor"), rope.reals("long_factor"), original, rope.real("attention_factor", gain)
    )


def _dynamic(rope: Settings, context: int, original: int) -> RopeScaling:
    raise Refused(
        "rotary positions: scaling must be default, linear, llama3, yarn or longrope, got 'dynamic', whose frequencies "
        "change with every token of a text"
    )


SCALINGS = {
    "default": _plain,
    "linear": _linear,
    "llama3": _llama3,
    "yarn": _yarn,
    "longrope": _longrope,
    "su": _longrope,
}  #: by rope_type
