"""Keys of `config.json`: nulls, soft caps, rotary positions."""

import json
from pathlib import Path
from typing import Any

import pytest

from refemu.arith.attention.rope_scaling import FactorScaling, LinearScaling, Llama3Scaling, YarnScaling, yarn_gain
from refemu.arith.checks import Refused
from refemu.models.weights.hf_settings import HfSettings, hf_settings, rotary_settings


def settings(folder: Path, **content: Any) -> HfSettings:
    (folder / "config.json").write_text(json.dumps({"max_position_embeddings": 128, **content}), "utf-8")
    return hf_settings(folder)


def test_null_means_no_cap_missing_means_default(tmp_path: Path) -> None:
    assert settings(tmp_path, cap=None).cap("cap", 50.0) == 0
    assert settings(tmp_path).cap("cap", 50.0) == 50
    assert settings(tmp_path, cap=2).cap("cap", 50.0) == 2


@pytest.mark.parametrize(
    ("rope", "scaling"),
    [
        (None, None),
        ({"rope_type": "default"}, None),
        ({"type": "linear", "factor": 4.0}, LinearScaling(4.0)),
        (
            {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4},
            Llama3Scaling(8.0, 1.0, 4.0, 128),
        ),
        (
            {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32, "beta_slow": 2},
            YarnScaling(4.0, 32, slow=2.0, gain=yarn_gain(4.0)),
        ),
        ({"rope_type": "yarn", "original_max_position_embeddings": 32}, YarnScaling(4.0, 32, gain=yarn_gain(4.0))),
        (
            {"type": "su", "short_factor": [1, 2], "long_factor": [3, 4], "original_max_position_embeddings": 128},
            FactorScaling((1.0, 2.0), (3.0, 4.0), 128),
        ),
    ],
)
def test_scalings(rope: Any, scaling: Any, tmp_path: Path) -> None:
    for key in ("rope_scaling", "rope_parameters"):
        assert rotary_settings(settings(tmp_path, **{key: rope}), 4)["rope_scaling"] == scaling


@pytest.mark.parametrize(
    "rope",
    [
        {"rope_type": "linear"},
        {"rope_type": "yarn"},
        {"rope_type": "yarn", "original_max_position_embeddings": 128},
    ],
)
def test_a_scaling_without_a_factor_is_rejected(rope: Any, tmp_path: Path) -> None:
    """The scale of yarn depends on the context before the scaling, if that differs."""
    with pytest.raises(Refused, match=r"config\.json: rope_scaling\.factor must be a number, got None"):
        rotary_settings(settings(tmp_path, rope_scaling=rope), 4)


def test_base_and_rotated_channels(tmp_path: Path) -> None:
    found = rotary_settings(settings(tmp_path, rope_theta=5e5, partial_rotary_factor=0.75), 16)

    assert (found["rope_base"], found["rotary_dim"]) == (5e5, 12)


def test_an_unknown_key_is_rejected(tmp_path: Path) -> None:
    read = settings(tmp_path, use_cache=True, mlp_only_layers=[1], nothing=None)
    read.whole("max_position_embeddings")

    with pytest.raises(Refused, match=r"mlp_only_layers is not a setting that refemu models, got \[1\]"):
        read.finished(None)  # type: ignore[arg-type]
