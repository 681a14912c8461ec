"""Log-likelihoods and continuations of many requests, computed together; nothing here knows the harness."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from refemu.models.runtime import Session
from refemu.models.schemes.scheme import Prepared
from refemu.models.scores.perplexity import surprise
from refemu.models.sequences.batch import append_all
from refemu.models.sequences.generation import Chooser

T = TypeVar("T")
TOKENS = 512  #: tokens of the prompts that are computed together
ALIKE = 32  #: continuations that are computed together


@dataclass
class Request:
    """Token ids of a context and of the continuation to score."""

    context: tuple[int, ...]  #: at least one
    continuation: tuple[int, ...]  #: at least one


def loglikelihoods(
    prepared: Prepared, requests: Sequence[Request], size: int = ALIKE, done: Callable[[int], None] = lambda count: None
) -> list[tuple[float, bool]]:
    """Sum of log probabilities of each continuation, and whether every token of it has the highest logit.

    A context that several requests share is read once. size: most contexts that are computed together. done: called
    with the number of requests answered since its last call.
    """
    numbers: dict[tuple[int, ...], list[int]] = {}
    for number, request in enumerate(requests):
        numbers.setdefault(request.context, []).append(number)
    answers: dict[int, tuple[float, bool]] = {}
    for contexts in _batches(sorted(numbers, key=lambda each: (-len(each), each)), size):
        sessions = [Session(prepared) for _ in contexts]
        firsts = [rows[-1:] for rows in append_all(sessions, contexts, last=True)]
        for turn in range(max(len(numbers[context]) for context in contexts)):
            now = [place for place, context in enumerate(contexts) if turn < len(numbers[context])]
            asked = [numbers[contexts[place]][turn] for place in now]
            results = _continued([sessions[place] for place in now], [requests[number] for number in asked])
            for place, number, rows in zip(now, asked, results, strict=True):
                logits = np.concatenate([firsts[place], rows]) if len(rows) else firsts[place]
                answers[number] = _score(logits, np.array(requests[number].continuation))
            done(len(now))
    return [answers[number] for number in range(len(requests))]


def _continued(sessions: Sequence[Session], requests: Sequence[Request]) -> list[np.ndarray]:
    """Logits after each token of the continuations but the last; the sessions are as before."""
    marks = [session.mark() for session in sessions]
    longer = [place for place, request in enumerate(requests) if len(request.continuation) > 1]
    empty = np.empty((0, sessions[0].prepared.model.vocab), np.float32)
    rows = [empty for _ in sessions]
    if longer:
        ids = [requests[place].continuation[:-1] for place in longer]
        for place, results in zip(longer, append_all([sessions[place] for place in longer], ids), strict=True):
            rows[place] = results
            sessions[place].rewind(marks[place])
    return rows


def _score(logits: np.ndarray, ids: np.ndarray) -> tuple[float, bool]:
    total = 0.0
    for loss in surprise(logits, ids).tolist():
        total -= loss
    return total, bool(np.array_equal(np.argmax(logits, axis=1), ids))


def continuations(
    prepared: Prepared,
    prompts: Sequence[Sequence[int]],
    count: int,
    stop: Callable[[int, list[int]], bool],
    choosers: Sequence[Chooser],
    size: int = ALIKE,
    done: Callable[[int], None] = lambda count: None,
) -> list[list[int]]:
    """Up to `count` tokens after each prompt. stop(number, ids): whether prompt `number` needs no more tokens."""
    results: list[list[int]] = [[] for _ in prompts]
    order = sorted(range(len(prompts)), key=lambda number: -len(prompts[number]))
    for numbers in _batches(order, size, lambda number: len(prompts[number])):
        sessions = {number: Session(prepared) for number in numbers}
        ids: dict[int, Sequence[int]] = {number: prompts[number] for number in numbers}
        while sessions:
            logits = append_all(list(sessions.values()), [ids[number] for number in sessions], last=True)
            for number, rows in zip(list(sessions), logits, strict=True):
                results[number].append(choosers[number].choose(rows[-1], len(results[number])))
                ids[number] = results[number][-1:]
                if len(results[number]) == count or stop(number, results[number]):
                    del sessions[number]
        done(len(numbers))
    return results


def _batches(items: Sequence[T], size: int, length: Callable[[T], int] = len) -> Iterator[list[T]]:  # type: ignore[assignment]
    """Cut a list, so that a batch has at most `size` items and about TOKENS tokens."""
    batch: list[T] = []
    tokens = 0
    for item in items:
        if batch and (len(batch) == size or tokens + length(item) > TOKENS):
            yield batch
            batch, tokens = [], 0
        batch.append(item)
        tokens += length(item)
    if batch:
        yield batch
