"""The cast to float16 rounds once, to nearest even, whatever the width."""

import numpy as np
import pytest

from refemu.arith.casts import narrow
from refemu.arith.selftest import hard_cases
from tests.oracles import fp16 as oracle


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_hard_cases_are_cast_right(dtype: type[np.floating]) -> None:
    inputs, words = hard_cases()

    assert narrow(inputs.astype(dtype)).view(np.uint16).tolist() == words.tolist()
    assert [oracle.from_float(x) for x in inputs.tolist()] == words.tolist()


def test_a_float64_is_rounded_once() -> None:
    """By way of float32 1 + 2**-11 + 2**-40 would lose what lifts it above the midpoint."""
    x = 1 + 2**-11 + 2**-40

    assert int(narrow(np.float64([x])).view(np.uint16)[0]) == oracle.from_float(x) == 0x3C01


def test_beyond_range_it_is_infinite_without_warning() -> None:
    x = np.array([65_519.99, 65_520.0, -1e30, np.inf, np.nan])

    assert narrow(x).tolist()[:4] == [65_504.0, np.inf, -np.inf, np.inf]
    assert np.isnan(narrow(x)[4])
