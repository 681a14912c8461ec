"""Every family of decoders against Hugging Face transformers: untrained models that it made, loaded from folders.

As in test_transformers.py, transformers in float64 and the tests' own forward in float64 agree, and scheme `fp16` stays
as near to both as the bounds on its roundings allow. Texts are longer than windows and the contexts before a scaling,
and the model without the part, where something was left out of its sizes, is farther away than that.
"""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refemu import models
from refemu.arith.checks import Refused
from tests.conformance.family_numbers import SECOND, cases, compare, stated
from tests.conformance.hugging_face import logits, make
from tests.models import toy_decoder

IDS = [3, 0, 16, 7, 7, 12, 1, 9, 4]
SINGLE = 8e-6  #: transformers keeps RMSNorm, rotary tables and ALiBi's slopes in float32

LINEAR = {"rope_type": "linear", "factor": 2.0, "rope_theta": 10_000.0}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
    "rope_theta": 50.0,
}
YARN = {
    "rope_type": "yarn",
    "factor": 4.0,
    "original_max_position_embeddings": 16,
    "beta_fast": 2.0,
    "rope_theta": 50.0,
}
LONG = {
    "rope_type": "longrope",
    "short_factor": [1.0, 1.5],
    "long_factor": [2.0, 5.0],
    "original_max_position_embeddings": 8,
    "rope_theta": 10.0,
}
GEMMA2 = {"head_dim": 6, "query_pre_attn_scalar": 5, "sliding_window": 4}
CAPS = {"attn_logit_softcapping": 0.5, "final_logit_softcapping": 0.75}

#: by name: the model, its settings, and sizes each of which leaves a part out or has another one
CASES: dict[str, tuple[str, dict[str, Any], list[dict[str, Any]]]] = {
    "llama3": ("llama", {"rope_parameters": LLAMA3}, [{"rope_scaling": None}]),
    "llama-linear": ("llama", {"rope_parameters": LINEAR}, [{"rope_scaling": None}]),
    "llama-yarn": ("llama", {"rope_parameters": YARN}, [{"rope_scaling": None}]),
    "mistral": ("mistral", {"sliding_window": None}, [{"windows": (4, 4)}, {"rope_base": 500.0}]),
    "mistral-window": ("mistral", {"sliding_window": 4}, [{"windows": ()}, {"windows": (5, 5)}, {"windows": (3, 3)}]),
    "qwen2": ("qwen2", {}, [{"qkv_bias": False}]),
    "qwen2-window": (
        "qwen2",
        {"use_sliding_window": True, "sliding_window": 3, "max_window_layers": 1},
        [{"windows": (3, 3)}, {"windows": ()}],
    ),
    "qwen3": ("qwen3", {}, [{"qk_norm": False}]),
    "qwen3-tied": ("qwen3", {"tie_word_embeddings": True, "head_dim": 6}, [{"qk_norm": False}]),
    "phi3": ("phi3", {"sliding_window": 4}, [{"windows": ()}, {"rope_base": 2.0}]),
    "phi3-partial": ("phi3", {"partial_rotary_factor": 0.5}, [{"rotary_dim": None}]),
    "phi3-long": ("phi3", {"rope_parameters": LONG, "max_position_embeddings": 64}, [{"rope_scaling": None}]),
    "gemma2": (
        "gemma2",
        GEMMA2,
        [{"windows": ()}, {"windows": (0, 4)}, {"scale_dim": None}, {"scaled_embed": False}, {"post_norms": False}],
    ),
    "gemma2-caps": ("gemma2", GEMMA2 | CAPS, [{"attention_cap": 0.0}, {"logit_cap": 0.0}, {"activation": "silu"}]),
    "gemma2-no-caps": ("gemma2", GEMMA2 | dict.fromkeys(CAPS), [{"logit_cap": 0.75}]),
    "mixtral": (
        "mixtral",
        {"num_local_experts": 4, "num_experts_per_tok": 2},
        [{"experts_used": 1}, {"experts_used": 3}, {"experts_normalized": False}],
    ),
    "mixtral-window": ("mixtral", {"num_local_experts": 3, "sliding_window": 4}, [{"windows": ()}]),
    "qwen3-moe": (
        "qwen3_moe",
        {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8, "norm_topk_prob": True},
        [{"experts_used": 1}, {"experts_normalized": False}, {"qk_norm": False}],
    ),
    "qwen3-moe-shares": (
        "qwen3_moe",
        {"num_experts": 4, "num_experts_per_tok": 3, "moe_intermediate_size": 8, "norm_topk_prob": False},
        [{"experts_normalized": True}],
    ),
    "bloom": ("bloom", {}, [{"positions": "rotary"}, {"embed_norm": False}]),
    "bloom-six-heads": ("bloom", {"n_head": 6}, [{"positions": "rotary"}]),
}


@pytest.mark.parametrize("name", CASES)
def test_transformers_agrees_and_would_not_without_the_part(name: str, tmp_path: Path) -> None:
    kind, changes, planted = CASES[name]
    compared = compare(kind, changes, IDS, tmp_path)
    model, wanted, plain, found, allowed = compared
    near = SINGLE * np.abs(wanted).max()

    assert np.abs(plain - wanted).max() <= near
    assert (np.abs(found - plain) <= SECOND * allowed).all()
    assert (np.abs(found - wanted) <= SECOND * allowed + near).all()
    assert allowed.max() < wanted.std()  # the bound says something
    assert compared.numbers.agrees(stated()[name])

    for change in planted:
        other = dataclasses.replace(model, config=dataclasses.replace(model.config, **change))
        without = models.run(other, IDS).logits.astype(np.float64)
        assert (np.abs(without - wanted) > SECOND * allowed + near).any(), change


def test_docs_table_has_exactly_the_models() -> None:
    """docs/compared-with-transformers.md; each test of a model compares its row."""
    assert list(stated()) == list(cases())


def test_short_text_of_longrope_has_short_factors(tmp_path: Path) -> None:
    theirs = make("phi3", rope_parameters=LONG, max_position_embeddings=64)
    theirs.save_pretrained(tmp_path)
    model = models.load(tmp_path)
    wanted = logits(theirs, IDS[:8], "float64")

    assert np.abs(toy_decoder.forward(model, IDS[:8]) - wanted).max() <= SINGLE * np.abs(wanted).max()
    assert np.abs(models.run(model, IDS[:8]).logits - wanted).max() <= SECOND * toy_decoder.reach(model, IDS[:8]).max()


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        pytest.param(
            "llama",
            {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}},
            "got 'dynamic'",
            id="dynamic",
        ),
        pytest.param("qwen3", {"attention_bias": True}, "attention_bias must be False", id="qwen3-bias"),
        pytest.param("llama", {"attention_chunk_size": 4}, "attention_chunk_size is not a setting", id="chunks"),
        pytest.param(
            "bloom",
            {"apply_residual_connection_post_layernorm": True},
            "apply_residual_connection_post_layernorm must be False",
            id="bloom-residual",
        ),
        pytest.param("gemma3", {}, "'gemma3_text' is not supported: refemu lacks two rotary bases", id="gemma3"),
        pytest.param("falcon", {}, "'falcon' is not supported: refemu lacks .* halves in parallel", id="falcon"),
        pytest.param("bart", {}, "model_type must be one of llama, .*, got 'bart'", id="bart"),
    ],
)
def test_what_is_not_modelled_is_rejected(kind: str, changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    make(kind, **changes).save_pretrained(tmp_path)

    with pytest.raises(Refused, match=message):
        models.load(tmp_path)
