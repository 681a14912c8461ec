"""Routing of tokens to experts against an oracle in Python numbers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refemu.arith.attention import experts
from refemu.arith.checks import Refused
from tests.oracles import experts as oracle

HALVES = st.floats(-20, 20, width=16)


@given(st.lists(st.lists(HALVES, min_size=5, max_size=5), min_size=1, max_size=3), st.integers(1, 5), st.booleans())
def test_route_equals_the_oracle(rows: list[list[float]], count: int, normalized: bool) -> None:
    chosen, weights = experts.route(np.array(rows, np.float32), count, normalized)

    assert weights.dtype == np.float32
    for row, numbers, values in zip(rows, chosen.tolist(), weights.tolist(), strict=True):
        assert list(zip(numbers, values, strict=True)) == oracle.route(row, count, normalized)


def test_route_of_equal_logits_takes_lower_experts() -> None:
    chosen, weights = experts.route(np.array([[1, 3, 3, 1]], np.float32), 3)

    assert chosen.tolist() == [[1, 2, 0]]
    assert weights[0, 0] == weights[0, 1] > weights[0, 2]


@pytest.mark.parametrize("count", [0, 3])
def test_route_rejects_a_count_without_experts(count: int) -> None:
    with pytest.raises(Refused, match=rf"count must be in \[1, 2\], got {count}"):
        experts.route(np.zeros((1, 2), np.float32), count)
