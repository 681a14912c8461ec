"""Material for the protocol: blocks of every kind, single cases, drawn inputs, missing and wrong errors."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refemu import units
from refemu.testing import protocol_cases


def test_blocks_have_every_kind_and_are_cached() -> None:
    unit = units.find("concat")
    blocks = protocol_cases.blocks(unit, "a4")

    assert blocks is protocol_cases.blocks(unit, "a4") and {block.kind for block in blocks} <= set(protocol_cases.OWN)
    readable, compiled_run = (protocol_cases.evaluated(unit, "a4", jit=jit)[0] for jit in (False, True))
    assert readable.equals(compiled_run)


def test_case_with_registers_is_a_sequence() -> None:
    stimulus = {"x": np.arange(12).reshape(3, 4)}

    assert protocol_cases.one_case(units.find("olive_mac"), stimulus, 1)["x"].tolist() == [4, 5, 6, 7]
    assert protocol_cases.one_case(units.find("ovp_decoder"), stimulus, 1)["x"].tolist() == [[4, 5, 6, 7]]
    assert protocol_cases.rows(units.find("olive_mac"), stimulus, 5)["x"].shape == (2, 4)


@given(st.data())
def test_drawn_inputs_are_valid(data: st.DataObject) -> None:
    unit = units.find("ovp_encoder")
    stimulus = data.draw(protocol_cases.drawn(unit, "int4", 3))
    assert 1 <= len(unit.evaluate(unit.configs["int4"], stimulus).pair) <= 3


@pytest.mark.parametrize("raised", [None, ValueError("other words")])
def test_missing_or_different_error_fails(raised: Exception | None) -> None:
    with (
        pytest.raises(AssertionError, match=r"must (match|be raised)"),
        protocol_cases.refused(ValueError, "these words"),
    ):
        if raised:
            raise raised
