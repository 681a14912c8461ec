"""Groups along an axis: cut, filled up, put together again."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refemu.arith.checks import Refused, RefusedType
from refemu.formats import BFP8, OVP_INT4, groups
from refemu.formats.leankv.affine import Affine


@given(length=st.integers(1, 40), group=st.integers(1, 40), axis=st.integers(-3, 2))
def test_join_inverts_split_with_zero_fill(length: int, group: int, axis: int) -> None:
    shape = [2, 3, 4]
    shape[axis] = length
    x = np.arange(1, 1 + int(np.prod(shape))).reshape(shape)
    split = groups.split(x, group, axis)

    assert split.shape[-2:] == (groups.count(length, group), group)
    assert np.array_equal(groups.join(split, length, axis), x)
    assert not split.reshape(*split.shape[:-2], -1)[..., length:].any()


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_spread_repeats_the_value_of_a_group(axis: int) -> None:
    per_group = np.arange(6).reshape(2, 3)
    spread = groups.spread(per_group, 2, 2 * per_group.shape[axis] - 1, axis)

    assert spread.shape[axis] == 2 * per_group.shape[axis] - 1
    assert np.array_equal(np.take(spread, [0, 1, 2], axis), np.take(per_group, [0, 0, 1], axis))


def test_negative_axis_counts_back_empty_axis_rejected() -> None:
    assert groups.require_axis(-1, (2, 3), "thing") == 1
    with pytest.raises(Refused, match=r"thing: axis must be in \[-2, 2\), got -3"):
        groups.require_axis(-3, (2, 3), "thing")
    with pytest.raises(Refused, match="thing: axis 0 must hold at least one element"):
        groups.require_axis(0, (0, 3), "thing")


UNPACK: dict[str, Callable[[Any, Any], object]] = {
    "ovp": OVP_INT4.unpack,
    "bfp": BFP8.unpack,
    "affine": lambda data, shape: Affine(4, 2).unpack(data, shape, [0], [0]),
}


@pytest.mark.parametrize("unpack", UNPACK.values(), ids=UNPACK)
@pytest.mark.parametrize("shape", [5, None, "ab", (), (-5,), ("a",), (2.0,), (2, None)])
def test_unpack_names_a_wrong_shape(unpack: Callable[[Any, Any], object], shape: Any) -> None:
    with pytest.raises((Refused, RefusedType), match=r"unpack: shape"):
        unpack(b"abc", shape)


@pytest.mark.parametrize("data", [5, None, "ab", [1]])
def test_unpack_names_what_is_not_bytes(data: Any) -> None:
    with pytest.raises(RefusedType, match="unpack: data must be bytes or an array of uint8, got"):
        OVP_INT4.unpack(data, (2,))
