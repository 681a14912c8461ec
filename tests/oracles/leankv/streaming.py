"""Probabilities of a prompt from its logits, as recurrences over tiles of keys [leankv §7.4]; imports no refemu."""

from collections.abc import Sequence

from tests.oracles.exp import exp32
from tests.oracles.fp16 import f32

Logits = Sequence[Sequence[Sequence[float]]]  #: by query, head and token


def probabilities(logits: Logits, keys: int, online: bool) -> list[list[list[float]]]:
    """p[query][head][token]; 0 for later tokens."""
    return [[row(heads[: query + 1], keys, online, len(logits)) for heads in rows] for query, rows in enumerate(logits)]


def row(seen: Sequence[float], keys: int, online: bool, length: int) -> list[float]:
    """The probabilities of one query and head."""
    top, norm = (float("-inf"), 0.0) if online else (max(seen), 0.0)
    for first in range(0, len(seen), keys):
        tile = seen[first : first + keys]
        if online:
            larger = max([top, *tile])
            norm = f32(norm * exponential(top, larger))
            top = larger
        for value in tile:
            norm = f32(norm + exponential(value, top))
    p = [f32(exponential(value, top) / norm) for value in seen]
    return p + [0.0] * (length - len(seen))


def exponential(value: float, top: float) -> float:
    """exp(value - top)."""
    difference = value - top
    return 0.0 if difference < -200 else exp32(f32(difference))
