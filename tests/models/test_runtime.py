"""Sessions: prompt and decode give equal bits, rejected calls change nothing, greedy generation."""

import dataclasses
from functools import cache
from typing import Any

import numpy as np
import pytest

from refemu import models
from refemu.arith.checks import Refused, RefusedType
from refemu.models import schemes
from refemu.models.runtime import Session, greedy
from refemu.units.unit import Cases

SCHEMES = ["fp16", "olive-4", "olive-8"]
IDS = list(b"Sir Walter Elliot, of Kellynch Hall, in Somersetshire, was a man")


@cache
def prepared(scheme: str = "fp16", backend: str = "jit") -> Any:
    calibration = list(b"It is a truth universally acknowledged. " * 4)
    config = schemes.parse(scheme)
    if scheme.startswith("olive"):  # four candidates instead of 88: the search has its own tests
        config = dataclasses.replace(config, low=90, high=130, step=10)  # type: ignore[type-var]
    return models.prepare("tiny", config, backend=backend, calibration=calibration)


@pytest.mark.parametrize("cuts", [[1] * 20, [7, 13], [19, 1], [5, 1, 1, 13]], ids=str)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_prompt_and_decode_give_equal_bits(scheme: str, cuts: list[int]) -> None:
    session, parts = models.session(prepared(scheme)), []
    for count in cuts:
        parts.append(session.append(IDS[len(session) : len(session) + count]))
    whole = models.session(prepared(scheme)).append(IDS[:20])

    assert whole.tobytes() == np.concatenate(parts).tobytes()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_last_is_the_last_row(scheme: str) -> None:
    every, last = (models.session(prepared(scheme)).append(IDS[:9], last=last) for last in (False, True))

    assert every[-1:].tobytes() == last.tobytes()


def test_later_tokens_do_not_change_earlier_logits() -> None:
    long, short = (models.run("tiny", IDS[:count], prepared()).logits for count in (12, 5))

    assert long[:5].tobytes() == short.tobytes()


def test_rewind_goes_back_to_a_mark() -> None:
    session = models.session(prepared("olive-4"))
    session.append(IDS[:5])
    mark, counters = session.mark(), session.counters
    first = session.append(IDS[5:9])
    session.rewind(mark)

    assert (5, counters) == (len(session), session.counters)
    assert first.tobytes() == session.append(IDS[5:9]).tobytes()


def test_call_that_raises_leaves_session_as_it_was() -> None:
    """A tap may raise in the middle of a layer."""

    def tap(layer: int, unit: str, case: Cases) -> None:
        if layer == armed[0]:
            raise KeyboardInterrupt

    armed = [-1]
    session = Session(prepared("olive-4"), tap)
    session.append(IDS[:3])
    armed[0] = 1
    with pytest.raises(KeyboardInterrupt):
        session.append(IDS[3:6])
    armed[0] = -1

    assert len(session) == 3
    assert models.run("tiny", IDS[:6], prepared("olive-4")).logits[3:].tobytes() == session.append(IDS[3:6]).tobytes()


BAD = [
    pytest.param(
        [], Refused, r"tiny: token ids must be a flat list with at least one id, got shape \(0,\)", id="empty"
    ),
    pytest.param([[1, 2]], Refused, r"a flat list with at least one id, got shape \(1, 2\)", id="two axes"),
    pytest.param([1, 256], Refused, r"tiny: token id 256 at index \(1,\) is outside \[0, 256\)", id="too large"),
    pytest.param([-1], Refused, r"token id -1 at index \(0,\)", id="negative"),
    pytest.param([1.0], RefusedType, "tiny: integers are needed, got dtype float64", id="float"),
    pytest.param([0] * 2049, Refused, "tiny: the context holds 2048 tokens, got 2049", id="context"),
]


@pytest.mark.parametrize(("ids", "error", "message"), BAD)
def test_invalid_token_ids_are_rejected(ids: list[Any], error: type[Exception], message: str) -> None:
    session = models.session(prepared())
    with pytest.raises(error, match=message):
        session.append(ids)
    with pytest.raises(error, match=message):
        greedy(prepared(), ids, 1)

    assert len(session) == 0


def test_context_overflow_by_single_tokens_is_rejected() -> None:
    session = models.session(prepared())
    session.append([0] * 3)
    with pytest.raises(Refused, match="the context holds 2048 tokens, got 2049"):
        session.append([0] * 2046)


def test_greedy_takes_the_largest_logit_of_every_step() -> None:
    chosen = greedy(prepared(), IDS[:6], 8)
    logits = models.run("tiny", IDS[:6] + chosen[:-1], prepared()).logits

    assert np.argmax(logits[5:], axis=1).tolist() == chosen


@pytest.mark.parametrize(
    ("ids", "count", "message"),
    [
        pytest.param([1], 0, "greedy: count must be at least 1, got 0", id="none"),
        pytest.param([1], 2049, "the context holds 2048 tokens, got 2049", id="context"),
    ],
)
def test_greedy_checks_arguments_before_it_starts(ids: list[int], count: int, message: str) -> None:
    with pytest.raises(Refused, match=message):
        greedy(prepared(), ids, count)


def test_repr_says_how_long_it_is() -> None:
    assert repr(models.session(prepared())).endswith(", 0 tokens)")
