"""Logits between scale and softmax: soft cap, ALiBi and window, readable = compiled = oracle."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given

from refemu.arith import dot, dot_compiled, fp32_compiled
from refemu.arith.attention import scores
from refemu.arith.attention.scores import PLAIN, ScoreRule
from refemu.arith.checks import Refused
from refemu.arith.fp32 import softmax32
from refemu.arith.orders import Sequential
from tests.arith.strategies import same, singles
from tests.oracles import exp

EDGES = np.array(
    [0, -0.0, 1, -1, 0.0625, np.nextafter(np.float32(0.0625), np.float32(0)), 9, -9.1, 20, 2**-12, 2**-149, 3e38],
    np.float32,
)
RULES = [
    PLAIN,
    ScoreRule(window=5),
    ScoreRule(window=1),
    ScoreRule(cap=3.0),
    ScoreRule(slopes=scores.alibi_slopes(6)),
    ScoreRule(window=3, cap=2.5, slopes=scores.alibi_slopes(6)),
]


@given(singles)
def test_tanh_is_the_nearest_float32(x: np.ndarray) -> None:
    """D-arith-27: the float64 steps are so near to the exact value that one rounding is right."""
    wanted = np.array([exp.tanh32(float(value)) for value in x.ravel()], np.float32).reshape(x.shape)

    assert same(scores.tanh32(x), wanted) and same(fp32_compiled.tanh32(x), wanted)


def test_tanh_of_edges_and_of_many_values() -> None:
    x = np.concatenate([EDGES, np.array([np.inf, -np.inf, np.nan], np.float32)])
    many = np.linspace(-10, 10, 200_001).astype(np.float32)

    assert same(scores.tanh32(x), np.array([exp.tanh32(float(value)) for value in x], np.float32))
    assert same(scores.tanh32(many), fp32_compiled.tanh32(many))
    assert same(scores.tanh32(many[::500]), np.array([exp.tanh32(float(v)) for v in many[::500]], np.float32))


def test_soft_cap_is_quotient_tanh_and_product() -> None:
    """D-arith-27, three roundings."""
    x = np.array([0, 1, -20, 100, np.inf, np.nan], np.float32)
    wanted = [float(np.float32(3) * np.float32(exp.tanh32(float(np.float32(value) / np.float32(3))))) for value in x]

    for module in (scores, fp32_compiled):
        assert same(module.softcap(x, 3.0), np.array(wanted, np.float32))


@pytest.mark.parametrize("heads", [1, 2, 3, 6, 8, 12, 16, 20, 112])
def test_slopes_are_the_nearest_float32(heads: int) -> None:
    """D-arith-28."""
    assert list(scores.alibi_slopes(heads)) == exp.alibi(heads)


@pytest.mark.parametrize(("rule", "start"), list(product(RULES, [0, 3])))
def test_attention_under_a_rule(rule: ScoreRule, start: int) -> None:
    """D-arith-28, D-arith-29: slopes act after the cap; a window includes the query's own key."""
    random = np.random.default_rng(7)
    q, k, v = (random.normal(0, 1.5, shape).astype(np.float16).astype(np.float32) for shape in SHAPES)
    scale = np.float32(0.35)
    wanted = np.empty_like(q)
    for t, head in product(range(len(q)), range(6)):
        own = start + t
        first = max(0, own + 1 - rule.window) if rule.window else 0
        keys, values = k[first : own + 1, head // 3], v[first : own + 1, head // 3]
        logits = dot.matmul(q[t, head][None], keys.T, order=Sequential(), acc="fp32") * scale
        if rule.cap:
            logits = np.float32(rule.cap) * scores.tanh32(logits / np.float32(rule.cap))
        if rule.slopes:
            logits = logits + np.float32(rule.slopes[head]) * np.arange(first - own, 1).astype(np.float32)
        p = softmax32(logits, Sequential())
        wanted[t, head] = dot.matmul(p, values, order=Sequential(), acc="fp32")[0].astype(np.float16)

    assert same(dot.attention(q, k, v, scale=scale, start=start, rule=rule), wanted)
    assert same(dot_compiled.attention(q, k, v, scale=scale, start=start, rule=rule), wanted)


SHAPES = ((21, 6, 8), (24, 2, 8), (24, 2, 8))


def test_values_outside_a_window_do_no_harm() -> None:
    """An infinity that a query does not see would be NaN times a share of 0."""
    q = k = np.ones((4, 1, 2), np.float32)
    v = np.array([[[np.inf, 1]], [[2, 2]], [[3, 3]], [[4, 4]]], np.float32)
    found = [
        module.attention(q[3:], k, v, scale=np.float32(1), start=3, rule=ScoreRule(window=2))
        for module in (dot, dot_compiled)
    ]

    assert found[0].tolist() == found[1].tolist() == [[[3.5, 3.5]]]


def test_logits_without_slopes_are_capped_alone() -> None:
    logits = np.float32([[1.0, -2.0, 3.0]])

    assert same(ScoreRule(cap=2.0).apply(logits), scores.softcap(logits, 2.0))
    assert PLAIN.apply(logits) is logits


def test_what_is_hidden() -> None:
    rule = ScoreRule(window=2)

    assert rule.hides(4, np.array([1, 3])).tolist() == [[False, True, True, True], [True, False, False, True]]
    assert [rule.first(end) for end in (1, 2, 3, 9)] == [0, 0, 1, 7]


@pytest.mark.parametrize("change", [{"window": -1}, {"cap": -1.0}, {"cap": np.inf}, {"cap": np.nan}])
def test_scores_rejects_invalid_inputs(change: dict[str, float]) -> None:
    with pytest.raises(Refused, match="window and cap must not be below 0"):
        ScoreRule(**change)  # type: ignore[arg-type]


def test_slopes_of_wrong_length_are_rejected() -> None:
    with pytest.raises(Refused, match="slopes for 3 heads are needed, got 2"):
        ScoreRule(slopes=(0.5, 0.25)).fields(3)
