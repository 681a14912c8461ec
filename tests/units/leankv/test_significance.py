"""Significance: sums in the stated order, means, shares; every option; steps; the statistics of the paper's figures."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refemu.arith import dot, fp16, fp32, threads
from refemu.arith.checks import Refused, RefusedType
from refemu.arith.orders import Sequential
from refemu.units.leankv import significance
from refemu.units.leankv.significance import PRESETS, Significance
from refemu.units.leankv.significance import compiled as significance_compiled
from tests.arith.strategies import codes
from tests.oracles.leankv import units

RUNS = [pytest.param(significance.of_prompts, id="unit"), pytest.param(significance_compiled.of_prompts, id="compiled")]
options = st.fixed_dictionaries(
    {
        "score_queries": st.sampled_from([None, 1, 3, 64]),
        "include_self": st.booleans(),
        "normalize": st.booleans(),
        "gqa": st.sampled_from(["max", "mean"]),
        "gqa_order": st.sampled_from(["sums", "queries"]),
    }
)


def probabilities(n: int, heads: int, seed: int) -> np.ndarray:
    """Causal rows that add up to about 1, (n, heads, n)."""
    return causal(np.random.default_rng(seed).random((n, heads, n)).astype(np.float32))


@st.composite
def rows(draw: st.DrawFn, n: int, heads: int) -> np.ndarray:
    """As `probabilities`, drawn."""
    return causal(draw(codes((n, heads, n), 24)).astype(np.float32) / np.float32(1 << 24))


def causal(weights: np.ndarray) -> np.ndarray:
    """Rows of positive weights without those of later tokens, divided by their sums; zeros stay zeros."""
    n = len(weights)
    p = weights**4 * np.tril(np.ones((n, n), np.float32))[:, None]
    return p / np.maximum(np.add.accumulate(p, axis=-1)[..., -1:], np.float32(2.0**-100))


def values(patterns: np.ndarray) -> np.ndarray:
    return patterns.view(np.float32)


@pytest.mark.parametrize("run", RUNS)
def test_a_prompt_by_hand(run: Any) -> None:
    """[leankv §4] D-leankv-16, D-leankv-17, D-leankv-18: three tokens; queries after a token, never its own."""
    p = np.float32([[[1, 0, 0]], [[0.75, 0.25, 0]], [[0.5, 0.125, 0.375]]])
    result = run(p, **PRESETS["paper"])

    assert values(result.sum).tolist() == [1.25, 0.125, 0] and result.count.tolist() == [2, 1, 0]
    assert values(result.mean).tolist() == [0.625, 0.125, 0]
    assert np.array_equal(values(result.share), np.float32([0.625, 0.125, 0]) / np.float32(0.75))
    assert (result.adds, result.comparisons, result.divisions) == (3 + 3, 3, 2 + 3)

    coded = run(p, **{**PRESETS["diffkv"], "score_queries": 2})
    assert values(coded.sum).tolist() == [1.25, 0.375, 0.375] and coded.count.tolist() == [2, 2, 1]
    assert values(coded.share).tolist() == [0.625, 0.1875, 0.375]


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("preset", PRESETS)
@settings(deadline=None, max_examples=30)
@given(data=st.data(), n=st.integers(1, 9), heads=st.integers(1, 3), queries=st.sampled_from([None, 1, 4, 64]))
def test_sums_means_and_shares_are_the_oracles(
    run: Any, preset: str, data: st.DataObject, n: int, heads: int, queries: int | None
) -> None:
    """[leankv §4] D-leankv-16, D-leankv-17, D-leankv-18, D-leankv-19."""
    p = data.draw(rows(n, heads))
    result = run(p, **{**PRESETS[preset], "score_queries": queries})
    wanted = units.significance(p.tolist(), preset, score_queries=queries or 0)

    assert values(result.sum).tolist() == wanted.sums and result.count.tolist() == wanted.counts
    assert values(result.mean).tolist() == wanted.means and values(result.share).tolist() == wanted.shares


@settings(deadline=None, max_examples=40)
@given(data=st.data(), n=st.integers(2, 12), x=st.floats(0, 1, width=32))
def test_steps_and_statistics_are_the_oracles(data: st.DataObject, n: int, x: float) -> None:
    """[leankv §3.1 Eq. (3), §3.2, §4]."""
    p, v = data.draw(rows(n, 3))[-1], data.draw(rows(n, 1))[:, 0]
    score, positions = np.abs(v[-1]), list(range(n - 1, -1, -1))
    wanted = units.step_scores(score.tolist(), p.tolist(), positions, n - 1, "paper")

    assert significance.update(score[1:], p[:, 1:]).tolist() == wanted[1:] and wanted[0] == score[0]
    assert int(significance.critical_tokens(score, x)) == units.critical_tokens(score.tolist(), x)
    assert significance.coefficients(p[0], v).tolist() == units.coefficients(p[0].tolist(), v.tolist())


@settings(deadline=None, max_examples=60)
@given(data=st.data(), parameters=options, n=st.integers(1, 7), heads=st.integers(1, 3))
def test_compiled_form_equals_unit_in_every_field(
    data: st.DataObject, parameters: dict[str, Any], n: int, heads: int
) -> None:
    p = np.stack([data.draw(rows(n, heads)) for _ in range(2)])

    assert significance.of_prompts(p, **parameters).equals(significance_compiled.of_prompts(p, **parameters))


@settings(deadline=None, max_examples=30)
@given(data=st.data(), n=st.integers(1, 12), heads=st.integers(1, 4))
def test_heads_are_joined_after_sums_by_default(data: st.DataObject, n: int, heads: int) -> None:
    """D-leankv-19: max of sums is at most the sum of maxima, and equals it for one head."""
    p = data.draw(rows(n, heads))
    sums, queries = (values(significance_compiled.of_prompts(p, gqa_order=order).sum) for order in ("sums", "queries"))

    assert (sums <= queries + np.float32(2.0**-20)).all()
    assert heads > 1 or np.array_equal(sums, queries)


@pytest.mark.parametrize("cut", [1, 3, 8])
@pytest.mark.parametrize("preset", PRESETS)
def test_rows_may_come_in_pieces(preset: str, cut: int) -> None:
    """What a model does: no table of all queries and tokens."""
    p = probabilities(9, 2, 1)
    device = Significance(9, 2, **PRESETS[preset])
    sums = np.zeros((2, 9), np.float32)
    for first in range(0, 9, cut):
        significance_compiled.add_rows(device, sums, p[first : first + cut, :, : first + cut], first)

    assert significance_compiled.finish(device, sums).equals(significance_compiled.of_prompts(p, **PRESETS[preset]))


@settings(deadline=None, max_examples=30)
@given(p=rows(8, 2), power=st.integers(-20, 20))
def test_scaling_by_a_power_of_two_leaves_shares(p: np.ndarray, power: int) -> None:
    """D-leankv-18: normalized shares."""
    assert np.array_equal(
        significance_compiled.of_prompts(p).share, significance_compiled.of_prompts(np.ldexp(p, power)).share
    )


def test_counts_of_a_prompt() -> None:
    """D-leankv-16, D-leankv-17: N - 1 - t; or min(N - t, 64)."""
    assert significance.counts(90, 64, True).tolist() == [min(90 - t, 64) for t in range(90)]
    assert significance.counts(90).tolist() == [89 - t for t in range(90)]


def test_a_step_adds_the_largest_of_the_heads() -> None:
    """[leankv §4] D-leankv-19: one score per token."""
    score, p = np.float32([1, 2]), np.float32([[0.25, 0.5], [0.75, 0.125]])

    assert significance.update(score, p).tolist() == [1.75, 2.5]
    assert significance.update(score, p, "mean").tolist() == [1.5, 2.3125]


@settings(deadline=None, max_examples=60)
@given(share=st.lists(st.integers(0, 64), min_size=1, max_size=20), x=st.integers(1, 16))
def test_critical_tokens_are_fewest_that_reach_share(share: list[int], x: int) -> None:
    """[leankv §3.2, Fig. 2, 3]: in 64ths every sum is exact."""
    found = int(significance.critical_tokens(np.float32(share) / np.float32(64), x / 16))
    ordered, total = sorted(share, reverse=True), sum(share)

    assert 16 * sum(ordered[:found]) >= x * total
    assert found == 0 or 16 * sum(ordered[: found - 1]) < x * total


def test_critical_tokens_of_several_heads() -> None:
    share = np.float32([[0.5, 0.25, 0.25, 0], [0.25, 0.25, 0.25, 0.25]])

    assert significance.critical_tokens(share, 0.75).tolist() == [2, 3]
    assert significance.critical_tokens(share, 0.0).tolist() == [0, 0]


def test_coefficients_are_probability_times_norm() -> None:
    """[leankv §3.1 Eq. (3), Fig. 1]: norms 5 and 13."""
    assert significance.coefficients(np.float32([0.5, 0.25]), np.float32([[3, 4], [5, 12]])).tolist() == [2.5, 3.25]


BAD = [
    pytest.param(np.zeros((3, 1, 3)), RefusedType, "p must be float32 of shape", id="float64"),
    pytest.param(np.zeros((3, 3), np.float32), RefusedType, r"got float32 of shape \(3, 3\)", id="rank"),
    pytest.param(np.zeros((2, 1, 3), np.float32), RefusedType, "a query for every token", id="shape"),
    *(
        pytest.param(
            np.where(np.arange(32).reshape(4, 2, 4) == 30, bad, 0).astype(np.float32),
            Refused,
            "p must be finite and at least 0, got .* at query 3, head 1, token 2",
            id=str(bad),
        )
        for bad in (-0.5, np.nan, np.inf)
    ),
]


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize(("p", "error", "message"), BAD)
def test_significance_rejects_invalid_inputs(run: Any, p: np.ndarray, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        run(p)


def test_one_place_above_one_is_admitted() -> None:
    """A softmax by a reciprocal may make it."""
    assert significance.UNIT.run(np.full((1, 1), significance.LARGEST), tokens=1, heads=1).count.tolist() == [[0]]


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"gqa": "min"}, Refused, "gqa must be one of"),
        ({"score_queries": 0}, Refused, "score_queries must be in"),
        ({"include_self": 1}, RefusedType, "include_self must be a bool"),
        ({"tokens": 0}, Refused, "tokens must be in"),
    ],
)
def test_significance_rejects_parameters(parameters: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Significance(**parameters)
    with pytest.raises(Refused, match=r"x must be in \[0, 1\], got 2"):
        significance.critical_tokens(np.float32([1]), 2)


@pytest.mark.parametrize("parameters", [{}, {"include_self": True, "score_queries": 5}, {"gqa": "mean"}], ids=repr)
@pytest.mark.parametrize("tokens", [1, 8, 9, 37])
def test_prompt_is_summed_where_it_is_attended_to(tokens: int, parameters: dict[str, Any]) -> None:
    """Its attention and its sums are those of the two steps one after the other, whatever the threads."""
    rng = np.random.default_rng(tokens)
    q, k, v = (fp16.round16(rng.standard_normal((tokens, heads, 16), np.float32)) for heads in (6, 3, 3))
    device, scale = Significance(tokens, 2, **parameters), np.float32(0.25)
    hidden = np.arange(tokens) > np.arange(tokens)[:, None]
    p = np.stack(
        [
            np.stack(
                [
                    fp32.softmax32(
                        np.where(
                            hidden,
                            np.float32(-np.inf),
                            dot.matmul(q[:, 2 * shared + g], k[:, shared].T, order=Sequential(), acc="fp32") * scale,
                        ),
                        Sequential(),
                    )
                    for g in range(2)
                ],
                axis=1,
            )
            for shared in range(3)
        ]
    )

    for count in (1, 2, 3):
        with threads.using_threads(count):
            found = significance_compiled.attended(device, q, k, v, scale)
        assert found is not None
        assert found[0].tobytes() == dot.attention(q, k, v, scale=scale, start=0).tobytes()
        expected = significance.of_prompts(p, **parameters)
        for name in ("sum", "mean", "share", "count"):
            assert np.array_equal(
                getattr(significance_compiled.finish(device, found[1]), name), getattr(expected, name)
            )


def test_prompt_without_probabilities_is_left_to_slow_way() -> None:
    """NaN would raise there; heads that are joined query by query are summed there."""
    q = np.full((3, 2, 4), np.inf, np.float32)
    k = np.ones((3, 1, 4), np.float32)

    assert significance_compiled.attended(Significance(3, 2), q, k, k, np.float32(1)) is None
    assert significance_compiled.attended(Significance(3, 2, gqa_order="queries"), k, k, k, np.float32(1)) is None


def test_rows_and_tokens_are_numbered() -> None:
    """[leankv §4] Queries first, then the means of all tokens, then their shares."""
    device = Significance(3, 1)
    states = list(device.steps(np.zeros(9, np.uint32)))

    assert [(s.event, s.row, s.token) for s in states] == [
        *[("query", row, 0) for row in (1, 2, 3)],
        *[("mean", 3, token) for token in (1, 2, 3)],
        *[("share", 3, token) for token in (1, 2, 3)],
    ]
    result = significance.run(np.zeros((2, 9), np.uint32), tokens=3, heads=1)
    assert result.row.tolist() == result.token.tolist() == [3, 3]
