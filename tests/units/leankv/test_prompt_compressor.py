"""Classes and order of a prompt's tokens: the paper's rule, the published one, equal budgets; both forms, oracle."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refemu.arith.checks import Refused
from refemu.units.leankv import prompt_compressor
from refemu.units.leankv.prompt_compressor import HIGH, LOW, PRUNED, THRESHOLDS, WINDOW, PromptCompressor
from refemu.units.leankv.prompt_compressor import compiled as prompt_compressor_compiled
from tests.oracles.leankv import units

RUNS = [pytest.param(prompt_compressor.run, id="unit"), pytest.param(prompt_compressor_compiled.run, id="compiled")]
SHARES = np.float32([24, 1, 2, 6, 5, 2, 16, 8]) / np.float32(64)  #: of the worked example
eighths = st.integers(0, 8).map(lambda k: k / 8)
orders = st.sampled_from(["stable", "bitonic"])
share_lists = st.lists(eighths | st.floats(0, 1, width=32), min_size=1, max_size=20)


def patterns(*values: float) -> np.ndarray:
    return np.float32(values).view(np.uint32)


def compress(run: Any, share: Any, window: int, limits: tuple[float, float], **parameters: Any) -> Any:
    return run(patterns(*share), window, patterns(*limits), tokens=len(share), **parameters)


def same(result: Any, wanted: units.Classes) -> bool:
    counts = tuple(int(n) for n in (result.n_pruned, result.n_low, result.n_high))
    return result.cls.tolist() == wanted.classes and counts == wanted.numbers and result.order.tolist() == wanted.order


@pytest.mark.parametrize("run", RUNS)
def test_the_worked_prompt(run: Any) -> None:
    """[leankv §4] D-leankv-20, D-leankv-22, D-leankv-25: sums 1 3 5 10 16 40; the token that reaches T_h stays high.

    D-leankv-21.
    """
    result = compress(run, SHARES, 2, (3 / 64, 16 / 64))

    assert result.order.tolist() == [1, 2, 5, 4, 3, 0, 6, 7]
    assert result.cls.tolist() == [HIGH, PRUNED, LOW, HIGH, LOW, LOW, WINDOW, WINDOW]
    assert (int(result.n_pruned), int(result.n_low), int(result.n_high)) == (1, 3, 2)


@pytest.mark.parametrize("run", RUNS)
def test_the_sum_of_the_low_tokens_may_restart(run: Any) -> None:
    """D-leankv-21: sums 2 4 9 15 39 after the pruned token: four low, one high."""
    result = compress(run, SHARES, 2, (3 / 64, 16 / 64), low_cumsum="restart")

    assert (int(result.n_pruned), int(result.n_low), int(result.n_high)) == (1, 4, 1)


@pytest.mark.parametrize("run", RUNS)
@settings(deadline=None, max_examples=80)
@given(
    share=share_lists,
    window=st.integers(1, 22),
    limits=st.tuples(eighths, eighths).map(sorted),
    restart=st.booleans(),
    order=orders,
)
def test_cumulative_rule_is_the_oracles(
    run: Any, share: list[float], window: int, limits: list[float], restart: bool, order: str
) -> None:
    """D-leankv-20, D-leankv-21, D-leankv-23 (equal shares by position), D-leankv-24 (N <= W: all stay)."""
    low_cumsum = "restart" if restart else "total"
    result = compress(run, share, window, (limits[0], limits[1]), low_cumsum=low_cumsum, order=order)

    assert same(result, units.cumulative(share, window, *limits, low_cumsum, order))


@pytest.mark.parametrize("run", RUNS)
@settings(deadline=None, max_examples=80)
@given(share=share_lists, window=st.integers(1, 22), limits=st.tuples(eighths, eighths).map(sorted))
def test_per_token_rule_and_its_network_are_oracles(
    run: Any, share: list[float], window: int, limits: list[float]
) -> None:
    """D-leankv-20, D-leankv-23: shares against alpha / N; the order that a bitonic network leaves."""
    result = compress(run, share, window, (limits[0], limits[1]), rule="per_token", order="bitonic")

    assert same(result, units.per_token(share, window, *limits))


@pytest.mark.parametrize("run", RUNS)
@settings(deadline=None, max_examples=60)
@given(share=share_lists, window=st.integers(1, 22), keep=st.integers(0, 100), order=orders)
def test_equal_budgets_keep_the_highest_means(run: Any, share: list[float], window: int, keep: int, order: str) -> None:
    """[leankv §7.2, Fig. 8] D-leankv-54: max(W, N * keep / 100) tokens; of equal means the later one."""
    result = compress(run, share, window, (0, 0), rule="static", keep_percent=keep, order=order)

    assert same(result, units.static_prompt(share, window, keep, order))
    assert np.count_nonzero(result.cls) == min(len(share), units.budget(len(share), window, keep))


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("rule", ["cumulative", "static"])
def test_the_order_never_changes_a_class(run: Any, rule: str) -> None:
    """D-leankv-23: 33 tokens with three shares; the border of a class is between equal ones, which the network swaps.

    What it swaps shows in the pages alone.
    """
    share = [(1, 2, 5)[(7 * t + t // 3) % 3] / 100 for t in range(33)]
    stable, network = (
        compress(run, share, 3, (0.15, 0.3), rule=rule, order=order, keep_percent=60) for order in ("stable", "bitonic")
    )
    classes = stable.cls.tolist()
    pairs = set(zip(share[:30], classes[:30], strict=True))

    assert len(pairs) > len({s for s, _ in pairs})
    assert classes == network.cls.tolist()
    assert stable.order.tolist() != network.order.tolist()
    for one in (stable, network):
        kept = [t for t in one.order.tolist() if classes[t] == HIGH]
        assert [share[t] for t in kept] == sorted(share[t] for t in kept)


@settings(deadline=None, max_examples=60)
@given(share=share_lists, window=st.integers(1, 22), limits=st.tuples(eighths, eighths, eighths).map(sorted))
def test_pruned_low_high_and_window_make_up_prompt(share: list[float], window: int, limits: list[float]) -> None:
    """[leankv §4]: N_p + N_l + N_h + W = N; a higher T_l never keeps more; T = 0 keeps all high (D-leankv-22)."""
    results = [compress(prompt_compressor_compiled.run, share, window, (low, limits[2])) for low in limits[:2]]
    pruned = [int(result.n_pruned) for result in results]
    zero = compress(prompt_compressor_compiled.run, share, window, (0, 0))

    assert all(int(r.n_pruned) + int(r.n_low) + int(r.n_high) + min(window, len(share)) == len(share) for r in results)
    assert pruned[0] <= pruned[1] and int(zero.n_high) == max(len(share) - window, 0)
    assert all((np.atleast_1d(r.cls)[max(len(share) - window, 0) :] == WINDOW).all() for r in results)


@pytest.mark.parametrize("order", ["stable", "bitonic"])
@pytest.mark.parametrize("rule", ["cumulative", "per_token", "static"])
@settings(deadline=None, max_examples=25)
@given(shares=st.lists(st.lists(eighths, min_size=9, max_size=9), min_size=1, max_size=4), window=st.integers(1, 11))
def test_compiled_form_equals_unit_in_every_field(
    rule: str, order: str, shares: list[list[float]], window: int
) -> None:
    """Any combination of rule and order, counters included."""
    inputs = (np.float32(shares).view(np.uint32), window, patterns(0.25, 0.5))
    parameters = {"tokens": 9, "rule": rule, "order": order, "keep_percent": 40}

    assert prompt_compressor.run(*inputs, **parameters).equals(prompt_compressor_compiled.run(*inputs, **parameters))


@pytest.mark.parametrize(("n", "pairs"), [(2, 1), (4, 6), (8, 24), (9, 80), (16, 80)])
def test_comparisons_of_the_network(n: int, pairs: int) -> None:
    """D-leankv-23: padded to a power of two; half of it, log2 * (log2 + 1) / 2 times."""
    device = PromptCompressor(n, "per_token", "bitonic")
    states = list(device.steps(np.zeros(n, np.uint32), 1, patterns(0, 0)))

    assert [s.event for s in states] == ["compare_exchange"] * pairs + ["classify"] * n
    assert states[-1].comparisons == pairs == prompt_compressor_compiled.comparisons(n)
    blocks = [2 << level for level in range((n - 1).bit_length()) for _ in range(level + 1)]
    wide = blocks[-1]
    assert [s.size for s in states[: pairs - 1]] == [size for size in blocks for _ in range(wide // 2)][1:]
    assert all(s.lower & s.distance == 0 and s.lower < wide for s in states[: pairs - 1])
    last = prompt_compressor.run(np.zeros(n, np.uint32), 1, patterns(0, 0), tokens=n, rule="per_token", order="bitonic")
    assert (last.size, last.distance, last.lower, last.rank) == (0, wide, 0, n)


def test_events_of_a_sorted_prompt() -> None:
    """One `sort`, then one `classify` per token."""
    states = list(PromptCompressor(4).steps(patterns(0.5, 0.125, 0.25, 0.125), 1, patterns(0.125, 0.5)))

    assert [s.event for s in states] == ["sort"] + ["classify"] * 4
    assert [s.order[: s.rank] for s in states[1:]] == [(1,), (1, 2), (1, 2, 0), (1, 2, 0, 3)]


def test_thresholds_of_the_presets() -> None:
    """D-leankv-51: the paper gives grids only; the published code's for Llama 3."""
    assert THRESHOLDS == {"paper": (0.0, 0.01), "diffkv": (0.02, 1.0)}


BAD = [
    pytest.param({"limits": (0.5, 0.25)}, "thresholds must be 0 <= T_l <= T_h <= 1, got 0.5, 0.25", id="order"),
    pytest.param(
        {"limits": (2.0, 1.0), "rule": "per_token"},
        "alpha_prune / N <= alpha_quant / N <= 1, got 0.25, 0.125",
        id="alphas",
    ),
    pytest.param({"limits": (1.0, 9.0), "rule": "per_token"}, "<= 1, got 0.125, 1.125", id="above 1"),
    pytest.param({"window": 0}, r"window 0 is outside \[1,|window 0 at index|window", id="window"),
]


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize(("changed", "message"), BAD)
def test_prompt_compressor_rejects_invalid_inputs(run: Any, changed: dict[str, Any], message: str) -> None:
    given_ = {"window": 2, "limits": (0.25, 0.5), **changed}
    with pytest.raises(Refused, match=message):
        compress(run, SHARES, given_.pop("window"), given_.pop("limits"), **given_)


@pytest.mark.parametrize("run", RUNS)
def test_alphas_of_short_prompt_are_not_looked_at(run: Any) -> None:
    """D-leankv-24: N <= W."""
    assert (compress(run, SHARES, 8, (9.0, 1.0), rule="per_token").cls == WINDOW).all()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"rule": "sum"}, "rule must be one of"),
        ({"order": "heap"}, "order must be one of"),
        ({"low_cumsum": "x"}, "low_cumsum must be one of"),
        ({"keep_percent": 101}, r"keep_percent must be in \[0, 100\]"),
    ],
)
def test_prompt_compressor_rejects_parameters(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(Refused, match=message):
        PromptCompressor(**parameters)
