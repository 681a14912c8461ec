"""Heads of attention: every share of the key heads gives its own columns, and what queries pay is counted."""

import numpy as np
import pytest

from refemu.arith import dot, fp16
from refemu.arith.attention.scores import PLAIN
from refemu.arith.kernels import attention

TOKENS, HEADS, GROUP, SIZE = 11, 2, 3, 8
SCALE = np.float32(0.5)
EVERY = PLAIN.fields(HEADS * GROUP)  #: no window, no cap, no slopes


def operands(start: int = 0) -> list[np.ndarray]:
    draw = np.random.default_rng(1)
    shapes = (TOKENS, HEADS * GROUP, SIZE), (start + TOKENS, HEADS, SIZE), (start + TOKENS, HEADS, SIZE)
    return [fp16.to_f32(draw.normal(size=shape).astype(np.float16)) for shape in shapes]


@pytest.mark.parametrize("start", [0, 5])
def test_heads_are_those_of_the_readable_form(start: int) -> None:
    q, k, v = operands(start)
    out, none, counting = np.full_like(q, np.nan), np.empty((0, 0, 0), np.float32), np.empty(0, np.int64)
    attention.attention_heads(q, k, v, SCALE, start, out, none, counting, *EVERY, 1, 2)

    assert np.isnan(out[:, :GROUP]).all()
    attention.attention_heads(q, k, v, SCALE, start, out, none, counting, *EVERY, 0, 1)
    assert out.tobytes() == dot.attention(q, k, v, scale=SCALE, start=start).tobytes()
    both = np.empty_like(q)
    attention.attention_heads(q, k, v, SCALE, start, both, none, counting, *EVERY, 0, HEADS)
    assert both.tobytes() == out.tobytes(), "nothing of one head is left in the next"


def test_what_queries_pay() -> None:
    """Rows of probabilities sum to 1; a query that does not count pays nothing."""
    q, k, v = operands()
    paid, counting = np.zeros((HEADS, GROUP, TOKENS), np.float32), np.array([4, 1, 0], np.int64)
    attention.attention_heads(q, k, v, SCALE, 0, np.empty_like(q), paid, counting, *EVERY, 0, HEADS)

    assert np.allclose(paid.sum(axis=-1), TOKENS - 4, atol=1e-4) and counting[2] == 0
    own, others = np.zeros_like(paid), np.array([4, 0, 0], np.int64)
    attention.attention_heads(q, k, v, SCALE, 0, np.empty_like(q), own, others, *EVERY, 0, HEADS)
    assert (own.sum(axis=-1) < paid.sum(axis=-1)).all() and (own[..., -1] == 0).all()


def test_a_row_without_probabilities_is_marked() -> None:
    q, k, v = operands()
    q[6, 1] = np.inf
    paid, counting = np.zeros((HEADS, GROUP, TOKENS), np.float32), np.array([0, 1, 0], np.int64)
    with np.errstate(all="ignore"):
        attention.attention_heads(q, k, v, SCALE, 0, np.empty_like(q), paid, counting, *EVERY, 0, HEADS)

    assert counting[2] == 1
