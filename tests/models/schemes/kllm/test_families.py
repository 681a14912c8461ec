"""KLLM on decoders with norms on q, soft caps, ALiBi and windows; calibration reads what the first block reads."""

import dataclasses
from functools import cache
from typing import Any

import numpy as np
import pytest

from refemu import models
from refemu.arith import fp16, tables
from refemu.arith.attention.scores import ScoreRule
from refemu.models.builtin.tiny_decoders import TinyDecoder
from refemu.models.schemes.kllm import attention
from refemu.models.schemes.kllm.weights import attention_scale

TEXT = list(b"It is a truth universally acknowledged, that a single man in possession of a good fortune")


@cache
def prepared(name: str) -> Any:
    return models.prepare(name, "kllm-a4", calibration=TEXT)


def test_the_gain_of_q_has_the_scale() -> None:
    """D-kllm-64: rounded to fp16 once; the scales of W_Q have none."""
    parts, x = prepared("tiny-qwen3"), np.ones((3, 4, 16), np.float32)
    gain = fp16.round16(parts._vectors["blk.0.q_norm"] * np.float32(0.25))
    found = parts.norm("blk.0.q_norm", x)

    assert np.array_equal(found, parts.backend.rmsnorm(x, gain, parts._eps))
    assert np.array_equal(
        parts.norm("blk.0.k_norm", x), parts.backend.rmsnorm(x, parts._vectors["blk.0.k_norm"], parts._eps)
    )
    weight, plain = (
        prepared(name).operands.group(0, ("q", "k", "v")).weights[0].tensor for name in ("tiny-qwen3", "tiny-qwen2")
    )
    largest = [np.abs(fp16.to_f16(models.load(name).tensor("blk.0.q"))) for name in ("tiny-qwen3", "tiny-qwen2")]
    assert fp16.values(weight.scale).max() > 3 * fp16.values(plain.scale).max() and largest[0].shape == largest[1].shape


def test_scale_of_model_is_in_weights() -> None:
    sizes: Any = models.load("tiny-gemma2").config
    scale = np.float16([1.0, 2.0])

    assert attention_scale(scale, sizes).tolist() == fp16.to_f16(np.array([1, 2]) / np.sqrt(24.0)).tolist()


def test_logits_go_through_fp16_steps() -> None:
    """D-kllm-65: quotient, tanh and product, or slope times distance and a sum, every one rounded to FP16."""
    operands = prepared("tiny-gemma2").operands
    logits = np.array([[1.0, -7.5, 30.0], [0.1, 65504.0, -3.25]], np.float16)
    seen, none = np.array([2, 3]), np.zeros(0, np.float32)
    quotient = np.float16(logits.astype(np.float64) / 4.0)
    tanh = fp16.values(tables.apply16("tanh", fp16.bits(quotient)))
    distance = np.array([[-1, 0, 1], [-2, -1, 0]])
    bias = np.float16(np.array([[0.3], [0.7]], np.float32) * distance.astype(np.float32))

    capped = attention.shaped(operands, logits, ScoreRule(cap=4.0), none, seen)
    sloped = attention.shaped(operands, logits, ScoreRule(), np.array([0.3, 0.7], np.float32), seen)
    assert capped.tolist() == np.float16(4.0 * tanh.astype(np.float64)).tolist()
    assert sloped.tolist() == np.float16(logits.astype(np.float64) + bias).tolist()
    assert attention.shaped(operands, logits, ScoreRule(), none, seen).tolist() == logits.tolist()


@pytest.mark.parametrize("name", ["tiny-mistral", "tiny-gemma2", "tiny-bloom"])
def test_a_token_has_the_bits_of_the_prompt(name: str) -> None:
    """The path of single tokens leaves these logits to the units, once a key is out of sight."""
    session = models.session(prepared(name))
    steps = b"".join(session.append([token]).tobytes() for token in TEXT[:20])

    assert models.session(prepared(name)).append(TEXT[:20]).tobytes() == steps


def test_window_changes_logits_after_it() -> None:
    model: Any = models.load("tiny-mistral")
    wide = dataclasses.replace(model, config=dataclasses.replace(model.config, windows=()))
    calibration = prepared("tiny-mistral").calibration
    found, other = (models.run(each, TEXT[:20], "kllm-a4", calibration=calibration).logits for each in (model, wide))

    assert found[:12].tobytes() == other[:12].tobytes()
    assert (found[12:] != other[12:]).any(axis=1).all()


class Moved(TinyDecoder):
    """Embeddings of positions, or gains of the embeddings' norm, of another size."""

    def tensor(self, name: str) -> np.ndarray:
        weight = super().tensor(name)
        return weight * np.float32(2) if name in ("position", "embed_norm") else weight


@pytest.mark.parametrize("name", ["tiny-opt", "tiny-bloom"])
def test_calibration_sees_positions_and_the_norm_of_embeddings(name: str) -> None:
    """It read token embeddings alone, whatever the first block of the model reads."""
    model: Any = models.load(name)
    moved = dataclasses.replace(model, weights=Moved(name))
    found, other = (models.prepare(each, "kllm-a4", calibration=TEXT[:32]).calibration for each in (model, moved))

    assert not np.array_equal(found.codebook["blk.0.attn_in"], other.codebook["blk.0.attn_in"])
