"""What the golden cases of bit_allocator must hold."""

import numpy as np

from refemu.units.harmonia.bit_allocator import UNIT

PAPER = UNIT.configs["paper"]


def test_prompts_end_next_to_every_boundary() -> None:
    """D-harmonia-18."""
    block, *_ = UNIT.cases(PAPER, "edge", 0)

    assert {1, 31, 32, 33, 63, 64, 95, 96, 97, 127, 128, 129} <= set(block.inputs["prefill"][:, 0].tolist())
    assert not block.inputs["prefill"][:, 1:].any()


def test_demotions_of_both_kinds_are_marked() -> None:
    assert UNIT.mark is not None
    for kind in ("paper", "edge"):
        for block in UNIT.cases(PAPER, kind, 0):
            result = UNIT.evaluate(PAPER, block.inputs)
            marks = UNIT.mark(PAPER, block.inputs, result)
            assert np.array_equal(marks["DEMOTES_K"], result.demote_k) and marks["DEMOTES_V"].any()


def test_legal_inputs_have_a_prompt_first() -> None:
    assert UNIT.legal is not None
    assert UNIT.legal(PAPER, {"prefill": np.array([7, 8, 9])})["prefill"].tolist() == [7, 0, 0]
