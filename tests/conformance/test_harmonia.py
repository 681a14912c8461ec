"""SmolLM2-135M under the Harmonia schemes: the order of [harmonia Fig. 4, 5, 8, 10; Tables I, II], and its statistics.

Absolute perplexities are another model's on another text: the order is compared, the numbers are in docs/claims.md.
Each prompt is read as the paper describes the local window, by query (D-harmonia-19).
"""

from typing import Any

import numpy as np
import pytest

from refemu.arith import fp32
from refemu.arith.dot import Sequential
from refemu.models import backend, runtime, text
from refemu.models.schemes.harmonia import study
from refemu.models.schemes.harmonia.search import Observer
from refemu.units.harmonia.k_offset import Offsets
from refemu.units.harmonia.twins import k_offset as k_offset_jit

pytestmark = [pytest.mark.model, pytest.mark.slow]
TOKENS = 512
NONE, OFFLINE, ONLINE, BOTH = (
    "harmonia-kv4:offline=false,online=false",
    "harmonia-kv4:online=false",
    "harmonia-kv4:offline=false",
    "harmonia-kv4",
)
CACHES = ("harmonia-kv8", "harmonia-kv4-naive", NONE, OFFLINE, ONLINE, BOTH)
WINDOWS = 4


@pytest.fixture(scope="module")
def found(smollm2: Any) -> dict[str, float]:
    """Perplexity of 511 tokens by scheme, what the cache has aside."""
    ids = smollm2.tokenizer.encode(text.default())[:TOKENS]
    names = [name for name in study.POINTS.values() if name not in CACHES]
    return {point.scheme: point.perplexity for point in study.study(smollm2, ids, TOKENS, names)}


@pytest.fixture(scope="module")
def windows(smollm2: Any) -> dict[str, np.ndarray]:
    """Perplexity of four windows by scheme of the cache."""
    ids = smollm2.tokenizer.encode(text.default())[: WINDOWS * TOKENS]
    points = study.study(smollm2, ids, TOKENS, CACHES)
    return {point.scheme: np.array([*point.windows, point.perplexity]) for point in points}


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


def test_bit_allocation_gains_what_naive_codes_lose(windows: dict[str, np.ndarray]) -> None:
    """[harmonia §III-B, Fig. 8; Tables I, II] 4 bits with the first and the latest tokens at 8 cost less than 2.5 % in
    every window, naive ones more than 45 %; D-harmonia-19: each query has its own latest tokens.
    """
    eight, naive, asymmetric = (windows[name] for name in ("harmonia-kv8", "harmonia-kv4-naive", NONE))

    assert (np.abs(asymmetric / eight - 1) < 0.025).all() and 0 < asymmetric[-1] / eight[-1] - 1 < 0.01
    assert (naive / eight > 1.45).all()


def test_bit_allocation_costs_as_little_in_decode(smollm2: Any) -> None:
    """[harmonia §III-B] Prompts of 352 tokens, then 160 decode steps in each window."""
    ids = smollm2.tokenizer.encode(text.default())[: WINDOWS * TOKENS]
    names = ("harmonia-kv8", "harmonia-kv4-naive", NONE)
    eight, naive, asymmetric = (
        np.array([*point.windows, point.perplexity]) for point in study.study(smollm2, ids, TOKENS, names, prefill=352)
    )

    assert (np.abs(asymmetric / eight - 1) < 0.04).all() and 0 < asymmetric[-1] / eight[-1] - 1 < 0.01
    assert (naive / eight > 1.45).all()


def test_each_smoothing_helps(windows: dict[str, np.ndarray]) -> None:
    """[harmonia §III-C, Fig. 10] each alone and both together, in each of four windows; which is best is not told."""
    for name in (OFFLINE, ONLINE, BOTH):
        gain = 1 - windows[name] / windows[NONE]
        assert (gain > 0).all() and 0.01 < gain[-1] < 0.02
    best = {min((OFFLINE, ONLINE, BOTH), key=lambda name: windows[name][place]) for place in range(WINDOWS)}
    assert len(best) > 1


def test_offsets_narrow_the_keys_of_a_model(seen: list[dict[str, np.ndarray]]) -> None:
    """[harmonia §III-C, Fig. 10] D-harmonia-23: of the six channels chosen in each layer of SmolLM2, 512 tokens."""
    left = []
    for one in seen:
        words = one["k"].reshape(TOKENS, -1).astype(np.float16).view(np.uint16)
        offset, chosen = k_offset_jit.select(Offsets(words.shape[1]), words)
        before, after = (
            np.abs(keys.view(np.float16)[:, chosen]).astype(np.float64).max(axis=0)
            for keys in (words, k_offset_jit.shift(words, offset))
        )
        left += (after / before).tolist()

    assert len(left) == 180 and min(left) == 0.5 and round(float(np.median(left)), 2) == 0.59
    assert np.count_nonzero(np.array(left) < 1) == 168 and round(max(left), 2) == 1.48


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
