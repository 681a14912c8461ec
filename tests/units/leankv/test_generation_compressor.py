"""One decision per head and step: Algorithm 1, the later published policy, equal budgets; both forms and the oracle."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refemu.arith.checks import Refused, RefusedType
from refemu.units.leankv import generation_compressor
from refemu.units.leankv.generation_compressor import A1, A2, A3, B1, B2, GenerationCompressor, W
from refemu.units.leankv.generation_compressor import compiled as generation_compressor_compiled
from refemu.units.leankv.generation_compressor.decisions import OUTPUTS
from tests.oracles.fp16 import f32
from tests.oracles.leankv import units

RUNS = [
    pytest.param(generation_compressor.run, id="unit"),
    pytest.param(generation_compressor_compiled.run, id="compiled"),
]
SLOTS = 12
scores = st.integers(0, 6).map(lambda k: k / 8) | st.floats(0, 1, width=32)
limits = st.tuples(st.integers(0, 8), st.integers(0, 8)).map(lambda pair: tuple(k / 16 for k in sorted(pair)))


@st.composite
def heads(draw: Any, slots: int = SLOTS) -> dict[str, Any]:
    """Sections as they arise: the window in the high one, distinct positions below n, in any order of slots."""
    window, n_high = draw(st.integers(1, 5)), draw(st.integers(0, slots))
    n_low = draw(st.integers(0, slots - n_high))
    inside = min(n_high, window)
    old = n_high - inside + n_low
    n = old + draw(st.integers(0, 4)) + window if old else inside + draw(st.integers(0, 3))
    recent = list(range(n - inside, n))
    earlier = draw(st.permutations(range(max(n - window, 0))))[:old] if n - window >= old else list(range(old))
    high = draw(st.permutations([*earlier[: n_high - inside], *recent]))
    position = [*high, *earlier[n_high - inside :]]
    return {
        "score": draw(st.lists(scores, min_size=len(position), max_size=len(position))),
        "position": position,
        "n_high": n_high,
        "n_low": n_low,
        "n": n,
        "prompt": draw(st.integers(0, n)),
        "window": window,
    }


def patterns(values: Any) -> np.ndarray:
    return np.asarray(values, np.float32).view(np.uint32)


def decide(run: Any, head: dict[str, Any], thresholds: Any, **parameters: Any) -> Any:
    slots = parameters.pop("slots", SLOTS)
    free = slots - len(head["position"])
    return run(
        patterns([*head["score"], *[0.0] * free]),
        [*head["position"], *[0] * free],
        *(head[name] for name in ("n_high", "n_low", "n", "prompt", "window")),
        patterns(thresholds),
        slots=slots,
        **parameters,
    )


def high_only(head: dict[str, Any]) -> dict[str, Any]:
    """The head without its low section."""
    n_high = head["n_high"]
    return head | {"n_low": 0, "score": head["score"][:n_high], "position": head["position"][:n_high]}


def outputs(result: Any) -> units.Decision:
    return units.Decision(*(int(getattr(result, name)) for name in OUTPUTS))


def sections(head: dict[str, Any], preset: str) -> tuple[list[units.Token], list[units.Token]]:
    """What the oracle takes: position and mean of every token, slot by slot."""
    counts = units.counts_at(head["position"], head["n"], head["prompt"], preset)
    tokens = [(t, f32(s / c) if c else 0.0) for t, s, c in zip(head["position"], head["score"], counts, strict=True)]
    return tokens[: head["n_high"]], tokens[head["n_high"] :]


CASES = [  # shares of 64: high tokens 0, 1, t_c = 3 at slot 2, newest; low tokens
    pytest.param([24, 8, 20, 4], [8], (3 / 64, 8 / 64), (A1, 4, -1, 1, 0), id="A1"),
    pytest.param([24, 8, 20, 4], [8], (3 / 64, 16 / 64), (A2, 1, 1, 0, 1), id="A2"),
    pytest.param([24, 1, 27, 4], [8], (3 / 64, 16 / 64), (A3, 1, -1, 0, 0), id="A3"),
    pytest.param([24, 20, 8, 4], [8], (3 / 64, 16 / 64), (B1, 2, 1, 0, 1), id="B1"),
    pytest.param([24, 27, 8, 4], [1], (3 / 64, 16 / 64), (B2, 2, 0, 0, 0), id="B2"),
    pytest.param([24, 27, 1, 4], [8], (3 / 64, 16 / 64), (6, 2, -1, 0, 0), id="C"),
]


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize(("high", "low", "thresholds", "wanted"), CASES)
def test_every_case_of_the_algorithm(run: Any, high: list[int], low: list[int], thresholds: Any, wanted: Any) -> None:
    """[leankv Algorithm 1] D-leankv-26, D-leankv-27, D-leankv-29, D-leankv-31: shares in 64ths that add up to 64."""
    n = 10
    position = [3, 4, 8, 9, 0]
    score = [share * (n - 1 - t) / 64 for share, t in zip([*high, *low], position, strict=True)]
    score[3] = 0.0  # the newest token was not attended to yet: its share goes to the others
    spare = 64 - sum([*high, *low]) + high[3]
    assert spare == 4  # so every share is 1/60 of its number
    head = {"score": score, "position": position, "n_high": 4, "n_low": 1, "n": n, "prompt": 0, "window": 2}
    scaled = [t * 64 / 60 for t in thresholds]

    assert outputs(decide(run, head, scaled)) == units.Decision(*wanted)


@pytest.mark.parametrize("run", RUNS)
def test_a_window_that_is_not_full_grows(run: Any) -> None:
    """[leankv §4]: case W."""
    head = {"score": [0.5], "position": [0], "n_high": 1, "n_low": 0, "n": 1, "prompt": 1, "window": 2}

    assert outputs(decide(run, head, (0.25, 0.5))) == units.Decision(W, 1, -1, 1, 0)


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("score_rule", ["share", "cumulative"])
@settings(deadline=None, max_examples=120)
@given(head=heads(), thresholds=limits)
def test_algorithm_1_is_the_oracles(run: Any, score_rule: str, head: dict[str, Any], thresholds: Any) -> None:
    """[leankv Algorithm 1] D-leankv-27 (both readings), D-leankv-28 (t_c is included; the lowest position on a tie)."""
    wanted = units.algorithm1(*sections(head, "paper"), head["n"], head["window"], *thresholds, score_rule)

    assert outputs(decide(run, head, thresholds, score_rule=score_rule)) == wanted


@pytest.mark.parametrize("run", RUNS)
@settings(deadline=None, max_examples=120)
@given(head=heads(), alphas=limits.map(lambda pair: tuple(16 * k for k in pair)))
def test_the_published_policy_is_the_oracles(run: Any, head: dict[str, Any], alphas: Any) -> None:
    """D-leankv-26, D-leankv-28."""
    wanted = units.diffkv(*sections(head, "diffkv"), head["n"], head["window"], *alphas)

    assert outputs(decide(run, head, alphas, policy="diffkv", score_queries=64, include_self=True)) == wanted


@pytest.mark.parametrize("run", RUNS)
@settings(deadline=None, max_examples=60)
@given(head=heads(), keep=st.integers(0, 100))
def test_equal_budgets_are_the_oracles(run: Any, head: dict[str, Any], keep: int) -> None:
    """[leankv §7.2, Fig. 8] D-leankv-54."""
    only_high = high_only(head)
    if head["n_high"] < min(head["n"], head["window"]):
        return  # some token of the window is missing: no head comes here
    wanted = units.static_step(sections(only_high, "paper")[0], head["n"], head["window"], keep)

    assert outputs(decide(run, only_high, (0, 0), policy="static", keep_percent=keep)) == wanted


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("ties", [[127], [1, 64], [3, 131], [64, 96, 32], [0, 127]])
def test_lane_ties_go_to_lowest_reversed_bits(run: Any, ties: list[int]) -> None:
    """D-leankv-28: lane 127 alone, lanes 1 and 64, two tokens of a lane."""
    head = {
        "score": [(0 if slot in ties else 9) * (140 - slot) for slot in range(132)],
        "position": list(range(132)),
        "n_high": 132,
        "n_low": 0,
        "n": 140,
        "prompt": 0,
        "window": 2,
    }
    wanted = min(ties, key=lambda slot: (f"{slot % 128:07b}"[::-1], slot))
    result = decide(run, head, (1.0, 1.0), policy="diffkv", score_queries=64, include_self=True, slots=132)

    assert int(result.victim) == wanted == units.lane_minimum(sections(head, "diffkv")[0], 140, 2)[1]


@settings(deadline=None, max_examples=60)
@given(head=heads(), thresholds=limits, policy=st.sampled_from(["algorithm1", "diffkv"]))
def test_a_step_stores_no_or_one_token_more(head: dict[str, Any], thresholds: Any, policy: str) -> None:
    """[leankv §5.3] D-leankv-31: in both policies, without gaps, and a low token never becomes a high one."""
    high = head["position"][: head["n_high"]]
    low = head["position"][head["n_high"] :]
    decision = outputs(decide(generation_compressor_compiled.run, head, thresholds, policy=policy))
    after_high, after_low = units.apply(high, low, decision, head["n"])

    assert decision.delta_high + decision.delta_low in (0, 1)
    assert (len(after_high), len(after_low)) == (len(high) + decision.delta_high, len(low) + decision.delta_low)
    assert set(after_high) <= {*high, head["n"]} and set(after_low) <= {*high, *low}


@settings(deadline=None, max_examples=60)
@given(head=heads(), low=st.integers(0, 8).map(lambda k: k / 16))
def test_without_a_low_precision_no_token_moves(head: dict[str, Any], low: float) -> None:
    """T_h counts as T_l; the published policy needs equal alphas."""
    only_high = high_only(head)
    for policy in ("algorithm1", "diffkv"):
        decision = outputs(decide(generation_compressor_compiled.run, only_high, (low, low), policy=policy, low=False))
        assert decision.low_slot == -1 and decision.delta_low == 0
    wide = decide(generation_compressor_compiled.run, only_high, (low, 1.0), low=False)
    assert outputs(wide) == outputs(decide(generation_compressor_compiled.run, only_high, (low, low), low=False))


@settings(deadline=None, max_examples=60)
@given(
    rows=st.lists(heads(), min_size=1, max_size=4),
    thresholds=limits,
    epoch=st.booleans(),
    policy=st.sampled_from(["algorithm1", "diffkv"]),
    score_rule=st.sampled_from(["share", "cumulative"]),
)
def test_compiled_form_equals_unit_in_every_field(
    rows: list[dict[str, Any]], thresholds: Any, epoch: bool, policy: str, score_rule: str
) -> None:
    """D-leankv-33: all heads of all layers in one call; D-leankv-47: also with the positions of the published code."""
    parameters = {
        "slots": SLOTS,
        "policy": policy,
        "score_rule": score_rule,
        "epoch": epoch,
        "score_queries": 3,
        "include_self": policy == "diffkv",
    }
    free = [SLOTS - len(row["position"]) for row in rows]
    inputs = [
        patterns([[*row["score"], *[0.0] * spare] for row, spare in zip(rows, free, strict=True)]),
        np.array([[*row["position"], *[0] * spare] for row, spare in zip(rows, free, strict=True)]),
        *(np.array([row[name] for row in rows]) for name in ("n_high", "n_low", "n", "prompt", "window")),
    ]
    readable, compiled = (
        run(*inputs, patterns(thresholds), **parameters)
        for run in (generation_compressor.run, generation_compressor_compiled.run)
    )

    assert readable.equals(compiled)


def test_events_and_counters_of_a_decision() -> None:
    """D-leankv-32: stored scores only, so it can be planned before attention; a division per mean and per share."""
    states = list(
        GenerationCompressor(4).steps(
            patterns([1.0, 0.5, 0.25, 0.0]), [0, 1, 2, 3], 4, 0, 4, 4, 2, patterns([0.0, 0.5])
        )
    )

    assert [s.event for s in states] == ["mean"] * 4 + ["argmin", "case"]
    assert (states[-1].divisions, states[-1].comparisons) == (3 + 4, 1)  # t_c alone: no low token competes
    assert [s.done for s in states[:4]] == [1, 2, 3, 4]
    assert patterns([1 / 3, 0.5 / 2, 0.25, 0.0]).tolist() == list(states[3].means)


BAD = [
    pytest.param({"position": [12, 3]}, {}, "position 12 is not older than token 12", id="age"),
    pytest.param(
        {"position": [3, 3]}, {}, r"positions of stored tokens must differ, got 3 twice at index \(1,\)", id="twice"
    ),
    pytest.param({"n_low": 11}, {}, "13 tokens in 12 slots", id="slots"),
    pytest.param({"prompt": 13}, {}, "prompt of 13 tokens before token 12", id="prompt"),
    pytest.param({"n_high": 1, "n_low": 1, "position": [3, 11]}, {}, "position 11 of the window is low", id="window"),
    pytest.param({"n_high": 1, "n_low": 1}, {"low": False}, "1 low tokens without a low precision", id="no low"),
    pytest.param({}, {"policy": "diffkv", "low": False}, "alpha_quant must be alpha_prune, got 0.5 and 0", id="alphas"),
    pytest.param({"thresholds": (0.5, 0.25)}, {}, "thresholds must be 0 <= T_l <= T_h <= 1, got 0.5, 0.25", id="order"),
]


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize(("changed", "parameters", "message"), BAD)
def test_generation_compressor_rejects_invalid_inputs(
    run: Any, changed: dict[str, Any], parameters: dict[str, Any], message: str
) -> None:
    head = {
        "score": [0.5, 0.25],
        "position": [3, 10],
        "n_high": 2,
        "n_low": 0,
        "n": 12,
        "prompt": 4,
        "window": 2,
        "thresholds": (0.25, 0.5),
        **changed,
    }
    with pytest.raises(Refused, match=message):
        decide(run, head, head["thresholds"], **parameters)


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("policy", ["algorithm1", "diffkv", "static"])
def test_position_stored_twice_is_rejected_with_index(run: Any, policy: str) -> None:
    """The first row with one, and the later of its slots; slots that are not used may hold anything."""
    position = np.array([[1, 2, 3, 3], [0, 2, 1, 2], [1, 1, 1, 1]])
    inputs = patterns(np.full((3, 4), 0.5)), position
    with pytest.raises(Refused, match=r"positions of stored tokens must differ, got 2 twice at index \(1, 3\)"):
        run(*inputs, [3, 4, 4], 0, 5, 5, 4, patterns([0.5, 0.5]), slots=4, policy=policy)
    run(*inputs, [3, 3, 1], 0, 5, 5, 4, patterns([0.5, 0.5]), slots=4, policy=policy)


@pytest.mark.parametrize("run", RUNS)
def test_the_published_codes_positions_may_be_equal(run: Any) -> None:
    """D-leankv-47: N - min(N - position, 64) is the same for all tokens before the last 64."""
    assert (
        int(
            run(
                patterns([0.25] * 4),
                [2] * 4,
                4,
                0,
                70,
                66,
                2,
                patterns([0.5, 0.5]),
                slots=4,
                policy="diffkv",
                epoch=True,
            ).choice
        )
        == generation_compressor.PRUNE
    )


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"policy": "lru"}, Refused, "policy must be one of"),
        ({"score_rule": "x"}, Refused, "score_rule must be one of"),
        ({"low": 1}, RefusedType, "low must be a bool"),
        ({"slots": 0}, Refused, "slots must be in"),
        ({"score_queries": 0}, Refused, "score_queries must be"),
        ({"keep_percent": -1}, Refused, "keep_percent must be"),
    ],
)
def test_generation_compressor_rejects_parameters(
    parameters: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        GenerationCompressor(**parameters)
