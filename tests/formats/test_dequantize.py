"""One word each on every tensor: `decode()` gives integers, `dequantize()` real values."""

import numpy as np
import pytest

from refemu import formats
from refemu.formats import Affine, GroupInt, KMeans, TopK, train

X = np.linspace(-3, 3, 64).astype(np.float16).reshape(2, 32)
BOOK = train(np.linspace(-1, 1, 64).astype(np.float16), bits=4)
TENSORS = {
    "ovp": formats.OVP_INT4.encode(X, np.float32(0.5)),
    "bfp": formats.BFP8.encode(X),
    "affine": Affine(4).encode(X),
    "group integers": GroupInt(4, 32, zero_point=True).encode(X),
    "k-means": KMeans(BOOK, TopK(1)).encode(X),
}


@pytest.mark.parametrize("name", TENSORS)
def test_decode_gives_integers_and_dequantize_values(name: str) -> None:
    tensor = TENSORS[name]
    whole, real = tensor.decode(), tensor.dequantize()

    assert (whole.dtype, whole.shape, real.dtype.kind, real.shape) == (np.int64, X.shape, "f", X.shape)
    assert np.abs(real - X).max() < 0.5


def test_integers_become_values_by_the_formats_rule() -> None:
    bfp, affine, ints, means = (TENSORS[name] for name in ("bfp", "affine", "group integers", "k-means"))
    scale, zero = (each.view(np.float16).astype(np.float32) for each in (affine.scale, affine.zero))

    assert np.array_equal(np.ldexp(bfp.decode(), bfp.powers()), bfp.dequantize())
    assert np.array_equal(affine.decode() * scale - zero, affine.dequantize())
    assert np.array_equal(ints.decode() * ints.scale.astype(np.float64), ints.dequantize())
    inliers = BOOK.centroids[means.decode()] * means.scales.astype(np.float64)[:, None]
    assert np.array_equal(np.where(means.mask, X, inliers), means.dequantize())
