"""What the golden cases of the page reader must hold."""

import numpy as np
import pytest

from refemu import units
from refemu.units import variant as other
from refemu.units.leankv.page_reader import UNIT


@pytest.mark.parametrize("name", ["fp16", "diffkv", "page"])
def test_edges_have_infinities_nan_subnormals_and_zeros(name: str) -> None:
    config = UNIT.configs[name]
    words = [UNIT.evaluate(config, block.inputs).key.ravel() for block in UNIT.cases(config, "edge", 0)]
    every = np.concatenate(words)

    assert {0x7C00, 0x7E00, 0x0000} <= set(every.tolist())
    assert ((every & 0x7C00 == 0) & (every & 0x3FF != 0)).any()


@pytest.mark.parametrize("name", ["fp16", "page"])
def test_ties_distinguish_one_rounding_from_two(name: str) -> None:
    unit = units.find("page_reader")
    variant = next(each for each in unit.variants if each.says == "the exact value is rounded to fp16 alone")
    device = other.device(unit, unit.configs[name], [variant])
    assert device is not None
    blocks = [block for block in unit.cases(unit.configs[name], "edge", 0) if block.decision == "D-leankv-74"]
    (block,) = blocks
    wrong = device.evaluate(block.inputs).key != unit.evaluate(unit.configs[name], block.inputs).key

    assert wrong.any(axis=-1).all()
