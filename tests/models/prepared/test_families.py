"""Models with equal tensor sizes and different computations share no cached tensor that depends on these."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refemu import models
from refemu.arith.attention.rope_scaling import FactorScaling, LinearScaling, Llama3Scaling, YarnScaling
from refemu.arith.records import parameters
from refemu.models.config import ModelConfig
from refemu.models.prepared import prepared_cache as prepared_caches
from refemu.models.prepared.prepared_cache import Recipe
from tests.models import toy_families, toy_files
from tests.models.prepared.test_prepared_cache import home as home
from tests.models.prepared.test_prepared_cache import toy
from tests.models.prepared.test_schemes import TEXT

LLAMA = toy_files.CONFIG
#: another value of every field of a decoder, with further fields that must change with it
OTHERS: dict[str, list[dict[str, Any]]] = {
    "width": [{"width": 80}],
    "ffn": [{"ffn": 112}],
    "heads": [{"heads": 8}],
    "kv_heads": [{"kv_heads": 4}],
    "head_dim": [{"head_dim": 32}],
    "vocab": [{"vocab": 301}],
    "rope_base": [{"rope_base": 50_001.0}],
    "rope_interleaved": [{"rope_interleaved": not LLAMA.rope_interleaved}],
    "rms_eps": [{"rms_eps": 1e-6}],
    "tied_head": [{"tied_head": not LLAMA.tied_head}],
    "norm": [{"norm": "layer"}],
    "positions": [{"positions": "learned"}, {"positions": "alibi"}],
    "activation": [{"activation": "gelu_tanh"}, {"activation": "gelu_erf"}, {"activation": "relu"}],
    "gated": [{"gated": False}],
    "bias": [{"bias": True}],
    "qkv_bias": [{"qkv_bias": True}],
    "qk_norm": [{"qk_norm": True}],
    "post_norms": [{"post_norms": True}],
    "embed_norm": [{"embed_norm": True}],
    "scaled_embed": [{"scaled_embed": True}],
    "rotary_dim": [{"rotary_dim": 8}, {"rotary_dim": 4}],
    "rope_scaling": [
        {"rope_scaling": scaling}
        for scaling in (
            LinearScaling(2.0),
            LinearScaling(4.0),
            Llama3Scaling(2.0, 1.0, 4.0, 32),
            Llama3Scaling(2.0, 1.0, 4.0, 64),
            YarnScaling(2.0, 32),
            YarnScaling(2.0, 32, gain=1.25),
            FactorScaling((1.0,) * 8),
            FactorScaling((1.0,) * 7 + (2.0,)),
            FactorScaling((1.0,) * 8, (2.0,) * 8, original=8),
        )
    ],
    "experts": [{"experts": 4, "experts_used": 2}],
    "experts_used": [{"experts": 4, "experts_used": 1}],
    "experts_normalized": [{"experts": 4, "experts_used": 2, "experts_normalized": False}],
    "windows": [{"windows": (4, 4)}, {"windows": (4, 0)}, {"windows": (0, 4)}, {"windows": (8, 8)}],
    "attention_cap": [{"attention_cap": 2.5}],
    "logit_cap": [{"logit_cap": 1.5}],
    "scale_dim": [{"scale_dim": 8.0}],
}
RECIPE = Recipe("x", ("formats/integer.py",))


def test_every_field_of_decoder_has_another_value_here() -> None:
    names = {field.name for field in dataclasses.fields(ModelConfig)}

    assert set(OTHERS) == names - set(prepared_caches.OTHER_SIZES)


def test_no_two_decoders_share_a_key(tmp_path: Path) -> None:
    """Models of the same weights: the digest of the file is equal for all."""
    model = toy(tmp_path)
    configs = [LLAMA, *(dataclasses.replace(LLAMA, **change) for changes in OTHERS.values() for change in changes)]
    keys = {
        json.dumps(prepared_caches.key(dataclasses.replace(model, config=config), RECIPE), sort_keys=True)
        for config in configs
    }

    assert len(keys) == len(configs) > 40


@parameters
class OtherScaling:
    """A kind of scaling with the fields of `LinearScaling`."""

    factor: float


def test_types_with_equal_fields_have_different_keys(tmp_path: Path) -> None:
    model, keys = toy(tmp_path), []
    for scaling in (LinearScaling(2.0), OtherScaling(2.0)):
        config = dataclasses.replace(LLAMA, rope_scaling=LinearScaling(2.0))
        object.__setattr__(config, "rope_scaling", scaling)
        keys.append(prepared_caches.key(dataclasses.replace(model, config=config), RECIPE))

    assert keys[0] != keys[1]


OLIVE = "olive-4:low=60,high=140,step=5"
KLLM = "kllm-a4:calibration_windows=1,calibration_tokens=32"
HARMONIA = "harmonia-kv4:calib_tokens=32"
SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "another base": {"rope_theta": 100.0},
    "linear": {"rope_scaling": {"rope_type": "linear", "factor": 8.0}},
    "llama3": {
        "rope_scaling": {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 16,
        }
    },
    "window": {"model_type": "mistral", "sliding_window": 4},
    "wider window": {"model_type": "mistral", "sliding_window": 8},
}


def answer(model: Any, scheme: str) -> bytes:
    prepared = models.prepare(model, scheme, calibration=TEXT)
    return models.run(model, TEXT[:20], scheme=prepared).logits.tobytes()


def write(folder: Path, settings: dict[str, Any]) -> Path:
    """A toy of one seed under these settings."""
    return toy_files.write_safetensors(folder, toy_files.values(LLAMA), **settings)


@pytest.mark.parametrize("scheme", [OLIVE, KLLM, HARMONIA, "fp16"])
def test_equal_weights_with_other_settings_calibrate_again(
    scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rotations and windows change the calibration and no tensor: a cache of one setting serves no other."""
    found = {}
    kinds = [kind for kind in SETTINGS if scheme != HARMONIA or "window" not in kind]
    for kind in kinds:
        folder = write(tmp_path / kind.replace(" ", "-") / "toy", SETTINGS[kind])
        monkeypatch.setenv("REFEMU_PREPARED", "1")
        found[kind] = answer(models.load(folder), scheme)
        monkeypatch.setenv("REFEMU_PREPARED", "0")
        assert answer(models.load(folder), scheme) == found[kind], kind

    assert len(set(found.values())) == len(kinds)


@pytest.mark.parametrize("kind", [kind for kind in toy_families.CONFIGS if kind != "gpt2"])
def test_tensors_in_half_are_those_of_tensor_rounded(kind: str, tmp_path: Path) -> None:
    """Fused, permuted and sorted, from GGUF."""
    values = {name: value + np.float32(1 / 3) * value for name, value in toy_families.values(kind).items()}
    model = models.load(toy_families.write_gguf(tmp_path / f"{kind}.gguf", kind, values))
    for name in model.config.shapes:
        assert model.half(name).tobytes() == model.tensor(name).astype(np.float16).tobytes(), name
