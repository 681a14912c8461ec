"""Golden cases of prompt_compressor. Shares in 64ths whose sums are exact first [leankv §4]; then ends and ties."""

from collections.abc import Sequence

import numpy as np

from refemu.units import Config
from refemu.units.stimuli import Block, Blocks, Inputs, Seeds, patterns32, uniform

WORKED = (24, 1, 2, 6, 5, 2, 16, 8)  #: shares * 64 of eight tokens; with W = 2 and thresholds 3 / 64, 16 / 64
WIDE = 32  #: least number of tokens of a prompt with fewer random rows


def paper(config: Config) -> Blocks:
    n, alphas = config["tokens"], config["rule"] == "per_token"
    pair = (0.5, 2.0) if alphas else (3 / 64, 16 / 64)
    worked = np.array([WORKED[t % 8] / (1 if t < 8 else 2) for t in range(n)], np.float32) / np.float32(64)
    why = "[leankv §4] shares whose sums are exact; the window grows from two tokens"
    yield _case(why, [worked] * 4, [2, 3, n // 2, n - 1], [pair] * 4)


def edge(config: Config) -> Blocks:
    n, alphas = config["tokens"], config["rule"] == "per_token"
    pair = (0.5, 2.0) if alphas else (3 / 64, 16 / 64)
    worked = np.array([WORKED[t % 8] / (1 if t < 8 else 2) for t in range(n)], np.float32) / np.float32(64)
    why = "windows of 1, N - 1, N, N + 1 tokens: from N on all tokens stay, by position"
    yield _case(why, [worked] * 4, [1, n - 1, n, n + 1], [pair] * 4, "D-leankv-24")
    equal = np.full(n, 1 / n, np.float32)
    why = "equal shares; shares of exactly 1 next to the window"
    yield _case(why, [equal, np.ones(n), worked[::-1]], [2, 3, 5], [pair] * 3, "D-leankv-23")
    yield _case(
        "thresholds of 0 prune nothing; equal ones leave no low precision",
        [worked, worked * 0, worked, worked],
        [2] * 4,
        [(0.0, 0.0), (0.0, 0.0), (pair[0], pair[0]), (pair[1], pair[1])],
        "D-leankv-22",
    )
    top = float(n) if alphas else 1.0
    why = "everything outside the window pruned, everything low"
    yield _case(why, [worked / 4] * 2, [4] * 2, [(top, top), (0.0, top)])
    yield from _rounded(n)
    why = "prompts within the window with falling, rising and equal shares: they stay in the order of positions"
    short = [worked, np.sort(worked, kind="stable"), -np.sort(-worked, kind="stable"), equal, worked]
    yield _case(why, short, [n, n, n, n, 2 * n], [pair] * 5, "D-leankv-24")
    steps = np.arange(n, dtype=np.float32) / np.float32(64)
    yield _case(
        "a sum, or a share, exactly at its threshold: the token is retained",
        [steps] * 3,
        [1] * 3,
        [
            (1 / 64 * (n if alphas else 1), 2 / 64 * (n if alphas else 1)),
            (3 / 64 * (n if alphas else 1), 6 / 64 * (n if alphas else 1)),
            (0.0, 1 / 64),
        ],
        "D-leankv-22",
    )


def random(config: Config, seed: Seeds) -> Blocks:
    n, alphas = config["tokens"], config["rule"] == "per_token"
    pair = (0.5, 2.0) if alphas else (3 / 64, 16 / 64)
    drawn = uniform("prompt_compressor", config, (12 if n < WIDE else 8,), seed)
    window = drawn["window"] % n + 1
    share = (drawn["share"] & 0xFFFFFF).astype(np.float32) / np.float32(1 << 24)
    share = share * share * share * np.float32(4 / n)
    few = (drawn["share"] & 7).astype(np.float32) / np.float32(2 * n)
    yield _case("shares of very different size", share, window, [pair] * len(window))
    yield _case("shares of eight values: many are equal", few, window, [pair] * len(window), "D-leankv-23")


def _rounded(n: int) -> Blocks:
    """Thresholds equal to the rounded sum of the first tokens, and of more tokens."""
    share = np.float32(0.6 / n) * (1 + np.arange(n, dtype=np.float32) / np.float32(n))
    sums = np.add.accumulate(share, dtype=np.float32)
    places = range(2, n - 4, max(n // 8, 1))
    why = "thresholds equal to a rounded sum: a truncated sum, or one with more bits, is below or above"
    pairs = [(float(sums[place]), float(sums[place + 3])) for place in places]
    if places:
        yield _case(why, [share] * len(places), [1] * len(places), pairs, "D-arith-2")


def _case(
    why: str,
    share: Sequence[np.ndarray] | np.ndarray,
    window: Sequence[int] | np.ndarray,
    thresholds: Sequence[tuple[float, float]],
    decision: str = "",
) -> Block:
    words = {"share": patterns32(share), "thresholds": patterns32(thresholds)}
    return why, {**words, "window": np.array(window, np.int64)}, decision


def legal(config: Config, inputs: Inputs) -> dict[str, np.ndarray]:
    """`inputs` without signs, with thresholds in order and alphas that are at most N; windows around N."""
    share, window, thresholds = (np.asarray(inputs[name]) for name in ("share", "window", "thresholds"))
    pair = np.sort(thresholds & thresholds.dtype.type(0x7FFF_FFFF), axis=-1, kind="stable")
    top = int(np.float32(config["tokens"]).view(np.uint32)) if config.get("rule") == "per_token" else 0x3F80_0000
    return {
        "share": share & share.dtype.type(0x7FFF_FFFF),
        "window": (window % (config["tokens"] + 2) + 1).astype(window.dtype),
        "thresholds": np.minimum(pair, top).astype(pair.dtype),
    }
