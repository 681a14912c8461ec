"""Golden cases of prompt_compressor. Shares in 64ths whose sums are exact first [leankv §4]; then ends and ties."""

import numpy as np
from numpy.typing import ArrayLike

from refemu.units import Config
from refemu.units.stimuli import Blocks, Inputs, Seeds, patterns32, uniform

WORKED = (24, 1, 2, 6, 5, 2, 16, 8)  #: shares * 64 of eight tokens; with W = 2 and thresholds 3 / 64, 16 / 64
WIDE = 32  #: least number of tokens of a prompt with fewer random rows


def paper(config: Config) -> Blocks:
    n, pair, worked = _worked(config)
    why = "[leankv §4] shares whose sums are exact; the window grows from two tokens"
    yield why, _inputs([worked] * 4, [2, 3, n // 2, n - 1], pair)


def edge(config: Config) -> Blocks:
    (n, pair, worked), alphas = _worked(config), config["rule"] == "per_token"
    why = "windows of 1, N - 1, N, N + 1 tokens: from N on all tokens stay, by position"
    yield why, _inputs([worked] * 4, [1, n - 1, n, n + 1], pair), "D-leankv-24"
    equal = np.full(n, 1 / n, np.float32)
    shares: list[np.ndarray] = [equal, np.ones(n), worked[::-1]]
    yield "equal shares; shares of exactly 1 next to the window", _inputs(shares, [2, 3, 5], pair), "D-leankv-23"
    limits = [(0.0, 0.0), (0.0, 0.0), (pair[0], pair[0]), (pair[1], pair[1])]
    why = "thresholds of 0 prune nothing; equal ones leave no low precision"
    yield why, _inputs([worked, worked * 0, worked, worked], 2, limits), "D-leankv-22"
    top = float(n) if alphas else 1.0
    yield "everything outside the window pruned, everything low", _inputs([worked / 4] * 2, 4, [(top, top), (0.0, top)])
    share = np.float32(0.6 / n) * (1 + np.arange(n, dtype=np.float32) / np.float32(n))
    sums, places = np.add.accumulate(share, dtype=np.float32), np.arange(2, n - 4, max(n // 8, 1))
    if places.size:  # limits of the first tokens, and of more
        rounded = _inputs([share] * len(places), 1, np.stack([sums[places], sums[places + 3]], axis=1))
        why = "thresholds equal to a rounded sum: a truncated sum, or one with more bits, is below or above"
        yield why, rounded, "D-arith-2"
    short = [worked, np.sort(worked, kind="stable"), -np.sort(-worked, kind="stable"), equal, worked]
    why = "prompts within the window with falling, rising and equal shares: they stay in the order of positions"
    yield why, _inputs(short, [n, n, n, n, 2 * n], pair), "D-leankv-24"
    steps, size = np.arange(n, dtype=np.float32) / np.float32(64), (n if alphas else 1) / 64
    exact = _inputs([steps] * 3, 1, [(size, 2 * size), (3 * size, 6 * size), (0.0, 1 / 64)])
    yield "a sum, or a share, exactly at its threshold: the token is retained", exact, "D-leankv-22"


def random(config: Config, seed: Seeds) -> Blocks:
    n, pair, _ = _worked(config)
    drawn = uniform("prompt_compressor", config, (12 if n < WIDE else 8,), seed)
    window = drawn["window"] % n + 1
    share = (drawn["share"] & 0xFFFFFF).astype(np.float32) / np.float32(1 << 24)
    share = share * share * share * np.float32(4 / n)
    yield "shares of very different size", _inputs(share, window, pair)
    few = (drawn["share"] & 7).astype(np.float32) / np.float32(2 * n)
    yield "shares of eight values: many are equal", _inputs(few, window, pair), "D-leankv-23"


def _worked(config: Config) -> tuple[int, tuple[float, float], np.ndarray]:
    """Number of tokens, thresholds, and shares of the worked prompt, later ones half as large."""
    n, place = config["tokens"], np.arange(config["tokens"])
    shares = np.array(WORKED, np.float32)[place % 8] / np.where(place < 8, 64, 128)
    return n, (0.5, 2.0) if config["rule"] == "per_token" else (3 / 64, 16 / 64), shares.astype(np.float32)


def _inputs(share: ArrayLike, window: ArrayLike, thresholds: ArrayLike) -> Inputs:
    """Rows of shares; windows or thresholds of all rows may be one."""
    words = patterns32(share)
    limits = np.broadcast_to(patterns32(thresholds), (len(words), 2))
    return {"share": words, "window": np.full(len(words), window), "thresholds": limits}


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
