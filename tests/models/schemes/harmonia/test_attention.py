"""Attention over block floating point codes: the kernel equals the steps, a prompt's last query a decode step."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from refemu.arith.attention import scores
from refemu.arith.attention.scores import ScoreRule
from refemu.arith.checks import Refused
from refemu.models import backend
from refemu.models.schemes.harmonia import attention
from refemu.models.schemes.harmonia.cache import HarmoniaCache
from refemu.models.schemes.harmonia.compiled import attention as harmonia_attention_compiled
from refemu.models.schemes.harmonia.config import KV4, HarmoniaConfig
from refemu.models.schemes.harmonia.steps import Scoring, Units
from tests.arith.strategies import codes, numbers, repeating

OFF = dataclasses.replace(KV4, offline=False)
Operands = tuple[np.ndarray, np.ndarray, np.ndarray]


def halves(x: np.ndarray) -> np.ndarray:
    return np.clip(x, -6e4, 6e4).astype(np.float16).astype(np.float32)


def seeded(tokens: int, seed: int, dim: int = 20, spread: int = 4) -> Operands:
    """Queries of four heads, keys and values of two."""
    random = np.random.default_rng(seed)

    def drawn(heads: int) -> np.ndarray:
        powers = random.integers(-spread, spread + 1, (tokens, heads, 1))
        return halves(random.standard_t(3, (tokens, heads, dim)) * np.exp2(powers))

    return drawn(4), drawn(2), drawn(2)


@st.composite
def operands(draw: st.DrawFn, most: int = 4) -> Operands:
    """The same with drawn values, sizes of the heads of every token, and number of tokens."""
    tokens, spread = draw(st.integers(1, 140)), draw(st.integers(0, most))

    def drawn(heads: int) -> np.ndarray:
        powers = draw(repeating(lambda count: codes(count, 8), (tokens, heads, 1))) % (2 * spread + 1)
        signed = np.where(powers % 2, -powers - 1, powers) // 2  # 0, -1, 1, -2, 2 and so on
        return halves(draw(repeating(numbers, (tokens, heads, 20))) * np.exp2(signed))

    return drawn(4), drawn(2), drawn(2)


def problem(config: HarmoniaConfig, tokens: int, seed: int) -> tuple[Units, np.ndarray, np.ndarray, np.ndarray]:
    """Units and operands."""
    return Units(backend.Jit(), config), *seeded(tokens, seed)


def scoring(q: np.ndarray, **rule: Any) -> Scoring:
    """Logits times 1 / sqrt(head_dim)."""
    return Scoring(np.float32(1 / np.sqrt(np.float64(q.shape[2]))), ScoreRule(**rule))


def filled(units: Units, k: np.ndarray, v: np.ndarray) -> HarmoniaCache:
    made = HarmoniaCache(2, k.shape[2], len(k) + 1, units.config, units, "blk.7")
    made.append(k, v)
    return made


CHANGES = [
    {},
    {"preset": "exact"},
    {"scores": "fp32"},
    {"score_scale": "fold"},
    {"group": 16},
    {"group": 64},
    {"high": 4},
    {"act_mantissa": 5, "high": 6, "low": 3},
    {"n_initial": 2, "n_local": 3},
    {"v_granularity": "token"},
]


@settings(deadline=None, max_examples=100)
@given(change=st.sampled_from(CHANGES), qkv=operands(12))
@example(change={}, qkv=seeded(33, 0, spread=14))  # partial sums below FP16's normal numbers
def test_the_kernel_equals_the_steps(change: dict[str, Any], qkv: Operands) -> None:
    """[harmonia §III-A, §IV-B]: queries of a prompt and of a decode step."""
    units, (q, k, v) = Units(backend.Jit(), dataclasses.replace(OFF, **change)), qkv
    held = filled(units, k, v).held()
    for some, start in ((q, 0), (q[-1:], len(q) - 1)):
        found = harmonia_attention_compiled.attend(units, some, held, start, scoring(some))
        try:
            wanted = attention.by_heads(units, some, held, start, scoring(some))
        except Refused:
            assert found is None
        else:
            assert found is not None and found.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("tokens", [33, 64, 97, 130])
def test_last_query_of_prompt_is_decode_step(tokens: int) -> None:
    """For given q, k and v from 33 tokens on: the offsets of both come from the first 32."""
    units, q, k, v = problem(OFF, tokens, 3)
    whole, grown = filled(units, k, v), HarmoniaCache(2, 20, tokens, OFF, units)
    grown.append(k[:-1], v[:-1])
    grown.append(k[-1:], v[-1:])
    grown.advance()
    found = [attention.attend(units, q[-1:], made.held(), tokens - 1, scoring(q)) for made in (whole, grown)]

    assert found[0].tobytes() == found[1].tobytes()
    assert attention.attend(units, q, whole.held(), 0, scoring(q))[-1:].tobytes() == found[0].tobytes()


@pytest.mark.long
@settings(deadline=None, max_examples=60)
@given(
    change=st.sampled_from(CHANGES),
    qkv=operands(),
    heads=st.sampled_from([2, 4, 18]),
)
@example(change={"n_initial": 2, "n_local": 3}, qkv=seeded(70, 1), heads=18)  # more heads than the kernel's rows
@example(change={}, qkv=seeded(92, 43), heads=2)  # FP16 overflow, rejected at the conversion of the scores
def test_every_query_of_prompt_sees_its_own_bits(change: dict[str, Any], qkv: Operands, heads: int) -> None:
    """D-harmonia-19: the kernel's prompt is what the steps say of each query and its own codes."""
    units, (q, k, v) = Units(backend.Jit(), dataclasses.replace(OFF, **change)), qkv
    q = np.tile(q, (1, 5, 1))[:, :heads]
    falling = filled(units, k, v).falling()
    found = harmonia_attention_compiled.attend(units, q, falling.high, 0, scoring(q), falling)
    try:
        wanted = [
            attention.by_heads(units, q[t : t + 1], held, t, scoring(q)) for t, held in enumerate(falling.by_query())
        ]
    except Refused:
        assert found is None
    else:
        assert found is not None and found.tobytes() == np.concatenate(wanted).tobytes()


def test_bits_as_each_query_sees_them() -> None:
    """D-harmonia-19: the last query sees what `prefill_window="end"` shows to all of them; others see more bits."""
    units, q, k, v = problem(OFF, 120, 5)
    made = filled(units, k, v)
    by_query = attention.attend_falling(units, q, made.falling(), scoring(q))
    end = attention.attend(units, q, made.held(), 0, scoring(q))
    same = [bool(np.array_equal(a, b)) for a, b in zip(by_query, end, strict=True)]

    assert same[-1] and same[:32] == [True] * 32  # nothing that the first 32 see ever falls
    assert same[40:100].count(False) > 50


def test_scores_are_rounded_before_they_are_scaled() -> None:
    """D-harmonia-27, D-harmonia-28: 2049 becomes 2048 in FP16; folded, nothing is scaled."""
    sums = np.array([[2049.0, 3.0]], np.float32)
    root = np.float32(1 / np.sqrt(np.float64(20)))
    found = {
        (scores, scale): attention.logits(
            Units(backend.NUMPY, dataclasses.replace(OFF, scores=scores, score_scale=scale)), sums, root
        )[0, 0]
        for scores in ("fp16", "fp32")
        for scale in ("softmax", "fold")
    }

    assert found == {
        ("fp16", "softmax"): np.float32(2048) * root,
        ("fp32", "softmax"): np.float32(2049) * root,
        ("fp16", "fold"): 2048,
        ("fp32", "fold"): 2049,
    }


def test_scores_of_invisible_keys_are_zero() -> None:
    """D-harmonia-16: groups of scores begin at absolute positions 0, 32, ..."""
    units, q, k, v = problem(OFF, 70, 1)
    keys, _ = filled(units, k, v).held().head(1)
    _, p = attention.scores(units, q[:, 2], keys, 70, 1 + np.arange(70), scoring(q), "")

    assert p.shape == (70, 70) and p.exponent.shape == (70, 3)
    assert not p.mantissa[np.triu_indices(70, 1)].any()
    assert p.mantissa[np.arange(70), :].any(axis=1).all()


@pytest.mark.parametrize(
    "change",
    [
        {"act_mantissa": 11, "high": 11},
        {"rounding": "floor"},
        {"special": "hw"},
        {"subnormals": "flush"},
        {"saturate": True},
    ],
)
def test_other_options_take_the_readable_form(change: dict[str, Any]) -> None:
    units, q, k, v = problem(dataclasses.replace(OFF, **change), 40, 2)
    held = filled(units, k, v).held()

    assert harmonia_attention_compiled.attend(units, q, held, 0, scoring(q)) is None
    assert np.isfinite(attention.attend(units, q, held, 0, scoring(q))).all()


def test_scores_beyond_fp16_are_rejected() -> None:
    """D-harmonia-5, D-harmonia-13: infinities of both signs give NaN; the error names the scores."""
    units, q, k, v = problem(OFF, 4, 0)
    held = filled(units, np.full_like(k, 3e4), v).held()
    with pytest.raises(Refused, match=r"blk\.7\.scores: Bfp\.encode: x must hold no infinity and NaN"):
        attention.attend(units, np.full_like(q, 6e4), held, 0, scoring(q), "blk.7")


@pytest.mark.parametrize(
    "rule", [{"window": 40}, {"cap": 2.5}, {"slopes": (0.25, 0.0625, 0.5, 0.125)}, {"window": 7, "cap": 1.5}]
)
def test_window_cap_and_slopes_act_on_scaled_logits(rule: dict[str, Any]) -> None:
    """D-harmonia-56: the kernel leaves them to the steps, except a window that contains every query's keys."""
    units, q, k, v = problem(OFF, 45, 3)
    held, given = filled(units, k, v).held(), scoring(q, **rule)
    found = attention.attend(units, q, held, 0, given)
    plain = attention.attend(units, q, held, 0, scoring(q))
    wanted = np.empty_like(q)
    for head in range(4):
        stored, values = held.head(head // 2)
        a = units.encode(units.config.format(units.config.act_mantissa), units.words(q[:, head]))
        x = units.half(units.dot(a, stored)) * given.scale
        if given.rule.cap:
            cap = np.float32(given.rule.cap)
            x = cap * scores.tanh32(x / cap)
        for t in range(45):
            if given.rule.slopes:
                x[t, : t + 1] += np.float32(given.rule.slopes[head]) * np.arange(-t, 1, dtype=np.float32)
            x[t, t + 1 :] = -np.inf
            x[t, : max(0, t + 1 - (given.rule.window or 45))] = -np.inf
        p = np.zeros((45, values.shape[0]), np.uint16)
        p[:, :45] = units.words(units.softmax(x))
        shares = units.encode(units.config.format(units.config.act_mantissa), p)
        wanted[:, head] = units.half(units.dot(shares, values))

    assert found.tobytes() == wanted.tobytes()
    assert harmonia_attention_compiled.attend(units, q, held, 0, given) is None
    assert not np.array_equal(found, plain)
    wide = scoring(q, window=45)
    assert attention.attend(units, q, held, 0, wide).tobytes() == plain.tobytes()
    assert harmonia_attention_compiled.attend(units, q, held, 0, wide) is not None
