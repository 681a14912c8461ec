"""The accumulator of the arrays' compiled forms gives what the unit gives, group by group."""

from typing import Any

import numpy as np
import pytest

from refemu.units.harmonia.bfp_accumulator import M8M8, M8W4, UNIT, Accumulator
from refemu.units.harmonia.bfp_accumulator.bfp_accumulator import MOST
from refemu.units.harmonia.kernels.accumulator import accumulate


@pytest.mark.parametrize("config", UNIT.configs.values(), ids=UNIT.configs)
def test_groups_of_devices_equal_the_unit(config: Any) -> None:
    rng, shape = np.random.default_rng(5), (2, 12)
    mode, clear, psum = rng.integers(0, 3, shape), rng.integers(0, 2, shape), rng.integers(-MOST, MOST, shape)
    a_exp, b_exp = rng.integers(0, 31, shape), rng.integers(0, 31, shape) * (mode != M8W4)
    low, factor = rng.integers(-MOST, MOST, shape) * (mode == M8M8), rng.integers(0, 0x7C00, shape) * (mode == M8W4)
    expected: Any = UNIT.run(mode, clear, psum, low, a_exp, b_exp, factor, **config)

    bits = [array.astype(np.uint8) for array in (mode, clear, a_exp, b_exp)]
    answer = accumulate(
        Accumulator(**config),
        bits[0],
        bits[1],
        np.where(mode == M8M8, 16 * psum + low, psum).astype(np.int32),
        bits[2],
        bits[3],
        factor.astype(np.uint16),
    )

    for array, name in zip(answer, ("value", "acc", "flags"), strict=True):
        assert np.array_equal(array, getattr(expected, name)), name
