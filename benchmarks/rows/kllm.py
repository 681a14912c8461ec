"""KLLM's counting and index MatMul, compiled, against NumPy: bincount, and dequantizing with a BLAS product."""

from collections.abc import Callable

import numpy as np

from benchmarks.pairs import Row, pairs, size
from benchmarks.rows.arith import normal
from refemu.formats import train
from refemu.formats.kllm.kmeans import KMeans, TopK
from refemu.formats.kllm.kmeans_tensor import KMeansTensor
from refemu.units.kllm import index_matmul
from refemu.units.kllm.index_counter import compiled as index_counter_compiled
from refemu.units.kllm.index_matmul import compiled as index_matmul_compiled

SIZE = 4096


def operands(rows: int, k: int, n: int) -> tuple[KMeansTensor, KMeansTensor]:
    """Tokens with half a percent of outliers a side, and weights, one scale per column; four bits each."""
    x, w = normal((rows, k), 7).astype(np.float16), normal((k, n), 8).astype(np.float16)
    a, b = (KMeans(train(values.ravel()[:20000] / np.float16(4), bits=4)) for values in (x, w))
    return KMeans(a.codebook, TopK("1")).encode(x), b.encode(w, axis=0)


def counting() -> list[Row]:
    """256 counters per column: of one token by a square weight, and of given joint indices."""
    side = size(SIZE, 256)
    a, b = operands(1, side, side)
    right = index_matmul_compiled.prepare(b)
    inliers = ~a.mask[0]
    index = ((a.index.T.astype(np.int64) << 4) | b.index).T.copy()

    def bincount() -> np.ndarray:
        return np.stack([np.bincount(column[inliers], minlength=256) for column in index], axis=1)

    given = index[:256].copy()
    return [
        pairs(
            "PERF-11",
            f"distribution of joint indices, K = N = {side}, all columns",
            "np.bincount per column",
            bincount,
            lambda: index_matmul_compiled.distribution(a, right),
            lambda theirs, ours: np.array_equal(theirs, ours[0]),
            goal=10.0,
        ),
        pairs(
            "PERF-11",
            f"index_counter: 256 columns of {side} joint indices",
            "np.bincount per column",
            lambda: np.stack([np.bincount(column, minlength=256) for column in given]),
            lambda: index_counter_compiled.counts(given, 8),
            lambda theirs, ours: np.array_equal(theirs, ours.count),
        ),
    ]


def matmul() -> list[Row]:
    """One token by a square weight, and tokens of a prompt by a layer of SmolLM2-135M."""
    return [row for shape in size(((1, SIZE, SIZE), (64, 576, 1536)), ((1, 64, 64),)) for row in matmul_rows(*shape)]


def matmul_rows(rows: int, k: int, n: int) -> list[Row]:
    """`rows` tokens of k elements by a weight of n columns, both quantized, compared with BLAS on floats."""
    a, b = operands(rows, k, n)
    right = index_matmul_compiled.prepare(b)
    centroids, x = b.codebook.centroids, a.dequantize_fp16().astype(np.float32)
    scale = b.scales.astype(np.float32)
    kept = centroids[b.index] * scale
    first = index_matmul.matmul(*(_part(t, 0) for t in (a, b)))

    def dequantize() -> np.ndarray:
        return x @ (np.take(centroids, b.index) * scale)

    def same(_: np.ndarray, ours: index_matmul.Result) -> bool:
        """Against the readable unit; BLAS rounds differently and cannot be the reference."""
        return ours.y[0, 0].tobytes() == first.y.tobytes()

    name = f"index MatMul {rows} x {k} x {n}, W4A4, fp16 MAC"
    return [
        pairs("PERF-13", name, rival, call, lambda: index_matmul_compiled.matmul(a, right), same, goal=goal)
        for rival, call, goal in (
            ("dequantize by table, sgemm", dequantize, 5.0 if rows == 1 else 0.0),
            ("sgemm on kept float32 weights", lambda: x @ kept, 0.5 if rows == 1 else 0.0),
        )
    ]


def _part(t: KMeansTensor, i: int) -> KMeansTensor:
    """Vector i of a tensor."""
    index, mask = (np.take(array, [i], 1 - t.axis) for array in (t.index, t.mask))
    before = int(np.count_nonzero(np.take(t.mask, range(i), 1 - t.axis)))
    outliers = t.outlier[before : before + int(np.count_nonzero(mask))]
    return KMeansTensor(t.codebook, index, t.scale[i : i + 1].copy(), mask, outliers.copy(), t.axis)


ROWS: dict[str, Callable[[], list[Row]]] = {"PERF-11": counting, "PERF-13": matmul}
