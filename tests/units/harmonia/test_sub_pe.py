"""The sub-PE against products of signed integers: all magnitudes, the ends of the sum, order of lanes."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refemu.arith.checks import Refused, RefusedType
from refemu.units.harmonia import sub_pe
from refemu.units.harmonia.sub_pe import LANES, PSUM_BITS, SubPe

IMPLEMENTATIONS = [pytest.param(sub_pe.run, id="unit"), pytest.param(sub_pe.UNIT.run_compiled, id="compiled")]


def fields(values: Any) -> tuple[np.ndarray, np.ndarray]:
    """Signs and magnitudes of integers, padded to 32 lanes with +0."""
    lanes = np.zeros(LANES, np.int64)
    lanes[: len(values)] = values
    return (lanes < 0).astype(np.int64), np.abs(lanes)


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_nibbles_of_the_worked_dot_product(run: Any) -> None:
    """[harmonia §IV-B] D-harmonia-12: b's high and low nibbles give -3246 and 48, which fuse to the wide product."""
    high = run(*fields([201, -50, 6]), *fields([-14, 9, 3]))
    low = run(*fields([201, -50, 6]), fields([-1, 1, 1])[0], fields([0, 0, 8])[1])

    assert (int(high.psum), int(low.psum)) == (-3246, 48)
    assert (int(high.psum) << 4) + int(low.psum) == 201 * -224 + -50 * 144 + 6 * 56
    assert (high.psums, high.macs4x8, high.psum.dtype) == (1, 32, np.int32)


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_every_product_is_right(run: Any) -> None:
    """All 256 x 16 magnitudes in every combination of signs, one lane at a time."""
    a, b = np.meshgrid(np.arange(256), np.arange(16), indexing="ij")
    zeros = np.zeros((4096, LANES), np.int64)
    for signs in range(4):
        inputs = [zeros + 0 for _ in range(4)]
        columns: tuple[Any, ...] = signs & 1, a.ravel(), signs >> 1, b.ravel()
        for lanes, value in zip(inputs, columns, strict=True):
            lanes[:, 7] = value
        wanted = (a * b).ravel() * (-1 if signs in (1, 2) else 1)

        assert run(*inputs).psum.tolist() == wanted.tolist()


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_largest_sums_fit_port_and_need_its_width(run: Any) -> None:
    """[harmonia §IV-B] 32 pairs: 122,400 of either sign in 18 bits, which no narrower port holds."""
    top = run(*fields([255] * LANES), *fields([15] * LANES)), run(*fields([-255] * LANES), *fields([15] * LANES))

    assert [int(result.psum) for result in top] == [122_400, -122_400]
    assert 1 << (PSUM_BITS - 2) <= 122_400 < 1 << (PSUM_BITS - 1)


values = st.lists(st.tuples(st.integers(-255, 255), st.integers(-15, 15)), min_size=LANES, max_size=LANES)


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@settings(deadline=None, max_examples=60)
@given(pairs=values, data=st.data())
def test_sum_is_exact_and_independent_of_order(run: Any, pairs: Any, data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(pairs))
    sums = [int(run(*fields([x for x, _ in row]), *fields([y for _, y in row])).psum) for row in (pairs, shuffled)]

    assert sums == [sum(x * y for x, y in pairs)] * 2


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize(
    ("port", "value", "error", "message"),
    [
        pytest.param(1, [256] * 32, Refused, r"sub_pe: a_mag 256 at index \(0,\) is outside \[0, 256\)", id="a_mag"),
        pytest.param(3, [16] * 32, Refused, r"sub_pe: b_mag 16 at index \(0,\) is outside \[0, 16\)", id="b_mag"),
        pytest.param(0, [2] * 32, Refused, "sub_pe: a_sign 2", id="sign"),
        pytest.param(2, [0] * 31, RefusedType, "sub_pe.b_sign: the last axis must hold 32 lanes", id="lanes"),
    ],
)
def test_sub_pe_rejects_invalid_inputs(run: Any, port: int, value: Any, error: type[Exception], message: str) -> None:
    inputs: list[Any] = [[0] * 32 for _ in range(4)]
    inputs[port] = value
    with pytest.raises(error, match=message):
        run(*inputs)


def test_sub_pe_repr_evaluates_back() -> None:
    assert repr(SubPe()) == "SubPe()"
