"""Products of packed pairs are those of the oracle's values, in every word and every number of threads."""

import numpy as np
import pytest

from refemu.formats import OVP_FLINT4, OVP_INT4, OVP_INT4_REPO, OVP_INT8, Ovp
from refemu.formats.olive.kernels import products
from tests.arith.interpreted import WAYS
from tests.oracles.olive import ovp as oracle

NAMES = {OVP_INT4: "OVP_INT4", OVP_FLINT4: "OVP_FLINT4"}


def values_of(fmt: Ovp, words: np.ndarray) -> np.ndarray:
    """Both values of every word, low code first, by the oracle; 0 for an illegal one."""
    pairs = [oracle.decode_pair(NAMES[fmt], word & 15, word >> 4) or (0, 0) for word in words.reshape(-1).tolist()]
    return np.array(pairs, np.int64).reshape(*words.shape[:-1], -1)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("fmt", [OVP_INT4, OVP_FLINT4], ids=NAMES.get)
def test_pair_products_of_every_word_equal_the_oracle(way, fmt):
    rng = np.random.default_rng(3)
    rows = np.stack([np.arange(256), np.arange(255, -1, -1), rng.integers(0, 256, 256)]).astype(np.uint8)
    pairs, rescale = rng.permutation(256).astype(np.uint8), rng.normal(size=3).astype(np.float32)
    want = values_of(OVP_INT4, rows) @ values_of(fmt, pairs[None])[0]
    sums, out = np.full(3, -1, np.int32), np.full(3, np.nan, np.float32)
    right = rows, *products.outlier_places(rows, OVP_INT4), products.fixes(OVP_INT4), rescale
    with way():
        for first, last in ((0, 1), (1, 3)):
            products.pair_products(pairs, products.pair_values(fmt), *right, sums, out, first, last)

    assert sums.tolist() == want.tolist()
    assert out.tobytes() == (want.astype(np.float32) * rescale).tobytes()


def test_rows_of_other_formats_are_left_to_panels():
    assert products.suits(OVP_INT4) and products.suits(OVP_INT4_REPO)
    assert not products.suits(OVP_FLINT4) and not products.suits(OVP_INT8)
    assert products.pair_values(OVP_INT8) is None
