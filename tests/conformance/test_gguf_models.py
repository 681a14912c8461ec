"""GGUF files of every architecture, read by Hugging Face transformers and by refemu: the same function.

transformers has code of its own for names, permuted rows, gains and fused layers. Of some files it does not read a
setting, and takes its default: sizes here are those defaults, or the setting is made up for.
"""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refemu import models
from tests.conformance.hugging_face import library, logits
from tests.conformance.test_families import IDS, SINGLE
from tests.models import toy_decoder, toy_families

#: what transformers does not read from a file: the width of a head, Phi-3's window and rotary factors, GPT-2's sizes
CHANGES: dict[str, dict[str, Any]] = {
    "llama": {"width": 24},
    "qwen2": {"width": 24},
    "qwen3": {"head_dim": 128},
    "phi3": {"width": 24, "windows": (), "rope_scaling": None},
    "gemma2": {"width": 24},
    "bloom": {},
    "gpt2": {"ffn": 48, "context": 1024, "vocab": 50257},
}


def theirs(folder: Path, kind: str) -> Any:
    """The model that transformers builds; soft caps and the scale of Gemma 2, which it does not read, are set."""
    library("accelerate")
    load = library("transformers").AutoModelForCausalLM.from_pretrained
    model = load(folder, gguf_file="toy.gguf", dtype=library("torch").float32, attn_implementation="eager")
    if kind == "gemma2":
        config = toy_families.CONFIGS[kind]
        model.config.final_logit_softcapping = config.logit_cap
        for layer in model.model.layers:
            layer.self_attn.scaling, layer.self_attn.attn_logit_softcapping = (
                config.head_dim**-0.5,
                config.attention_cap,
            )
    return model


@pytest.mark.parametrize("kind", toy_families.CONFIGS)
def test_transformers_reads_the_same_function(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = dataclasses.replace(toy_families.CONFIGS[kind], **CHANGES[kind])
    monkeypatch.setitem(toy_families.CONFIGS, kind, config)
    beside: dict[str, Any] = {"vocab_size": config.vocab, "tokenizer.ggml.padding_token_id": 0}
    path = toy_families.write_gguf(tmp_path / "toy.gguf", kind, toy_families.values(kind), **beside)
    model = models.load(path)
    wanted, plain = logits(theirs(tmp_path, kind), IDS, "float64"), toy_decoder.forward(model, IDS)

    assert np.abs(plain - wanted).max() <= SINGLE * np.abs(wanted).max()
    assert np.abs(wanted).max() > 0.1 and (wanted[1:] != wanted[:-1]).all(axis=0).mean() > 0.9
