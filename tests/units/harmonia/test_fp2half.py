"""Columns of float32 become fp16: nearest, ties to even, overflow by configuration."""

import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refemu.arith.checks import Refused, RefusedType
from refemu.units.harmonia import fp2half
from refemu.units.harmonia.fp2half import Fp2Half
from tests.oracles.harmonia import units

IMPLEMENTATIONS = [pytest.param(fp2half.run, id="unit"), pytest.param(fp2half.UNIT.run_compiled, id="compiled")]
HARD = [
    0x477FEFFF,
    0x477FF000,
    0x33000000,
    0x33000001,
    0x7F800000,
    0x7FC00001,
    0x7F7FFFFF,
    1,
    0,
    0x38800000,
    0x387FE000,
]
patterns = st.one_of(
    st.sampled_from([word | sign for word in HARD for sign in (0, 1 << 31)]),
    st.integers(0, (1 << 32) - 1),
    st.integers(0x33000000, 0x477FFFFF),
)


def value(pattern: int) -> float:
    return float(struct.unpack("<f", struct.pack("<I", pattern))[0])


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize("saturate", [False, True])
@settings(deadline=None)
@given(column=st.lists(patterns, min_size=8, max_size=8))
def test_columns_equal_the_oracle(run: Any, saturate: bool, column: list[int]) -> None:
    """[harmonia §IV-A (4)] D-harmonia-13: one rounding, infinity or 65504 beyond the range; one NaN."""
    result = run(column, saturate=saturate)

    assert result.y.tolist() == [units.fp2half(value(pattern), saturate) for pattern in column]
    assert result.overflow.tolist() == [65520 <= abs(value(pattern)) < float("inf") for pattern in column]
    assert (result.columns, result.overflows) == (1, int(result.overflow.sum()))


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_every_half_and_every_tie_above_it(run: Any) -> None:
    """[harmonia §IV-A (4)]: fp16 values pass; midway between two neighbours the even one is taken."""
    finite = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float32)
    ties = (finite[:-1] + finite[1:]) / 2

    assert np.array_equal(run(finite.view(np.uint32).reshape(-1, 8)).y.ravel(), np.arange(0x7C00))
    codes = run(np.append(ties, ties[0]).astype(np.float32).view(np.uint32).reshape(-1, 8)).y.ravel()[:-1]
    assert np.array_equal(codes, np.arange(0x7BFF) + (np.arange(0x7BFF) & 1))


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_fp2half_rejects_invalid_inputs(run: Any) -> None:
    with pytest.raises(RefusedType, match=r"fp2half\.x: the last axis must hold 8 lanes, got shape \(7,\)"):
        run([0] * 7)
    with pytest.raises(RefusedType, match="fp2half: saturate must be a bool, got 1"):
        run([0] * 8, saturate=1)
    with pytest.raises(Refused, match=r"fp2half: x 4294967296 at index \(0,\) is outside"):
        run([1 << 32] * 8)


def test_fp2half_repr_evaluates_back() -> None:
    assert repr(Fp2Half(saturate=True)) == "Fp2Half(saturate=True)"
