"""Attention of the KLLM schemes: what a query does not see adds nothing; scores and their scales."""

from functools import cache
from typing import Any

import numpy as np
import pytest

from refemu import models
from refemu.models.schemes.kllm import attention
from refemu.models.taps import Watch
from tests.models.schemes.kllm import plain
from tests.oracles.kllm import functions

CALIBRATION = [5, 3, 0, 12, 7, 7, 1, 9, 2, 11, 4, 8]


@cache
def prepared(text: str = "kllm-a4") -> Any:
    return models.prepare(plain.small(), text, calibration=CALIBRATION)


def draw(tokens: int, heads: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((tokens, heads, 4)).astype(np.float16).astype(np.float32)


def filled(parts: Any, tokens: int) -> Any:
    held = parts.cache(0)
    held.append(draw(tokens, 2, 1), draw(tokens, 2, 2))
    return held


@pytest.mark.parametrize("text", ["kllm-a4", "kllm-a4:preset=exact", "kllm-a4:score_scale=max,v_scale=static"])
def test_later_keys_change_nothing(text: str) -> None:
    """D-kllm-14."""
    parts, q = prepared(text), draw(3, 4, 3)
    early = parts.attention(0, q, filled(parts, 5), Watch())
    held = filled(parts, 5)
    held.append(draw(4, 2, 7), draw(4, 2, 8))
    late = parts.attention(0, np.concatenate([q, draw(4, 4, 9)]), held, Watch())

    assert late[:3].tobytes() == early.tobytes()
    assert early.shape == (3, 16)


def test_a_first_token_returns_its_own_value() -> None:
    """T = 1: the only score is 1, its integer the largest: the result is V as FP16, up to the integer's scale."""
    parts = prepared()
    held = filled(parts, 1)
    found = parts.attention(0, draw(1, 4, 3), held, Watch())
    v = held.v.tensor(1).dequantize()[0]

    assert np.abs(found[0, :4] - v[:4]).max() <= 2.0**-9 * np.abs(v).max()
    assert np.array_equal(found[0, :4], found[0, 4:8])  # two query heads on one KV head
    assert np.array_equal(found[0, 8:12], found[0, 12:])


def test_scores_are_integers_with_the_scales_of_v() -> None:
    """D-kllm-14, D-kllm-15: the largest p * s becomes 15, nothing after the query counts."""
    parts, held = prepared(), filled(prepared(), 4)
    logits = np.array([[0.5, 1, -2, 7], [0.25, 3, 1, 2]], np.float16)
    hidden = np.arange(4) >= np.array([[3], [4]])
    found = attention.scores(parts.operands, logits, held, hidden)
    scales = held.v.scale(4).view(np.uint16).tolist()

    for row, seen in ((0, 3), (1, 4)):
        p = functions.softmax(logits.view(np.uint16)[row, :seen].tolist())
        q, scale = functions.quantize_scores(p, scales[:seen])
        assert found.q[row].tolist() == q + [0] * (4 - seen)
        assert float(found.scale[row]) == scale
        assert found.p[row, :seen].view(np.uint16).tolist() == p
    assert found.q.max() == 15
    assert found.fold
