"""What the golden cases of fp2half must hold."""

import numpy as np

from refemu.units.harmonia.fp2half import UNIT


def test_edges_meet_overflow_and_half_of_smallest_value() -> None:
    """D-harmonia-13: 65519.996, 65520; 2^-25 and the value above it, either sign."""
    words = {int(word) for block in UNIT.cases(UNIT.configs["paper"], "edge", 0) for word in block.inputs["x"].ravel()}

    assert {0x477FEFFF, 0x477FF000, 0x33000000, 0x33000001} <= words
    assert {word | 1 << 31 for word in (0x477FEFFF, 0x477FF000, 0x33000000, 0x33000001)} <= words


def test_random_values_are_not_all_outside_the_range() -> None:
    config = UNIT.configs["paper"]
    _, near = UNIT.cases(config, "random", 0)
    y = UNIT.evaluate(config, near.inputs).y & 0x7FFF

    assert 0 < np.count_nonzero(y == 0x7C00) < y.size and np.count_nonzero((y > 0) & (y < 0x7C00)) > y.size // 8


def test_flags_are_those_of_any_lane() -> None:
    config = UNIT.configs["paper"]
    assert UNIT.mark is not None
    marks = [
        UNIT.mark(config, block.inputs, UNIT.evaluate(config, block.inputs)) for block in UNIT.cases(config, "edge", 0)
    ]

    assert any(mark["OVERFLOW"].any() for mark in marks) and any(mark["SUBNORMAL"].any() for mark in marks)
    assert not all(mark["OVERFLOW"].all() for mark in marks)
