"""One token times packed weights whose groups are larger than counters or fp16 integers, against the oracle's steps."""

import numpy as np
import pytest

from refemu.formats.kllm.codebook import Codebook
from refemu.formats.kllm.compiled.kmeans_row import Row
from refemu.formats.kllm.kmeans_tensor import KMeansTensor
from refemu.models.schemes.kllm.compiled.packed import packed
from refemu.models.schemes.kllm.operands import Weight
from refemu.units.kllm.index_matmul import compiled as index_matmul_compiled
from tests.arith.interpreted import needs_compiled
from tests.oracles.kllm import units
from tests.units.kllm.kmeans_operands import vector

WIDE = np.linspace(-1, 1, 16).astype(np.float16)


@pytest.mark.long
@needs_compiled
@pytest.mark.parametrize(("inputs", "peak"), [(300, 1), (300, 30000), (2600, 1), (2600, 30000)])
def test_large_groups_equal_the_oracle(inputs: int, peak: float) -> None:
    """Almost all positions have one index: counts above 255 and 2048; a table whose sums exceed fp16."""
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
    weight = Weight("q", b, index_matmul_compiled.prepare(b), None, None)
    (y,) = packed(a.codebook, [weight]).times(row, 0.5, book.centroids[None].astype(np.float32))
    some = [0, 63, 64, 127, 128, 129]

    assert [int(y[0, n].astype(np.float16).view(np.uint16)) for n in some] == [
        units.column(vector(a, 0), vector(b, n)) for n in some
    ]
