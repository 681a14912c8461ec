"""Ordered sums and rounding against BLAS and NumPy (performance rows PERF-1 to PERF-6, PERF-23, PERF-27)."""

from collections.abc import Callable

import numpy as np

from benchmarks.pairs import Row, pairs, size
from refemu.arith import dot, dot_compiled, fp16_compiled, fp32_compiled
from refemu.arith.dot import Sequential


def normal(shape: tuple[int, ...], seed: int) -> np.ndarray:
    """N(0, 1) float32 data."""
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def _columns_equal(a: np.ndarray, w: np.ndarray, ours: np.ndarray, acc: str) -> bool:
    """A few columns of the compiled result against the readable definition."""
    pick = np.arange(0, w.shape[0], max(1, w.shape[0] // 8))
    want = dot.matmul(a, np.ascontiguousarray(w[pick].T), order=Sequential(), acc=acc)
    return want.tobytes() == np.ascontiguousarray(ours[:, pick]).tobytes()


def matmul_fp32() -> list[Row]:
    """Ordered float32 matmul on prepared float32 weights against sgemm."""
    rows = []
    for id, m, full, goal in (("PERF-1", 64, 4096, 0.9), ("PERF-2", 64, 1024, 0.9), ("PERF-4", 1, 4096, 0.75)):
        side = size(full, 64)
        for acc in ("fp32", "fp32_fma"):
            a, w = normal((m, side), 1), normal((side, side), 2)
            weights = dot_compiled.panels(w)
            rows.append(
                pairs(
                    id,
                    f"ordered {acc} matmul M={m} K=N={side}",
                    "BLAS sgemm (no order)",
                    lambda a=a, w=w: a @ w.T,
                    lambda a=a, p=weights, acc=acc: dot_compiled.matmul(a, p, order=Sequential(), acc=acc),
                    lambda _, ours, a=a, w=w, acc=acc: _columns_equal(a, w, ours, acc),
                    goal,
                )
            )
    return rows


def matmul_fp16_weights() -> list[Row]:
    """One row with fp16 weights, compared with sgemm on float32 weights and NumPy's own float16 product."""
    side = size(4096, 64)
    a, w = normal((1, side), 1), normal((side, side), 2).astype(np.float16)
    wide, weights = w.astype(np.float32), dot_compiled.panels(w)
    call = lambda: dot_compiled.matmul(a, weights, order=Sequential(), acc="fp32")  # noqa: E731
    check = lambda _, ours: _columns_equal(a, wide, ours, "fp32")  # noqa: E731
    a16 = a.astype(np.float16)
    return [
        pairs(
            "PERF-3",
            f"ordered fp32, fp16 weights, M=1 K=N={side}",
            "sgemm on float32 weights",
            lambda: a @ wide.T,
            call,
            check,
            1.2,
        ),
        pairs(
            "PERF-6",
            f"ordered fp32, fp16 weights, M=1 K=N={side}",
            "NumPy float16 @",
            lambda: a16 @ w.T,
            call,
            check,
            25,
            count=3,
        ),
    ]


def matmul_fp16_acc() -> list[Row]:
    """fp16 multiply and add, each rounded, against the same loop in NumPy float16."""
    side = size(1024, 64)
    a, w = normal((64, side), 1).astype(np.float16), normal((side, side), 2).astype(np.float16) / np.float16(32)
    wide, weights = a.astype(np.float32), dot_compiled.panels(w)

    def rival() -> np.ndarray:
        s, b = np.zeros((64, side), np.float16), np.ascontiguousarray(w.T)
        for k in range(side):
            s = s + a[:, k, None] * b[k]
        return s.astype(np.float32)

    return [
        pairs(
            "PERF-5",
            f"fp16 MAC rounded twice, M=64 K=N={side}",
            "NumPy float16 loop",
            rival,
            lambda: dot_compiled.matmul(wide, weights, order=Sequential(), acc="fp16"),
            np.array_equal,
            80,
            count=3,
        )
    ]


def round16() -> list[Row]:
    """float32 to fp16-valued float32 against NumPy's cast there and back."""
    x = normal((1 << 20,), 1)
    return [
        pairs(
            "PERF-23",
            "round16 of 2^20 float32",
            "NumPy to float16 and back",
            lambda: x.astype(np.float16).astype(np.float32),
            lambda: fp16_compiled.round16(x),
            np.array_equal,
            10,
        )
    ]


def exp32() -> list[Row]:
    """The correctly rounded exponential against NumPy's float64 one and two casts."""
    x = normal((1 << 20,), 1) * np.float32(5)
    return [
        pairs(
            "PERF-27",
            "exp32 of 2^20 float32",
            "np.exp in float64, and casts",
            lambda: np.exp(x.astype(np.float64)).astype(np.float32),
            lambda: fp32_compiled.exp32(x),
            np.array_equal,
        )
    ]


ROWS: dict[str, Callable[[], list[Row]]] = {
    "PERF-1 PERF-2 PERF-4": matmul_fp32,
    "PERF-3 PERF-6": matmul_fp16_weights,
    "PERF-5": matmul_fp16_acc,
    "PERF-23": round16,
    "PERF-27": exp32,
}
