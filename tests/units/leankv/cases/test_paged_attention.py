"""What the golden cases of paged attention must hold."""

import numpy as np
import pytest

from refemu.units.leankv.paged_attention import UNIT


@pytest.mark.parametrize("name", UNIT.configs)
def test_edges_reach_one_token_and_full_tables(name: str) -> None:
    config = UNIT.configs[name]
    blocks = list(UNIT.cases(config, "edge", 0))
    pages = UNIT.unit_class(**config).layouts
    used = [
        -(-block.inputs["n_high"] // pages.high.tokens) - -block.inputs["n_low"] // pages.sections[1].tokens
        for block in blocks
    ]

    assert min(int((block.inputs["n_high"] + block.inputs["n_low"]).min()) for block in blocks) == 1
    assert max(int(cells.max()) for cells in used) == config["cells"]
    assert name == "long" or any(not (block.inputs["q"] & 0x7FFF).any() for block in blocks)


@pytest.mark.parametrize("name", UNIT.configs)
def test_outputs_are_finite_and_probabilities_sum_to_one(name: str) -> None:
    """But for the rows whose values lie at the ends of fp16: their outputs may be infinite."""
    config = UNIT.configs[name]
    for kind in ("paper", "edge"):
        for block in UNIT.cases(config, kind, 0):
            result = UNIT.evaluate(config, block.inputs)
            p = result.p.view(np.float32).reshape(len(result.p), config["heads"], -1)
            out = result.out.view(np.float16)
            assert not np.isnan(out).any() and (np.isfinite(out).all() or block.decision == "D-arith-2")
            assert np.abs(p.sum(axis=-1) - 1).max() < 2e-3


def test_partitions_are_among_them() -> None:
    config = UNIT.configs["diffkv"]
    device = UNIT.unit_class(**config)
    totals = [block.inputs["n_high"] + block.inputs["n_low"] for block in UNIT.cases(config, "edge", 0)]

    assert max(int(total.max()) for total in totals) > device.layouts.chunk(device.arithmetic)
