"""Sums of products: readable = compiled = interpreted = scalar oracle, for every order and accumulator."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refemu.arith import dot, dot_compiled, fp16, integers
from refemu.arith.checks import Refused
from refemu.arith.orders import Chunks, Exact, Halves, Lanes, Sequential, Tree
from tests.arith.interpreted import WAYS, needs_compiled
from tests.arith.strategies import described, fp16_values, halves, is_fusable, orders, same, singles
from tests.oracles import sums as oracle

ACC = ["fp32", "fp32_fma", "fp16", "fp16_fma"]
#: the papers' orders, in these words
PAPERS = [
    Lanes(4, "blocked", Tree(4), first="product"),
    Lanes(8, "strided", Chunks(4, Halves(4), Halves(2))),
    Lanes(4, tuple(k % 3 for k in range(70)), Halves(4)),
    Chunks(16, Tree(16), Sequential()),
]


def is_refused(order, acc):
    return acc.endswith("_fma") and not is_fusable(order)


# Against the oracle


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("acc", ACC)
@given(orders, st.data())
def test_dot_is_the_oracles(way, acc, order, data):
    """D-arith-3, D-arith-4, D-arith-5."""
    value = halves if acc.startswith("fp16") else st.one_of(halves, singles)
    pairs = data.draw(st.lists(st.tuples(value, value), max_size=12))
    start = data.draw(value)
    if is_refused(order, acc):
        return
    a, b = (np.array([pair[i] for pair in pairs], np.float32) for i in (0, 1))
    want = oracle.dot(a.tolist(), b.tolist(), described(order), acc, float(start))
    with way():
        got = dot_compiled.dot(a, b, order=order, acc=acc, start=start)
    readable = dot.dot(a, b, order=order, acc=acc, start=start)

    assert same(readable, got)
    assert same(fp16.canonical(np.float32(want)), readable)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("out", ["fp16", "fp32"])
@given(st.lists(st.tuples(halves, halves), max_size=12), halves)
def test_the_exact_accumulator_rounds_once(way, out, pairs, start):
    a, b = (np.array([pair[i] for pair in pairs], np.float32) for i in (0, 1))
    want = oracle.dot(a.tolist(), b.tolist(), ("exact",), "exact", float(start), out)
    with way():
        got = dot_compiled.dot(a, b, order=Exact(), acc="exact", start=start, out=out)
    readable = dot.dot(a, b, order=Exact(), acc="exact", start=start, out=out)

    assert same(np.float32(want), readable) and same(readable, got)


# Matrices: readable = compiled, in tiles, panels, strips, threads


@pytest.mark.parametrize("order", [Sequential(), *PAPERS], ids=repr)
@pytest.mark.parametrize("acc", ACC)
def test_matmul_is_the_dot_of_rows_and_columns(acc, order):
    if is_refused(order, acc):
        return
    a, b = fp16_values((3, 70), 1, 30), fp16_values((70, 4), 2, 30)
    want = [[dot.dot(row, column, order=order, acc=acc) for column in b.T] for row in a]

    assert same(np.array(want), dot.matmul(a, b, order=order, acc=acc))
    assert same(np.array(want), dot_compiled.matmul(a, b, order=order, acc=acc))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("acc", [*ACC, "exact"])
@pytest.mark.parametrize("shape", [(1, 13, 5), (3, 9, 17), (9, 11, 3), (2, 0, 3), (0, 4, 3), (2, 1, 0)], ids=repr)
def test_compiled_matmul_equals_readable(way, acc, shape):
    m, k, n = shape
    a, b = fp16_values((m, k), 3, 300), fp16_values((k, n), 4, 300)
    order, out = (Exact(), "fp32") if acc == "exact" else (Sequential(), None)
    want = dot.matmul(a, b, order=order, acc=acc, out=out)
    with way():
        assert same(want, dot_compiled.matmul(a, b, order=order, acc=acc, out=out))
        if acc != "exact":
            assert same(want, dot_compiled.matmul(a, dot_compiled.panels(b.T), order=order, acc=acc))
            assert same(want, dot_compiled.matmul(a, dot_compiled.panels(fp16.to_f16(b.T)), order=order, acc=acc))


@needs_compiled
@pytest.mark.parametrize("acc", ACC)
@pytest.mark.parametrize("shape", [(1, 300, 5000), (75, 140, 1100), (8, 64, 512), (261, 65, 513)], ids=repr)
def test_tiles_strips_and_panels_have_no_seams(acc, shape):
    m, k, n = shape
    a, w = fp16_values((m, k), 5), fp16_values((n, k), 6, 100)
    pick = np.random.default_rng(0).choice(n, 60, replace=False)
    want = dot.matmul(a, w[pick].T, order=Sequential(), acc=acc)
    for weights in (dot_compiled.panels(w), dot_compiled.panels(fp16.to_f16(w))):
        for threads in (1, 2, 3):
            got = dot_compiled.matmul(a, weights, order=Sequential(), acc=acc, threads=threads)
            assert same(want, got[:, pick])


@pytest.mark.parametrize(
    ("rows", "across", "parts", "size"),
    [(256, 1, 1, 256), (256, 8, 2, 256), (256, 4, 2, 128), (256, 1, 2, 64), (1024, 2, 2, 256)],
)
def test_tile_height_leaves_work_for_all_threads(rows, across, parts, size):
    assert dot_compiled._rows_of_tiles(rows, across, parts) == size


@needs_compiled
@pytest.mark.parametrize("k", [1, 3, 4, 9, 1000, 1003])
def test_any_float32_goes_through_fp32(k):
    """Inexact products distinguish the fused accumulator from the other."""
    rng = np.random.default_rng(7)
    a, b = (rng.normal(size=shape).astype(np.float32) for shape in ((9, k), (k, 33)))
    plain, fused = (dot.matmul(a, b, order=Sequential(), acc=acc) for acc in ("fp32", "fp32_fma"))

    assert same(plain, dot_compiled.matmul(a, b, order=Sequential(), acc="fp32"))
    assert same(fused, dot_compiled.matmul(a, b, order=Sequential(), acc="fp32_fma"))
    assert same(plain[:1], dot_compiled.matmul(a[:1], b, order=Sequential(), acc="fp32"))
    assert k == 1 or not same(plain, fused)


@pytest.mark.parametrize("acc", [*ACC, "exact"])
@pytest.mark.parametrize("order", [Sequential(), Tree(4), Lanes(3, "strided", Sequential())], ids=repr)
def test_infinities_and_nan_in_one_canonical_form(acc, order):
    """D-arith-1. An infinite product also overflows the bound under which fp16 products round without a select."""
    values = np.array([0, 1, -1, 65504, -65504, np.inf, -np.inf, np.nan, 2.0**-24], np.float32)
    if is_refused(order, acc):
        return
    order, out = (Exact(), "fp16") if acc == "exact" else (order, None)
    grid = np.array(np.meshgrid(values, values, values)).reshape(3, -1)
    a, b = grid[:, :81].T.copy(), grid[:, ::9].copy()
    want = dot.matmul(a, b, order=order, acc=acc, out=out)

    assert same(want, dot_compiled.matmul(a, b, order=order, acc=acc, out=out))
    assert set(want[np.isnan(want)].view(np.uint32).tolist()) == {0x7FC00000}


def test_products_beyond_fp16_are_not_bounded():
    a, b = fp16_values((5, 40), 8, 3000), fp16_values((40, 6), 9, 3000)
    want = dot.matmul(a, b, order=Sequential(), acc="fp16")

    assert np.isinf(want).any() or np.isnan(want).any()
    assert same(want, dot_compiled.matmul(a, b, order=Sequential(), acc="fp16"))


FUSABLE = [Sequential(), *PAPERS[:1], PAPERS[2], Chunks(16, Sequential(), Tree(4)), Lanes(3, "strided", Halves(4))]


@pytest.mark.parametrize("order", FUSABLE, ids=repr)
def test_any_float32_goes_through_any_order(order):
    """Significands of 24 bits: a product that is rounded before it is added shows in the sum."""
    rng = np.random.default_rng(32)
    a, b = (rng.normal(size=(9, 70)).astype(np.float32) for _ in range(2))
    sums = [dot.dot(a, b, order=order, acc=acc) for acc in ("fp32", "fp32_fma")]
    rows = list(zip(a.tolist(), b.tolist(), strict=True))

    for acc, got in zip(("fp32", "fp32_fma"), sums, strict=True):
        assert [oracle.dot(x, y, described(order), acc) for x, y in rows] == got.tolist()
        assert same(got, dot_compiled.dot(a, b, order=order, acc=acc))
    assert not same(*sums)


# Properties


def test_halves_are_an_xor_butterfly():
    """`Halves(32)` is 16, 8, 4, 2, 1: every lane of the butterfly ends with the same sum."""
    x = np.random.default_rng(10).normal(size=32).astype(np.float32)
    lanes = x.copy()
    for distance in (16, 8, 4, 2, 1):
        lanes = lanes + lanes[np.arange(32) ^ distance]

    assert set(lanes.tolist()) == {float(dot.total32(x, order=Halves(32)))}


def test_fp16_products_need_no_fusing_in_fp32():
    a, b = fp16_values((8, 200), 11, 100), fp16_values((200, 9), 12, 100)

    assert same(*(dot.matmul(a, b, order=Sequential(), acc=acc) for acc in ("fp32", "fp32_fma")))
    assert not same(*(dot.matmul(a, b, order=Sequential(), acc=acc) for acc in ("fp16", "fp16_fma")))


@given(st.lists(st.tuples(halves, halves), min_size=2, max_size=9), st.data())
def test_permuting_the_terms_leaves_the_exact_sum(pairs, data):
    mixed = data.draw(st.permutations(pairs))
    a, b, c, d = (np.array([pair[i] for pair in some]) for some in (pairs, mixed) for i in (0, 1))

    assert same(*(dot.dot(x, y, order=Exact(), acc="exact", out="fp32") for x, y in ((a, b), (c, d))))


def test_order_reversed_is_another_sum():
    a, b = fp16_values((1, 500), 13), fp16_values((500, 50), 14)

    assert not same(*(dot.matmul(a[:, ::step], b[::step], order=Sequential(), acc="fp32") for step in (1, -1)))


def test_leading_axes_broadcast():
    a, b = fp16_values((4, 1, 9), 15), fp16_values((3, 9), 16)
    got = dot.dot(a, b, order=Tree(4), acc="fp16")

    assert got.shape == (4, 3) and same(got, dot_compiled.dot(a, b, order=Tree(4), acc="fp16"))
    assert got[2, 1] == dot.dot(a[2, 0], b[1], order=Tree(4), acc="fp16")


def test_orders_work_on_panels_too():
    a, w = fp16_values((3, 20), 29), fp16_values((40, 20), 30)

    assert same(
        dot.matmul(a, w.T, order=Tree(4), acc="fp16"),
        dot_compiled.matmul(a, dot_compiled.panels(w), order=Tree(4), acc="fp16"),
    )


# Integers


@pytest.mark.parametrize("module", [dot, dot_compiled])
def test_integers_wrap_saturate_and_reject(module):
    """D-arith-10: saturation depends on the order, wrapping does not."""
    a, b = np.array([[100, 100, -100]]), np.ones((3, 1), np.int64)
    options = {"order": Sequential(), "acc": "int", "bits": 8}

    assert module.matmul(a, b, order=Sequential(), acc="int").tolist() == [[100]]
    assert module.matmul(a, b, overflow="wrap", **options).tolist() == [[100]]
    assert module.matmul(a, b, overflow="saturate", **options).tolist() == [[27]]
    assert module.matmul(a[:, ::-1], b, overflow="saturate", **options).tolist() == [[100]]
    with pytest.raises(Refused, match=r"matmul: 200 at index \(0, 0\) does not fit 8 signed bits"):
        module.matmul(a, b, **options)
    assert module.dot(a[0], b[:, 0], order=Tree(2), acc="int", start=5).tolist() == 105


@pytest.mark.parametrize("order", [Sequential(), *PAPERS], ids=repr)
def test_integers_sum_to_the_same_in_every_order(order):
    rng = np.random.default_rng(17)
    a, b = rng.integers(-999, 999, (3, 70)), rng.integers(-999, 999, (70, 4))

    assert same(integers.matmul(a, b), dot.matmul(a, b, order=order, acc="int"))
    assert same(integers.matmul(a, b), dot_compiled.matmul(a, b, order=order, acc="int"))
