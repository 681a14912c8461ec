"""Backends: every step gives the same bits in both, and integer products are exact."""

from typing import Any

import numpy as np
import pytest

from refemu.arith import fp16
from refemu.arith.checks import Refused
from refemu.models import backend
from refemu.models.backend import NUMPY, Jit

JIT = Jit()
BACKENDS = pytest.mark.parametrize("engine", [JIT, NUMPY], ids=repr)
RANDOM = np.random.default_rng(11)


def halves(*shape: int) -> np.ndarray:
    """fp16-valued float32."""
    return fp16.to_f16(RANDOM.standard_normal(shape)).astype(np.float32)


STEPS: dict[str, Any] = {
    "matmul": lambda b: b.matmul(X, b.weights(W), "fp32"),
    "matmul of one token": lambda b: b.matmul(X[:1], b.weights(W), "fp32"),
    "matmul of float32 weights": lambda b: b.matmul(X, b.weights(W.astype(np.float32) / 3), "fp32"),
    "matmul in fp16": lambda b: b.matmul(X, b.weights(W), "fp16"),
    "attention": lambda b: b.attention(Q, K, V, np.float32(0.35), 4),
    "rmsnorm": lambda b: b.rmsnorm(X, X[0], np.float32(1e-5)),
    "layernorm": lambda b: b.layernorm(X, X[0], X[1], 1e-12),
    "layernorm of equal values": lambda b: b.layernorm(X * np.float32(0) + X[:, :1], X[0], X[1], 1e-12),
    "layernorm of what is not finite": lambda b: b.layernorm(np.where(X > 1, np.inf, X), X[0], X[1], 1e-12),
    "rotate": lambda b: b.rotate(Q, COS, SIN, True),
    "rotate halves": lambda b: b.rotate(Q, COS, SIN, False),
    "silu": lambda b: b.apply16("silu", X),
    "round16": lambda b: b.round16(X * np.float32(1.001)),
}
X, W = halves(5, 48), fp16.to_f16(RANDOM.standard_normal((70, 48)))
Q, K, V, COS, SIN = halves(5, 4, 8), halves(9, 2, 8), halves(9, 2, 8), halves(5, 4), halves(5, 4)


@pytest.mark.parametrize("step", STEPS.values(), ids=list(STEPS))
def test_backends_give_equal_bits(step: Any) -> None:
    jit, numpy = step(JIT), step(NUMPY)

    assert (jit.dtype, jit.shape) == (numpy.dtype, numpy.shape) == (np.dtype(np.float32), numpy.shape)
    assert np.array_equal(jit.view(np.uint32), numpy.view(np.uint32))


@BACKENDS
@pytest.mark.parametrize(("rows", "factor"), [(3, 7), (96, 96), (192, 192), (3, 1 << 15), (1 << 15, 1 << 15)])
def test_integer_products_are_exact(engine: Any, rows: int, factor: int) -> None:
    """At 8 bits the sums pass 2**24, where float32 would round."""
    w = RANDOM.integers(-rows, rows + 1, (12, 64))
    w = np.where(np.abs(w) > 2048, w & -2048, w)  # fp16 values, as every grid value is
    x = RANDOM.integers(-factor, factor + 1, (5, 64))
    x[0, :2] = -factor, factor
    expected = [[sum(int(a) * int(b) for a, b in zip(row, column, strict=True)) for column in w] for row in x]

    assert expected == engine.integer_matmul(x.astype(np.float32), engine.integer_weights(w)).tolist()


@BACKENDS
@pytest.mark.parametrize("largest", [7, 1 << 15], ids=["as it is", "in digits"])
@pytest.mark.parametrize("total", [1 << 20, (1 << 20) + 1, (1 << 24) - 1, 1 << 24, (1 << 24) + 1, 1 << 25])
def test_products_with_rows_of_large_sums_are_exact(engine: Any, largest: int, total: int) -> None:
    """Row 1 passes 2**24, where one float32 sum is not exact; with x of one sign every partial sum is the largest."""
    w = RANDOM.integers(-7, 8, (3, 1024))
    row = [1 << 15] * (total >> 15) + [total & 31 << 10, total & 1023]  # fp16 values, as every grid value is
    w[1] = (row + [0] * 1024)[:1024]
    x = RANDOM.integers(-largest, largest + 1, (3, 1024))
    assert w[1].sum() == total
    x[0], x[1] = largest, np.where(np.arange(1024) % 2, -1, 1)
    expected = [[sum(a * b for a, b in zip(row, column, strict=True)) for column in w.tolist()] for row in x.tolist()]

    assert expected == engine.integer_matmul(x.astype(np.float32), engine.integer_weights(w)).tolist()


def test_find_takes_a_name_or_a_backend() -> None:
    assert repr(backend.find("jit")) == "Jit()"
    assert repr(backend.find("numpy")) == "Numpy()"
    assert backend.find(JIT) is JIT
    with pytest.raises(Refused, match=r"unknown backend 'jitt'; did you mean 'jit'\? Known: jit, numpy"):
        backend.find("jitt")
