"""The 8-bit unit against Python integers: every int8 product, outliers at the limit, the ends of 32 bits."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refemu.arith.checks import Refused, RefusedType
from refemu.units.olive import olive_pe8
from refemu.units.olive.olive_pe8 import OlivePe8
from refemu.units.olive.olive_pe8.olive_pe8 import halves
from tests.oracles.olive import units

IMPLEMENTATIONS = [pytest.param(olive_pe8.run, id="unit"), pytest.param(olive_pe8.UNIT.run_compiled, id="compiled")]
SPLITS, OVERFLOWS = ["twos_complement", "sign_magnitude"], ["wrap", "saturate"]
INT8 = np.arange(-128, 128)


def mac(x_exp: int, x_int: int, y_exp: int, y_int: int) -> units.Event:
    return 0, 0, x_exp, x_int, y_exp, y_int


def columns(*events: units.Event) -> list[list[int]]:
    return [list(column) for column in zip(*events, strict=True)]


@pytest.mark.long
@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize("split", SPLITS)
def test_four_elements_give_every_int8_product(run: Any, split: str) -> None:
    """[olive §4.5], all 65,536 operand pairs; D-olive-36: both splits give the same sum."""
    result = run(0, 0, 0, INT8[:, None], 0, INT8, split=split)
    scattered = (result.partial.astype(np.int64) << result.shift).transpose(2, 0, 1)

    assert np.array_equal(scattered[0] + scattered[1] + scattered[2] + scattered[3], INT8[:, None] * INT8)
    assert np.array_equal(result.acc, np.cumsum(INT8[:, None] * INT8, axis=1))
    assert not result.overflow.any() and (result.macs, result.pe_multiplications) == (1 << 16, 4 << 16)


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_operands_and_shifts_of_the_four_elements(run: Any) -> None:
    """D-olive-37: high x high by 8, high x low and low x high by 4, low x low by 0, each plus both exponents.

    D-olive-36.
    """
    result = run(*columns(mac(2, -15, 1, 100)))

    assert halves(-15, "twos_complement") == (-1, 1) and halves(-15, "sign_magnitude") == (0, -15)
    assert result.partial.tolist() == [[-1 * 6, -1 * 4, 1 * 6, 1 * 4]]
    assert result.shift.tolist() == [[11, 7, 7, 3]]
    assert result.acc.tolist() == [(-15 * 100) << 3]
    assert (result.partial.dtype, result.shift.dtype, result.acc.dtype) == (np.int16, np.uint8, np.int32)


@pytest.mark.parametrize("split", SPLITS)
def test_partial_products_fit_the_stated_ranges(split: str) -> None:
    partial = olive_pe8.UNIT.run_compiled(0, 0, 0, INT8[:, None], 0, INT8, split=split).partial.reshape(-1, 4)
    ends = list(zip(partial.min(axis=0).tolist(), partial.max(axis=0).tolist(), strict=True))

    assert (
        ends
        == {
            "twos_complement": [(-56, 64), (-120, 105), (-120, 105), (0, 225)],
            "sign_magnitude": [(-56, 64), (-120, 120), (-120, 120), (-225, 225)],
        }[split]
    )


EVENTS = st.one_of(
    st.builds(lambda acc: (1, acc, 0, 0, 0, 0), st.integers(-(2**31), 2**31 - 1)),
    st.builds(mac, *[st.integers(0, 31), st.integers(-128, 127)] * 2),
    st.builds(mac, *[st.integers(0, 12), st.integers(-15, 15)] * 2),
)


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("overflow", OVERFLOWS)
@settings(deadline=None)
@given(events=st.lists(EVENTS, min_size=1, max_size=10))
def test_sequences_equal_the_oracle(run: Any, split: str, overflow: str, events: list[units.Event]) -> None:
    """Exact sums beyond 64 bits included: 128**2 << 62; D-olive-33 on the sum of all four, once."""
    result = run(*columns(*events), split=split, overflow=overflow)
    expected = units.mac(events, overflow)

    assert list(zip(result.acc.tolist(), result.overflow.tolist(), strict=True)) == [row[2:] for row in expected]
    assert result.overflows == len([row for row in expected if row[3]])
    assert result.shift[:, 3].tolist() == [row[0] for row in expected]


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_two_clipped_outlier_products_reach_2_31(run: Any) -> None:
    """[olive §4.5] one product, 2**15 * 2**15 = 2**30, fits; the second of the same sign does not."""
    events = columns(mac(12, 8, 12, 8), mac(12, 8, 12, 8))

    assert run(*events).acc.tolist() == [2**30, -(2**31)]
    assert run(*events, overflow="saturate").acc.tolist() == [2**30, 2**31 - 1]
    assert run(*events).overflow.tolist() == [False, True]


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        pytest.param(
            {"x_int": [128]}, Refused, r"olive_pe8: x_int 128 at index \(0,\) is outside \[-128, 128\)", id="int"
        ),
        pytest.param({"y_exp": [32]}, Refused, r"olive_pe8: y_exp 32 at index \(0,\) is outside \[0, 32\)", id="exp"),
        pytest.param({}, RefusedType, "olive_pe8: at least one port must have an axis", id="scalars"),
        pytest.param(
            {"split": "nibbles"}, Refused, "split must be one of 'twos_complement', 'sign_magnitude'", id="split"
        ),
        pytest.param({"overflow": "refuse"}, Refused, "overflow must be one of 'wrap', 'saturate'", id="overflow"),
    ],
)
def test_olive_pe8_rejects_invalid_inputs(
    run: Any, arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    ports = {"load": 0, "acc_in": 0, "x_exp": 0, "x_int": 1, "y_exp": 0, "y_int": 1}
    with pytest.raises(error, match=message):
        run(**(ports | arguments))


def test_olive_pe8_repr_evaluates_back() -> None:
    assert repr(OlivePe8(overflow="saturate")) == "OlivePe8(split='twos_complement', overflow='saturate')"
