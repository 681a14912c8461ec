"""V in groups along tokens: every step against the oracle, both ways of growth, prompts and single tokens."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refemu.arith.checks import Refused, RefusedType
from refemu.formats import BFP8, Bfp
from refemu.units.harmonia import v_grouper
from refemu.units.harmonia.v_grouper import VGrouper
from tests.formats.harmonia.bfp_words import words
from tests.oracles.harmonia import units

IMPLEMENTATIONS = [pytest.param(v_grouper.run, id="unit"), pytest.param(v_grouper.UNIT.run_compiled, id="compiled")]
GROWTHS = ["reconvert", "realign"]


def drawn(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    found = np.random.default_rng(seed).integers(0, 1 << 16, shape).astype(np.uint16)
    return np.where(found & 0x7C00 == 0x7C00, found ^ 0x4000, found).astype(np.uint16)


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize("growth", GROWTHS)
@pytest.mark.parametrize("high", [8, 4])
@settings(deadline=None, max_examples=8)
@given(data=st.data(), tokens=st.integers(1, 70))
def test_every_step_shows_the_oracles_group(run: Any, growth: str, high: int, data: st.DataObject, tokens: int) -> None:
    """[harmonia §III-A, Fig. 6b] D-harmonia-20: at every step what a conversion from FP16 of its size gives."""
    rows = np.resize(np.array(data.draw(st.lists(words, min_size=2, max_size=60)), np.uint16), (tokens, 2))
    result = run(rows, channels=2, high=high, growth=growth)
    for at in {0, tokens // 2, tokens - 1, min(31, tokens - 1)}:
        groups = units.v_groups(rows[: at + 1].tolist(), (), high)[-1]
        for channel, group in enumerate(groups):
            assert result.mantissa[at, channel::2].tolist() == group.mantissa
            assert result.sign[at, channel::2].tolist() == [sign == 1 for sign in group.sign]
            assert result.exponent[at, channel] == group.exponent
        waiting = rows[at - at % 32 : at + 1] if at % 32 < 31 else rows[:0]
        if growth == "realign":
            assert result.residual is None
            continue
        assert result.residual[at].tolist() == waiting.reshape(-1).tolist() + [0] * (62 - waiting.size)
    assert result.count.tolist() == [at % 32 + 1 for at in range(tokens)]
    assert result.commit.tolist() == [at % 32 == 31 for at in range(tokens)]


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize("tokens", [1, 31, 32, 33, 64, 70])
def test_counters_equal_the_oracle(run: Any, tokens: int) -> None:
    """[harmonia §III-A]: a conversion per token, a commit per 32; D-harmonia-33: the residual is read in FP16."""
    result = run(drawn((tokens, 3)), channels=3)
    expected = units.v_counters(0, tokens, 3)

    assert {name: getattr(result, name) for name in expected} == expected
    assert result.residual_reads == sum(at % 32 + 1 for at in range(tokens))
    assert run(drawn((tokens, 3)), channels=3, growth="realign").residual_reads == tokens


@pytest.mark.parametrize("growth", GROWTHS)
@pytest.mark.parametrize("prompt", [0, 1, 31, 32, 33, 64, 70])
def test_tokens_after_prompt_give_groups_of_longer_prompt(growth: str, prompt: int) -> None:
    """[harmonia §III-A, Fig. 6b]: committed groups and the temporary one; the counters are a prompt's and appends'."""
    x = drawn((prompt + 40, 4), 1).view(np.float16)
    grouper = VGrouper(4, growth=growth)
    grouper.prefill(x[:prompt])
    for row in x[prompt:].view(np.uint16).tolist():
        grouper.step(row)
    state, expected = grouper.snapshot(), units.v_counters(prompt, 40, 4)

    assert grouper.groups().equals(BFP8.encode(x, 0)) and state.tokens == prompt + 40
    assert {name: getattr(state, name) for name in expected} == expected
    last = x[(prompt + 40) // 32 * 32 :].view(np.uint16).reshape(-1).tolist()
    assert list(state.residual) == last + [0] * (124 - len(last))
    long = VGrouper(4)
    long.prefill(x)
    assert (state.committed, state.temporary, state.residual) == (
        long.state.committed,
        long.state.temporary,
        long.state.residual,
    )


def test_events_are_temporary_conversions_and_commits() -> None:
    """[harmonia §III-A, Fig. 6b]."""
    states = list(VGrouper(2).steps(drawn((33, 2), 2)))

    assert [state.event for state in states] == ["convert"] * 31 + ["commit", "convert"]
    assert not any(states[31].residual) and states[31].temporary is None and len(states[31].committed) == 1
    assert states[32].residual == (*states[32].v, *[0] * 60) and states[32].temporary is not None


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize("rounding", ["half_even", "half_away", "floor"])
def test_other_roundings_are_converted_from_fp16(run: Any, rounding: str) -> None:
    """D-harmonia-2, D-harmonia-20."""
    x = drawn((20, 2), 3)
    result = run(x, channels=2, rounding=rounding)

    assert (
        result.mantissa[-1].reshape(32, 2)[:20].tolist()
        == Bfp(8, rounding=rounding).encode(x, 0, bits=True).mantissa.tolist()
    )


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_devices_and_single_channels(run: Any) -> None:
    x = drawn((2, 5, 1), 4)
    result = run(x, channels=1)

    assert result.mantissa.shape == (2, 5, 32) and result.exponent.shape == (2, 5, 1) and result.conversions == 10
    assert result.mantissa[1, 4, :5].tolist() == BFP8.encode(x[1], 0, bits=True).mantissa[:, 0].tolist()


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize(
    ("v", "options", "error", "message"),
    [
        pytest.param([[0, 0]], {"channels": 3}, RefusedType, "v: the last axis must hold 3 lanes", id="width"),
        pytest.param([[0, 0x7C00]], {"channels": 2}, Refused, r"got 0x7c00 at index \(0, 1\)", id="infinity"),
        pytest.param(
            [[0, 0]],
            {"channels": 2, "growth": "realign", "rounding": "floor"},
            Refused,
            "growth='realign' needs rounding='truncate', got 'floor'",
            id="growth",
        ),
        pytest.param([[0, 0]], {"channels": 2, "growth": "shift"}, Refused, "growth must be one of", id="growth name"),
        pytest.param([[0, 0]], {"channels": 0}, Refused, "channels must be in", id="channels"),
        pytest.param([[0, 0]], {"channels": 2, "high": 12}, Refused, "mantissa_bits must be in", id="high"),
    ],
)
def test_v_grouper_rejects_invalid_inputs(
    run: Any, v: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        run(v, **options)


def test_rejected_rows_and_prompts_change_nothing() -> None:
    grouper = VGrouper(2)
    with pytest.raises(Refused, match="the cache has no groups, got 0 tokens"):
        grouper.groups()
    before = grouper.step((0x3C00, 0x3C00))
    for call, error, message in (
        (lambda: grouper.step((0, 0x7C00)), Refused, "0x7c00"),
        (lambda: grouper.prefill(np.ones((4, 2), np.float16)), Refused, "an empty cache, got 1 tokens"),
        (lambda: list(grouper.steps(np.zeros((1, 2, 2), int))), Refused, "inputs of steps must be one sequence"),
    ):
        with pytest.raises(error, match=message):
            call()

    assert grouper.snapshot() == before
    for rows, error, message in (
        (np.ones((1, 3), np.float16), RefusedType, r"v must be float16 \(tokens, 2\), got float16 \(1, 3\)"),
        (np.ones((1, 2), np.float32), RefusedType, "got float32"),
        (np.ones(2, np.float16), RefusedType, r"float16 \(2,\)"),
        (np.array([[1, np.nan]], np.float16), Refused, "0x7e00"),
    ):
        with pytest.raises(error, match=message):
            VGrouper(2).prefill(rows)


def test_v_grouper_repr_evaluates_back() -> None:
    assert repr(VGrouper(3, 4, "realign")) == "VGrouper(channels=3, high=4, growth='realign', rounding='truncate')"
