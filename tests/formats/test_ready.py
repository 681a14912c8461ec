"""The ready constants are found by name."""

import pytest

from refemu import formats
from refemu.arith.checks import Refused
from tests.oracles import ovp as oracle

NAMES = (
    "E0M3_BIAS0",
    "E0M3_BIAS1",
    "E1M2_BIAS1",
    "E1M2_BIAS2",
    "E2M1_BIAS0",
    "E2M1_BIAS2",
    "E2M1_BIAS3",
    "E2M5_BIAS2",
    "E3M0_BIAS2",
    "E3M0_BIAS4",
    "E4M3_BIAS4",
    "FLINT4",
    "INT4",
    "INT8",
    "OVP_FLINT4",
    "OVP_FLINT4_REPO",
    "OVP_INT4",
    "OVP_INT4_REPO",
    "OVP_INT8",
    "OVP_INT8_REPO",
)


def test_constants_are_the_ready_formats() -> None:
    assert tuple(formats.constants()) == NAMES
    assert set(NAMES) == {name for name in oracle.ELEMENTS | oracle.PAIRS if not name.endswith("_PLAIN")}


@pytest.mark.parametrize("name", NAMES)
def test_find_takes_any_case_and_repr_evaluates_back(name: str) -> None:
    found = formats.find(name.lower().replace("_", "-"))

    assert found is getattr(formats, name)
    assert eval(repr(found), vars(formats)) == found  # the text is ours
    assert hash(found) == hash(eval(repr(found), vars(formats)))


def test_find_refuses_an_unknown_name_with_the_nearest() -> None:
    with pytest.raises(Refused, match="unknown format 'OVP_INT5'; did you mean 'OVP_INT"):
        formats.find("ovp_int5")
