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
from refemu.models.schemes.kllm.compiled.product import Columns, Rows, multiply, table, widened
from refemu.units.kllm import index_matmul
from refemu.units.kllm.index_matmul import Scores
from refemu.units.kllm.index_matmul import compiled as index_matmul_compiled
from tests.arith.interpreted import needs_compiled

BOOK = Codebook(3, np.array([-1, -0.5, -0.25, 0, 0.125, 0.25, 0.5, 1]))
WIDE = Codebook(4, np.linspace(-1, 1, 16).astype(np.float16))


def tensor(book: Codebook, rows: int, size: int, outliers: int, seed: int) -> KMeansTensor:
    x = np.random.default_rng(seed).standard_t(3, (rows, size)).astype(np.float16)
    return KMeans(book, TopK(k=outliers)).encode(x)


def columns(heads: list[index_matmul_compiled.Prepared], scale: np.ndarray) -> Columns:
    """Right operands of heads; those with fewer outliers are filled up."""
    most = max(b.places.size for b in heads)
    places, values = (
        np.stack([np.pad(getattr(b, name), (0, most - b.places.size)) for b in heads]) for name in ("places", "values")
    )
    codes, starts = np.stack([b.index for b in heads]), np.stack([b.starts for b in heads])
    return Columns(codes, starts, places, values, scale, scale.astype(np.float32))


@pytest.mark.long
@needs_compiled
@pytest.mark.parametrize("outliers", [0, 2])
def test_indices_give_the_outputs_of_the_unit(outliers: int) -> None:
    """Two heads of three rows; the scales of the keys are shared."""
    a = tensor(WIDE, 6, 40, outliers, 1)
    right = [tensor(BOOK, 7, 40, outliers * head, 2 + head) for head in range(2)]
    heads = [KMeansTensor(b.codebook, b.index, right[0].scale, b.mask, b.outlier) for b in right]
    rows = Rows(a.index, a.mask.view(np.uint8), fp16.to_f32(a.dequantize_fp16()), a.scales.astype(np.float64))
    out, limits = np.empty((6, 7), np.float32), np.array([[40, 7]] * 3)
    products, scales = table(cartesian(WIDE, BOOK).centroids, BOOK.bits), right[0].scales.astype(np.float64)
    laid = columns([index_matmul_compiled.prepare(b) for b in heads], scales)
    multiply(rows, laid, BOOK.centroids.copy()[None], products, limits, out)

    assert outlier_words(a).any() == (outliers > 0)
    assert np.array_equal(
        fp16.to_f16(out),
        np.concatenate([index_matmul.matmul(a, b).y[3 * head : 3 * head + 3] for head, b in enumerate(heads)]),
    )


@needs_compiled
def test_integers_give_the_outputs_of_the_unit() -> None:
    """The values' scales are in the integers; columns beyond the limits do not change."""
    rng, v = np.random.default_rng(3), tensor(BOOK, 12, 6, 1, 4)
    q, p = rng.integers(0, 16, (2, 12)).astype(np.uint8), rng.random((2, 12)).astype(np.float16)
    scale = np.array([0.25, 1.5], np.float16)
    rows = Rows(q, np.zeros(q.shape, np.uint8), p.astype(np.float32), scale.astype(np.float64))
    out, limits = np.full((2, 6), -7, np.float32), np.array([[12, 5]] * 2)
    right = columns([index_matmul_compiled.prepare(v, integer=True)], np.ones(6))
    multiply(rows, right, BOOK.centroids.copy()[None], table(BOOK.centroids, BOOK.bits, 15), limits, out)

    assert np.array_equal(fp16.to_f16(out[:, :5]), index_matmul.matmul(Scores(q, scale, p), v).y[:, :5])
    assert (out[:, 5] == -7).all()


def test_tables_know_their_counts() -> None:
    indices, integers = table(BOOK.centroids, 3), table(BOOK.centroids, 3, 15)

    assert (indices.size, indices.peak, indices.integers, indices.largest) == (8, 1.0, 0, 1)
    assert (integers.integers, integers.largest) == (1, 15)


def test_scales_are_widened() -> None:
    assert widened(0x3C00) == 1.0 and widened(0x3800) == 0.5
