"""What the golden cases of v_grouper must hold."""

import pytest

from refemu.units.harmonia.v_grouper import UNIT


@pytest.mark.parametrize("name", UNIT.configs)
def test_cases_commit_and_raise_exponents(name: str) -> None:
    """D-harmonia-20: rows where a new token shifts what is stored, and where it does not."""
    assert UNIT.mark is not None
    config, marks = UNIT.configs[name], {}
    for kind in ("paper", "edge"):
        for block in UNIT.cases(config, kind, 0):
            marks[block.why] = UNIT.mark(config, block.inputs, UNIT.evaluate(config, block.inputs))

    assert any(mark["COMMIT"].any() for mark in marks.values())
    rising = next(mark for why, mark in marks.items() if why.startswith("every token raises"))
    assert rising["RAISED"][0, 1:].any() and not rising["RAISED"][0, 0]


def test_exponents_rise_at_every_token() -> None:
    config = UNIT.configs["paper"]
    rising, *_ = UNIT.cases(config, "edge", 0)
    exponent = UNIT.evaluate(config, rising.inputs).exponent[0, :, 0].tolist()

    assert exponent == sorted(exponent) and len(set(exponent)) > 8
