"""Operations by several threads, on the wall's clock: compared with a rival of as many, and with one thread."""

import os
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.pairs import Row, pairs, size
from benchmarks.rows import bfp_pe, kllm
from benchmarks.rows.arith import normal
from refemu.arith import dot_compiled
from refemu.arith.orders import Sequential
from refemu.arith.threads import using_threads
from refemu.formats.harmonia.compiled.bfp_dot import bfp_dot_int, prepare
from refemu.units.kllm.index_matmul import compiled as index_matmul_compiled
from refemu.units.kllm.orizuru import compiled as orizuru_compiled

COUNT = int(os.environ.get("NUMBA_NUM_THREADS", "1"))  #: threads of this process, those of BLAS too


def beside(
    id: str,
    what: str,
    rival_name: str,
    rival: Callable[[], Any],
    ours: Callable[[], Any],
    same: Callable[[Any, Any], bool] = np.array_equal,
) -> list[Row]:
    """Two rows: the rival and ours with COUNT threads, whose result is that of one; ours with one and with COUNT."""
    with using_threads(1):
        want = ours()

    def shared() -> Any:
        with using_threads(COUNT):
            return ours()

    def alone() -> Any:
        with using_threads(1):
            return ours()

    rows = [
        pairs(id, what, rival_name, rival, shared, lambda _, found: same(want, found), clock=time.perf_counter),
        pairs(id, what, "ours by one thread", alone, shared, same, clock=time.perf_counter),
    ]
    return [replace(row, threads=COUNT) for row in rows]


def matmul() -> list[Row]:
    """Ordered products of many rows, and of one by fp16 weights."""
    return [*_matmul(64, size(2048, 64), np.float32), *_matmul(1, size(4096, 64), np.float16)]


def _matmul(m: int, side: int, dtype: type) -> list[Row]:
    a = normal((m, side), 1)
    w: np.ndarray = normal((side, side), 2).astype(dtype)
    wide, weights = w.astype(np.float32), dot_compiled.panels(w)
    return beside(
        "THREADS-MATMUL",
        f"ordered fp32 matmul M={m} K=N={side}, {np.dtype(dtype)} weights",
        "BLAS sgemm (no order)",
        lambda: a @ wide.T,
        lambda: dot_compiled.matmul(a, weights, order=Sequential(), acc="fp32"),
    )


def grouped() -> list[Row]:
    """Harmonia's products of many rows."""
    a, w = bfp_pe.operands(*size((256, 2048, 2048), (4, 128, 32)))
    ready, dense, x = prepare(w), w.dequantize().T.copy(), a.dequantize().astype(np.float32)
    return beside(
        "THREADS-GROUPED",
        "BFP8 x INT4, M=256, 2048 x 2048, prepared",
        "sgemm on dequantized float32",
        lambda: x @ dense,
        lambda: bfp_dot_int(a, ready),
    )


def decode() -> list[Row]:
    """A token times INT4 groups, as in a decoder of 7 B."""
    a, w = bfp_pe.operands(*size((1, 4096, 11_008), (1, 128, 32)))
    ready, dense, x = prepare(w), w.dequantize().T.copy(), a.dequantize().astype(np.float32)
    return beside(
        "THREADS-DECODE",
        "BFP8 x INT4, M=1, 4096 x 11008, prepared",
        "sgemm on dequantized float32",
        lambda: x @ dense,
        lambda: bfp_dot_int(a, ready),
    )


def attention() -> list[Row]:
    """A prompt of 512 tokens, 9 heads on 3."""
    q, k, v = (
        normal((512, heads, 64), seed).astype(np.float16).astype(np.float32) for seed, heads in ((1, 9), (2, 3), (3, 3))
    )

    def rival() -> np.ndarray:
        scores = np.matmul(q.reshape(512, 3, 3, 64).transpose(1, 2, 0, 3), k.transpose(1, 2, 0)[:, None])
        e = np.exp((scores - scores.max(-1, keepdims=True)) * np.float32(0.125))
        return np.matmul(e / e.sum(-1, keepdims=True), v.transpose(1, 0, 2)[:, None])

    return beside(
        "THREADS-ATTENTION",
        "attention of a prompt of 512, 9 heads of 64 on 3",
        "NumPy float32, every score, no mask",
        rival,
        lambda: dot_compiled.attention(q, k, v, scale=np.float32(0.125), start=0),
    )


def indexed() -> list[Row]:
    """KLLM's product of a prompt, and its selection of outliers."""
    a, b = kllm.operands(*size((64, 576, 1536), (2, 64, 64)))
    right, x = index_matmul_compiled.prepare(b), a.dequantize_fp16().astype(np.float32)
    kept = b.codebook.centroids[b.index] * b.scales.astype(np.float32)
    rows = normal((256, 4096), 5).astype(np.float16)
    wide = rows.astype(np.float32)
    return [
        *beside(
            "THREADS-INDEX",
            "index MatMul 64 x 576 x 1536, W4A4, fp16 MAC",
            "sgemm on kept float32 weights",
            lambda: x @ kept,
            lambda: index_matmul_compiled.matmul(a, right),
            lambda one, other: one.equals(other),
        ),
        *beside(
            "THREADS-ORIZURU",
            "Orizuru, 256 tokens of 4096, k = 20 + 20",
            "np.argpartition, one thread",
            lambda: np.argpartition(wide, (19, 4076), axis=-1),
            lambda: orizuru_compiled.pops(rows, 20),
            lambda one, other: one.equals(other),
        ),
    ]


ROWS: dict[str, Callable[[], list[Row]]] = {
    "THREADS-MATMUL": matmul,
    "THREADS-GROUPED": grouped,
    "THREADS-DECODE": decode,
    "THREADS-ATTENTION": attention,
    "THREADS-INDEX THREADS-ORIZURU": indexed,
}
