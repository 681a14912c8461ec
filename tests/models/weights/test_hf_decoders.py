"""Hugging Face folders of every family: sizes from `config.json`; unmodelled parts are rejected."""

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from refemu.arith.checks import Refused
from refemu.models import load
from refemu.models.config import ModelConfig
from refemu.models.weights.hf_decoders import llama_config as hf_config
from tests.models import toy_files
from tests.models.toy_files import CONFIG


def test_sizes_come_from_hugging_faces_config(tmp_path: Path) -> None:
    """There the pairs of rotary positions are half a head apart, and eps is float32 of the decimal number."""
    folder = toy_files.write_safetensors(tmp_path, toy_files.values(CONFIG))

    assert hf_config(folder) == ModelConfig(**{**vars(CONFIG), "rope_interleaved": False})


def test_newer_configs_keep_the_base_in_rope_parameters(tmp_path: Path) -> None:
    parameters = {"rope_type": "default", "rope_theta": 7e5}
    folder = toy_files.write_safetensors(tmp_path, toy_files.values(CONFIG), rope_theta=..., rope_parameters=parameters)

    assert hf_config(folder).rope_base == 7e5


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        pytest.param({"model_type": "bert"}, "model_type must be 'llama'", id="bert"),
        pytest.param({"attention_bias": True}, "attention_bias must be False", id="bias"),
        pytest.param(
            {"rope_scaling": {"factor": 8}}, r"rope_scaling\.factor is not a setting that refemu models", id="scaling"
        ),
        pytest.param(
            {"rope_parameters": {"rope_type": "llama3"}},
            r"rope_parameters\.low_freq_factor must be a number",
            id="llama3",
        ),
        pytest.param(
            {"rope_parameters": {"rope_type": "spiral"}}, "rope_type must be one of default, .*'spiral'", id="spiral"
        ),
        pytest.param({"rope_parameters": {"rope_type": "dynamic"}}, "got 'dynamic'", id="dynamic"),
        pytest.param({"num_experts": 8}, "num_experts is not a setting that refemu models, got 8", id="experts"),
        pytest.param(
            {"quantization_config": {"bits": 4}}, "quantization_config is not a setting that refemu models", id="bits"
        ),
        pytest.param({"hidden_act": "gelu"}, "hidden_act must be 'silu'", id="gelu"),
        pytest.param({"hidden_size": 64.5}, "hidden_size must be a whole number, got 64.5", id="fraction"),
        pytest.param({"hidden_size": True}, "hidden_size must be a whole number, got True", id="yes"),
        pytest.param(
            {"num_attention_heads": math.inf}, "num_attention_heads must be a whole number, got inf", id="inf"
        ),
        pytest.param(
            {"num_attention_heads": math.nan}, "num_attention_heads must be a whole number, got nan", id="nan"
        ),
        pytest.param({"tie_word_embeddings": 2}, "tie_word_embeddings must be true or false, got 2", id="tied 2"),
        pytest.param({"tie_word_embeddings": 0.5}, "tie_word_embeddings must be true or false, got 0.5", id="tied 0.5"),
        pytest.param({"rope_parameters": 5}, "rope_parameters must be an object, got int", id="rope number"),
        pytest.param({"rope_parameters": [5]}, "rope_parameters must be an object, got list", id="rope list"),
        pytest.param(
            {"rope_parameters": {"rope_theta": "x"}}, r"rope_parameters\.rope_theta must be a number", id="rope text"
        ),
        pytest.param(
            {"rope_theta": math.inf}, "rope_theta must be a number that float32 holds, got inf", id="rope inf"
        ),
        pytest.param(
            {"rms_norm_eps": 1e300}, "rms_norm_eps must be a number that float32 holds, got 1e", id="eps beyond"
        ),
        pytest.param(
            {"rms_norm_eps": 10**400}, "rms_norm_eps must be a number that float32 holds, got 1", id="eps far"
        ),
    ],
)
def test_configs_that_are_not_modelled_are_rejected(tmp_path: Path, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(Refused, match=message):
        hf_config(toy_files.write_safetensors(tmp_path, toy_files.values(CONFIG), **settings))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rope_theta": 1.0}, "ModelConfig: need rope_base > 1"),
        ({"rope_scaling": {"type": "linear", "factor": -1.0}}, "LinearScaling: factor must be above 0"),
        (
            {"rope_scaling": {"type": "dynamic", "factor": 2.0}},
            "rotary positions: scaling must be default, linear, llama3, yarn or longrope, got 'dynamic'",
        ),
        ({"hidden_size": 64.5}, "hidden_size must be a whole number, got 64.5"),
    ],
)
def test_errors_of_a_config_name_the_file_once(tmp_path: Path, settings: dict[str, Any], message: str) -> None:
    folder = toy_files.write_safetensors(tmp_path, toy_files.values(CONFIG), **settings)

    with pytest.raises(Refused, match=f"^{folder}/config.json: {re.escape(message)}"):
        load(folder)


def test_keys_without_effect_on_logits_are_skipped(tmp_path: Path) -> None:
    """Keys left by other tools, and generation settings that older ones wrote for every model."""
    more = {"unsloth_version": "2024.9", "unsloth_fixed": True, "_commit_hash": "0", "tf_legacy_loss": False}
    plain, folder = (
        toy_files.write_safetensors(tmp_path / str(n), toy_files.values(CONFIG), **m) for n, m in enumerate(({}, more))
    )

    assert hf_config(folder) == hf_config(plain)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_stored_frequencies_equal_to_config_are_skipped(tmp_path: Path, dtype: type) -> None:
    """Checkpoints of the time of Llama 1 and 2 hold them as buffers."""
    plain = toy_files.write_safetensors(tmp_path / "plain", toy_files.values(CONFIG))
    with_buffers = toy_files.write_safetensors(tmp_path / "old", toy_files.values(CONFIG))
    tensors = safetensors.numpy.load_file(plain / "model.safetensors")
    frequencies = (CONFIG.rope_base ** (-np.arange(0, CONFIG.head_dim, 2) / CONFIG.head_dim)).astype(dtype)
    names = [f"model.layers.{layer}.self_attn.rotary_emb.inv_freq" for layer in range(CONFIG.blocks)]

    safetensors.numpy.save_file(tensors | dict.fromkeys(names, frequencies), with_buffers / "model.safetensors")
    assert np.array_equal(load(plain).tensor("blk.0.q"), load(with_buffers).tensor("blk.0.q"))
    safetensors.numpy.save_file(tensors | dict.fromkeys(names, frequencies * 2), with_buffers / "model.safetensors")
    with pytest.raises(Refused, match=r"0\.self_attn\.rotary_emb\.inv_freq must hold the frequencies of rope"):
        load(with_buffers)
