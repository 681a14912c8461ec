"""LeanKV's selection of tokens on Python floats that hold float32 values [leankv §3.2, §4, Algorithm 1].

    significance(p, preset, ...)            -> sums, counts, means, shares of a prompt
    step_scores(scores, p, positions, ...)  scores after a step;  counts_at(positions, n, prompt, preset)
    critical_tokens(share, x), coefficients(p, values)
    cumulative(share, ...), per_token(share, ...), static_prompt(mean, ...)   -> Classes
    algorithm1(high, low, ...), diffkv(high, low, ...), static_step(high, ...)  -> Decision
    apply(high, low, decision, new)         the sections after a decision
Pages and attention are in `leankv_memory` and `leankv_attention`.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from tests.oracles.fp16 import f32

FLT_MAX = 2.0**128 - 2.0**104
T = TypeVar("T")
PRUNED, LOW, HIGH, WINDOW = range(4)
CASES = {name: code for code, name in enumerate(["W", "A1", "A2", "A3", "B1", "B2", "C"])}
CASES |= {"append": 8, "prune": 9, "swap": 10, "downgrade": 11, "static_append": 12, "static_drop": 13}


def running(values: Sequence[float]) -> list[float]:
    """Float32 running sums from 0."""
    found, total = [], 0.0
    for value in values:
        total = f32(total + value)
        found.append(total)
    return found


# Significance.


class Scores(NamedTuple):
    """Per token: sum of scores, counted queries, mean, share."""

    sums: list[float]
    counts: list[int]
    means: list[float]
    shares: list[float]


RULES: dict[str, dict[str, int]] = {
    "paper": {"score_queries": 0, "include_self": 0, "normalize": 1},
    "diffkv": {"score_queries": 64, "include_self": 1, "normalize": 0},
}


def joined(heads: Sequence[float], gqa: str = "max") -> float:
    """One value of those of the heads: the largest from 0 on, or the sum in turn divided by their number."""
    return max(0.0, *heads) if gqa == "max" else f32(running(heads)[-1] / len(heads))


def significance(
    p: Sequence[Sequence[Sequence[float]]], preset: str = "paper", gqa: str = "max", **changed: int
) -> Scores:
    """p[query][head][token] of a prompt: later queries, the last `score_queries` of them (0: all); shares of 1."""
    n, rule = len(p), RULES[preset] | changed
    sums, counts = [], []
    for t in range(n):
        first = t if rule["include_self"] else t + 1
        queries = range(max(first, n - rule["score_queries"]) if rule["score_queries"] else first, n)
        heads = [[0.0, *running([p[q][h][t] for q in queries])] for h in range(len(p[0]))]
        sums.append(joined([head[-1] for head in heads], gqa))
        counts.append(len(queries))
    means = [f32(s / c) if c else 0.0 for s, c in zip(sums, counts, strict=True)]
    return Scores(sums, counts, means, shares(means) if rule["normalize"] else means)


def shares(means: Sequence[float]) -> list[float]:
    """Means divided by their float32 running total; all 0 if that is 0."""
    total = running(means)[-1] if means else 0.0
    return [f32(m / total) if total else 0.0 for m in means]


def counts_at(positions: Sequence[int], n: int, prompt: int, preset: str = "paper") -> list[int]:
    """Queries counted for stored tokens before the token n is there."""
    if preset == "paper":
        return [n - 1 - t for t in positions]
    return [min(prompt - t, 64) + n - prompt if t < prompt else n - t for t in positions]


def step_scores(
    scores: Sequence[float],
    p: Sequence[Sequence[float]],
    positions: Sequence[int],
    n: int,
    preset: str = "paper",
    gqa: str = "max",
) -> list[float]:
    """Scores after step n; p[head][stored token]. In "paper" the new token does not score itself."""
    return [
        s if preset == "paper" and t == n else f32(s + joined([head[i] for head in p], gqa))
        for i, (s, t) in enumerate(zip(scores, positions, strict=True))
    ]


def critical_tokens(share: Sequence[float], x: float) -> int:
    """The fewest of the largest shares whose float32 sum reaches x of the total."""
    sums = [0.0, *running(sorted(share, reverse=True))]
    return next(count for count, total in enumerate(sums) if total >= f32(f32(x) * sums[-1]))


def coefficients(p: Sequence[float], values: Sequence[Sequence[float]]) -> list[float]:
    """[leankv Eq. 3]: scores times float32 norms."""
    norms = [f32(math.sqrt(running([f32(x * x) for x in v])[-1])) for v in values]
    return [f32(score * norm) for score, norm in zip(p, norms, strict=True)]


# Prompt.


class Classes(NamedTuple):
    """Class of each position, all positions in sorted order (window last in "paper"), and the page orders."""

    classes: list[int]
    order: list[int]
    low: list[int]
    high: list[int]

    @property
    def numbers(self) -> tuple[int, int, int]:
        """N_p, N_l, N_h."""
        return self.classes.count(PRUNED), self.classes.count(LOW), self.classes.count(HIGH)


def classified(classes: list[int], order: list[int]) -> Classes:
    """Page orders: low tokens, and high ones with the window, in sorted order."""
    low = [t for t in order if classes[t] == LOW]
    return Classes(classes, order, low, [t for t in order if classes[t] in (HIGH, WINDOW)])


def everything(n: int) -> Classes:
    """A prompt inside the window."""
    return classified([WINDOW] * n, list(range(n)))


def cumulative(
    share: Sequence[float], window: int, t_low: float, t_high: float, low_cumsum: str = "total", sort: str = "stable"
) -> Classes:
    """Sorted by (share, position): pruned while the sum is below t_low, low while it is below t_high.

    sort: "stable", or "bitonic" for the places in the pages; the classes are the same.
    """
    n = len(share)
    if n <= window:
        return everything(n)
    order = sorted(range(n - window), key=lambda t: (share[t], t))
    sums = running([share[t] for t in order])
    pruned = sum(total < f32(t_low) for total in sums)
    if low_cumsum == "restart":
        sums = [0.0] * pruned + running([share[t] for t in order[pruned:]])
    low = sum(total < f32(t_high) for total in sums[pruned:])
    classes = [WINDOW] * n
    for rank, t in enumerate(order):
        classes[t] = PRUNED if rank < pruned else LOW if rank < pruned + low else HIGH
    return classified(classes, placed(share, window, order, sort))


def placed(share: Sequence[float], window: int, order: list[int], sort: str) -> list[int]:
    """All positions as the pages take them: `order` and then the window, or as the network leaves them."""
    outside = len(share) - window
    if sort == "bitonic":
        return bitonic([*share[:outside], *[1.0] * window])
    return [*order, *range(outside, len(share))]


def per_token(share: Sequence[float], window: int, alpha_prune: float, alpha_quant: float) -> Classes:
    """Each share against alpha / N; order of a bitonic network in which the window counts as 1."""
    n = len(share)
    if n <= window:
        return everything(n)
    prune, quant = per_token_thresholds(n, alpha_prune, alpha_quant)
    classes = [PRUNED if s < prune else LOW if s < quant else HIGH for s in share[: n - window]] + [WINDOW] * window
    return classified(classes, placed(share, window, [], "bitonic"))


def per_token_thresholds(n: int, alpha_prune: float, alpha_quant: float) -> tuple[float, float]:
    """alpha / n in float32."""
    base = f32(1 / n)
    return f32(base * f32(alpha_prune)), f32(base * f32(alpha_quant))


def bitonic(keys: Sequence[float]) -> list[int]:
    """Places in the order in which the network leaves the keys; padded with the largest float32 to a power of two."""
    size = 1 << (len(keys) - 1).bit_length()
    items = [(key, place) for place, key in enumerate(keys)] + [(FLT_MAX, -1)] * (size - len(keys))
    k = 2
    while k <= size:
        j = k // 2
        while j:
            for i in range(size):
                if i & j:
                    continue
                first, second = items[i], items[i + j]
                if first[0] > second[0] if i & k == 0 else first[0] < second[0]:
                    items[i], items[i + j] = second, first
            j //= 2
        k *= 2
    return [place for _, place in items if place >= 0]


def budget(tokens: int, window: int, keep_percent: int) -> int:
    """Tokens that every head may hold."""
    return max(window, tokens * keep_percent // 100)


def static_prompt(mean: Sequence[float], window: int, keep_percent: int, sort: str = "stable") -> Classes:
    """The window and the highest means outside; of equal ones the higher position."""
    n = len(mean)
    if n <= window:
        return everything(n)
    order = sorted(range(n - window), key=lambda t: (mean[t], t))
    drop = max(0, len(order) - (budget(n, window, keep_percent) - window))
    classes = [WINDOW] * n
    for rank, t in enumerate(order):
        classes[t] = PRUNED if rank < drop else HIGH
    return classified(classes, placed(mean, window, order, sort))


# Generation.

Token = tuple[int, float]  #: position, mean score


class Decision(NamedTuple):
    """Case, the high slot that the new token takes, the low slot that its old token goes to (-1: nowhere), deltas."""

    case: int
    victim: int
    low_slot: int
    delta_high: int
    delta_low: int


def algorithm1(
    high: Sequence[Token],
    low: Sequence[Token],
    n: int,
    window: int,
    t_low: float,
    t_high: float,
    score_rule: str = "share",
) -> Decision:
    """[leankv Algorithm 1] on sets of positions, then the slots that change. Tokens in slot order."""
    t_low, t_high = f32(t_low), f32(t_high)
    stored = [*high, *low]
    share = dict(zip([t for t, _ in stored], shares([m for _, m in stored]), strict=True))
    candidate = n - window
    if candidate not in share:
        return Decision(CASES["W"], len(high), -1, 1, 0)
    kv_high = {t for t, _ in high if t < candidate}
    kv_low = {t for t, _ in low}
    if score_rule == "cumulative":
        order = sorted([*kv_high, *kv_low, candidate], key=lambda t: (share[t], t))
        share = dict(zip(order, running([share[t] for t in order]), strict=True))
    if share[candidate] >= t_high:
        kv_high.add(candidate)
        victim = min(kv_high, key=lambda t: (share[t], t))
        name = "A1"
        if t_low <= share[victim] < t_high:
            kv_high.remove(victim)
            kv_low.add(victim)
            name = "A2"
        elif share[victim] < t_low:
            kv_high.remove(victim)
            name = "A3"
    elif share[candidate] >= t_low:
        kv_low.add(candidate)
        victim = min(kv_low, key=lambda t: (share[t], t))
        name = "B1"
        if share[victim] < t_low:
            kv_low.remove(victim)
            name = "B2"
    else:
        name = "C"
    return as_slots(CASES[name], high, low, kv_high | {t for t, _ in high if t > candidate}, kv_low)


def as_slots(
    case: int, high: Sequence[Token], low: Sequence[Token], after_high: set[int], after_low: set[int]
) -> Decision:
    """Which slots change when the sections keep the given positions; the new token is not among them."""
    left = [slot for slot, (t, _) in enumerate(high) if t not in after_high]
    freed = [slot for slot, (t, _) in enumerate(low) if t not in after_low]
    moved = after_low - {t for t, _ in low}
    assert len(left) <= 1 and len(freed) <= len(moved) <= 1
    low_slot = -1 if not moved else freed[0] if freed else len(low)
    return Decision(
        case,
        left[0] if left else len(high),
        low_slot,
        len(after_high) + 1 - len(high),
        len(after_low) - len(low),
    )


def diffkv(
    high: Sequence[Token], low: Sequence[Token], n: int, window: int, alpha_prune: float, alpha_quant: float
) -> Decision:
    """The policy of the published code; means are not normalized."""
    append = Decision(CASES["append"], len(high), -1, 1, 0)
    if len(high) + len(low) + 1 <= window:
        return append
    prune, quant = per_token_thresholds(n, alpha_prune, alpha_quant)
    left, victim = lane_minimum(high, n, window)
    right, lowest = lane_minimum(low, n, window)
    if left < prune and left < right:
        return Decision(CASES["prune"], victim, -1, 0, 0)
    if left < quant and right < prune:
        return Decision(CASES["swap"], victim, lowest, 0, 0)
    if left < quant:
        return Decision(CASES["downgrade"], victim, len(low), 0, 1)
    return append


def lane_minimum(section: Sequence[Token], n: int, window: int) -> tuple[float, int]:
    """Least mean of tokens at least `window` old, and its slot: 128 lanes, a halving tree, replaced by less only."""
    lanes = [(FLT_MAX, -1)] * 128
    for slot, (t, mean) in enumerate(section):
        if n - t >= window and mean < lanes[slot % 128][0]:
            lanes[slot % 128] = (mean, slot)
    while len(lanes) > 1:
        half = len(lanes) // 2
        lanes = [lanes[i + half] if lanes[i + half][0] < lanes[i][0] else lanes[i] for i in range(half)]
    return lanes[0]


def static_step(high: Sequence[Token], n: int, window: int, keep_percent: int) -> Decision:
    """Above the budget the least mean outside the window is dropped; the lowest position of equals."""
    if len(high) + 1 <= budget(n + 1, window, keep_percent):
        return Decision(CASES["static_append"], len(high), -1, 1, 0)
    old = [(mean, t, slot) for slot, (t, mean) in enumerate(high) if n - t >= window]
    return Decision(CASES["static_drop"], min(old)[2], -1, 0, 0)


def apply(high: Sequence[T], low: Sequence[T], decision: Decision, new: T) -> tuple[list[T], list[T]]:
    """The sections afterwards, slot by slot."""
    high, low = list(high), list(low)
    if decision.low_slot >= 0:
        low[decision.low_slot : decision.low_slot + 1] = [high[decision.victim]]
    high[decision.victim : decision.victim + 1] = [new]
    return high, low
