"""Cases of significance. Causal softmax rows first [leankv §4]; then prompts whose sums, means or total are 0."""

import numpy as np

from refemu.units import Config
from refemu.units.stimuli import Block, Blocks, Seeds, patterns32, uniform


def paper(config: Config) -> Blocks:
    n, heads = config["tokens"], config["heads"]
    q, t = np.indices((n, n))
    causal = (t <= q).astype(np.float32)
    even = causal / (q + 1).astype(np.float32)
    yield _case("[leankv §4] every query attends evenly to all tokens up to its own", [even], heads)


def edge(config: Config) -> Blocks:
    n, heads = config["tokens"], config["heads"]
    q, t = np.indices((n, n))
    causal = (t <= q).astype(np.float32)
    why = "attention to the first token only; to the query's own token only"
    yield _case(why, [t == 0, t == q], heads, "D-leankv-17")
    yield _case("all zero: no total to divide by", [causal * 0, np.where(q == 0, causal, 0)], heads, "D-leankv-18")
    why = "ones beyond the causal triangle are not read; only the last query attends"
    yield _case(why, [causal / 4 + (t > q), np.where(q == n - 1, causal / n, 0)], heads, "D-leankv-16")
    why = "probabilities of subnormal size, with subnormal sums, means and shares"
    tiny = causal * np.float32(1 / (1 << 130))
    yield _case(why, [tiny, tiny * (t + 1).astype(np.float32), tiny / (q + 1).astype(np.float32)], heads, "D-arith-2")
    apart = np.stack([np.where(q % heads == h, causal * 3 / 4, causal / 64) for h in range(heads)], axis=1)
    why = "heads that attend in turn: the maximum of the sums, not the sum of maxima"
    yield why, {"p": _patterns(apart[None])}, "D-leankv-19"


def random(config: Config, seed: Seeds) -> Blocks:
    drawn = uniform("significance", config, (8,), seed)["p"]
    yield "uniform patterns up to 1: sums of values of very different size", {"p": drawn}
    yield "values of one size, whose sums round", {"p": patterns32(drawn % (1 << 20) / (1 << 23))}


def _case(why: str, rows: list[np.ndarray], heads: int, decision: str = "") -> Block:
    """Each (queries, tokens) array is a case; head h has its rows divided by h + 1."""
    p = [np.stack([row.astype(np.float32) / np.float32(h + 1) for h in range(heads)], axis=1) for row in rows]
    return why, {"p": _patterns(np.array(p))}, decision


def _patterns(p: np.ndarray) -> np.ndarray:
    return patterns32(p).reshape(len(p), -1)
