"""GPT-2-like and OPT-like folders: every weight in its place and orientation; unmodelled parts are rejected."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from refemu import models
from refemu.arith.checks import Refused
from refemu.models.model import Model
from refemu.models.weights.decoder_checkpoint import gpt2_config, gpt2_source, opt_config, opt_source
from refemu.models.weights.sources import Converted, Source
from tests.models import toy_decoder
from tests.models.held import Held
from tests.models.toy_decoder import GPT2, OPT, gpt2_tensors, opt_tensors, values

TENSORS: dict[str, Any] = {"gpt2": gpt2_tensors, "opt": opt_tensors}
KINDS = pytest.mark.parametrize("kind", ["gpt2", "opt"])
IDS = [3, 0, 16, 7]


@KINDS
def test_folder_is_model_whose_weights_it_holds(kind: str, tmp_path: Path) -> None:
    config = toy_decoder.CONFIGS[kind]
    given = values(config)
    model = models.load(toy_decoder.write(tmp_path / "small", kind, TENSORS[kind](given)))
    held = Model("small", config, Held(given), "")

    assert (model.name, model.config, model.weights.names) == ("small", config, tuple(config.shapes))
    for name, shape in config.shapes.items():
        assert model.weights.shape(name) == shape and np.array_equal(model.tensor(name), given[name])
    assert models.run(model, IDS).logits.tobytes() == models.run(held, IDS).logits.tobytes()


@pytest.mark.parametrize(("kind", "start"), [("gpt2", ""), ("opt", "decoder.")])
def test_files_of_the_bare_model_have_shorter_names(kind: str, start: str, tmp_path: Path) -> None:
    given = values(toy_decoder.CONFIGS[kind])
    model = models.load(toy_decoder.write(tmp_path, kind, TENSORS[kind](given, start)))

    assert np.array_equal(model.tensor("blk.1.v"), given["blk.1.v"])


@KINDS
def test_float16_files_are_read(kind: str, tmp_path: Path) -> None:
    given = values(toy_decoder.CONFIGS[kind])
    halves = {name: tensor.astype(np.float16) for name, tensor in TENSORS[kind](given).items()}
    model = models.load(toy_decoder.write(tmp_path, kind, halves))

    assert np.array_equal(model.tensor("blk.1.down"), given["blk.1.down"])


def test_masks_of_old_files_are_passed_over(tmp_path: Path) -> None:
    masks = {f"transformer.h.{layer}.attn.bias": np.ones((1, 1, 24, 24), np.uint8) for layer in range(2)}
    masks |= {f"transformer.h.{layer}.attn.masked_bias": np.array(-1e4, np.float32) for layer in range(2)}

    assert models.load(toy_decoder.write(tmp_path, "gpt2", gpt2_tensors(values(GPT2)) | masks)).config == GPT2


@KINDS
def test_an_output_matrix_of_its_own_is_used(kind: str, tmp_path: Path) -> None:
    config = dataclasses.replace(toy_decoder.CONFIGS[kind], tied_head=False)
    given = values(config)
    tensors = TENSORS[kind](given) | {"lm_head.weight": given["head"]}
    model = models.load(toy_decoder.write(tmp_path, kind, tensors, tie_word_embeddings=False))

    assert model.config == config and np.array_equal(model.tensor("head"), given["head"])


@KINDS
def test_tied_output_matrix_must_equal_the_embedding(kind: str, tmp_path: Path) -> None:
    given = values(toy_decoder.CONFIGS[kind])
    same, other = ({"lm_head.weight": factor * given["embed"]} for factor in (1, 2))
    model = models.load(toy_decoder.write(tmp_path / "same", kind, TENSORS[kind](given) | same))

    assert np.array_equal(model.tensor("head"), given["embed"])
    with pytest.raises(Refused, match=r"lm_head\.weight must be equal to the embedding, as tie_word_embeddings says"):
        models.load(toy_decoder.write(tmp_path / "other", kind, TENSORS[kind](given) | other))


def test_opt_without_biases_is_a_model(tmp_path: Path) -> None:
    config = dataclasses.replace(OPT, bias=False, activation="gelu_erf")
    tensors = {
        name: tensor for name, tensor in opt_tensors(values(OPT)).items() if "norm" in name or not name.endswith("bias")
    }
    model = models.load(toy_decoder.write(tmp_path, "opt", tensors, enable_bias=False, activation_function="gelu"))

    assert model.config == config
    assert np.isfinite(models.run(model, IDS).logits).all()


def test_inner_width_of_gpt2_defaults_to_fourfold(tmp_path: Path) -> None:
    toy_decoder.write(tmp_path, "gpt2", gpt2_tensors(values(GPT2)), n_inner=None)

    assert gpt2_config(tmp_path).ffn == 48


def test_names_shapes_and_places() -> None:
    assert gpt2_source("blk.1.k", GPT2) == Source("transformer.h.1.attn.c_attn.weight", (12, 36), True, 12, 12)
    assert gpt2_source("blk.1.k.bias", GPT2) == Source("transformer.h.1.attn.c_attn.bias", (36,), False, 12, 12)
    assert gpt2_source("blk.0.down", GPT2) == Source("transformer.h.0.mlp.c_proj.weight", (20, 12), True)
    assert gpt2_source("norm.bias", GPT2) == Source("transformer.ln_f.bias", (12,))
    assert opt_source("position", OPT) == Source("model.decoder.embed_positions.weight", (26, 12), first=2)
    assert opt_source("blk.1.ffn_norm", OPT) == Source("model.decoder.layers.1.final_layer_norm.weight", (12,))


def test_repr_names_the_file(tmp_path: Path) -> None:
    model = models.load(toy_decoder.write(tmp_path, "opt", opt_tensors(values(OPT))))

    assert isinstance(model.weights, Converted)
    assert repr(model.weights) == f"Converted({model.weights.file!r})"


BAD = [
    pytest.param(
        "opt",
        {"do_layer_norm_before": False},
        r"do_layer_norm_before must be True \(LayerNorm after a "
        r"block half is not modelled\), got False",
        id="post-norm",
    ),
    pytest.param("opt", {"word_embed_proj_dim": 6}, "word_embed_proj_dim must be 12", id="projection"),
    pytest.param("opt", {"_remove_final_layer_norm": True}, "_remove_final_layer_norm must be False", id="last norm"),
    pytest.param(
        "opt", {"layer_norm_elementwise_affine": False}, "layer_norm_elementwise_affine must be True", id="no gains"
    ),
    pytest.param(
        "opt", {"activation_function": "silu"}, "activation_function must be one of .*relu, got 'silu'", id="activation"
    ),
    pytest.param("opt", {"activation_function": ["relu"]}, r"got \['relu'\]", id="list"),
    pytest.param("opt", {"ffn_dim": ...}, "ffn_dim must be a number, got None", id="no width"),
    pytest.param("gpt2", {"n_head": 5}, "width must be a multiple of the number of heads, got 12, 5", id="heads"),
    pytest.param("gpt2", {"n_head": 0}, "width must be a multiple of the number of heads, got 12, 0", id="no heads"),
    pytest.param("gpt2", {"scale_attn_weights": False}, "scale_attn_weights must be True", id="scale"),
    pytest.param("gpt2", {"scale_attn_by_inverse_layer_idx": True}, "inverse_layer_idx must be False", id="by layer"),
    pytest.param("gpt2", {"add_cross_attention": True}, "add_cross_attention must be False", id="cross"),
    pytest.param(
        "gpt2",
        {"n_layer": 1},
        r"h\.1\..* is not part of a decoder with LayerNorm, learned positions, biases, "
        "gelu_tanh without a gate",
        id="more tensors",
    ),
    pytest.param("gpt2", {"n_layer": 3}, r"tensor transformer\.h\.2\.ln_1\.weight is missing", id="fewer tensors"),
    pytest.param("gpt2", {"n_inner": 24}, r"c_fc\.weight must have shape \(12, 24\), got \(12, 20\)", id="shape"),
    pytest.param("opt", {"max_position_embeddings": 26}, r"must have shape \(28, 12\), got \(26, 12\)", id="positions"),
    pytest.param(
        "opt",
        {"model_type": "gptj"},
        "model_type must be one of llama, .*gpt2, opt, bert, got 'gptj'",
        id="other model",
    ),
]


@pytest.mark.parametrize(("kind", "settings", "message"), BAD)
def test_what_is_not_modelled_is_rejected(kind: str, settings: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(Refused, match=message):
        models.load(toy_decoder.write(tmp_path, kind, TENSORS[kind](values(toy_decoder.CONFIGS[kind])), **settings))


def test_missing_settings_of_old_files_have_defaults(tmp_path: Path) -> None:
    for kind, config, least in (
        ("gpt2", gpt2_config, ("n_layer", "n_embd", "n_head", "n_inner", "vocab_size", "n_positions")),
        (
            "opt",
            opt_config,
            (
                "num_hidden_layers",
                "hidden_size",
                "ffn_dim",
                "vocab_size",
                "num_attention_heads",
                "max_position_embeddings",
            ),
        ),
    ):
        settings = {key: toy_decoder.SETTINGS[kind][key] for key in least}
        (tmp_path / "config.json").write_text(json.dumps(settings), "utf-8")

        assert config(tmp_path) == toy_decoder.CONFIGS[kind]


def test_a_weight_that_is_not_finite_is_rejected(tmp_path: Path) -> None:
    tensors = gpt2_tensors(values(GPT2))
    tensors["transformer.h.0.attn.c_attn.weight"][3, 5] = np.inf
    folder = toy_decoder.write(tmp_path, "gpt2", tensors)

    assert safetensors.numpy.load_file(folder / "model.safetensors")
    with pytest.raises(Refused, match=r"c_attn\.weight must be finite, got inf at index \(3, 5\)"):
        models.prepare(models.load(folder))
