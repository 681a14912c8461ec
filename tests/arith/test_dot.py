"""Sums of products: readable = compiled = interpreted = scalar oracle, for every order and accumulator."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refemu.arith import dot, dot_jit, fp16, fp32, integers
from refemu.arith.checks import Refused, RefusedType
from refemu.arith.orders import Chunks, Exact, Halves, Lanes, Sequential, Tree
from tests.arith.interpreted import WAYS, needs_jit
from tests.arith.strategies import described, halves, is_fusable, orders, same, singles
from tests.oracles import sums as oracle

ACC = ["fp32", "fp32_fma", "fp16", "fp16_fma"]
#: the papers' orders, in these words
PAPERS = [
    Lanes(4, "blocked", Tree(4), first="product"),
    Lanes(8, "strided", Chunks(4, Halves(4), Halves(2))),
    Lanes(4, tuple(k % 3 for k in range(70)), Halves(4)),
    Chunks(16, Tree(16), Sequential()),
]


def fp16_values(shape, seed=0, scale=1.0):
    values = np.random.default_rng(seed).normal(size=shape) * scale
    return fp16.to_f32(fp16.to_f16(values.astype(np.float32)))


def is_refused(order, acc):
    return acc.endswith("_fma") and not is_fusable(order)


# Against the oracle


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
        got = dot_jit.dot(a, b, order=order, acc=acc, start=start)
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
        got = dot_jit.dot(a, b, order=Exact(), acc="exact", start=start, out=out)
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
    assert same(np.array(want), dot_jit.matmul(a, b, order=order, acc=acc))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("acc", [*ACC, "exact"])
@pytest.mark.parametrize("shape", [(1, 13, 5), (3, 9, 17), (9, 11, 3), (2, 0, 3), (0, 4, 3), (2, 1, 0)], ids=repr)
def test_compiled_matmul_equals_readable(way, acc, shape):
    m, k, n = shape
    a, b = fp16_values((m, k), 3, 300), fp16_values((k, n), 4, 300)
    order, out = (Exact(), "fp32") if acc == "exact" else (Sequential(), None)
    want = dot.matmul(a, b, order=order, acc=acc, out=out)
    with way():
        assert same(want, dot_jit.matmul(a, b, order=order, acc=acc, out=out))
        if acc != "exact":
            assert same(want, dot_jit.matmul(a, dot_jit.panels(b.T), order=order, acc=acc))
            assert same(want, dot_jit.matmul(a, dot_jit.panels(fp16.to_f16(b.T)), order=order, acc=acc))


@needs_jit
@pytest.mark.parametrize("acc", ACC)
@pytest.mark.parametrize("shape", [(1, 300, 5000), (75, 140, 1100), (8, 64, 512), (65, 65, 513)], ids=repr)
def test_tiles_strips_and_panels_have_no_seams(acc, shape):
    m, k, n = shape
    a, w = fp16_values((m, k), 5), fp16_values((n, k), 6, 100)
    pick = np.random.default_rng(0).choice(n, 60, replace=False)
    want = dot.matmul(a, w[pick].T, order=Sequential(), acc=acc)
    for weights in (dot_jit.panels(w), dot_jit.panels(fp16.to_f16(w))):
        for threads in (1, 2, 3):
            got = dot_jit.matmul(a, weights, order=Sequential(), acc=acc, threads=threads)
            assert same(want, got[:, pick])


@needs_jit
@pytest.mark.parametrize("k", [1, 3, 4, 9, 1000, 1003])
def test_any_float32_goes_through_fp32(k):
    """Products that are not exact tell the fused accumulator from the other."""
    rng = np.random.default_rng(7)
    a, b = (rng.normal(size=shape).astype(np.float32) for shape in ((9, k), (k, 33)))
    plain, fused = (dot.matmul(a, b, order=Sequential(), acc=acc) for acc in ("fp32", "fp32_fma"))

    assert same(plain, dot_jit.matmul(a, b, order=Sequential(), acc="fp32"))
    assert same(fused, dot_jit.matmul(a, b, order=Sequential(), acc="fp32_fma"))
    assert same(plain[:1], dot_jit.matmul(a[:1], b, order=Sequential(), acc="fp32"))
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

    assert same(want, dot_jit.matmul(a, b, order=order, acc=acc, out=out))
    assert set(want[np.isnan(want)].view(np.uint32).tolist()) == {0x7FC00000}


def test_products_that_overflow_fp16_are_not_taken_for_bounded():
    a, b = fp16_values((5, 40), 8, 3000), fp16_values((40, 6), 9, 3000)
    want = dot.matmul(a, b, order=Sequential(), acc="fp16")

    assert np.isinf(want).any() or np.isnan(want).any()
    assert same(want, dot_jit.matmul(a, b, order=Sequential(), acc="fp16"))


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
        assert same(got, dot_jit.dot(a, b, order=order, acc=acc))
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


@given(st.lists(st.tuples(halves, halves), min_size=2, max_size=9), st.randoms(use_true_random=False))
def test_permuting_the_terms_leaves_the_exact_sum(pairs, random):
    mixed = random.sample(pairs, len(pairs))
    a, b, c, d = (np.array([pair[i] for pair in some]) for some in (pairs, mixed) for i in (0, 1))

    assert same(*(dot.dot(x, y, order=Exact(), acc="exact", out="fp32") for x, y in ((a, b), (c, d))))


def test_order_reversed_is_another_sum():
    a, b = fp16_values((1, 500), 13), fp16_values((500, 50), 14)

    assert not same(*(dot.matmul(a[:, ::step], b[::step], order=Sequential(), acc="fp32") for step in (1, -1)))


def test_leading_axes_broadcast():
    a, b = fp16_values((4, 1, 9), 15), fp16_values((3, 9), 16)
    got = dot.dot(a, b, order=Tree(4), acc="fp16")

    assert got.shape == (4, 3) and same(got, dot_jit.dot(a, b, order=Tree(4), acc="fp16"))
    assert got[2, 1] == dot.dot(a[2, 0], b[1], order=Tree(4), acc="fp16")


# Integers


@pytest.mark.parametrize("module", [dot, dot_jit])
def test_integers_wrap_saturate_and_refuse(module):
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
    assert same(integers.matmul(a, b), dot_jit.matmul(a, b, order=order, acc="int"))


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
            oracle.grouped(
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
        got = dot_jit.grouped_matmul(a, b, **arrays, **options)

    assert same(np.array(want, np.float32), readable) and same(readable, got)


@pytest.mark.parametrize("module", [dot, dot_jit])
def test_large_groups_and_no_groups(module):
    options = {"partial": "fp32", "order": Sequential(), "acc": "fp32"}
    big = np.full((1, 4), 1 << 20)
    got = module.grouped_matmul(big, big.T, group=4, a_exp=np.array([[-40]]), **options)

    assert got.tolist() == [[4.0]]
    none = module.grouped_matmul(big[:, :0], big.T[:0], group=4, a_exp=NO_EXP[:, :0], **options)
    assert none.tolist() == [[0.0]]


@pytest.mark.parametrize("module", [dot, dot_jit])
@pytest.mark.parametrize(("partial", "exponents"), [
    ("fp16", [(-300, 295), (350, -340), (-24, -1), (400, 400), (-400, -400), (10, 3)]),
    ("fp32", [(-300, 200), (350, -250), (-149, -1), (400, 400), (-400, -400), (100, 26)])])  # fmt: skip
def test_powers_of_two_meet_before_they_round(module, partial, exponents):
    """2**a_exp alone may lie far outside of float32, above and below; results overflow, underflow, or tie."""
    a, b = np.array([[3, 2]]), np.array([[1], [0]])
    for first, second in exponents:
        options = {"group": 2, "partial": partial, "product": "fp32", "acc": "fp32"}
        want = oracle.grouped([3, 2], [1, 0], a_exp=[first], b_exp=[second], order=("sequential",), **options)
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
        got = dot_jit.attention(q, k, v, scale=scale, start=start)

    assert same(want, got) and fp16.is_fp16(got).all()


@needs_jit
@pytest.mark.parametrize("start", [0, 100])
def test_attention_in_blocks_has_no_seams(start):
    q = fp16_values((37, 9, 16), 23)
    k, v = (fp16_values((37 + start, 3, 16), seed, 3) for seed in (24, 25))
    want = dot.attention(q, k, v, scale=np.float32(0.25), start=start)

    for threads in (1, 2):
        assert same(want, dot_jit.attention(q, k, v, scale=np.float32(0.25), start=start, threads=threads))


def test_attention_by_hand():
    """Equal keys share alike; the second query sees two values."""
    one = np.ones((2, 1, 2), np.float32)
    v = np.array([[[1, 2]], [[3, 6]]], np.float32)

    assert dot.attention(one, one, v, scale=np.float32(1), start=0).tolist() == [[[1, 2]], [[2, 4]]]


def test_later_keys_do_not_reach_earlier_queries():
    q = fp16_values((6, 3, 4), 26)
    k, v = (fp16_values((6, 1, 4), seed) for seed in (27, 28))
    v[5] = np.inf
    for module in (dot, dot_jit):
        got = module.attention(q, k, v, scale=np.float32(1), start=0)
        assert np.isfinite(got[:5]).all() and np.isinf(got[5]).all()


@pytest.mark.parametrize("module", [dot, dot_jit])
def test_attention_without_a_finite_logit_is_refused(module):
    q, k = np.full((1, 1, 2), np.inf, np.float32), np.full((1, 1, 2), -1, np.float32)
    with pytest.raises(Refused, match="softmax32: a row without a finite value"):
        module.attention(q, k, k, scale=np.float32(1), start=0)


# Refusals

A, B = np.ones((2, 4), np.float32), np.ones((4, 3), np.float32)
SEQ = {"order": Sequential(), "acc": "fp32"}
ROW, COLUMN, NO_EXP = np.ones((1, 4), int), np.ones((4, 1), int), np.zeros((1, 1), int)
REFUSED = [
    pytest.param(lambda m: m.dot(A, A), TypeError, "order", id="order and acc are mandatory"),
    pytest.param(lambda m: m.matmul(A, B, order=Sequential()), TypeError, "acc", id="acc is mandatory"),
    pytest.param(
        lambda m: m.matmul(A, B, order=Sequential(), acc="fp64"), Refused, "matmul: acc must be one of 'fp32'", id="acc"
    ),
    pytest.param(
        lambda m: m.dot(A[:1] * np.float32(0.1), A, order=Sequential(), acc="fp16"),
        Refused,
        r"dot: a must hold fp16 values, got 0\.1 at index \(0, 0\)",
        id="not fp16",
    ),
    pytest.param(
        lambda m: m.matmul(A, B * np.float32(0.1), order=Sequential(), acc="fp16_fma"),
        Refused,
        r"matmul: b must hold fp16 values, got 0\.1 at index \(0, 0\)",
        id="b not fp16",
    ),
    pytest.param(
        lambda m: m.dot(A, A, order=Tree(16), acc="fp16_fma"),
        Refused,
        r"dot: fp16_fma needs a sequential inner order, got Tree\(width=16\)",
        id="fused tree",
    ),
    pytest.param(
        lambda m: m.dot(A.astype(np.float64), A, **SEQ),
        RefusedType,
        "dot: a must be float16 or float32, got dtype float64",
        id="float64",
    ),
    pytest.param(
        lambda m: m.dot(A, A[:, :3], **SEQ),
        RefusedType,
        r"dot: last axes of one length are needed, got shapes \(2, 4\) and \(2, 3\)",
        id="dot shapes",
    ),
    pytest.param(lambda m: m.dot(np.float32(1), A, **SEQ), RefusedType, r"got shapes \(\) and", id="scalar"),
    pytest.param(
        lambda m: m.matmul(A, A, **SEQ),
        RefusedType,
        r"matmul: \(M, K\) and \(K, N\) are needed, got \(2, 4\) and \(2, 4\)",
        id="matmul shapes",
    ),
    pytest.param(
        lambda m: m.dot(A, A, order=Sequential(), acc="fp32", start=0.1),
        Refused,
        "dot: start must be a float32 value, got 0.1",
        id="start",
    ),
    pytest.param(
        lambda m: m.dot(A, A, order=Sequential(), acc="fp16", start=2.0**-25),
        Refused,
        "dot: start must hold fp16 values",
        id="start not fp16",
    ),
    pytest.param(
        lambda m: m.dot(A, A, order=Exact(), acc="exact"),
        Refused,
        "dot: out must be one of 'fp16', 'fp32'",
        id="exact without out",
    ),
    pytest.param(lambda m: m.dot(A, A, out="fp16", **SEQ), Refused, 'out goes with acc="exact" only', id="out"),
    pytest.param(lambda m: m.dot(A, A, bits=8, **SEQ), Refused, 'bits goes with acc="int" only', id="bits"),
    pytest.param(
        lambda m: m.dot(A, A, order=Sequential(), acc="int"), RefusedType, "integers are needed", id="int of floats"
    ),
    pytest.param(
        lambda m: m.matmul(np.array([[1 << 40]]), np.array([[1 << 40]]), order=Tree(2), acc="int"),
        Refused,
        "a sum can reach .*, which is outside int64",
        id="int64",
    ),
    pytest.param(
        lambda m: m.grouped_matmul(ROW, COLUMN, group=3, a_exp=NO_EXP, partial="fp16", **SEQ),
        Refused,
        "K must be a multiple of group, got K=4, group=3",
        id="group",
    ),
    pytest.param(
        lambda m: m.grouped_matmul(ROW, COLUMN, group=4, a_exp=NO_EXP, partial="fp32", order=Tree(2), acc="fp16"),
        Refused,
        "acc=\"fp16\" adds fp16 values, got partial='fp32'",
        id="fp16 over fp32",
    ),
    pytest.param(
        lambda m: m.grouped_matmul(ROW, COLUMN, group=4, a_exp=NO_EXP[0], partial="fp16", **SEQ),
        RefusedType,
        r"a_exp must have shape \(1, 1\), got \(1,\)",
        id="a_exp",
    ),
    pytest.param(
        lambda m: m.grouped_matmul(ROW, COLUMN, group=4, a_exp=NO_EXP + 401, partial="fp16", **SEQ),
        Refused,
        r"a_exp must be in \[-400, 400\]",
        id="exponent",
    ),
    pytest.param(
        lambda m: m.attention(A[None], B[None], B[None], scale=np.float32(1), start=0),
        RefusedType,
        r"attention: q \(T, H, D\), k and v \(S, KV, D\)",
        id="attention shapes",
    ),
    pytest.param(
        lambda m: m.attention(A[None], A[None], A[None], scale=np.float32(1), start=1),
        Refused,
        "queries at 1 to 1 need as many keys, got 1",
        id="too few keys",
    ),
]


@pytest.mark.parametrize("module", [dot, dot_jit])
@pytest.mark.parametrize(("call", "error", "message"), REFUSED)
def test_refuses(module, call, error, message):
    with pytest.raises(error, match=message):
        call(module)


PANELS = dot_jit.panels(B.T * np.float32(0.1))
REFUSED_PANELS = [
    pytest.param(
        lambda: dot_jit.matmul(A[:, :3], PANELS, **SEQ), RefusedType, r"got \(2, 3\) and \(4, 3\)", id="shapes"
    ),
    pytest.param(
        lambda: dot_jit.matmul(A, PANELS, order=Sequential(), acc="fp16"),
        Refused,
        "matmul: b must hold fp16 values, got 0.1",
        id="not fp16",
    ),
    pytest.param(
        lambda: dot_jit.matmul(A, PANELS, order=Sequential(), acc="int"), RefusedType, "panels hold floats", id="int"
    ),
    pytest.param(
        lambda: dot_jit.matmul(A, PANELS, threads=0, **SEQ),
        Refused,
        r"threads: number must be in \[1, 1024\], got 0",
        id="threads",
    ),
]


@pytest.mark.parametrize(("call", "error", "message"), REFUSED_PANELS)
def test_panels_refuse(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_orders_work_on_panels_too():
    a, w = fp16_values((3, 20), 29), fp16_values((40, 20), 30)

    assert same(
        dot.matmul(a, w.T, order=Tree(4), acc="fp16"), dot_jit.matmul(a, dot_jit.panels(w), order=Tree(4), acc="fp16")
    )


def test_softmax_is_the_one_of_attention():
    """The fused kernel has no exponential of its own."""
    x = fp16_values((1, 1, 33), 31)
    keys = np.ones((33, 1, 1), np.float32)
    got = dot_jit.attention(keys, keys, x.reshape(33, 1, 1), scale=np.float32(1), start=0)
    weights = fp32.softmax32(np.ones((1, 33), np.float32), Sequential())

    assert same(fp16.round16(dot.matmul(weights, x.reshape(33, 1), order=Sequential(), acc="fp32")), got[32])
