"""What the golden cases of the quantizer must hold."""

import numpy as np
import pytest

from refemu.units.leankv.kv_quantizer import BITS, UNIT


@pytest.mark.parametrize("name", UNIT.configs)
def test_every_possible_flag_occurs_at_every_width(name: str) -> None:
    """D-leankv-6, D-leankv-7: constants and underflow everywhere, overflow at 1 bit only."""
    config, seen = UNIT.configs[name], set()
    assert UNIT.mark is not None
    for block in UNIT.cases(config, "edge", 0):
        marks = UNIT.mark(config, block.inputs, UNIT.evaluate(config, block.inputs))
        seen |= {(flag, int(bits)) for flag, rows in marks.items() for bits in np.asarray(block.inputs["bits"])[rows]}

    assert {("CONSTANT", bits) for bits in BITS} | {("OVERFLOW", 1)} <= seen
    assert {("UNDERFLOW", bits) for bits in (2, 4, 8)} <= seen and ("OVERFLOW", 2) not in seen


def test_ties_meet_every_width() -> None:
    """D-leankv-5: step 1 at each width, features half-way between codes."""
    block = next(block for block in UNIT.cases(UNIT.configs["paper"], "edge", 0) if block.decision == "D-leankv-5")
    result = UNIT.evaluate(UNIT.configs["paper"], block.inputs)
    one = result.s32 == np.float32(1).view(np.uint32)

    assert set(np.asarray(block.inputs["bits"])[one].tolist()) == set(BITS)


def test_random_features_are_finite() -> None:
    for block in UNIT.cases(UNIT.configs["paper"], "random", 3):
        assert (np.asarray(block.inputs["x"]) & 0x7C00 != 0x7C00).all()
