"""The kernel of whole products by a dense sum of decoded operands."""

import numpy as np

from refemu.arith import prng
from refemu.units.olive.kernels.systolic import multiply


def test_sums_and_counts_of_odd_grids() -> None:
    words = prng.words(prng.stream("test_systolic", 0), 0, 60)
    integer = (words % np.uint64(255)).astype(np.int64) - 127
    exponent = (words >> np.uint64(60)).astype(np.int64) % 4
    (ai, bi), (ae, be) = ((x[:20].reshape(5, 4), x[20:].reshape(10, 4)) for x in (integer, exponent))
    d, overflow, counts = np.zeros((5, 10), np.int32), np.zeros((5, 10), np.bool_), np.zeros(5, np.int64)

    multiply(3, 4, 0, ae, ai, be, bi, d, overflow, counts)

    exact = [[sum(x * y for x, y in zip(p, q, strict=True)) for q in (bi << be).tolist()] for p in (ai << ae).tolist()]
    assert d.tolist() == exact and not overflow.any()
    tiles = 2 * 3
    assert counts.tolist() == [tiles * (4 + 3 + 4 - 2), tiles * 3, 5 * 10 * 4, 0, 2 * (5 * 3 + 10 * 2)]
