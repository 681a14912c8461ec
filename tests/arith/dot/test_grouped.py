"""Grouped products and attention: readable = compiled = interpreted = oracle, or the parts that they are made of."""

import numpy as np
import pytest

from refemu.arith import dot, dot_compiled, fp16, fp32
from refemu.arith.checks import Refused
from refemu.arith.orders import Lanes, Sequential, Tree
from tests.arith.interpreted import WAYS, needs_compiled
from tests.arith.strategies import described, fp16_values, same
from tests.oracles import sums

# Groups


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize(
    ("partial", "product", "acc"),
    [
        ("fp16", "fp16", "fp16"),
        ("fp16", "fp16", "fp32"),
        ("fp16", "fp32", "fp32"),
        ("fp32", "fp32", "fp32"),
    ],
)
@pytest.mark.parametrize("order", [Sequential(), Tree(2), Lanes(2, "strided", Tree(2))], ids=repr)
def test_grouped_matmul_is_the_oracles(way, scaled, partial, product, acc, order):
    rng = np.random.default_rng(18)
    a, b = rng.integers(-128, 128, (2, 12)), rng.integers(-8, 8, (12, 3))
    a_exp, b_exp = rng.integers(-24, 6, (2, 3)), rng.integers(-4, 4, (3, 3))
    scale = fp16_values((3, 3), 19) if scaled else None
    options = {"group": 4, "partial": partial, "product": product, "order": order, "acc": acc}
    want = [
        [
            sums.grouped(
                a[m].tolist(),
                b[:, n].tolist(),
                a_exp=a_exp[m].tolist(),
                b_exp=b_exp[:, n].tolist(),
                b_scale=None if scale is None else scale[:, n].tolist(),
                **{**options, "order": described(order)},
            )
            for n in range(3)
        ]
        for m in range(2)
    ]
    arrays = {"a_exp": a_exp, "b_exp": b_exp, "b_scale": scale}
    readable = dot.grouped_matmul(a, b, **arrays, **options)
    with way():
        got = dot_compiled.grouped_matmul(a, b, **arrays, **options)

    assert same(np.array(want, np.float32), readable) and same(readable, got)


@pytest.mark.parametrize("module", [dot, dot_compiled])
def test_large_groups_and_no_groups(module):
    options = {"partial": "fp32", "order": Sequential(), "acc": "fp32"}
    big = np.full((1, 4), 1 << 20)
    got = module.grouped_matmul(big, big.T, group=4, a_exp=np.array([[-40]]), **options)

    assert got.tolist() == [[4.0]]
    none = module.grouped_matmul(big[:, :0], big.T[:0], group=4, a_exp=np.zeros((1, 0), int), **options)
    assert none.tolist() == [[0.0]]


@pytest.mark.parametrize("module", [dot, dot_compiled])
@pytest.mark.parametrize(("partial", "exponents"), [
    ("fp16", [(-300, 295), (350, -340), (-24, -1), (400, 400), (-400, -400), (10, 3)]),
    ("fp32", [(-300, 200), (350, -250), (-149, -1), (400, 400), (-400, -400), (100, 26)])])  # fmt: skip
def test_powers_of_two_meet_before_they_round(module, partial, exponents):
    """2**a_exp alone may be far outside of float32, above and below; results overflow, underflow, or tie."""
    a, b = np.array([[3, 2]]), np.array([[1], [0]])
    for first, second in exponents:
        options = {"group": 2, "partial": partial, "product": "fp32", "acc": "fp32"}
        want = sums.grouped([3, 2], [1, 0], a_exp=[first], b_exp=[second], order=("sequential",), **options)
        got = module.grouped_matmul(a, b, a_exp=[[first]], b_exp=[[second]], order=Sequential(), **options)
        assert same(np.array([[want]], np.float32), got), (first, second)


# Attention


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("queries", "heads", "shared", "depth", "start"),
    [(1, 3, 1, 4, 0), (3, 4, 2, 8, 2), (5, 6, 6, 2, 0), (4, 3, 1, 6, 17)],
)
def test_attention_is_composed(way, queries, heads, shared, depth, start):
    """The fused kernel has the order and the bits of matmul, softmax32, matmul."""
    q = fp16_values((queries, heads, depth), 20)
    k, v = (fp16_values((start + queries + 1, shared, depth), seed) for seed in (21, 22))
    scale = np.float32(1) / np.sqrt(np.float32(depth))
    want = dot.attention(q, k, v, scale=scale, start=start)
    with way():
        got = dot_compiled.attention(q, k, v, scale=scale, start=start)

    assert same(want, got) and fp16.is_fp16(got).all()


@needs_compiled
@pytest.mark.parametrize("start", [0, 100])
def test_attention_in_blocks_has_no_seams(start):
    q = fp16_values((37, 9, 16), 23)
    k, v = (fp16_values((37 + start, 3, 16), seed, 3) for seed in (24, 25))
    want = dot.attention(q, k, v, scale=np.float32(0.25), start=start)

    for threads in (1, 2):
        assert same(want, dot_compiled.attention(q, k, v, scale=np.float32(0.25), start=start, threads=threads))


@pytest.mark.parametrize("last", [1, np.inf])
def test_readable_attention_in_blocks_is_that_of_single_queries(last, monkeypatch):
    q = fp16_values((7, 4, 8), 29)
    k, v = (fp16_values((9, 2, 8), seed, 3) for seed in (30, 31))
    v[6] = last
    monkeypatch.setattr(dot, "BLOCK", 1)
    want = dot.attention(q, k, v, scale=np.float32(0.25), start=2)
    monkeypatch.setattr(dot, "BLOCK", 3)

    assert same(want, dot.attention(q, k, v, scale=np.float32(0.25), start=2))


def test_attention_by_hand():
    """Equal keys share alike; the second query sees two values."""
    one = np.ones((2, 1, 2), np.float32)
    v = np.array([[[1, 2]], [[3, 6]]], np.float32)

    assert dot.attention(one, one, v, scale=np.float32(1), start=0).tolist() == [[[1, 2]], [[2, 4]]]


def test_later_keys_do_not_reach_earlier_queries():
    q = fp16_values((6, 3, 4), 26)
    k, v = (fp16_values((6, 1, 4), seed) for seed in (27, 28))
    v[5] = np.inf
    for module in (dot, dot_compiled):
        got = module.attention(q, k, v, scale=np.float32(1), start=0)
        assert np.isfinite(got[:5]).all() and np.isinf(got[5]).all()


@pytest.mark.parametrize("module", [dot, dot_compiled])
def test_attention_without_finite_logit_is_rejected(module):
    q, k = np.full((1, 1, 2), np.inf, np.float32), np.full((1, 1, 2), -1, np.float32)
    with pytest.raises(Refused, match="softmax32: a row without a finite value"):
        module.attention(q, k, k, scale=np.float32(1), start=0)


def test_softmax_is_the_one_of_attention():
    """The fused kernel has no exponential of its own."""
    x = fp16_values((1, 1, 33), 31)
    keys = np.ones((33, 1, 1), np.float32)
    got = dot_compiled.attention(keys, keys, x.reshape(33, 1, 1), scale=np.float32(1), start=0)
    weights = fp32.softmax32(np.ones((1, 33), np.float32), Sequential())

    assert same(fp16.round16(dot.matmul(weights, x.reshape(33, 1), order=Sequential(), acc="fp32")), got[32])
