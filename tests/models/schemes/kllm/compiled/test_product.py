"""Rows times an operand laid out beforehand: the outputs of the index MatMul."""

import numpy as np
import pytest

from refemu.arith import fp16
from refemu.formats.kllm.codebook import Codebook
from refemu.formats.kllm.kmeans import KMeans
from refemu.formats.kllm.kmeans_outliers import TopK
from refemu.formats.kllm.kmeans_tables import cartesian
from refemu.formats.kllm.kmeans_tensor import KMeansTensor
from refemu.models.schemes.kllm.cache import outlier_words
from refemu.models.schemes.kllm.compiled.product import NO_BIAS, Columns, Rows, multiply, table, widened
from refemu.units.kllm import index_matmul
from refemu.units.kllm.index_matmul import Scores
from refemu.units.kllm.index_matmul import compiled as index_matmul_compiled
from tests.arith.interpreted import needs_compiled

BOOK = Codebook(3, np.array([-1, -0.5, -0.25, 0, 0.125, 0.25, 0.5, 1]))
WIDE = Codebook(4, np.linspace(-1, 1, 16).astype(np.float16))


def tensor(book: Codebook, rows: int, size: int, outliers: int, seed: int) -> KMeansTensor:
    x = np.random.default_rng(seed).standard_t(3, (rows, size)).astype(np.float16)
    return KMeans(book, TopK(k=outliers)).encode(x)


def columns(b: index_matmul_compiled.Prepared, scale: np.ndarray) -> Columns:
    return Columns(b.index, b.starts, b.places, b.values, scale, scale.astype(np.float32))


@pytest.mark.long
@needs_compiled
@pytest.mark.parametrize("outliers", [0, 2])
@pytest.mark.parametrize("biased", [False, True])
def test_indices_give_the_outputs_of_the_unit(outliers: int, biased: bool) -> None:
    a, b = tensor(WIDE, 3, 40, outliers, 1), tensor(BOOK, 7, 40, outliers, 2)
    bias = np.linspace(-1, 1, 7).astype(np.float16) if biased else None
    rows = Rows(a.index, a.mask.view(np.uint8), fp16.to_f32(a.dequantize_fp16()), a.scales.astype(np.float64))
    out, limits = np.empty((3, 7), np.float32), np.array([[40, 7]] * 3)
    products = table(cartesian(WIDE, BOOK).centroids, BOOK.bits)
    right = columns(index_matmul_compiled.prepare(b), b.scales.astype(np.float64))
    bias64 = NO_BIAS if bias is None else bias.astype(np.float64)
    multiply(rows, right, BOOK.centroids.copy()[None], products, limits, out, bias64)

    assert outlier_words(a).any() == (outliers > 0)
    assert np.array_equal(fp16.to_f16(out), index_matmul.matmul(a, b, bias=bias).y)


@needs_compiled
def test_integers_give_the_outputs_of_the_unit() -> None:
    """The values' scales are in the integers; columns beyond the limits do not change."""
    rng, v = np.random.default_rng(3), tensor(BOOK, 12, 6, 1, 4)
    q, p = rng.integers(0, 16, (2, 12)).astype(np.uint8), rng.random((2, 12)).astype(np.float16)
    scale = np.array([0.25, 1.5], np.float16)
    rows = Rows(q, np.zeros(q.shape, np.uint8), p.astype(np.float32), scale.astype(np.float64))
    out, limits = np.full((2, 6), -7, np.float32), np.array([[12, 5]] * 2)
    right = columns(index_matmul_compiled.prepare(v, integer=True), np.ones(6))
    multiply(rows, right, BOOK.centroids.copy()[None], table(BOOK.centroids, BOOK.bits, 15), limits, out)

    assert np.array_equal(fp16.to_f16(out[:, :5]), index_matmul.matmul(Scores(q, scale, p), v).y[:, :5])
    assert (out[:, 5] == -7).all()


def test_tables_know_their_counts() -> None:
    indices, integers = table(BOOK.centroids, 3), table(BOOK.centroids, 3, 15)

    assert (indices.size, indices.peak, indices.integers, indices.largest) == (8, 1.0, 0, 1)
    assert (integers.integers, integers.largest) == (1, 15)


def test_scales_are_widened() -> None:
    assert widened(0x3C00) == 1.0 and widened(0x3800) == 0.5
