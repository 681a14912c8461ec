"""Packed weights: products of a token with several of them, and the order of the packed indices."""

from typing import Any

import numpy as np
import pytest

from refemu.arith import fp16
from refemu.arith.threads import using_threads
from refemu.formats.kllm.codebook import Codebook
from refemu.formats.kllm.compiled.kmeans_row import Row
from refemu.formats.kllm.kmeans_tensor import KMeansTensor
from refemu.models.schemes.kllm.compiled.packed import packed
from refemu.models.schemes.kllm.operands import Weight
from refemu.units.kllm import index_matmul
from refemu.units.kllm.index_matmul import compiled as index_matmul_compiled
from tests.arith.interpreted import needs_compiled
from tests.oracles.kllm import units
from tests.units.kllm.kmeans_operands import tensor, vector

WIDE = np.linspace(-1, 1, 16).astype(np.float16)


def weight(rows: int, bits: int, seed: int, bias: np.ndarray | None = None) -> Weight:
    """A weight of 40 inputs without outliers."""
    b = tensor((rows, 40), bits, seed, 0)
    return Weight("q", b, index_matmul_compiled.prepare(b), bias, None)


def times(a: KMeansTensor, weights: list[Weight]) -> Any:
    """Products of one token with each weight."""
    value = fp16.to_f32(a.dequantize_fp16())
    row = Row(a.index, a.mask, np.zeros(a.index.shape, np.uint16), value, int(a.scale[0]), 0)
    centroids = np.stack([w.tensor.codebook.centroids for w in weights])
    return packed(a.codebook, weights).times(row, float(a.scales[0]), centroids)


@pytest.mark.long
@needs_compiled
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("a_bits", "bits"), [(4, 4), (3, 3), (4, 2)])
def test_products_are_those_of_the_unit(a_bits: int, bits: int, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Full and half panels, one column; a weight without a bias."""
    monkeypatch.setattr("refemu.arith.threads.BREAK_EVEN", 1)
    bias = np.linspace(-2, 2, 200).astype(np.float16)
    a, weights = tensor((1, 40), a_bits, 1, 3), [weight(129, bits, 2), weight(200, bits, 3, bias), weight(64, bits, 4)]
    with using_threads(threads):
        outputs = times(a, weights)

    assert [fp16.to_f16(y).tolist() for y in outputs] == [
        index_matmul.matmul(a, w.tensor, bias=w.bias).y.tolist() for w in weights
    ]


@needs_compiled
def test_a_zero_without_a_bias_keeps_its_sign() -> None:
    """Adding a bias of -0, not +0, to weights that have none."""
    groups = packed(tensor((1, 40), 4, 1, 0).codebook, [weight(3, 4, 2), weight(2, 4, 3, np.ones(2, np.float16))])

    assert np.signbit(groups.bias).tolist() == [True] * 3 + [False] * 2 and groups.bias[3:].tolist() == [1, 1]


@pytest.mark.long
@needs_compiled
@pytest.mark.parametrize(("inputs", "peak"), [(300, 1), (300, 30000), (2600, 1), (2600, 30000)])
def test_large_groups_equal_the_oracle(inputs: int, peak: float) -> None:
    """Counts above 255 and 2048; a table whose sums exceed fp16."""
    rng = np.random.default_rng(inputs)
    index = np.where(rng.random((1, inputs)) < 0.01, rng.integers(0, 16, (1, inputs)), 11).astype(np.uint8)
    mask = np.zeros(index.shape, np.bool_)
    mask[0, [1, inputs - 1]] = True
    index[mask] = 0
    columns = np.where(rng.random((130, inputs)) < 0.02, rng.integers(0, 16, (130, inputs)), 9).astype(np.uint8)
    book, outlier = Codebook(4, WIDE * np.float16(peak)), np.array([0x4100, 0xC500], np.uint16)
    a = KMeansTensor(Codebook(4, WIDE), index, np.array([0x3800], np.uint16), mask, outlier)
    scales = rng.integers(0x1C00, 0x2000, 130).astype(np.uint16)
    b = KMeansTensor(book, columns, scales, np.zeros(columns.shape, np.bool_), np.zeros(0, np.uint16))
    value = a.dequantize_fp16().astype(np.float32)
    row = Row(index, mask, np.zeros(index.shape, np.uint16), value, 0x3800, 2)
    right = Weight("q", b, index_matmul_compiled.prepare(b), None, None)
    (y,) = packed(a.codebook, [right]).times(row, 0.5, book.centroids[None].astype(np.float32))
    some = [0, 63, 64, 127, 128, 129]

    assert [int(y[0, n].astype(np.float16).view(np.uint16)) for n in some] == [
        units.column(vector(a, 0), vector(b, n)) for n in some
    ]
