"""Invalid arguments of sums of products, readable and compiled."""

import numpy as np
import pytest

from refemu.arith import dot, dot_compiled
from refemu.arith.checks import Refused, RefusedType
from refemu.arith.orders import Exact, Sequential, Tree

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


@pytest.mark.parametrize("module", [dot, dot_compiled])
@pytest.mark.parametrize(("call", "error", "message"), REFUSED)
def test_dot_rejects_invalid_inputs(module, call, error, message):
    """D-arith-3."""
    with pytest.raises(error, match=message):
        call(module)


PANELS = dot_compiled.panels(B.T * np.float32(0.1))
REFUSED_PANELS = [
    pytest.param(
        lambda: dot_compiled.matmul(A[:, :3], PANELS, **SEQ), RefusedType, r"got \(2, 3\) and \(4, 3\)", id="shapes"
    ),
    pytest.param(
        lambda: dot_compiled.matmul(A, PANELS, order=Sequential(), acc="fp16"),
        Refused,
        "matmul: b must hold fp16 values, got 0.1",
        id="not fp16",
    ),
    pytest.param(
        lambda: dot_compiled.matmul(A, PANELS, order=Sequential(), acc="int"),
        RefusedType,
        "panels hold floats",
        id="int",
    ),
    pytest.param(
        lambda: dot_compiled.matmul(A, PANELS, threads=0, **SEQ),
        Refused,
        r"threads: number must be in \[1, 1024\], got 0",
        id="threads",
    ),
]


@pytest.mark.parametrize(("call", "error", "message"), REFUSED_PANELS)
def test_panels_reject(call, error, message):
    with pytest.raises(error, match=message):
        call()
