"""LeanKV schemes: equal to a plain-Python decoder of oracles; configurations; rejected ones."""

from functools import cache
from typing import Any

import numpy as np
import pytest

from refemu import models
from refemu.arith.checks import Refused, RefusedType
from refemu.models import schemes
from refemu.models.schemes.leankv import layout
from refemu.models.schemes.leankv.config import LeanKvConfig
from refemu.models.schemes.leankv.steps import arithmetic
from refemu.units.leankv import paged_attention
from refemu.units.leankv.free_page_list import OutOfPages
from tests.models.schemes.leankv.plain import CHANGES, Plain, small

SMALL = f"{CHANGES},align=4+4,page_bytes=112,window=4"  #: pages of two K8V4 tokens and of four K4V2 tokens
IDS = [3, 7, 1, 10, 7, 0, 2, 5, 5, 9, 4, 8, 1, 1, 6, 3, 10, 2, 7, 4]
TEXT = list(b"Sir Walter Elliot, of Kellynch Hall, in Somersetshire, was a man who, for his own amusement, never took")


def small_parts(scheme: str, backend: str = "jit") -> Any:
    config: Any = schemes.parse(scheme)
    return models.prepare(small(), config, backend)


@cache
def tiny_parts(scheme: str) -> Any:
    return models.prepare("tiny", scheme)


PLAIN = {
    "algorithm1": (f"leankv:{SMALL},t_low=0.08,t_high=0.12", {1, 2, 3, 4, 5, 6}),
    "cumulative": (f"leankv:{SMALL},t_low=0.05,t_high=0.3,score_rule=cumulative", {1, 4, 5}),
    "diffkv": (f"leankv:{SMALL},preset=diffkv,alpha_prune=0.5,alpha_quant=0.9", {8, 9, 10, 11}),
    "mean": (f"leankv:{SMALL},t_low=0.08,t_high=0.12,gqa=mean", {1, 2, 3, 4, 5, 6}),
    "static": (f"leankv-k4v4:{SMALL},policy=static,keep_percent=50", {12, 13}),
    "sequential": (f"leankv-k16v16:{SMALL},page_bytes=256,order=sequential,fma=false,t_low=0.1", {1, 3, 6}),
}


@pytest.mark.long
@pytest.mark.parametrize(("scheme", "choices"), PLAIN.values(), ids=list(PLAIN))
def test_a_session_is_the_plain_decoder(scheme: str, choices: set[int]) -> None:
    """D-leankv-17, D-leankv-19, D-leankv-26, D-leankv-30, D-leankv-32, D-leankv-49, D-leankv-50.

    Prompt, steps and stored tokens.
    D-leankv-33.
    """
    parts = small_parts(scheme)
    shape = layout.shape(parts.lean, parts.model, 1)
    plain = Plain(small(), parts.lean, (shape.high_tokens, shape.low_tokens or 1))
    expected = [*plain.prompt(IDS[:10]), *(plain.step(token) for token in IDS[10:])]
    session = models.session(parts)
    found = np.concatenate([session.append(IDS[:10]), session.append(IDS[10:13]), session.append(IDS[13:])])
    stored = session.caches.pools.pools[0].stored([0])

    assert np.array(expected, np.float32).tobytes() == found.tobytes()
    assert choices <= set(plain.choices)
    for place, head in enumerate(plain.p):
        tokens = [*plain.high[head], *plain.low[head]]
        assert [token.position for token in tokens] == stored.position[0][head][: len(tokens)].tolist()
        scores = stored.score[0][head][: len(tokens)].view(np.float32).tolist()
        assert [token.score for token in tokens] == scores, place


@pytest.mark.parametrize("backend", ["jit", "numpy"])
def test_means_over_heads_grow_by_one_at_most(backend: str) -> None:
    """D-leankv-19: a step shares out a probability of 1 in every head, so their mean adds at most 1 in all.

    The largest of three heads adds more: the scores of this text by 1.1 and more.
    """
    grown = {}
    for gqa in ("max", "mean"):
        scheme: Any = schemes.parse(f"leankv:{CHANGES},window=64,t_low=0.02,t_high=0.1,gqa={gqa}")
        session: Any = models.session(models.prepare("tiny", scheme, backend))
        session.append(TEXT[:20])
        scores = [stored_scores(session, 20)]
        for token in TEXT[20:23]:
            session.append([token])
            scores.append(stored_scores(session, 20))
        grown[gqa] = np.diff(scores, axis=0).sum(axis=-1)

    assert (grown["mean"] > 0).all() and (grown["mean"] <= 1).all()
    assert grown["max"].max() > 1


def stored_scores(session: Any, tokens: int) -> np.ndarray:
    """Shares of the first tokens of every head: (layers, H, tokens) float64."""
    found = session.caches.pools.pools[0].stored([0]).score[0, ..., :tokens]
    return np.ascontiguousarray(found).view(np.float32).astype(np.float64)


@pytest.mark.parametrize("scheme", [PLAIN[name][0] for name in ("algorithm1", "diffkv", "sequential", "mean")])
def test_readable_units_give_the_same_bits(scheme: str) -> None:
    logits, images = [], []
    for backend in ("jit", "numpy"):
        session = models.session(small_parts(scheme, backend))
        logits.append(np.concatenate([session.append(IDS[:10]), session.append(IDS[10:14])]).tobytes())
        images.append(session.caches.pools.pools[0].images.tobytes())

    assert logits[0] == logits[1]
    assert images[0] == images[1]


def test_unquantized_unpruned_steps_attend_to_whole_cache() -> None:
    """K16V16, T = 0, in the order of scheme fp16: the same logits at every token."""
    session = models.session(tiny_parts(f"leankv-k16v16:{CHANGES},order=sequential,fma=false"))
    found = np.concatenate([session.append(TEXT[:40]), session.append(TEXT[40:])])

    assert models.run("tiny", TEXT).logits.tobytes() == found.tobytes()


def test_a_prompt_does_not_see_the_quantization() -> None:
    """D-leankv-49: read as one prompt, every scheme gives the logits of fp16."""
    expected = models.run("tiny", TEXT[:30]).logits.tobytes()

    assert expected == models.run("tiny", TEXT[:30], tiny_parts(f"leankv:{CHANGES}")).logits.tobytes()
    assert expected == models.run("tiny", TEXT[:30], tiny_parts(f"leankv-k4v2:{CHANGES}")).logits.tobytes()


def test_every_pair_has_a_scheme() -> None:
    names = [name for name in schemes.SCHEMES if name.startswith("leankv-")]
    found = [schemes.parse(name) for name in names]

    assert names == [
        "leankv-k8v8",
        "leankv-k8v4",
        "leankv-k8v2",
        "leankv-k4v4",
        "leankv-k4v2",
        "leankv-k4v1",
        "leankv-k4v8",
        "leankv-k2v4",
        "leankv-k16v16",
    ]
    assert all(isinstance(config, LeanKvConfig) and config.low is None for config in found)
    assert all(config.thresholds("cumulative") == (0.0, 0.0) for config in found if isinstance(config, LeanKvConfig))


def test_presets_say_what_a_field_leaves_open() -> None:
    """D-leankv-16 to D-leankv-20, D-leankv-34, D-leankv-35, D-leankv-45, D-leankv-46, D-leankv-51."""
    paper, diffkv = LeanKvConfig(), LeanKvConfig(preset="diffkv")

    assert [paper.of(name) for name in ("policy", "rule", "sort", "score_queries", "include_self", "normalize")] == [
        "algorithm1",
        "cumulative",
        "stable",
        0,
        False,
        True,
    ]
    assert [diffkv.of(name) for name in ("policy", "rule", "sort", "score_queries", "include_self", "normalize")] == [
        "diffkv",
        "per_token",
        "bitonic",
        64,
        True,
        False,
    ]
    assert [[each.of(name) for name in ("lazy_pages", "reserve_low")] for each in (paper, diffkv)] == [
        [True, 0],
        [False, 1],
    ]
    assert LeanKvConfig(preset="diffkv", include_self=False).of("include_self") is False
    assert (arithmetic(paper), arithmetic(diffkv)) == (paged_attention.PAPER, paged_attention.DIFFKV)
    assert paper.thresholds("algorithm1") == (0.0, 0.01)
    assert schemes.parse("leankv") == LeanKvConfig(t_low=0.0001)
    assert diffkv.thresholds("diffkv") == (0.02, 1.0)


def test_entries_of_the_table() -> None:
    """D-leankv-36: ceil(max_len / TH) + 1; the published code divides by the tokens of a K8V8 page, and adds 2."""
    config: Any = models.load("tiny").config
    sizes = type(config)(**{**vars(config), "heads": 8, "kv_heads": 2, "head_dim": 128, "context": 4096})
    paper, diffkv = (layout.shape(LeanKvConfig(preset=preset), sizes, 1) for preset in ("paper", "diffkv"))

    assert (paper.high_tokens, paper.low_tokens, paper.table_tokens, paper.table_extra) == (32, 60, 32, 1)
    assert (diffkv.table_tokens, diffkv.table_extra, diffkv.reserve_low) == (24, 2, 1)
    assert paper.pages == 3 * 2 * 129
    assert -(-4096 // (diffkv.table_tokens or 0)) + diffkv.table_extra == 173


@pytest.mark.parametrize(
    "text",
    [
        "leankv:t_low=0.005,t_high=0.2",
        "leankv-k4v4:policy=static,keep_percent=40",
        "leankv:preset=diffkv,quirks=lane_max+score_by_rank",
        "leankv:low=K4V1,align=16+64",
    ],
)
def test_texts_are_read_back(text: str) -> None:
    config = schemes.parse(text)

    assert schemes.parse(schemes.text(config)) == config


BAD = {
    "leankv:high=K4V2": "high and low precision must differ, got K4V2 and K4V2",
    "leankv:high=K9V4": "unknown precision pair 'K9V4'",
    "leankv:t_low=0.2,t_high=0.1": "thresholds must be 0 <= t_low <= t_high <= 1, got 0.2, 0.1",
    "leankv:t_high=1.5": "thresholds must be 0 <= t_low <= t_high <= 1",
    "leankv:t_low=-1": "t_low must be a number of at least 0, got -1",
    "leankv:t_low=some": "t_low must be a number of at least 0, got 'some'",
    "leankv:alpha_prune=2,alpha_quant=1": "need 0 <= alpha_prune <= alpha_quant, got 2.0, 1.0",
    "leankv-k8v8:preset=diffkv,alpha_quant=1": "needs alpha_quant = alpha_prune, got 1.0 and 0.0",
    "leankv:policy=static": "policy static has one precision, got K8V4 and K4V2",
    "leankv-k8v8:policy=static,keep_percent=101": r"keep_percent must be in \[0, 100\], got 101",
    "leankv:quirks=lane_min": "quirks must be one of 'score_by_rank', 'lane_max', 'position_epoch'",
    "leankv:policy=h2o": "policy must be one of",
    "leankv:window=0": "window must be",
    "leankv:slots=1.5": "slots must be",
}


@pytest.mark.parametrize(("scheme", "message"), BAD.items(), ids=BAD)
def test_invalid_configurations_are_rejected(scheme: str, message: str) -> None:
    with pytest.raises((Refused, RefusedType), match=message):
        schemes.parse(scheme)


UNFIT = {
    "leankv:k_vec=4,k_group=4": "K8V4 at head size 16: 16-bit words per key must be a multiple of Kvec .*, got 8; use "
    "k_vec=1, k_group=4, v_vec=2, v_group=2",
    f"leankv:{CHANGES},workers=3": "workers must divide the 2 KV heads, got 3",
    f"leankv:{CHANGES},high=K4V2,low=K8V4": "a low page must hold at least as many tokens as a high one, got 140 K8V4",
}


@pytest.mark.parametrize(("scheme", "message"), UNFIT.items(), ids=list(UNFIT))
def test_models_that_do_not_fit_are_rejected(scheme: str, message: str) -> None:
    with pytest.raises(Refused, match=message):
        models.prepare("tiny", scheme)


@pytest.mark.parametrize("model", ["tiny-gpt2", "tiny-opt"])
def test_decoders_with_layernorm_and_biases_use_pages(model: str) -> None:
    """A prompt is that of fp16; steps of compiled and of readable units agree; the layouts follow the head size."""
    scheme, logits = "leankv:window=4,t_low=0.05,t_high=0.1", []
    for backend in ("jit", "numpy"):
        session = models.session(models.prepare(model, scheme, backend=backend))
        logits.append([session.append(part).tobytes() for part in (IDS[:10], IDS[10:12])])
        assert session.counters["tokens_pruned"] > 0

    assert logits[0] == logits[1]
    assert logits[0][0] == models.run(model, IDS[:10]).logits.tobytes()


@pytest.mark.parametrize("head_size", [16, 32, 64, 80, 96, 128])
def test_every_scheme_has_a_layout_for_usual_heads(head_size: int) -> None:
    """D-leankv-12: the paper's constants if they fit, else the next smaller ones, for high and low pages."""
    usual = {"k_vec": 4, "k_group": 4, "v_vec": 2, "v_group": 8}
    for name in schemes.SCHEMES:
        if name.startswith("leankv"):
            config: Any = schemes.SCHEMES[name]
            pages = layout.pages(config, head_size)
            found = {key: getattr(pages.high, key) for key in usual}
            assert all(usual[key] % value == 0 for key, value in found.items())
            assert head_size < 128 or name == "leankv-k2v4" or found == usual
            assert pages.low is None or found == {key: getattr(pages.low, key) for key in usual}


def test_encoders_and_single_layer_caches_are_rejected() -> None:
    with pytest.raises(Refused, match="tiny-encoder is an encoder"):
        models.prepare("tiny-encoder", "leankv")
    with pytest.raises(Refused, match="layers share one pool of pages"):
        tiny_parts(f"leankv:{CHANGES}").cache(0)


def test_a_step_without_pages_changes_nothing() -> None:
    """D-leankv-53: OutOfPages before any change, in a prompt and in a step."""
    parts = small_parts(f"leankv-k16v16:{SMALL},page_bytes=256,num_pages=24")
    session = models.session(parts)
    with pytest.raises(OutOfPages, match="pages must be at most 24, the free ones, got 28"):
        session.append(IDS[:20])
    session.append(IDS[:15])
    pool = session.caches.pools.pools[0]
    before = pool.images.tobytes(), pool.manager.snapshot()
    session.append(IDS[15:18])
    mark = len(session), pool.images.tobytes(), session.counters
    with pytest.raises(OutOfPages, match="pages must be at most 0, the free ones, got 4"):
        session.append(IDS[18:20])

    assert mark == (len(session), pool.images.tobytes(), session.counters)
    assert before != (pool.images.tobytes(), pool.manager.snapshot())


def test_repr_evaluates_back_and_prepared_is_named() -> None:
    config = LeanKvConfig(low="K4V1", t_low=0.005)
    assert eval(repr(config)) == config
    assert repr(tiny_parts(f"leankv:{CHANGES}")).startswith("LeanKv('tiny', LeanKvConfig(high='K8V4', low='K4V2'")
