"""Log-likelihoods and continuations of many requests: the definition, one request at a time."""

import math

import numpy as np
import pytest

from refemu import models
from refemu.harness.scoring import TOKENS, Request, continuations, loglikelihoods
from refemu.models.sequences.generation import Chooser

CONTEXTS = [b"The sea was", b"The sea was", b"A", b"The sea was calm and the"]
ENDS = [b" calm", b" a", b"nne", b" x"]
REQUESTS = [Request(tuple(a), tuple(b)) for a, b in zip(CONTEXTS, ENDS, strict=True)]


@pytest.mark.parametrize("scheme", ["fp16", "harmonia-kv8", "leankv-k4v1"])
@pytest.mark.parametrize("size", [1, 2, 32])
def test_loglikelihoods_are_those_of_each_request_alone(scheme: str, size: int) -> None:
    prepared = models.prepare("tiny", scheme)
    counted: list[int] = []
    found = loglikelihoods(prepared, REQUESTS, size, counted.append)

    for request, (total, greedy) in zip(REQUESTS, found, strict=True):
        session = models.session(prepared)
        rows = [session.append(request.context, last=True)[-1]]
        rows += [session.append([token])[-1] for token in request.continuation[:-1]]
        each = [
            float(row[token]) - row.max() - math.log(math.fsum(math.exp(v - row.max()) for v in row.tolist()))
            for row, token in zip(np.array(rows, np.float64), request.continuation, strict=True)
        ]
        assert total == pytest.approx(math.fsum(each), rel=1e-12)
        assert greedy == ([int(np.argmax(row)) for row in rows] == list(request.continuation))
    assert sum(counted) == len(REQUESTS)


def test_greedy_continuation_is_reported_as_greedy() -> None:
    prepared = models.prepare("tiny")
    best = models.greedy(prepared, list(b"The sea"), 3)
    found = loglikelihoods(prepared, [Request(tuple(b"The sea"), tuple(best)), REQUESTS[0]])

    assert [greedy for _, greedy in found] == [True, False]


def test_more_requests_than_a_batch_keep_their_order() -> None:
    prepared = models.prepare("tiny")
    many = [Request(tuple(b"x" * (TOKENS // 4 + number)), (65 + number,)) for number in range(7)]
    alone = [loglikelihoods(prepared, [request])[0] for request in many]

    assert loglikelihoods(prepared, many) == alone


@pytest.mark.parametrize("size", [1, 3])
def test_continuations_are_those_of_each_prompt_alone(size: int) -> None:
    prepared = models.prepare("tiny")
    prompts = [list(each) for each in (*CONTEXTS, b"b" * 300)]
    found = continuations(
        prepared, prompts, 6, lambda number, ids: len(ids) == 4 and number == 1, [Chooser()] * 5, size
    )

    for number, (prompt, ids) in enumerate(zip(prompts, found, strict=True)):
        assert ids == models.greedy(prepared, prompt, 4 if number == 1 else 6)
