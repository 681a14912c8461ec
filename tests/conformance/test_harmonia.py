"""SmolLM2-135M under the Harmonia schemes: the order of [harmonia Fig. 4, 5, 8, 10; Tables I, II], and its statistics.

Absolute perplexities are another model's on another text: the order is compared, the numbers are in docs/claims.md.
"""

from typing import Any

import numpy as np
import pytest

from refemu.arith import fp32
from refemu.arith.dot import Sequential
from refemu.models import backend, runtime, text
from refemu.models.schemes import harmonia_study
from refemu.models.schemes.harmonia_search import Observer

pytestmark = [pytest.mark.model, pytest.mark.slow]
TOKENS = 512


@pytest.fixture(scope="module")
def found(smollm2: Any) -> dict[str, float]:
    """Perplexity of 511 tokens by scheme."""
    ids = smollm2.tokenizer.encode(text.default())[:TOKENS]
    return {point.scheme: point.perplexity for point in harmonia_study.study(smollm2, ids, TOKENS)}


@pytest.fixture(scope="module")
def seen(smollm2: Any) -> list[dict[str, np.ndarray]]:
    """Queries, keys behind the rotation, values of every block under scheme `fp16`."""
    runner = Observer(smollm2, backend.Jit())
    x = runner.embed(runtime.require_tokens(smollm2.tokenizer.encode(text.default())[:TOKENS], runner))
    kept = []
    for layer in range(smollm2.config.blocks):
        x = runner.block(layer, x)
        kept.append(runner.seen)
    return kept


def test_five_bits_of_all_activations_are_too_few(found: dict[str, float]) -> None:
    """[harmonia §II-C, Fig. 4] 8 bits are near fp16; a sharp rise below 6."""
    ladder = [found[f"harmonia-kv8:act_mantissa={m},high={m},low={m},weights=fp16"] for m in (8, 6, 5, 4)]

    assert ladder == sorted(ladder)
    assert ladder[0] < 1.05 * found["fp16"] and ladder[3] > 2 * found["fp16"]


def test_caches_bear_fewer_bits_than_activations(found: dict[str, float]) -> None:
    """[harmonia §II-C, Fig. 5] against Fig. 4, at 6, 5 and 4 bits."""
    for m in (6, 5, 4):
        both = found[f"harmonia-kv8:act_mantissa={m},high={m},low={m},weights=fp16"]
        assert found[f"harmonia-kv8:high={m},low={m},weights=fp16"] < both


def test_order_of_the_caches(found: dict[str, float]) -> None:
    """[harmonia Tables I, II, Fig. 8] 8 bits, 4 bits with all that Harmonia has, asymmetric alone, naive."""
    asymmetric = found["harmonia-kv4:offline=false,online=false"]

    assert found["fp16"] < found["harmonia-kv8"] < found["harmonia-kv4"] < asymmetric < found["harmonia-kv4-naive"]


def test_each_smoothing_helps(found: dict[str, float]) -> None:
    """[harmonia §III-C, Fig. 10] each alone; that both are better than online alone is not seen here."""
    asymmetric = found["harmonia-kv4:offline=false,online=false"]

    assert found["harmonia-kv4:online=false"] < asymmetric
    assert found["harmonia-kv4:offline=false"] < asymmetric


def widest(x: np.ndarray) -> float:
    """The largest mean magnitude of a channel over the median channel's."""
    size = np.abs(x.reshape(len(x), -1).astype(np.float64)).mean(axis=0)
    return float(size.max() / np.median(size))


def test_keys_have_wide_channels_and_values_have_not(seen: list[dict[str, np.ndarray]]) -> None:
    """[harmonia §III-C, Fig. 9]"""
    k, v = (np.median([widest(one[name]) for one in seen]) for name in ("k", "v"))

    assert k > 2 * v


def test_first_and_latest_tokens_attract_attention(seen: list[dict[str, np.ndarray]]) -> None:
    """[harmonia §III-B, Fig. 7] more than half of the mass of the later queries lies on 32 + 64 tokens."""
    masses = []
    for one in seen:
        for head in range(one["q"].shape[1]):
            q, k = one["q"][384:, head], one["k"][:, head // 3]
            scores = (q.astype(np.float64) @ k.T.astype(np.float64) / 8).astype(np.float32)
            scores[np.arange(TOKENS) > 384 + np.arange(TOKENS - 384)[:, None]] = -np.inf
            p = fp32.softmax32(scores, Sequential()).astype(np.float64)
            places = np.arange(TOKENS)
            local = (places < 32) | (places > (384 + np.arange(TOKENS - 384)[:, None] - 64))
            masses.append((p * local).sum(axis=1).mean())

    assert np.mean(masses) > 0.5
