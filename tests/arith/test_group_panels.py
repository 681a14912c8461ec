"""Grouped panels hold what they were given, and multiply as the arrays they were made of do."""

import numpy as np
import pytest

from refemu.arith import dot, dot_compiled
from refemu.arith.checks import Refused, RefusedType
from refemu.arith.group_panels import GRAIN, WIDTH, group_panels
from refemu.arith.orders import Sequential, Tree
from tests.arith.interpreted import WAYS
from tests.arith.strategies import same

RNG = np.random.default_rng(5)


def right(k, n, top, group, exponents, scales):
    """b and its b_exp and b_scale."""
    powers = RNG.integers(-24, 9, (k // group, n)) if exponents else None
    factors = (RNG.normal(size=(k // group, n)) * 0.02).astype(np.float16) if scales else None
    return RNG.integers(-top, top + 1, (k, n)), {"group": group, "b_exp": powers, "b_scale": factors}


@pytest.mark.parametrize("n", [1, 33, WIDTH, WIDTH + 1])
@pytest.mark.parametrize(("top", "form"), [(7, "nibbles"), (8, "narrow"), (127, "narrow"), (128, "wide")])
@pytest.mark.parametrize("given", [True, False], ids=["exponents and scales", "neither"])
def test_arrays_give_everything_back(n, top, form, given):
    b, options = right(64, n, top, 32, given, given)
    b[0, 0] = top
    packed = group_panels(b, **options)
    back = packed.arrays()

    assert np.array_equal(b, back["b"])
    assert [name for name in ("nibbles", "narrow", "wide") if getattr(packed, name).size] == [form]
    assert (back["b_exp"] is None) == (back["b_scale"] is None) == (not given)
    assert not given or np.array_equal(options["b_exp"], back["b_exp"])
    assert not given or np.array_equal(options["b_scale"].astype(np.float32), back["b_scale"])
    assert packed.scales.shape[2] <= WIDTH and packed.scales.shape[2] % GRAIN == 0
    assert not packed.narrow.flags.writeable and repr(packed) == f"<GroupPanels (64, {n}) in 32 {packed.nbytes} bytes>"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("tops", "group"),
    [
        ((255, 7), 32),
        ((255, 7), 8),
        ((2047, 7), 32),
        ((255, 8), 32),
        ((255, 15), 8),
        ((255, 255), 32),
        ((2047, 8), 16),
        ((255, 8), 12),
        ((15, 7), 3),
        ((255, 7), 6),
        ((4095, 120), 32),
    ],
    ids=str,
)
@pytest.mark.parametrize(("exponents", "scales"), [(True, False), (False, True), (True, True)])
def test_product_is_that_of_the_readable_form(way, tops, group, exponents, scales):
    """Sums by 16 or 8 terms in 16 bits, or in float32; whole and partial tiles of rows; every pair of roundings."""
    for rows in (1, 4, 7):
        b, options = right(2 * group, 5, tops[1], group, exponents, scales)
        a, a_exp = RNG.integers(-tops[0], tops[0] + 1, (rows, 2 * group)), RNG.integers(-24, 9, (rows, 2))
        a[0], b[:, 0] = tops[0], -tops[1]  # the largest sums
        for partial, product in (("fp16", "fp32"), ("fp16", "fp16"), ("fp32", "fp32"), ("fp32", "fp16")):
            rounded = {"partial": partial, "product": product, "order": Sequential(), "acc": "fp32"}
            want = dot.grouped_matmul(a, b, a_exp=a_exp, **options, **rounded)
            with way():
                got = dot_compiled.grouped_matmul(a, group_panels(b, **options), group=group, a_exp=a_exp, **rounded)

            assert same(want, got)


def test_panels_serve_every_order_and_sums_beyond_float32():
    b, options = right(64, 5, 8, 32, True, True)
    packed = group_panels(b, **options)
    for top, order in ((255, Tree(2)), (1 << 20, Sequential())):
        a, a_exp = RNG.integers(-top, top + 1, (3, 64)), RNG.integers(-24, 9, (3, 2))
        rounded = {"partial": "fp16", "product": "fp32", "order": order, "acc": "fp32"}
        want = dot.grouped_matmul(a, b, a_exp=a_exp, **options, **rounded)

        assert same(want, dot_compiled.grouped_matmul(a, packed, group=32, a_exp=a_exp, **rounded))


def test_threads_share_out_the_outputs():
    b, options = right(64, WIDTH + 100, 8, 32, False, True)
    a, a_exp = RNG.integers(-255, 256, (70, 64)), RNG.integers(-24, 9, (70, 2))
    rounded = {"partial": "fp16", "product": "fp32", "order": Sequential(), "acc": "fp32"}
    packed = group_panels(b, **options)
    one, many = (
        dot_compiled.grouped_matmul(a, packed, group=32, a_exp=a_exp, threads=threads, **rounded) for threads in (1, 5)
    )

    assert same(one, many) and same(one, dot.grouped_matmul(a, b, a_exp=a_exp, **options, **rounded))


REFUSED = [
    pytest.param({"b": np.ones((64, 2))}, RefusedType, "integers are needed", id="floats"),
    pytest.param({"b": np.full((64, 2), 1 << 24)}, Refused, "|b| below 2", id="integers"),
    pytest.param({"b_exp": np.full((2, 2), 61)}, Refused, "up to 60 are needed", id="exponents"),
    pytest.param({"group": 48}, Refused, "K must be a multiple of group", id="group"),
    pytest.param({"b_scale": np.full((2, 2), 0.1, np.float32)}, Refused, "b_scale must hold fp16 values", id="scale"),
]


@pytest.mark.parametrize(("change", "error", "message"), REFUSED)
def test_group_panels_rejects_invalid_inputs(change, error, message):
    options = {"b": np.ones((64, 2), int), "group": 32, "b_exp": None, "b_scale": None} | change
    with pytest.raises(error, match=message.replace("|", r"\|")):
        group_panels(options.pop("b"), **options)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        pytest.param({"a": np.ones((1, 32), int)}, RefusedType, r"\(M, 64\) and a_exp \(M, 2\)", id="length"),
        pytest.param({"a_exp": np.zeros((1, 1), int)}, RefusedType, r"a_exp \(M, 2\) are needed", id="exponents"),
        pytest.param({"group": 16}, Refused, "groups of 32, got group=16", id="group"),
        pytest.param({"b_exp": np.zeros((2, 2), int)}, Refused, "panels have their own exponents", id="b_exp"),
        pytest.param({"product": None}, Refused, "product must be one of", id="product"),
        pytest.param({"threads": 0}, Refused, "threads: number must be", id="threads"),
    ],
)
def test_product_rejects(change, error, message):
    packed = group_panels(np.ones((64, 2), int), group=32, b_scale=np.ones((2, 2), np.float16))
    options = {
        "a": np.ones((1, 64), int),
        "group": 32,
        "a_exp": np.zeros((1, 2), int),
        "partial": "fp16",
        "product": "fp32",
        "order": Sequential(),
        "acc": "fp32",
    } | change
    with pytest.raises(error, match=message):
        dot_compiled.grouped_matmul(options.pop("a"), packed, **options)
