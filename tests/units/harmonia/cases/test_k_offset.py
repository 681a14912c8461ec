"""What the golden cases of k_offset must hold."""

import numpy as np
import pytest

from refemu.units.harmonia.k_offset import UNIT


@pytest.mark.parametrize("name", UNIT.configs)
def test_every_case_puts_out_all_its_tokens(name: str) -> None:
    config = UNIT.configs[name]
    for kind in ("paper", "edge", "random"):
        for block in UNIT.cases(config, kind, 0):
            if "cut off" in block.why:
                continue
            result = UNIT.evaluate(config, block.inputs)
            assert (np.count_nonzero(result.out_valid, axis=1) == np.count_nonzero(block.inputs["valid"], axis=1)).all()
            assert result.ready[:, -1].all() and result.gated_tokens > 0


def test_edges_halve_inexactly_and_leave_the_range() -> None:
    """D-harmonia-24: peaks of 0; an odd significand of field 1; D-harmonia-13: a difference beyond fp16."""
    config = UNIT.configs["small"]
    results = [UNIT.evaluate(config, block.inputs) for block in UNIT.cases(config, "edge", 0)]
    offsets = {int(word) for result in results for word in result.offset[:, -1].ravel()}

    assert {0x0200, 0x8200, 0x8000, 0} <= offsets
    assert any((result.k_out & 0x7FFF == 0x7C00).any() for result in results)


def test_legal_inputs_end_with_the_window() -> None:
    assert UNIT.legal is not None
    given = {"k": np.zeros((6, 8), int), "valid": np.zeros(6, int), "last": np.array([0, 0, 1, 0, 0, 0])}

    assert UNIT.legal(UNIT.configs["small"], given)["valid"].tolist() == [1, 1, 1, 0, 0, 0]
    assert UNIT.legal(UNIT.configs["small"], given | {"last": given["last"] * 0})["valid"].tolist() == [1] * 4 + [0] * 2
