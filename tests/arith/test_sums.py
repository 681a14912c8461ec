"""Plain sums: readable = compiled = interpreted = scalar oracle, in every order."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refemu.arith import sums, sums_compiled
from refemu.arith.checks import RefusedType
from refemu.arith.orders import Exact, Halves, Lanes, Sequential, Tree
from tests.arith.interpreted import WAYS
from tests.arith.strategies import described, orders, same, singles
from tests.oracles import sums as oracle

doubles = st.floats(allow_nan=False, allow_infinity=False)


def alike(want: np.floating, got: np.floating) -> bool:
    """Equal bits; of NaN, which an oracle of Python floats has with any payload, only that both are one."""
    return bool(np.isnan(want) and np.isnan(got)) or same(want, got)


@pytest.mark.parametrize("way", WAYS)
@given(orders, st.lists(singles, max_size=14))
def test_total32_is_the_oracles(way, order, values):
    x = np.array(values, np.float32)
    want = np.float32(oracle.total32(x.tolist(), described(order)))
    with way():
        got = sums_compiled.total32(x, order=order)

    assert alike(want, sums.total32(x, order=order))
    assert same(sums.total32(x, order=order), got)


@pytest.mark.parametrize("way", WAYS)
@given(orders, st.lists(doubles, max_size=14))
def test_total64_is_the_oracles(way, order, values):
    x = np.array(values, np.float64)
    want = np.float64(oracle.total64(x.tolist(), described(order)))
    with way():
        got = sums_compiled.total64(x, order=order)

    assert alike(want, sums.total64(x, order=order))
    assert same(sums.total64(x, order=order), got)


@pytest.mark.parametrize("order", [Sequential(), Tree(8), Lanes(5, "strided", Tree(8))], ids=repr)
def test_rows_are_summed_alone(order):
    x = np.random.default_rng(1).normal(size=(3, 5, 37)).astype(np.float32)
    rows = np.array([[sums.total32(row, order=order) for row in part] for part in x])

    assert same(rows, sums.total32(x, order=order)) and same(rows, sums_compiled.total32(x, order=order))


def test_accumulate_is_a_sequential_sum():
    """The one reduction of NumPy that is used: it adds from left to right, whatever its length."""
    x = np.random.default_rng(2).normal(size=10_001).astype(np.float32)

    assert oracle.total32(x.tolist(), ("sequential",)) == sums.total32(x, order=Sequential())
    assert oracle.total64(x.tolist(), ("sequential",)) == sums.total64(x.astype(np.float64), order=Sequential())


def test_a_tree_of_one_is_sequential():
    x = np.random.default_rng(3).normal(size=(200, 19)).astype(np.float32)

    assert same(sums.total32(x, order=Sequential()), sums.total32(x, order=Tree(1)))
    assert same(sums.total32(x[:, :18], order=Tree(2)), sums.total32(x[:, :18], order=Halves(2)))


@pytest.mark.parametrize("total", [sums.total32, sums_compiled.total32])
def test_empty_sum_is_plus_zero_block_keeps_sign(total):
    """D-arith-5: +0 is added to what is accumulated, and not to a single block."""
    minus = np.full(1, -0.0, np.float32)

    assert same(np.float32(0), total(minus[:0], order=Sequential()))
    assert same(np.float32(0), total(minus, order=Sequential()))
    assert same(np.float32(-0.0), total(minus, order=Tree(4)))
    assert same(np.float32(0), total(minus, order=Halves(4)))  # three missing terms are +0
    assert same(np.zeros(3, np.float32), total(np.zeros((3, 0), np.float32), order=Tree(4)))


@pytest.mark.parametrize("total", [sums.total32, sums_compiled.total32])
def test_nan_is_canonical(total):
    x = np.array([[np.inf, -np.inf, 1], [np.uint32(0xFFC00001).view(np.float32), 0, 0]], np.float32)

    assert total(x, order=Sequential()).view(np.uint32).tolist() == [0x7FC00000] * 2


REFUSED = [
    pytest.param(np.zeros(3), "float32 of at least one axis is needed, got float64 of shape", id="dtype"),
    pytest.param(np.float32(1), r"got float32 of shape \(\)", id="scalar"),
]


@pytest.mark.parametrize("total", [sums.total32, sums_compiled.total32])
@pytest.mark.parametrize(("x", "message"), REFUSED)
def test_sums_rejects_invalid_inputs(total, x, message):
    with pytest.raises(RefusedType, match=message):
        total(x, order=Sequential())


@pytest.mark.parametrize("total", [sums.total32, sums.total64, sums_compiled.total32, sums_compiled.total64])
def test_order_is_mandatory(total):
    """D-arith-4."""
    x = np.zeros(2, total.__name__.replace("total", "float"))
    with pytest.raises(TypeError, match="order"):
        total(x)
    with pytest.raises(ValueError, match="go together only"):
        total(x, order=Exact())


@pytest.mark.parametrize("way", WAYS)
@given(st.lists(st.tuples(singles, st.booleans()), max_size=14))
def test_running32_is_a_total_since_the_last_clear(way, terms):
    x, clear = np.array([x for x, _ in terms], np.float32), np.array([c for _, c in terms], bool)
    begins = [max([t for t in range(end + 1) if clear[t]], default=0) for end in range(len(terms))]
    want = [sums.total32(x[begin : end + 1], order=Sequential()) for end, begin in enumerate(begins)]
    with way():
        got = sums_compiled.running32(x, clear)

    assert same(np.array(want, np.float32), sums.running32(x, clear)) and same(sums.running32(x, clear), got)
