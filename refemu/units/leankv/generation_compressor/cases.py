"""Cases of generation_compressor. All cases of [leankv Algorithm 1] in turn; then ties, empty and full sections."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from refemu.units import Config
from refemu.units.stimuli import Blocks, Inputs, Seeds, patterns32, uniform

Head = tuple[Sequence[float], Sequence[float], tuple[float, float]]  #: means * 64, high and low; thresholds * 64
LANES = 128  #: lanes that search for the least score
WINDOW = 2


def paper(config: Config) -> Blocks:
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
    yield f"[leankv Algorithm 1] {why}", _heads(config, heads)


def edge(config: Config) -> Blocks:
    slots, single, alphas = config["slots"], config["policy"] == "static", config["policy"] == "diffkv"
    equal: list[Head] = [([8] * 5, [8] * 2, (3, 16)), ([8] * 6, [], (8, 8)), ([0] * 5, [], (0, 0))]
    equal += [([0] * 5, [0] * 3, (3, 16)), *(([24, x, 8, x, x, 24 - x], [8], (3, 16)) for x in (4, 1))]
    equal += [([24, 0, 8, 0, 0, 23], [8], (3, 16))]
    yield "equal scores: the lowest position, or the lowest bit-reversed lane", _heads(config, equal), "D-leankv-28"
    empty: list[Head] = [(high, [], (3, 16)) for high in ([], [8], [8, 8], [24, 1, 1, 4])]
    yield "nothing stored, less than the window, exactly the window; no low token", _heads(config, empty)
    lows = ([9] * (slots - 6), [9] * (slots - 7) + [1])
    packed: list[Head] = [([first, 24, 8, 8, 4, 4], low, (3, 16)) for first, low in zip((1, 8), lows, strict=True)]
    yield "the low section fills all slots; its last token is the least", _heads(config, packed)
    exact: list[Head] = [([16] * 4, [], limits) for limits in ((0, 16), (16, 17), (16, 64))]
    yield "shares that equal a threshold belong above it", _heads(config, exact), "D-leankv-27"
    most: list[Head] = [([64.0] * slots, [], (0, 0)), ([64.0] * (slots - 1) + [32.0], [], (0, 0))]
    most += [([32.0] + [64.0] * (slots - 1), [], (0, 64))]
    yield "every slot holds a high token", _heads(config, most)
    early: list[Head] = [
        ([9.0] * at + [8] + [9.0] * (slots - 9 - at), [9.0] * 8, (3, 80 if alphas else 16)) for at in (slots // 3, 3, 0)
    ]
    why = "prompts longer than the number of counted queries: early tokens all have the same count"
    yield why, _heads(config, early, prompts=True), "D-leankv-16"
    if config["policy"] == "algorithm1":
        below: list[Head] = [([24, 8, 4, 20], low, (3, 16)) for low in ([7, 1], [1, 7], [4, 2, 2], [1])]
        why = "A2 with a low token below T_l: it stays, and the moved token goes after it"
        yield why, _heads(config, below), "D-leankv-29"
    if slots >= 4:
        position = np.array([[0x155, 0x2AAA, 0x15555, 0x2AAA_AAAA], [0x2AA, 0x5555, 0x2_AAAA, 0x5555_5555]])
        far = _heads(config, [([24, 8, 1, 23], [], (3, 16)), ([1, 8, 24, 20], [], (3, 16))])
        far["position"][:, : position.shape[1]] = position  # one of the oldest leaves
        far["n"] = position[:, -1] + 2
        yield "few tokens far apart, at positions whose bits alternate", far, "D-leankv-16"
    if single:
        why = "half of an even and of an odd number of tokens stored: one below the budget, at it, one above"
        yield why, _budgets(config), "D-leankv-54"
    elif slots <= LANES or alphas:
        why = "shares of 1 / k that round to the upper threshold: a truncated quotient, or a reciprocal, is below it"
        yield why, _rounded(config), "D-arith-2"
    if slots > LANES:
        yield "the least score in lane 127; ties over lanes and within one", _lanes(config), "D-leankv-28"
    why = "another mean is least if a position reads as 0, or the window or a score is one off"
    yield why, _misread(config)


def random(config: Config, seed: Seeds) -> Blocks:
    slots = config["slots"]
    count = 24 if slots <= 64 else 4 if config["policy"] == "algorithm1" else 2
    mean = 16 / slots if _by_share(config) else 1  # shares of many tokens are small
    drawn = uniform("generation_compressor", config, (count,), seed)
    drawn["score"] = patterns32((drawn["score"] & 7) / 8)
    drawn["thresholds"] = _limits(config, [(mean, 16 * mean)] * len(drawn["n"]))
    yield "scores of eight values in sections of any length", legal(config, drawn)
    wide = (drawn["position"] & 0xFFFF).astype(np.float32) / np.float32(1 << 16)
    wide = wide * wide * wide
    yield "scores of very different size", legal(config, drawn | {"score": patterns32(wide)})


def _by_share(config: Config) -> bool:
    """Whether heads are compared by their shares of the scores [leankv Algorithm 1]."""
    return bool(config["policy"] == "algorithm1" and config["score_rule"] == "share")


def _misread(config: Config) -> Inputs:
    """Tokens without position 0; the last row has a window of 3, in which the least mean does not count."""
    slots, last = config["slots"], 1 + 1 / (1 << 23)
    heads: list[Head] = [([8] * (slots - 1) + [24], [], (0, 8))] * 2
    heads += [([16] * (slots - 8) + [8 * last, *[16] * 3, 8, *[16] * 3], [], (0, 8))]
    heads += [([8] * (slots - 1) + [1], [], (0, 16))]
    if slots > LANES:
        high, limits = [8, 24, 24, 24, 4], (0, 64 if config["policy"] == "diffkv" else 2)
        heads = [(high, [9] * 64, limits), ([8] * (slots - 1) + [64], [], limits), (high, [9] * 32, limits)]
    inputs = {name: np.array(array) for name, array in _heads(config, heads).items()}
    inputs["position"] += np.arange(slots) < (inputs["n_high"] + inputs["n_low"])[:, None]
    inputs["n"] += 1
    for name in ("score", "position"):
        inputs[name][1:2] = np.roll(inputs[name][1:2], 1, axis=1)
    inputs["window"][-1] += 1
    return inputs


def _lanes(config: Config) -> Inputs:
    """The least score in one slot or in several; a running sum has equal values for scores of 0 only."""
    running = config.get("score_rule") == "cumulative"
    limits, less = (3.0, 16.0) if config["policy"] == "diffkv" else (0.2, 0.4), 9 if running else 8
    least = ((127,), (1, 64, 127, 129), (0, 128), (130,), (37, 101))
    inputs = _heads(config, [([9.0 - less * (s in slots) for s in range(132)], [9.0] * 10, limits) for slots in least])
    if running:  # the newest first, except for the window
        inputs["position"][:, : 132 - WINDOW] = inputs["position"][:, : 132 - WINDOW][:, ::-1].copy()
    return inputs


def _rounded(config: Config) -> Inputs:
    """Equal means; they, or their shares, equal the upper threshold only after rounding."""
    heads: list[Head] = []
    for k in (3, 5, 6, 7, 11, 13):  # tokens
        share = np.float32(1) / np.float32(k)
        moved = [m for m in range(1, 400) if np.float32(m) * (np.float32(1) / np.float32(k * m)) < share]
        means = [1, *moved[:1]] if float(share) > 1 / k else moved[:1]
        heads += [([float(m)] * k, [], (0, 64 * float(share))) for m in means]
    return _heads(config, heads)


def _budgets(config: Config) -> Inputs:
    """Heads that store about half of the tokens so far: one below the budget, at it, and one above."""
    slots = config["slots"]
    pairs = [(stored, 2 * stored + more) for stored in (3, 6, slots // 2, slots) for more in range(-2, 3)]
    (n_high, tokens), slot = np.array(pairs).T, np.arange(slots)
    used, newest = slot < n_high[:, None], tokens[:, None]
    position = np.where(used, np.maximum(newest - 2 * (n_high[:, None] - slot), slot), 0)
    score = np.where(used, 1 + (slot * 5 + newest) % 7, 0)
    limits = _limits(config, [(3, 16)] * len(pairs))
    return _inputs(score, position, n_high, np.zeros_like(tokens), tokens, tokens // 2, limits)


def _inputs(score: np.ndarray, *columns: np.ndarray) -> dict[str, np.ndarray]:
    """Inputs by port, the window WINDOW, from float scores and the columns of the other ports."""
    names = ("score", "position", "n_high", "n_low", "n", "prompt", "window", "thresholds")
    *rest, limits = columns
    return dict(zip(names, (patterns32(score), *rest, np.full_like(rest[-1], WINDOW), limits), strict=True))


def _heads(config: Config, heads: list[Head], prompts: bool = False) -> dict[str, np.ndarray]:
    """Heads with scores of means times counts and positions in the order of slots; heads that do not fit are skipped.

    A unit without low precision has their high tokens. prompts: all stored tokens are of the prompt, else none.
    """
    slots, single = config["slots"], config["policy"] == "static"
    high_only = [(high, [] if single else low, limits) for high, low, limits in heads]
    fitting = [head for head in high_only if len(head[0]) + len(head[1]) <= slots] or [([], [], (3, 16))]
    rows: list[tuple[Any, ...]] = []
    for high, low, _ in fitting:
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
    return _inputs(score, at, n_high, n_low, n, n if prompts else np.zeros_like(n), limits)


def _limits(config: Config, pairs: Sequence[tuple[float, float]]) -> np.ndarray:
    """Patterns of thresholds given in 64ths; as alphas they are 16 times as large."""
    scale = 4 if config["policy"] == "diffkv" else 64
    return patterns32(np.array(pairs, np.float32) / np.float32(scale))


def legal(config: Config, inputs: Inputs) -> dict[str, np.ndarray]:
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
