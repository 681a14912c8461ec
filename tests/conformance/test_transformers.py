"""Decoders that Hugging Face transformers made and saved, loaded from their folders: the same function here and there.

Three programs meet. transformers in float64 and the tests' own forward in float64 agree to what float64 leaves, so the
layers, their order, the places of the weights and the positions are the same; scheme `fp16` then stays as near to both
as the bounds on its roundings allow. Extra `hf` brings transformers; without it these tests are skipped.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refemu import models
from refemu.arith.checks import Refused
from tests.conformance.family_numbers import SECOND, compare, stated
from tests.conformance.hugging_face import library, logits, make
from tests.models import toy_decoder

IDS = [3, 0, 16, 7, 7]
DOUBLE = 1e-9  #: of the largest logit: here the eps of a norm is a float32, 6e-8 off, compared with 100 times its size
SINGLE = 4e-6  #: transformers keeps RMSNorm and the tables of rotary positions in float32: 64 roundings of 6e-8

CASES = [
    pytest.param("gpt2", {}, id="gpt2"),
    pytest.param("gpt2", {"n_inner": None}, id="gpt2-inner-4x"),
    pytest.param("gpt2", {"activation_function": "gelu"}, id="gpt2-erf"),
    pytest.param("gpt2", {"activation_function": "gelu_pytorch_tanh"}, id="gpt2-tanh"),
    pytest.param("gpt2", {"activation_function": "relu", "layer_norm_epsilon": 1e-3}, id="gpt2-relu"),
    pytest.param("gpt2", {"tie_word_embeddings": False}, id="gpt2-own-head"),
    pytest.param("opt", {}, id="opt"),
    pytest.param("opt", {"enable_bias": False}, id="opt-no-bias"),
    pytest.param("opt", {"activation_function": "gelu", "tie_word_embeddings": False}, id="opt-erf-own-head"),
    pytest.param("llama", {}, id="llama-grouped-queries"),
    pytest.param("llama", {"tie_word_embeddings": True, "rope_theta": 1e6, "rms_norm_eps": 1e-3}, id="llama-tied"),
    pytest.param("llama", {"head_dim": 6, "num_key_value_heads": 6}, id="llama-wide-heads"),
]


@pytest.mark.parametrize(("kind", "changes"), CASES)
def test_transformers_agrees(
    kind: str, changes: dict[str, Any], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    compared = compare(kind, changes, IDS, tmp_path)
    _, wanted, plain, found, allowed = compared

    near = SINGLE if kind == "llama" else DOUBLE
    assert np.abs(plain - wanted).max() <= near * np.abs(wanted).max()
    assert (np.abs(found - plain) <= SECOND * allowed).all()
    assert (np.abs(found - wanted) <= SECOND * allowed + near * np.abs(wanted).max()).all()
    assert allowed.max() < wanted.std()  # the bound says something
    assert compared.numbers.agrees(stated()[request.node.callspec.id])


HEADS = {"q": "q_proj", "k": "k_proj", "v": "v_proj"}


def theirs_by_name(kind: str, state: dict[str, np.ndarray], name: str) -> np.ndarray:
    """A weight of transformers under the canonical `name`, written apart from what `refemu` does."""
    block, _, part = name.removesuffix(".bias").rpartition(".")
    layer, end = block.removeprefix("blk."), ".bias" if name.endswith(".bias") else ".weight"
    if kind == "gpt2":
        if part in "qkv" and block:
            return np.split(state[f"transformer.h.{layer}.attn.c_attn{end}"].T, 3, axis=0)["qkv".index(part)]
        inside = {"attn_norm": "ln_1", "ffn_norm": "ln_2", "o": "attn.c_proj", "up": "mlp.c_fc", "down": "mlp.c_proj"}
        outside = {"embed": "wte", "position": "wpe", "norm": "ln_f"}
        if block:
            return state[f"transformer.h.{layer}.{inside[part]}{end}"].T
        return state["lm_head.weight" if part == "head" else f"transformer.{outside[part]}{end}"]
    if kind == "opt":
        if name == "position":
            return state["model.decoder.embed_positions.weight"][2:]
        inside = {
            "attn_norm": "self_attn_layer_norm",
            "ffn_norm": "final_layer_norm",
            "o": "self_attn.out_proj",
            "up": "fc1",
            "down": "fc2",
            **{part: f"self_attn.{raw}" for part, raw in HEADS.items()},
        }
        outside = {"embed": "embed_tokens", "norm": "final_layer_norm"}
        start = "model.decoder."
    else:
        inside = {
            "attn_norm": "input_layernorm",
            "ffn_norm": "post_attention_layernorm",
            "o": "self_attn.o_proj",
            "gate": "mlp.gate_proj",
            "up": "mlp.up_proj",
            "down": "mlp.down_proj",
            **{part: f"self_attn.{raw}" for part, raw in HEADS.items()},
        }
        outside = {"embed": "embed_tokens", "norm": "norm"}
        start = "model."
    if part == "head":
        return state["lm_head.weight"]
    return state[f"{start}layers.{layer}.{inside[part]}{end}" if block else f"{start}{outside[part]}{end}"]


@pytest.mark.parametrize(
    ("shards", "dtype"), [("1GB", "float32"), ("4KB", "float32"), ("1GB", "float16"), ("4KB", "bfloat16")]
)
@pytest.mark.parametrize("kind", ["gpt2", "opt", "llama"])
def test_every_weight_is_the_one_that_was_saved(kind: str, shards: str, dtype: str, tmp_path: Path) -> None:
    """Exact values and shapes; in one file or in several, in three types."""
    theirs = make(kind, tie_word_embeddings=False).to(getattr(library("torch"), dtype))
    theirs.save_pretrained(tmp_path, max_shard_size=shards)
    state = {name: tensor.float().numpy() for name, tensor in theirs.state_dict().items()}
    model = models.load(tmp_path)

    assert (len(list(tmp_path.glob("*.safetensors"))) > 1) is (shards == "4KB")
    assert sum(tensor.size for tensor in state.values()) == sum(
        np.prod(shape) for shape in model.config.shapes.values()
    ) + (2 * 12 if kind == "opt" else 0)
    for name, shape in model.config.shapes.items():
        wanted = theirs_by_name(kind, state, name)
        assert wanted.shape == shape and np.array_equal(model.tensor(name), wanted), name


@pytest.mark.parametrize("kind", ["gpt2", "opt", "llama"])
def test_positions_end_where_theirs_do(kind: str, tmp_path: Path) -> None:
    theirs = make(kind)
    theirs.save_pretrained(tmp_path)
    ids = (IDS * 5)[:24]
    model = models.load(tmp_path)
    wanted = logits(theirs, ids, "float64")

    assert np.abs(toy_decoder.forward(model, ids) - wanted).max() <= SINGLE * np.abs(wanted).max()
    with pytest.raises(Refused, match="the context holds 24 tokens, got 25"):
        models.run(model, [*ids, 0])


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        pytest.param("opt", {"do_layer_norm_before": False}, "do_layer_norm_before must be True", id="post-norm"),
        pytest.param("opt", {"word_embed_proj_dim": 6}, "word_embed_proj_dim must be 12", id="projection"),
        pytest.param(
            "gpt2", {"scale_attn_by_inverse_layer_idx": True}, "inverse_layer_idx must be False", id="by-layer"
        ),
        pytest.param("gpt2", {"activation_function": "silu"}, "activation_function must be one of", id="activation"),
        pytest.param("llama", {"attention_bias": True}, "attention_bias must be False", id="bias"),
        pytest.param("llama", {"hidden_act": "gelu"}, "hidden_act must be 'silu'", id="gelu"),
    ],
)
def test_unmodelled_transformers_settings_are_rejected(
    kind: str, changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    make(kind, **changes).save_pretrained(tmp_path)

    with pytest.raises(Refused, match=message):
        models.load(tmp_path)
