"""What the golden cases of bfp_aligner must hold."""

import numpy as np
import pytest

from refemu.units.harmonia.bfp_aligner import UNIT
from refemu.units.unit import Cases

PAPER = UNIT.configs["paper"]


def edges() -> list[Cases]:
    return list(UNIT.cases(PAPER, "edge", 0))


def test_paper_case_is_group_at_both_widths() -> None:
    """[harmonia Fig. 3]."""
    (block,) = UNIT.cases(PAPER, "paper", 0)
    result = UNIT.evaluate(PAPER, block.inputs)

    assert result.mantissa[:, :3].tolist() == [[201, 50, 6], [12, 3, 0]]


def test_edges_meet_the_shifts_at_the_ends() -> None:
    """Nothing left after 10, 11 and 12 places; the longest shift is 39, or 40 with field 31."""
    shifts = set()
    for block in edges():
        x, emax, m = (np.asarray(block.inputs[name]) for name in ("x", "emax", "m"))
        shifts |= set((11 - m[:, None] + np.maximum(emax, 1) - np.maximum(x >> 10 & 31, 1)).ravel().tolist())

    assert {0, 3, 10, 11, 12} <= shifts and max(shifts) in (32, 33)


def test_edges_hold_illegal_lanes_and_lost_values() -> None:
    """D-harmonia-5."""
    assert UNIT.mark is not None and UNIT.care is not None
    results = [(block, UNIT.evaluate(PAPER, block.inputs)) for block in edges()]
    marks = [UNIT.mark(PAPER, block.inputs, result) for block, result in results]

    assert any(mark["ILLEGAL"].any() for mark in marks) and any(mark["LOST"].any() for mark in marks)
    for block, result in results:
        assert np.array_equal(UNIT.care(PAPER, block.inputs, result)["out.sign"], ~result.illegal)


@pytest.mark.parametrize("seed", [0, 1])
def test_random_exponents_below_words_only_in_named_block(seed: int) -> None:
    *legal, below = UNIT.cases(PAPER, "random", seed)
    for block in legal:
        assert (np.asarray(block.inputs["emax"]) >= np.asarray(block.inputs["x"]) >> 10 & 31).all()
    assert "below" in below.why and UNIT.evaluate(PAPER, below.inputs).illegal.any()
