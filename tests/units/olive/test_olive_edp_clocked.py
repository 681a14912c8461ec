"""The clocked dot product unit against the oracle, edge by edge: every output, register and counter."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refemu.arith.checks import Refused
from refemu.units.olive import olive_edp_clocked
from refemu.units.olive.olive_edp import TYPES
from refemu.units.olive.olive_edp_clocked import UNIT, ClockedDotProductUnit, State
from tests.oracles import clocked
from tests.oracles.olive import units
from tests.units.clocked_rows import assert_rows, reset
from tests.units.olive.operands import KINDS

IMPLEMENTATIONS = [pytest.param(olive_edp_clocked.run, id="unit"), pytest.param(UNIT.run_compiled, id="compiled")]
HIGH, LOW = 2**31 - 1, -(2**31)


@st.composite
def edges(draw: st.DrawFn, kind: str) -> Any:
    """Start and operands of one row; outliers, illegal pairs and the ends of 32 bits are frequent."""
    lanes, top = (4, 0xFFFF) if kind.startswith("int8") else (8, 0xFF)
    special = [0x80, 0x8000, 0x8040, 0xC080, 0x80FF] if kind.startswith("int8") else [0x08, 0x80, 0x87, 0xF8]
    pairs = st.lists(st.one_of(st.sampled_from(special), st.integers(0, top)), min_size=lanes, max_size=lanes)
    c = st.one_of(st.sampled_from([0, HIGH, LOW]), st.integers(LOW, HIGH))
    bias = st.integers(0, 15)
    return draw(st.integers(0, 1)), (draw(pairs), draw(pairs), draw(bias), draw(bias), draw(c))


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize("overflow", ["wrap", "saturate"])
@pytest.mark.parametrize(("a", "b"), [*TYPES.values(), ("int8_repo", "int8_repo")], ids="_".join)
@settings(deadline=None, max_examples=25)
@given(data=st.data())
def test_rows_equal_the_oracle(run: Any, overflow: str, a: str, b: str, data: st.DataObject) -> None:
    rows = data.draw(st.lists(edges(a), min_size=1, max_size=14))
    config = {"a": a, "b": b, "overflow": overflow}
    normals, outliers = zip(*(KINDS[kind] for kind in (a, b)), strict=True)
    columns = [np.array(column) for column in zip(*((start, *operands) for start, operands in rows), strict=True)]
    expected = clocked.rows(
        rows,
        lambda operands: units.edp_events(operands, normals, outliers, overflow),
        reset(UNIT, config),
    )

    assert_rows(UNIT, config, run(*columns, **config), list(expected))


def test_worked_example_takes_four_edges() -> None:
    """[olive §4.2, §4.4] 48 * 5 = 240: decode, multiply, shift, reduce; then the result stays."""
    device = ClockedDotProductUnit()
    operands = [0x85] + [0] * 7, [0xD5] + [0] * 7, 2, 2, 0
    other = [0] * 8, [0] * 8, 0, 0, 9
    states = [device.step(1, *operands), *(device.step(0, *other) for _ in range(4))]

    assert [state.event for state in states] == ["decode", "multiply", "shift", "reduce", "idle"]
    assert [state.d for state in states] == [0, 0, 0, 240, 240]
    assert [(state.busy, state.valid, state.phase) for state in states] == [
        (1, 0, 0),
        (1, 0, 1),
        (1, 0, 2),
        (0, 1, 3),
        (0, 0, 3),
    ]
    assert (states[1].products[:2], states[2].shifted[:2], states[4].c) == ((15, 0), (240, 0), 9)


def test_registers_of_previous_operation_stay_until_written() -> None:
    device = ClockedDotProductUnit()
    first, second = ([0x11] * 8, [0x11] * 8, 2, 2, 5), ([0x22] * 8, [0x33] * 8, 2, 2, -1)
    states: list[State] = [device.step(1, *operands) for operands in (first, *[second] * 7)]

    assert [state.c_held for state in states] == [5] * 4 + [-1] * 4
    assert [state.products[0] for state in states] == [0, 1, 1, 1, 1, 6, 6, 6]
    assert [state.d for state in states] == [0, 0, 0, 21, 21, 21, 21, 95]


def test_widths_must_agree() -> None:
    with pytest.raises(Refused, match="a and b must have one width, got int4 and int8"):
        ClockedDotProductUnit("int4", "int8")


def test_olive_edp_clocked_repr_evaluates_back() -> None:
    assert repr(ClockedDotProductUnit("int8", "int8")) == "ClockedDotProductUnit(a='int8', b='int8', overflow='wrap')"
