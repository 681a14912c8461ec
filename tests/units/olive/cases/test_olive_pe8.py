"""What the golden cases of the 8-bit unit must hold."""

import pytest

from refemu.units.olive.olive_pe8 import UNIT


@pytest.mark.parametrize("name", UNIT.configs)
def test_exhaustive_is_every_pair_of_int8_once(name: str) -> None:
    (block,) = UNIT.cases(UNIT.configs[name], "exhaustive", 0)
    words = (block.inputs["x_int"] & 255) << 8 | block.inputs["y_int"] & 255

    assert sorted(words.ravel().tolist()) == list(range(1 << 16))


@pytest.mark.parametrize("name", UNIT.configs)
def test_edges_meet_both_ends_and_limit_of_outliers(name: str) -> None:
    """D-olive-33, and -15 << e with every corner: high nibble -1, low nibble 1."""
    results = [UNIT.evaluate(UNIT.configs[name], block.inputs) for block in UNIT.cases(UNIT.configs[name], "edge", 0)]
    seen = {int(acc) for result in results for acc in result.acc.ravel()}

    assert {2**31 - 1, 2**31 - 2, -(2**31), -(2**31) + 1, 2**30, -15 * -127} <= seen
    assert any(result.overflows for result in results)
