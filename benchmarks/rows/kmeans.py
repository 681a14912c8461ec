"""K-Means against NumPy, and against scikit-learn where it is installed (rows PERF-19, KM-ENCODE, KM-TRAIN)."""

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.pairs import Absent, Row, pairs
from benchmarks.rows.arith import normal
from refemu.formats import Codebook, KllmArith, KMeans, TopK
from refemu.formats.kllm.compiled import kmeans as kmeans_compiled
from refemu.formats.kllm.compiled import kmeans_train as kmeans_train_compiled
from refemu.formats.kllm.kmeans import normalized_inliers
from refemu.formats.kllm.kmeans_nearest import nearest_normalized

EXACT = KllmArith.preset("exact")


def _samples(count: int) -> np.ndarray:
    """Normalized fp16 samples of vectors of 1,024."""
    return normalized_inliers(normal((count // 1024, 1024), 7).astype(np.float16))


def _nearest() -> tuple[np.ndarray, Codebook]:
    x = _samples(1 << 20).astype(np.float16)
    return x, kmeans_train_compiled.train(x, bits=4)


def nearest() -> list[Row]:
    """Normalized values to indices of 16 centroids, one scale."""
    x, book = _nearest()
    words, mask = x.view(np.uint16).reshape(1, -1), np.zeros((1, x.size), np.bool_)
    one, middles = np.array([0x3C00], np.uint16), (book.centroids[1:] + book.centroids[:-1]) / 2
    every = np.arange(1 << 16).astype(np.uint16).view(np.float16)
    table = nearest_normalized(np.where(np.isfinite(every), every, 0).astype(np.float32), book, EXACT)
    rivals: dict[str, Callable[[], Any]] = {
        "np.searchsorted on midpoints": lambda: np.searchsorted(middles, x),
        "np.take on a 65,536-entry table": lambda: np.take(table, words),
    }
    return [
        pairs(
            "PERF-19",
            "nearest of 16 centroids, 2^20 fp16",
            name,
            rival,
            lambda: kmeans_compiled.indices(words, one, mask, book, EXACT),
            lambda theirs, ours: np.array_equal(np.ravel(theirs), np.ravel(ours)),
            goal,
        )
        for (name, rival), goal in zip(rivals.items(), (60, 4.5), strict=True)
    ]


def encode() -> list[Row]:
    """Tokens to indices, scales, masks and outliers."""
    x = normal((256, 4096), 9).astype(np.float16)
    fmt = KMeans(_nearest()[1], TopK("1"))
    return [
        pairs(
            "KM-ENCODE",
            "encode 256 tokens of 4,096, 1 % outliers, preset paper",
            "NumPy, argpartition and searchsorted",
            lambda: _numpy_encode(x, fmt.codebook, fmt.outliers.count(4096) if isinstance(fmt.outliers, TopK) else 0),
            lambda: kmeans_compiled.encode(fmt, x),
            lambda theirs, ours: bool(np.count_nonzero(theirs != ours.index) <= x.size // 1000),  # it rounds otherwise
        )
    ]


def _numpy_encode(x: np.ndarray, book: Codebook, k: int) -> np.ndarray:
    """A user's code."""
    wide = x.astype(np.float32)
    ranked = np.argpartition(wide, (k, wide.shape[1] - k - 1), axis=1)
    mask = np.zeros(x.shape, np.bool_)
    np.put_along_axis(mask, ranked[:, :k], True, axis=1)
    np.put_along_axis(mask, ranked[:, -k:], True, axis=1)
    scale = np.where(mask, 0, np.abs(wide)).max(axis=1, keepdims=True)
    index = np.searchsorted((book.centroids[1:] + book.centroids[:-1]) / 2, wide / scale)
    return np.where(mask, 0, index).astype(np.uint8)


def train() -> list[Row] | list[Absent]:
    """200,000 samples, 16 clusters, from the same start."""
    if importlib.util.find_spec("sklearn") is None:
        return [Absent("KM-TRAIN", "compared with scikit-learn", "not installed: pip install -e '.[bench]'")]
    rival = importlib.import_module("sklearn.cluster").KMeans
    x = _samples(200 * 1024).astype(np.float32)
    first = np.quantile(x, (np.arange(16) + 0.5) / 16)[:, None]

    def theirs() -> np.ndarray:
        return np.sort(rival(16, init=first, n_init=1, max_iter=300, tol=0).fit(x[:, None]).cluster_centers_[:, 0])

    return [
        pairs(
            "KM-TRAIN",
            "train 16 centroids of 204,800 samples",
            "scikit-learn KMeans, one start, 300 updates",
            theirs,
            lambda: kmeans_train_compiled.train(x, bits=4),
            lambda floats, ours: bool(np.abs(floats - ours.centroids).max() < 0.01),  # their sums round, ours do not
            count=3,
        )
    ]


ROWS: dict[str, Callable[[], list[Row] | list[Absent]]] = {"PERF-19": nearest, "KM-ENCODE": encode, "KM-TRAIN": train}
