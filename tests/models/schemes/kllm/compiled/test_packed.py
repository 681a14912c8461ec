"""Packed weights: products of a token with several of them, and the order of the packed indices."""

from typing import Any

import numpy as np
import pytest

from refemu.arith import fp16
from refemu.arith.threads import using_threads
from refemu.formats.kllm.compiled.kmeans_row import Row
from refemu.formats.kllm.kmeans_tensor import KMeansTensor
from refemu.models.schemes.kllm.compiled.packed import packed
from refemu.models.schemes.kllm.operands import Weight
from refemu.units.kllm import index_matmul
from refemu.units.kllm.index_matmul import compiled as index_matmul_compiled
from tests.arith.interpreted import needs_compiled
from tests.units.kllm.kmeans_operands import tensor


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
    """Panels that are full, half, and of one column; a weight without the bias that another one has."""
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
