"""Exact sums of groups by Python's integers."""

import numpy as np
import pytest

from refemu.units.harmonia.kernels.accumulator import sum_groups


@pytest.mark.parametrize("inner", [32, 64, 50])
def test_sums_of_groups(inner: int) -> None:
    rng = np.random.default_rng(inner)
    groups = -(-inner // 32)
    mode = rng.integers(0, 3, (2, groups)).astype(np.uint8)
    a_sign, a_mag = (rng.integers(0, top, (2, 3, inner)).astype(np.uint8) for top in (2, 256))
    b_sign, b = (rng.integers(0, top, (2, 4, inner)).astype(np.uint8) for top in (2, 256))
    wide = np.repeat(mode == 2, 32, axis=1)[:, None, :inner]
    weights = np.repeat(mode == 0, 32, axis=1)[:, None, :inner]
    b, b_sign = np.where(wide, b, b & 15), np.where(weights, 0, b_sign).astype(np.uint8)
    psum = np.empty((2, 3, 4, groups), np.int32)

    sum_groups(mode, a_sign, a_mag, b, b_sign, psum)

    x = np.where(a_sign, -a_mag.astype(int), a_mag).tolist()
    code = np.where(weights & (b > 7), b.astype(int) - 16, b)
    y = np.where(b_sign, -code, code).tolist()
    for i, m, n, g in np.ndindex(psum.shape):
        pairs = zip(x[i][m][32 * g : 32 * g + 32], y[i][n][32 * g : 32 * g + 32], strict=True)
        assert psum[i, m, n, g] == sum(p * q for p, q in pairs)
