"""SmolLM2-135M under the Harmonia schemes: the order of [harmonia Fig. 4, 5, 8, 10; Tables I, II], and its statistics.

Absolute perplexities are of another model and text: tests compare the order; docs/claims-measurements.md has numbers.
Each prompt is read as the paper describes the local window, by query (D-harmonia-19).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refemu import models
from refemu.arith import fp32
from refemu.arith.dot import Sequential
from refemu.models import backend, machine, runtime, text
from refemu.models.schemes.harmonia.search import Observer
from refemu.models.scores.uncertainty import Change, change
from refemu.studies.evaluation import Score, Setting, score
from refemu.studies.harmonia import experiments
from refemu.units.harmonia.k_offset import Offsets
from refemu.units.harmonia.k_offset import compiled as k_offset_compiled
from tests.studies.measured import measured

pytestmark = [pytest.mark.model, pytest.mark.slow]
TOKENS = 512
NONE, OFFLINE, ONLINE, BOTH = (
    "harmonia-kv4:offline=false,online=false",
    "harmonia-kv4:online=false",
    "harmonia-kv4:offline=false",
    "harmonia-kv4",
)
CACHES = {  #: KV bits and smoothing, as docs/claims-measurements.md names them
    "harmonia-kv8": ("8", ""),
    "harmonia-kv4-naive": ("4", ""),
    NONE: ("8 and 4", "none"),
    OFFLINE: ("8 and 4", "offline"),
    ONLINE: ("8 and 4", "online"),
    BOTH: ("8 and 4", "both"),
}
PROMPTS, DECODED = 8, 4  #: windows of 512 tokens
T95 = {8: 2.365, 4: 3.182}  #: a mean of that many is beyond chance, at 95 %, from as many standard errors on
PAGE = (Path(__file__).resolve().parents[2] / "docs" / "claims-measurements.md").read_text()


def scored(smollm2: Any, names: Sequence[str], windows: int = 1, prefill: int = 0) -> dict[str, Score]:
    """Scores of schemes on windows of 512 tokens."""
    ids = smollm2.tokenizer.encode(text.default())[: windows * TOKENS]
    setting = Setting(smollm2, tuple(ids), TOKENS, prefill)
    results = measured(experiments.steps(setting, (), names), setting)
    return {name: score(setting, results, name) for name in names}


@pytest.fixture(scope="module")
def found(smollm2: Any) -> dict[str, float]:
    """Perplexity of 511 tokens by scheme, what the cache has aside."""
    names = [name for name in experiments.POINTS.values() if name not in CACHES]
    scores = scored(smollm2, names)
    return {name: score.perplexity for name, score in scores.items()}


@pytest.fixture(scope="module")
def prompts(smollm2: Any) -> dict[str, Score]:
    """Eight windows by scheme of the cache, each one prompt."""
    return scored(smollm2, list(CACHES), PROMPTS)


@pytest.fixture(scope="module")
def decoded(smollm2: Any) -> dict[str, Score]:
    """Prompts of 352 tokens, then 160 decode steps in each of four windows."""
    return scored(smollm2, list(CACHES), DECODED, 352)


def over(found: dict[str, Score], scheme: str, other: str) -> Change:
    """The change by window of a scheme over another."""
    return change(other, found[scheme].losses, found[other].losses)


def beyond(one: Change, windows: int) -> bool:
    """Whether a change is larger than what windows of no difference give in one of twenty texts."""
    assert one.error is not None
    return abs(one.percent) > T95[windows] * one.error


def rows(found: dict[str, Score]) -> str:
    """The table of docs/claims-measurements.md: perplexity, error, changes over 8 bits and no smoothing."""
    lines = []
    for scheme, names in CACHES.items():
        point = found[scheme]
        assert point.error is not None
        cells = [f"`{scheme}`", *names, f"{point.perplexity:.2f} ± {point.error:.2f}"]
        for other in ("harmonia-kv8", NONE):
            one = over(found, scheme, other)
            cells.append("" if other == scheme else f"{one.percent:+.2f} ± {one.error:.2f}")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines).replace("|  |", "| |")


@pytest.fixture(scope="module")
def seen(smollm2: Any) -> list[dict[str, np.ndarray]]:
    """Queries, keys after the rotation, values of every block under scheme `fp16`."""
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


@pytest.mark.parametrize("table", ["prompts", "decoded"])
def test_tables_of_the_page(table: str, request: pytest.FixtureRequest) -> None:
    """Perplexities and standard errors of docs/claims-measurements.md, to the last digit shown."""
    assert rows(request.getfixturevalue(table)) in PAGE


def test_bit_allocation_gains_what_naive_codes_lose(prompts: dict[str, Score]) -> None:
    """[harmonia §III-B, Fig. 8; Tables I, II] 4 bits with the first and the latest tokens at 8 cost nothing that shows,
    naive ones half as much again in every window; D-harmonia-19: each query has its own latest tokens.
    """
    asymmetric, naive, gain = (
        over(prompts, *pair)
        for pair in ((NONE, "harmonia-kv8"), ("harmonia-kv4-naive", "harmonia-kv8"), (NONE, "harmonia-kv4-naive"))
    )

    assert not beyond(asymmetric, PROMPTS) and abs(asymmetric.percent) < 1
    assert beyond(naive, PROMPTS) and naive.least > 45
    assert beyond(gain, PROMPTS) and gain.most < -30


def test_bit_allocation_costs_as_little_in_decode(decoded: dict[str, Score]) -> None:
    """[harmonia §III-B] The same with decode steps."""
    asymmetric, naive = (over(decoded, name, "harmonia-kv8") for name in (NONE, "harmonia-kv4-naive"))

    assert not beyond(asymmetric, DECODED) and abs(asymmetric.percent) < 1
    assert beyond(naive, DECODED) and naive.least > 45


def test_each_smoothing_helps(prompts: dict[str, Score]) -> None:
    """[harmonia §III-C, Fig. 10] each alone and both together, beyond chance; the data do not show which is best."""
    for name in (OFFLINE, ONLINE, BOTH):
        gain = over(prompts, name, NONE)
        assert beyond(gain, PROMPTS) and -2 < gain.percent < 0
    for pair in ((OFFLINE, ONLINE), (BOTH, OFFLINE), (BOTH, ONLINE)):
        assert not beyond(over(prompts, *pair), PROMPTS)


def test_long_windows_have_the_order_of_the_page(smollm2: Any) -> None:
    """[harmonia Table I] 2,048 tokens, linear layers in fp16: smoothing costs least over 8 bits, naive 4 bits most."""
    found = {}
    for name in ("harmonia-kv8", BOTH, NONE, "harmonia-kv4-naive"):
        (perplexity,) = models.perplexity(smollm2, scheme=f"fp16+{name}", win=2048, windows=1).windows
        found[name] = perplexity
        assert f"`fp16+{name}` " in PAGE and f"({perplexity:.2f}, " in PAGE

    assert list(found) == sorted(found, key=lambda name: found[name])


def test_smoothing_in_decode_is_within_the_spread(decoded: dict[str, Score]) -> None:
    """[harmonia §III-C, Fig. 10] each lowers the perplexity, none beyond chance in four windows."""
    for name in (OFFLINE, ONLINE, BOTH):
        gain = over(decoded, name, NONE)
        assert gain.percent < 0 and not beyond(gain, DECODED)


def test_offsets_narrow_the_keys_of_a_model(seen: list[dict[str, np.ndarray]]) -> None:
    """[harmonia §III-C, Fig. 10] D-harmonia-23: of the six channels chosen in each layer of SmolLM2, 512 tokens."""
    left = []
    for one in seen:
        words = one["k"].reshape(TOKENS, -1).astype(np.float16).view(np.uint16)
        offset, chosen = k_offset_compiled.select(Offsets(words.shape[1]), words)
        before, after = (
            np.abs(keys.view(np.float16)[:, chosen]).astype(np.float64).max(axis=0)
            for keys in (words, k_offset_compiled.shift(words, offset))
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
    """[harmonia §III-B, Fig. 7] more than half of the mass of the later queries is on 32 + 64 tokens."""
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


@pytest.mark.parametrize(
    ("tokens", "phase", "stalls"),
    [(64, "prompt", {}), (63, "decode", {}), (64, "decode", {"blk.0.scores": (970, 36, 279)})],
    ids=["a prompt", "a step with 64 keys", "a step with 65 keys"],
)
def test_conversion_stalls_where_scores_end_in_short_block(tokens: int, phase: Any, stalls: Any, smollm2: Any) -> None:
    """[harmonia §IV-C] D-harmonia-49: clocks of a product of block 0, those in which columns wait for a bank, and those
    in which blocks wait for the aligner. With 65 keys the scores of every head end in a block of one column.
    """
    report = machine.run(smollm2, "harmonia-kv4", 0, tokens, phase)
    waits = ("waits for a bank", "waits for the aligner")
    found = {
        one.name: (one.cost.cycles, *(round(one.use.get(wait, 0) * one.cost.cycles) for wait in waits))
        for one in report.operations
        if one.unit == "harmonia_core"
    }

    assert len(found) == 9
    assert {name: clocks for name, clocks in found.items() if any(clocks[1:])} == stalls
