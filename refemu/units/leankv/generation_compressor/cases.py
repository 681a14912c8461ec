"""Cases of generation_compressor. All cases of [leankv Algorithm 1] in turn; then ties, empty and full sections."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from refemu.units import Cases, Config, Kind, find
from refemu.units.stimuli import Seeds, random_inputs

Head = tuple[Sequence[float], Sequence[float], tuple[float, float]]  #: means * 64, high and low; thresholds * 64
LANES = 128  #: lanes that search for the least score
WINDOW = 2


def cases(config: Config, kind: Kind, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind for one configuration."""
    if kind == "paper":
        # the last high token is the oldest of the window; shares of 64
        heads: list[Head] = [
            ([24, 8, 4, 20], [8], (3, 4)),
            ([24, 8, 4, 20], [8], (3, 16)),
            ([24, 8, 1, 23], [8], (3, 16)),
            ([24, 20, 4, 8], [8], (3, 16)),
            ([24, 27, 4, 8], [1], (3, 16)),
            ([24, 23, 8, 1], [8], (3, 16)),
            ([], [], (3, 16)),
        ]
        why = "one head for each of A1 A2 A3 B1 B2 C W"
        if not _by_share(config):
            why = "the heads with choices A1 A2 A3 B1 B2 C W by their shares, under another rule"
        yield _case(config, kind, f"[leankv Algorithm 1] {why}", heads)
    if kind == "edge":
        yield from _edge(config)
    if kind == "random":
        slots = config["slots"]
        count = 24 if slots <= 64 else 4 if config["policy"] == "algorithm1" else 2
        mean = 16 / slots if _by_share(config) else 1  # shares of many tokens are small
        drawn = random_inputs(
            "generation_compressor", find("generation_compressor").ports(config).inputs, (count,), seed
        )
        few = (drawn["score"] & 7).astype(np.float32) / np.float32(8)
        drawn["score"] = few.view(np.uint32).astype(np.int64)
        drawn["thresholds"] = _limits(config, [(mean, 16 * mean)] * len(drawn["n"]))
        yield Cases(kind, "scores of eight values in sections of any length", legal(config, drawn))
        wide = (drawn["position"] & 0xFFFF).astype(np.float32) / np.float32(1 << 16)
        wide = wide * wide * wide
        why = "scores of very different size"
        yield Cases(kind, why, legal(config, drawn | {"score": wide.view(np.uint32).astype(np.int64)}))


def _by_share(config: Config) -> bool:
    """Whether heads are compared by their shares of the scores [leankv Algorithm 1]."""
    return bool(config["policy"] == "algorithm1" and config["score_rule"] == "share")


def _edge(config: Config) -> Iterator[Cases]:
    single = config["policy"] == "static"
    equal: list[Head] = [
        ([8] * 5, [] if single else [8] * 2, (3, 16)),
        ([8] * 6, [], (8, 8)),
        ([0] * 5, [], (0, 0)),
        ([0] * 5, [] if single else [0] * 3, (3, 16)),
        ([24, 4, 8, 4, 4, 20], [] if single else [8], (3, 16)),
        ([24, 1, 8, 1, 1, 23], [] if single else [8], (3, 16)),
        ([24, 0, 8, 0, 0, 23], [] if single else [8], (3, 16)),
    ]
    yield _case(
        config, "edge", "equal scores: the lowest position, or the lowest bit-reversed lane", equal, "D-leankv-28"
    )
    empty: list[Head] = [([], [], (3, 16)), ([8], [], (3, 16)), ([8, 8], [], (3, 16)), ([24, 1, 1, 4], [], (3, 16))]
    yield _case(config, "edge", "nothing stored, less than the window, exactly the window; no low token", empty)
    full = config["slots"] - 6
    packed: list[Head] = [
        ([1, 24, 8, 8, 4, 4], [] if single else [9] * full, (3, 16)),
        ([8, 24, 8, 8, 4, 4], [] if single else [9] * (full - 1) + [1], (3, 16)),
    ]
    yield _case(config, "edge", "the low section fills all slots; its last token is the least", packed)
    exact: list[Head] = [([16, 16, 16, 16], [], (0, 16)), ([16, 16, 16, 16], [], (16, 17)), ([16] * 4, [], (16, 64))]
    yield _case(config, "edge", "shares that equal a threshold belong above it", exact, "D-leankv-27")
    count = config["slots"]
    most: list[Head] = [
        ([64.0] * count, [], (0, 0)),
        ([64.0] * (count - 1) + [32.0], [], (0, 0)),
        ([32.0] + [64.0] * (count - 1), [], (0, 64)),
    ]
    yield _case(config, "edge", "every slot holds a high token", most)
    why = "prompts longer than the number of counted queries: early tokens all have the same count"
    lows, limits = [] if single else [9.0] * 8, (3, 80 if config["policy"] == "diffkv" else 16)
    early: list[Head] = [
        ([9.0] * max(at, 0) + [8] + [9.0] * (count - 9 - at), lows, limits) for at in (count // 3, 3, 0)
    ]
    yield _case(config, "edge", why, early, "D-leankv-16", prompts=True)
    if config["policy"] == "algorithm1":
        below: list[Head] = [([24, 8, 4, 20], low, (3, 16)) for low in ([7, 1], [1, 7], [4, 2, 2], [1])]
        why = "A2 with a low token below T_l: it stays, and the moved token goes after it"
        yield _case(config, "edge", why, below, "D-leankv-29")
    if config["slots"] >= 4:
        yield _apart(config)
    if single:
        yield _budgets(config)
    elif config["slots"] <= LANES or config["policy"] == "diffkv":
        yield _rounded(config)
    if config["slots"] > LANES:
        yield _lanes(config)
    yield _misread(config)


def _misread(config: Config) -> Cases:
    """Tokens without position 0; the last row has a window of 3, in which the least mean does not count."""
    slots, last = config["slots"], 1 + 1 / (1 << 23)
    heads: list[Head] = [
        ([8] * (slots - 1) + [24], [], (0, 8)),
        ([8] * (slots - 1) + [24], [], (0, 8)),
        ([16] * (slots - 8) + [8 * last, 16, 16, 16, 8, 16, 16, 16], [], (0, 8)),
        ([8] * (slots - 1) + [1], [], (0, 16)),
    ]
    if slots > LANES:
        high, limits = [8, 24, 24, 24, 4], (0, 64 if config["policy"] == "diffkv" else 2)
        heads = [(high, [9] * 64, limits), ([8] * (slots - 1) + [64], [], limits), (high, [9] * 32, limits)]
    why = "another mean is least if a position reads as 0, or the window or a score is one off"
    block = _case(config, "edge", why, heads)
    inputs = {name: np.array(array) for name, array in block.inputs.items()}
    inputs["position"] += np.arange(slots) < (inputs["n_high"] + inputs["n_low"])[:, None]
    inputs["n"] += 1
    for name in ("score", "position"):
        inputs[name][1:2] = np.roll(inputs[name][1:2], 1, axis=1)
    inputs["window"][-1] += 1
    return replace(block, inputs=inputs)


def _lanes(config: Config) -> Cases:
    """The least score in one slot or in several; a running sum has equal values for scores of 0 only."""
    running = config.get("score_rule") == "cumulative"
    limits, less = (3.0, 16.0) if config["policy"] == "diffkv" else (0.2, 0.4), 9 if running else 8
    least = ((127,), (1, 64, 127, 129), (0, 128), (130,), (37, 101))
    heads: list[Head] = [([9.0 - less * (s in slots) for s in range(132)], [9.0] * 10, limits) for slots in least]
    why = "the least score in lane 127; ties over lanes and within one"
    block = _case(config, "edge", why, heads, "D-leankv-28")
    if not running:
        return block
    position = np.array(block.inputs["position"])  # the newest first, except for the window
    position[:, : 132 - WINDOW] = position[:, : 132 - WINDOW][:, ::-1].copy()
    return replace(block, inputs={**block.inputs, "position": position})


def _rounded(config: Config) -> Cases:
    """Equal means; they, or their shares, equal the upper threshold only after rounding."""
    heads: list[Head] = []
    for k in (3, 5, 6, 7, 11, 13):  # tokens
        share = np.float32(1) / np.float32(k)
        moved = [m for m in range(1, 400) if np.float32(m) * (np.float32(1) / np.float32(k * m)) < share]
        means = [1, *moved[:1]] if float(share) > 1 / k else moved[:1]
        heads += [([float(m)] * k, [], (0, 64 * float(share))) for m in means]
    why = "shares of 1 / k that round to the upper threshold: a truncated quotient, or a reciprocal, is below it"
    return _case(config, "edge", why, heads, "D-arith-2")


def _apart(config: Config) -> Cases:
    """Few tokens far apart, at positions whose bits alternate; one of the oldest leaves."""
    far = _case(config, "edge", "", [([24, 8, 1, 23], [], (3, 16)), ([1, 8, 24, 20], [], (3, 16))])
    position = np.array([[0x155, 0x2AAA, 0x15555, 0x2AAA_AAAA], [0x2AA, 0x5555, 0x2_AAAA, 0x5555_5555]])
    inputs = {name: np.array(array) for name, array in far.inputs.items()}
    inputs["position"][:, : position.shape[1]] = position
    inputs["n"] = position[:, -1] + 2
    why = "few tokens far apart, at positions whose bits alternate"
    return Cases("edge", why, inputs, "D-leankv-16")


def _budgets(config: Config) -> Cases:
    """Heads that store about half of the tokens so far: one below the budget, at it, and one above."""
    slots, rows = config["slots"], []
    for stored in (3, 6, slots // 2, slots):
        for newest in range(2 * stored - 2, 2 * stored + 3):
            position = [newest - 2 * (stored - slot) for slot in range(stored)]
            rows.append((stored, newest, [max(p, slot) for slot, p in enumerate(position)]))
    n_high, tokens = (np.array([row[column] for row in rows]) for column in (0, 1))
    at = np.array([[*row[2], *[0] * (slots - row[0])] for row in rows])
    score = np.where(np.arange(slots) < n_high[:, None], 1 + (np.arange(slots) * 5 + tokens[:, None]) % 7, 0)
    why = "half of an even and of an odd number of tokens stored: one below the budget, at it, one above"
    limits = _limits(config, [(3, 16)] * len(rows))
    inputs = _inputs(score, at, n_high, np.zeros_like(tokens), tokens, tokens // 2, limits)
    return Cases("edge", why, inputs, "D-leankv-54")


def _inputs(score: np.ndarray, *columns: np.ndarray) -> dict[str, np.ndarray]:
    """Inputs by port, the window WINDOW, from float scores and the columns of the other ports."""
    names = ("score", "position", "n_high", "n_low", "n", "prompt", "window", "thresholds")
    words = score.astype(np.float32).view(np.uint32).astype(np.int64)
    *rest, limits = columns
    return dict(zip(names, (words, *rest, np.full_like(rest[-1], WINDOW), limits), strict=True))


def _case(config: Config, kind: Kind, why: str, heads: list[Head], decision: str = "", prompts: bool = False) -> Cases:
    """Heads with scores of means times counts and positions in the order of slots; heads that do not fit are skipped.

    prompts: all stored tokens are of the prompt, else none.
    """
    slots = config["slots"]
    rows: list[tuple[Any, ...]] = []
    fitting = [head for head in heads if len(head[0]) + len(head[1]) <= slots] or [([], [], (3, 16))]
    for high, low, _ in fitting:
        if config["policy"] == "static":
            low = []
        stored = len(high) + len(low)
        position = [*range(len(low), stored), *range(len(low))]
        last = stored + 1 - (config.get("score_queries") or stored + 1) if prompts else 0
        excluded = int(not config.get("include_self"))
        counts = [stored + 1 - max(p + excluded, last) for p in position]
        scores = [mean / 64 * count for mean, count in zip([*high, *low], counts, strict=True)]
        free = [0] * (slots - stored)
        rows.append(([*scores, *free], [*position, *free], len(high), len(low), stored + 1))
    score, at, n_high, n_low, n = (np.array(column) for column in zip(*rows, strict=True))
    limits = _limits(config, [limits for _, _, limits in fitting])
    inputs = _inputs(score, at, n_high, n_low, n, n if prompts else np.zeros_like(n), limits)
    return Cases(kind, why, inputs, decision)


def _limits(config: Config, pairs: Sequence[tuple[float, float]]) -> np.ndarray:
    """Patterns of thresholds given in 64ths; as alphas they are 16 times as large."""
    scale = 4 if config["policy"] == "diffkv" else 64
    return (np.array(pairs, np.float32) / np.float32(scale)).view(np.uint32).astype(np.int64)


def legal(config: Mapping[str, Any], inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """`inputs` as states that exist: distinct positions below n, the low section before the window, ordered limits."""
    slots, arrays = config["slots"], {name: np.asarray(array).astype(np.int64) for name, array in inputs.items()}
    n_high = arrays["n_high"] % (slots + 1)
    n_low = arrays["n_low"] % (slots - n_high + 1) * (config["policy"] != "static")
    window = arrays["window"] % (slots + 2) + 1
    n = n_high + n_low + window
    slot = np.arange(slots)
    high = slot < n_high[:, None]
    key = np.where(high, arrays["position"].reshape(len(n), slots), np.int64(1) << 40)
    rank = np.argsort(np.argsort(key, axis=1, kind="stable"), axis=1, kind="stable")  # rank of the high slots
    position = np.where(high, (n - n_high)[:, None] + rank, np.maximum(slot - n_high[:, None], 0))
    pair = np.sort(arrays["thresholds"] & 0x7FFF_FFFF, axis=-1, kind="stable")
    legal = {
        "score": arrays["score"] & 0x7FFF_FFFF,
        "position": position.reshape(arrays["position"].shape),
        "n_high": n_high,
        "n_low": n_low,
        "n": n,
        "prompt": arrays["prompt"] % (n + 1),
        "window": window,
        "thresholds": np.minimum(pair, 0x3F80_0000) if config["policy"] == "algorithm1" else pair,
    }
    return {name: array.astype(np.asarray(inputs[name]).dtype) for name, array in legal.items()}
