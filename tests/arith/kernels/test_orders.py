"""Sums in every order, and the exact accumulator, as the readable forms have them."""

from fractions import Fraction

import numpy as np
import pytest

from refemu.arith import kernels, sums
from refemu.arith.kernels import orders
from refemu.arith.orders import Chunks, Halves, Lanes, Order, Sequential, Tree, lower

ORDERS = [Sequential(), Tree(4), Halves(8), Lanes(4, "strided", Tree(2)), Chunks(6, inner=Sequential(), outer=Tree(2))]


def values(*shape: int) -> np.ndarray:
    return np.random.default_rng(7).normal(size=shape).astype(np.float16).astype(np.float32)


@pytest.mark.parametrize("order", ORDERS, ids=repr)
def test_terms_in_any_order(order: Order) -> None:
    terms = values(24, 10)
    program, slots = lower(order, len(terms), True)
    work = np.empty((slots, 10), np.float32)
    orders.run_program_of_terms(program, terms, work)

    assert work[0].tobytes() == sums.total32(terms.T, order=order).tobytes()


@pytest.mark.parametrize("order", ORDERS, ids=repr)
def test_products_in_any_order(order: Order) -> None:
    """One factor for all outputs, and one for each."""
    a, b = values(3, 24, 1), values(24, 10)
    program, slots = lower(order, 24, True)
    out, work = np.empty((3, 10), np.float32), np.empty((slots, orders.STRIP), np.float32)
    orders.run_program(program, a, b, out, work, kernels.FP32, np.float32(0))
    expected = np.stack([sums.total32((row * b).T, order=order) for row in a])

    assert out.tobytes() == expected.tobytes()
    each = np.empty((3, 10), np.float32)
    orders.run_program(program, np.tile(a, (1, 1, 10)), b, each, work, kernels.FP32, np.float32(0))
    assert each.tobytes() == expected.tobytes()


def test_rows_are_summed_in_sequence() -> None:
    """Adds to present values; only the first `terms` terms count."""
    x, out = values(7, 9), values(7)
    expected = out.copy()
    for k in range(6):
        expected += x[:, k]
    orders.total_rows(x, 6, out)

    assert out.tobytes() == expected.tobytes()


@pytest.mark.parametrize("shared", [True, False])
def test_exact_sums(shared: bool) -> None:
    """Limbs of 32 bits in units of 2**-48: the sum of fractions."""
    draw = np.random.default_rng(3)
    a = np.ldexp(draw.integers(-1024, 1024, (2, 40, 1 if shared else 3)), draw.integers(-20, 5, (2, 40, 1)))
    b = np.ldexp(draw.integers(-1024, 1024, (40, 3)), draw.integers(-20, 5, (40, 1)))
    a, b = a.astype(np.float32), b.astype(np.float32)
    limbs = [np.zeros((2, 3), np.int64) for _ in range(3)]

    assert not orders.exact_limbs(a, b, np.float32(1.5), *limbs)
    for m in range(2):
        for n in range(3):
            factors = a[m, :, 0 if shared else n]
            total = Fraction(3, 2) + sum(
                Fraction(float(x)) * Fraction(float(y)) for x, y in zip(factors, b[:, n], strict=True)
            )
            got = sum(int(limb[m, n]) << 32 * place for place, limb in enumerate(limbs))
            assert Fraction(got, 1 << 48) == total


@pytest.mark.parametrize("terms", [2, orders.CHUNK + 2])
def test_infinite_sum_is_reported(terms: int) -> None:
    """Though a later chunk of its terms is finite."""
    a, b = np.zeros((1, terms, 1), np.float32), np.ones((terms, 3), np.float32)
    a[0, 0] = np.inf

    with np.errstate(all="ignore"):
        assert orders.exact_limbs(a, b, np.float32(0), *(np.zeros((1, 3), np.int64) for _ in range(3)))


def test_copies() -> None:
    x, out = values(6), values(6) * 2
    orders.plus(x, out)
    assert out.tobytes() == (values(6) * 2 + x).tobytes()
    orders.copy_all(x, out)
    assert out.tobytes() == x.tobytes()
    orders.clear_all(out)
    assert not out.any() and not np.signbit(out).any()
    orders.spread(x, 2, out, 3)
    assert out[:3].tolist() == x[2:5].tolist()
    orders.spread(x[:1], 0, out, 6)
    assert out.tolist() == [x[0]] * 6
