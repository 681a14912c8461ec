"""The folder of an encoder: sizes and names; missing, foreign or damaged files are rejected."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refemu.arith.checks import Refused
from refemu.models import load
from refemu.models.weights import encoder_checkpoint
from tests.models import toy_encoder, toy_files


def test_sizes_come_from_the_config(tmp_path: Path) -> None:
    folder = toy_encoder.write(tmp_path / "toy", toy_encoder.values(toy_encoder.CONFIG))

    assert encoder_checkpoint.is_encoder(folder)
    assert encoder_checkpoint.hf_config(folder) == toy_encoder.CONFIG


def test_decoder_is_not_an_encoder(tmp_path: Path) -> None:
    folder = toy_files.write_safetensors(tmp_path / "toy", toy_files.values(toy_files.CONFIG))

    assert not encoder_checkpoint.is_encoder(folder)


@pytest.mark.parametrize(
    ("name", "raw"),
    [
        ("embed", "embeddings.word_embeddings.weight"),
        ("embed_norm.bias", "embeddings.LayerNorm.bias"),
        ("blk.3.q", "encoder.layer.3.attention.self.query.weight"),
        ("blk.11.o", "encoder.layer.11.attention.output.dense.weight"),
        ("blk.0.down.bias", "encoder.layer.0.output.dense.bias"),
        ("blk.0.up", "encoder.layer.0.intermediate.dense.weight"),
    ],
)
def test_names_are_hugging_faces(name: str, raw: str) -> None:
    assert raw == encoder_checkpoint.raw_name(name)


def test_the_pooler_and_position_ids_are_passed_over(tmp_path: Path) -> None:
    """No hidden state depends on them."""
    pooler = {"pooler.dense.weight": np.ones((6, 6), np.float32), "pooler.dense.bias": np.ones(6, np.float32)}
    model = load(toy_encoder.write(tmp_path / "toy", toy_encoder.values(toy_encoder.CONFIG), pooler))

    assert set(model.weights.names) == set(toy_encoder.CONFIG.shapes)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        pytest.param({"hidden_act": "gelu_new"}, "hidden_act must be 'gelu'", id="activation"),
        pytest.param({"position_embedding_type": "relative_key"}, "embedding_type must be 'absolute'", id="positions"),
        pytest.param({"is_decoder": True}, "is_decoder must be False", id="causal"),
        pytest.param({"model_type": "roberta"}, "model_type must be one of llama", id="another model"),
        pytest.param({"hidden_size": ...}, "hidden_size must be a number, got None", id="no width"),
        pytest.param({"num_attention_heads": 4}, "width must be a multiple of heads", id="heads"),
        pytest.param(
            {"intermediate_size": 12}, r"up\.|intermediate\.dense\.weight must have shape \(12, 6\)", id="shape"
        ),
        pytest.param({"num_attention_heads": 4}, r"config\.json: EncoderConfig: ", id="heads"),
        pytest.param({"num_hidden_layers": 3}, "encoder.layer.2.attention.self.query.weight is missing", id="missing"),
        pytest.param({"num_hidden_layers": 1}, "encoder.layer.1.* is not part of a BERT-like encoder", id="more"),
    ],
)
def test_other_encoders_are_rejected(tmp_path: Path, settings: dict[str, Any], message: str) -> None:
    folder = toy_encoder.write(tmp_path / "toy", toy_encoder.values(toy_encoder.CONFIG), **settings)

    with pytest.raises(Refused, match=message):
        load(folder)
