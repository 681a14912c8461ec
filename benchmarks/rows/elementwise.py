"""fp16 in, one value out: conversions, fma, functions, formats, rotary tables (PERF-22, PERF-24 to PERF-28)."""

from collections.abc import Callable

import numpy as np

from benchmarks.pairs import Row, absolute, pairs
from benchmarks.rows.arith import normal
from refemu.arith import fp16, fp16_compiled, fp32, fp32_compiled, rotary, tables
from refemu.formats import E2M1_BIAS2
from refemu.models.backend import Jit

COUNT = 1 << 20
PREFILL, LAYER = 256, (576, 1536)  #: tokens, and the size of a product of a layer of the 135 M parameter model
PER_TOKEN = 269e6  #: operations of that model's products


def half(seed: int, deviation: float = 1.0) -> np.ndarray:
    """fp16 values of a bell."""
    return (normal((COUNT,), seed) * np.float32(deviation)).astype(np.float16)


def formats() -> list[Row]:
    """A 4-bit format of fp16 values, against the table that a user could build with it, and one addition."""
    x = half(1, 3.0)
    words, every = x.view(np.uint16), np.arange(1 << 16).astype(np.uint16).view(np.float16)
    table = E2M1_BIAS2.encode(np.where(np.isfinite(every), every, np.float16(0)))
    return [
        pairs(
            "PERF-22",
            "E2M1_BIAS2 encode 2^20 fp16, without numba",
            "np.take on a 65,536-entry table",
            lambda: np.take(table, words),
            lambda: E2M1_BIAS2.encode(x),
            np.array_equal,
            1.0,
        )
    ]


def widen() -> list[Row]:
    """fp16 to float32."""
    x = half(2)
    return [
        pairs(
            "PERF-24",
            "fp16 to float32, 2^20",
            "NumPy astype",
            lambda: x.astype(np.float32),
            lambda: fp16_compiled.to_f32(x),
            np.array_equal,
            10.0,
        )
    ]


def fma() -> list[Row]:
    """One rounding for a multiply and an add, fp16 values carried in float32 as in the runtime."""
    a, b, c = (half(seed).astype(np.float32) for seed in (3, 4, 5))

    def rival() -> np.ndarray:
        return (a.astype(np.float64) * b + c).astype(np.float16).astype(np.float32)

    def same(theirs: np.ndarray, ours: np.ndarray) -> bool:
        return np.array_equal(theirs, ours) and np.array_equal(ours, fp16.fma16(a, b, c))

    return [
        pairs(
            "PERF-25",
            "fp16 fma, 2^20",
            "float64 expression, cast to float16 and back",
            rival,
            lambda: fp16_compiled.fma16(a, b, c),
            same,
            8.0,
        )
    ]


def functions() -> list[Row]:
    """silu of fp16 values in float32, as a layer calls it: narrow, look up, widen."""
    x, backend = half(6, 2.0), Jit()
    wide, table = x.astype(np.float32), fp16.values(tables.table16("silu")).astype(np.float32)
    want = table[x.view(np.uint16)]

    def take() -> np.ndarray:
        return np.take(table, wide.astype(np.float16).view(np.uint16))

    def same(_: np.ndarray, ours: np.ndarray) -> bool:
        return bool(np.array_equal(want, ours))

    return [
        pairs(
            "PERF-26",
            "fp16 silu of 2^20 values in float32",
            "cast, np.take on the table",
            take,
            lambda: backend.apply16("silu", wide),
            same,
            4.0,
        ),
        pairs(
            "PERF-26",
            "fp16 silu of 2^20 values in float32",
            "x / (1 + np.exp(-x)) in float16, inexact",
            lambda: x / (np.float16(1) + np.exp(-x)),
            lambda: backend.apply16("silu", wide),
            same,
        ),
    ]


def exponential() -> list[Row]:
    """The correctly rounded exponential as a rate."""
    x = normal((COUNT,), 1) * np.float32(5)
    return [
        absolute(
            "PERF-27",
            "exp32 of 2^20 float32",
            "goal: 0.4 G/s",
            COUNT / 0.4e9,
            lambda: fp32_compiled.exp32(x),
            lambda ours: np.array_equal(fp32.exp32(x), ours),
        )
    ]


def angles() -> list[Row]:
    """Tables of a whole prompt, against one percent of the products of its prefill."""
    positions = np.arange(PREFILL)
    x, w = normal((PREFILL, LAYER[0]), 1), normal(LAYER, 2)
    share = (
        0.01 * PREFILL * PER_TOKEN / (2 * PREFILL * LAYER[0] * LAYER[1])
    )  # share of a prefill, in products of this size

    def same(_: np.ndarray, ours: tuple[np.ndarray, np.ndarray]) -> bool:
        angle = positions[:, None] * 10000.0 ** (-np.arange(32) / 32)
        return bool(np.abs(np.cos(angle) - ours[0]).max() < 1e-10 > np.abs(np.sin(angle) - ours[1]).max())

    row = pairs(
        "PERF-28",
        f"rotary tables, {PREFILL} positions of a head of 64, exact",
        "1 % of the sgemm of a prefill of 135 M parameters",
        lambda: x @ w,
        lambda: rotary.rotary(positions, 64, 10000.0),
        same,
    )
    return [row.times(share, goal=1.0)]


ROWS: dict[str, Callable[[], list[Row]]] = {
    "PERF-22": formats,
    "PERF-24": widen,
    "PERF-25": fma,
    "PERF-26": functions,
    "PERF-27": exponential,
    "PERF-28": angles,
}
