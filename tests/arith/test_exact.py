"""The exact accumulator against fractions: one rounding, whatever is summed."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refemu.arith import dot, dot_compiled, exact, fp16, kernels, prng
from refemu.arith.orders import Exact
from tests.arith.interpreted import needs_compiled
from tests.arith.strategies import same
from tests.oracles import fp16 as oracle

KINDS = [{"out": "fp16"}, {"out": "fp32"}]


def products(count, label):
    words = prng.words(prng.stream(label, 0), 0, count).view(np.uint16).reshape(-1, 4)
    finite = words & 0xBFFF  # no exponent of infinity
    return [fp16.to_f32(finite[:, i].view(np.float16)) for i in (0, 1)]


@pytest.mark.parametrize("module", [dot, dot_compiled])
@pytest.mark.parametrize("terms", [1, 511, 512, 513, 3000, 33_000])
def test_carries_reach_the_top_limb(module, terms):
    """The largest products of one sign, then one of the smallest: every limb takes part."""
    a = np.full(terms + 1, -65504, np.float32)
    b = np.full(terms + 1, 65504, np.float32)
    a[-1] = b[-1] = 2.0**-24
    want = Fraction(-terms * 65504**2) + Fraction(1, 1 << 48)

    assert float(module.dot(a, b, order=Exact(), acc="exact", out="fp32")) == oracle.f32_from_fraction(want)
    assert float(module.dot(a, b, order=Exact(), acc="exact", out="fp16")) == -math.inf


@pytest.mark.parametrize("module", [dot, dot_compiled])
@pytest.mark.parametrize("terms", [1023, 1025, 2600])
@pytest.mark.parametrize("sign", [1, -1])
def test_carries_leave_the_lowest_limb_in_time(module, terms, sign):
    """The largest terms that start in the lowest limb, below 2**53 each: 1,024 of them fill 63 bits."""
    a, b = np.full(terms, sign * 2047 / 512, np.float32), np.full(terms, 2047 / 256, np.float32)
    want = Fraction(sign * terms * 2047**2, 1 << 17)

    assert float(module.dot(a, b, order=Exact(), acc="exact", out="fp32")) == oracle.f32_from_fraction(want)


TIES = [("fp16", 2048, 1, 2048, 2050), ("fp16", 2048, 3, 2052, 2052), ("fp32", 2**24, 1, 2**24, 2**24 + 2)]


@pytest.mark.parametrize("module", [dot, dot_compiled])
@pytest.mark.parametrize(("out", "large", "small", "even", "above"), TIES)
def test_a_tie_sees_the_smallest_product(module, out, large, small, even, above):
    """large + small is a midpoint; 2**-48 more, or less, decides it."""
    root = math.isqrt(large // 2) * 2 if large == 2048 else math.isqrt(large)
    a = np.array([root, small, 0], np.float32)
    b = np.array([large // root, 1, 2.0**-24], np.float32)

    for tiny, want in ((0, even), (2.0**-24, above), (-(2.0**-24), large if small == 1 else 2050)):
        a[2] = tiny
        assert float(module.dot(a, b, order=Exact(), acc="exact", out=out)) == want


@needs_compiled
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_compiled_equals_readable_on_many_sums(kind):
    a, b = products(64 * 40, "exact")
    a, b = a.reshape(64, 40), b.reshape(40, 64)

    assert same(
        dot.matmul(a, b, order=Exact(), acc="exact", **kind),
        dot_compiled.matmul(a, b, order=Exact(), acc="exact", **kind),
    )


@needs_compiled
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_compiled_sums_of_many_chunks_are_exact(kind):
    """The largest products of one sign, with all that they round away at first, then taken back."""
    terms, outputs = 2 * kernels.orders.CHUNK + 5, kernels.STRIP + 3
    b = np.random.default_rng(1).choice(np.array([65504, 2**-24, 3 * 2**-15], np.float32), (terms, outputs))
    a = np.full((2, terms), 65504, np.float32)
    a[1, 1::2] = -(2**-24)
    for start in (0.0, -65504.0, 2**-24):
        left = np.concatenate([a, np.full((2, 1), start, np.float32)], axis=1)
        right = np.concatenate([b, np.ones((1, outputs), np.float32)])
        exact_of = {"order": Exact(), "acc": "exact", **kind}
        want = dot.dot(a[:, None], b.T[None], start=start, **exact_of)

        assert same(want, dot_compiled.dot(a[:, None], b.T[None], start=start, **exact_of))
        assert same(want, dot_compiled.matmul(left, right, **exact_of))


@pytest.mark.parametrize("module", [dot, dot_compiled])
def test_it_bounds_every_other_accumulator(module):
    """No accumulator of 60 terms is further from the exact sum than its roundings allow."""
    a, b = (np.random.default_rng(seed).normal(size=60).astype(np.float16) for seed in (1, 2))
    whole = float(module.dot(a, b, order=Exact(), acc="exact", out="fp32"))
    size = float(np.abs(a.astype(np.float64) * b).cumsum()[-1])

    for acc, half_ulp in (("fp32", 2**-24), ("fp16", 2**-11)):
        got = float(module.dot(a, b, order=dot.Sequential(), acc=acc))
        assert abs(got - whole) <= 2 * 60 * half_ulp * size + 2**-23 * size


def test_cancellation_leaves_plus_zero():
    x = np.array([3, -3], np.float32)

    for module in (dot, dot_compiled):
        assert same(np.float32(0), module.dot(x, np.ones(2, np.float32), order=Exact(), acc="exact", out="fp32"))
        assert same(np.float32(-0.0), module.dot(x[:0], x[:0], order=Exact(), acc="exact", out="fp16", start=-0.0))


@given(st.lists(st.integers(-(2**112), 2**112), min_size=1, max_size=8))
def test_limbs_round_as_integers_do(numbers):
    total = np.array(numbers, object)
    limbs = np.array(
        [[n & 0xFFFFFFFF for n in numbers], [n >> 32 & 0xFFFFFFFF for n in numbers], [n >> 64 for n in numbers]],
        np.int64,
    )
    for out in (np.float32, np.float16):
        with np.errstate(over="ignore"):
            assert same(exact.round_integers(total).astype(out), exact.round_limbs(limbs).astype(out))


def test_special_values_decide():
    inf, one = np.float32(np.inf), np.float32(1)

    assert exact.special([one, inf], [one, one], np.float32(0)) == np.inf
    assert np.isnan(exact.special([one, inf], [one, np.float32(0)], np.float32(0)))
    assert np.isnan(exact.special([inf, inf], [one, -one], np.float32(0)))
    assert exact.special([one], [one], np.float32(3)) == 0
