"""Routing to experts and their weighted sum, in Python numbers."""

from collections.abc import Sequence

from tests.oracles.exp import exp32
from tests.oracles.fp16 import f32, from_float, to_float


def f16(x: float) -> float:
    """A value rounded to fp16."""
    return to_float(from_float(x))


def route(logits: Sequence[float], count: int, normalized: bool) -> list[tuple[int, float]]:
    """Experts of a token with their weights: a softmax in float32 steps, the largest first, then the lower number."""
    top = max(logits)
    parts = [exp32(f32(each - top)) for each in logits]
    total = 0.0
    for part in parts:
        total = f32(total + part)
    shares = [f32(part / total) for part in parts]
    order = sorted(range(len(shares)), key=lambda number: (-shares[number], number))[:count]
    chosen = [shares[number] for number in order]
    if normalized:
        whole = 0.0
        for share in chosen:
            whole = f32(whole + share)
        chosen = [f32(share / whole) for share in chosen]
    return [(number, f16(share)) for number, share in zip(order, chosen, strict=True)]


def combine(outputs: dict[int, Sequence[float]], weights: dict[int, float]) -> list[float]:
    """The sum of weighted outputs in ascending order of the experts; products and sums are rounded to fp16."""
    width = len(next(iter(outputs.values())))
    total = [0.0] * width
    for number in sorted(outputs):
        for place, value in enumerate(outputs[number]):
            total[place] = f16(f32(total[place] + f16(f32(value * weights[number]))))
    return total
