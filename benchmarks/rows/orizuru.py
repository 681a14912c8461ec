"""KLLM's outlier detection, compiled, against NumPy's selection at both ends; softmax and norms of a layer's tokens."""

from collections.abc import Callable

import numpy as np

from benchmarks.pairs import Row, pairs
from benchmarks.rows.arith import normal
from refemu.units.kllm.functional import compiled as functional_compiled
from refemu.units.kllm.orizuru import Result
from refemu.units.kllm.orizuru import compiled as orizuru_compiled

N, K = 4096, 20  #: values of a token, outliers per side


def _ends(x: np.ndarray) -> np.ndarray:
    """Positions of the K largest and of the K smallest, in no order."""
    return np.argpartition(x, (K - 1, x.shape[-1] - K), axis=-1)


def _same(x: np.ndarray, found: np.ndarray, ours: Result) -> bool:
    """Equal values at both ends; which of several equal ones is popped is ours to say."""
    low, top = (np.sort(np.take_along_axis(x, ends, -1), axis=-1) for ends in (found[..., :K], found[..., -K:]))
    mine = (np.sort(np.take_along_axis(x, index, -1), axis=-1) for index in (ours.min_index, ours.max_index))
    return all(np.array_equal(a, b) for a, b in zip((low, top), mine, strict=True))


def tokens() -> list[Row]:
    """Rows of a batch, and a single row, whose call and Result cost as much as its trees."""
    rows = normal((256, N), 5).astype(np.float16)
    return [_tokens("256 tokens", rows, 5.0), _tokens("one token", rows[0], 0.0), _both_calls(rows[0])]


def _tokens(what: str, x: np.ndarray, goal: float) -> Row:
    wide = x.astype(np.float32)
    return pairs(
        "PERF-14",
        f"Orizuru, {what} of {N}, k = {K} + {K}, fp16",
        "np.argpartition at both ends, float32",
        lambda: _ends(wide),
        lambda: orizuru_compiled.pops(x, K),
        lambda theirs, ours: _same(wide, theirs, ours),
        goal=goal,
    )


def _both_calls(x: np.ndarray) -> Row:
    """One token with the paper's 21 outliers per side, against a call for each end."""
    wide, k = x.astype(np.float32), 21

    def same(theirs: tuple[np.ndarray, np.ndarray], ours: Result) -> bool:
        ends = zip((theirs[0][:k], theirs[1][-k:]), (ours.min_index, ours.max_index), strict=True)
        return all(np.array_equal(np.sort(wide[a]), np.sort(wide[b])) for a, b in ends)

    return pairs(
        "PERF-14",
        f"Orizuru, one token of {N}, k = {k} + {k}, fp16",
        "np.argpartition, a call for each end, float32",
        lambda: (np.argpartition(wide, k), np.argpartition(wide, N - k)),
        lambda: orizuru_compiled.pops(x, k),
        same,
        goal=1.0,
    )


def _numpy_softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def _near(theirs: np.ndarray, ours: np.ndarray) -> bool:
    """Distances below 16 are rounded to 2^-8 absolute, so exponentials to 2^-7 relative with their own rounding."""
    return bool(np.all(np.abs(theirs - ours.astype(np.float32)) <= theirs / 64 + np.float32(2.0**-24)))


def softmax() -> list[Row]:
    """Rows of logits to scores: every step fp16 but the sum."""
    x = normal((512, 512), 6).astype(np.float16)
    wide = x.astype(np.float32)
    return [
        pairs(
            "KLLM-SOFT",
            "softmax of 512 rows of 512 fp16 logits",
            "NumPy in float32, unrounded",
            lambda: _numpy_softmax(wide),
            lambda: functional_compiled.apply(x, op="softmax"),
            lambda theirs, ours: _near(theirs, ours.y),
        )
    ]


ROWS: dict[str, Callable[[], list[Row]]] = {"PERF-14": tokens, "KLLM-SOFT": softmax}
