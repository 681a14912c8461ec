"""The checks that sums share; test_dot.py also tries their errors through `dot` and `dot_compiled`."""

import numpy as np
import pytest

from refemu.arith.checks import Refused, RefusedType
from refemu.arith.operands import Request, require_attention, require_grouped, require_roundings
from refemu.arith.orders import Exact, Sequential, Tree

ONES = np.ones((2, 4), np.int64)
NO_EXP = np.zeros((2, 2), np.int64)


def test_operands_come_as_the_accumulator_needs_them():
    assert Request("t", Sequential(), "int").operand(np.ones(2, np.int8), "a").dtype == np.int64
    assert Request("t", Sequential(), "fp32").operand(np.ones(2, np.float16), "a").dtype == np.float32
    assert Request("t", Sequential(), "fp16").operand(np.ones(2, np.float16), "a").dtype == np.float32
    assert [
        Request("t", Sequential(), acc).needs_fp16 for acc in ("fp32", "fp32_fma", "fp16", "fp16_fma", "exact")
    ] == [False, False, True, True, True]


def test_a_start_is_a_value_of_the_accumulator():
    assert Request("t", Sequential(), "fp32", 0.5).first() == np.float32(0.5)
    assert Request("t", Sequential(), "int", 7).first() == 7
    assert np.isnan(Request("t", Sequential(), "fp32", np.nan).first())
    with pytest.raises(Refused, match=r"t: start must be an integer, got 0\.5"):
        Request("t", Sequential(), "int", 0.5).first()
    with pytest.raises(Refused, match=r"t: start must be a float32 value, got 1e\+40"):
        Request("t", Sequential(), "fp32", 1e40).first()


def test_a_register_is_limited_as_it_says():
    """D-arith-10: an error unless another rule is chosen."""
    x = np.array([127, 128])

    assert Request("t", Sequential(), "int").limit(x).tolist() == [127, 128]
    assert Request("t", Sequential(), "int", bits=8, overflow="wrap").limit(x).tolist() == [127, -128]
    assert Request("t", Sequential(), "int", bits=8, overflow="saturate").limit(x).tolist() == [127, 127]
    with pytest.raises(Refused, match=r"t: 128 at index \(1,\) does not fit 8 signed bits"):
        Request("t", Sequential(), "int", bits=8).limit(x)


def test_groups_know_their_bound():
    grouped = require_grouped(ONES * 3, -5 * ONES.T, 2, NO_EXP, None, None)

    assert (grouped.groups, grouped.bound) == (2, 3 * 5 * 2)
    assert grouped.exponents[1].tolist() == [[0, 0], [0, 0]] and grouped.scale is None


REFUSED = [
    pytest.param(
        lambda: Request("t", Tree(2), "sum").require(4), Refused, "t: acc must be one of .*, got 'sum'", id="acc"
    ),
    pytest.param(
        lambda: Request("t", Exact(), "exact", out="fp64").require(4), Refused, "t: out must be one of", id="out"
    ),
    pytest.param(
        lambda: Request("t", Tree(2), "int", overflow="wrap").require(4),
        Refused,
        "t: bits goes with acc=\"int\" only, and overflow with bits, got acc='int', bits=None",
        id="no bits",
    ),
    pytest.param(
        lambda: require_grouped(ONES, ONES, 2, NO_EXP, None, None),
        RefusedType,
        r"\(M, K\) and \(K, N\) are needed",
        id="shapes",
    ),
    pytest.param(
        lambda: require_grouped(ONES * 1.0, ONES.T, 2, NO_EXP, None, None),
        RefusedType,
        "integers are needed",
        id="floats",
    ),
    pytest.param(
        lambda: require_grouped(ONES, ONES.T, 2, NO_EXP, None, np.ones((2, 3), np.float16)),
        RefusedType,
        r"b_scale must have shape \(2, 2\), got \(2, 3\)",
        id="scale",
    ),
    pytest.param(
        lambda: require_grouped(ONES, ONES.T, 2, NO_EXP, None, np.full((2, 2), 0.1, np.float32)),
        Refused,
        "b_scale must hold fp16 values",
        id="scale not fp16",
    ),
    pytest.param(
        lambda: require_grouped(ONES << 30, ONES.T << 30, 2, NO_EXP, None, None),
        Refused,
        r"can reach .*, which is not below 2\*\*53",
        id="2**53",
    ),
    pytest.param(
        lambda: require_roundings("fp8", None, "fp32", False), Refused, "partial must be one of", id="partial"
    ),
    pytest.param(
        lambda: require_roundings("fp16", None, "fp32", True), Refused, "product must be one of", id="product"
    ),
    pytest.param(lambda: require_roundings("fp16", "fp32", "fp16", True), Refused, "got product='fp32'", id="fp16 sum"),
    pytest.param(
        lambda: require_roundings("fp16", None, "exact", False),
        Refused,
        "acc must be one of 'fp16', 'fp32'",
        id="grouped acc",
    ),
    pytest.param(
        lambda: require_attention(*[np.ones((1, 3, 2), np.float32), *[np.ones((1, 2, 2), np.float32)] * 2], 0),
        RefusedType,
        "with H a multiple of KV",
        id="heads",
    ),
    pytest.param(
        lambda: require_attention(*[np.ones((1, 1, 1), np.float32)] * 3, -1),
        Refused,
        "queries at -1 to -1",
        id="negative start",
    ),
]


@pytest.mark.parametrize(("call", "error", "message"), REFUSED)
def test_arith_rejects_invalid_inputs(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_repr_names_what_was_asked():
    shown = repr(Request("dot", Tree(2), "fp16", 1.0))
    assert shown.startswith("Request(thing='dot', order=Tree(width=2), acc='fp16', start=1.0")
