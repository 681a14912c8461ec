"""What the golden cases of fp16_mac must hold."""

import numpy as np

from refemu.units.kllm.fp16_mac import UNIT


def test_an_edge_tells_one_rounding_from_two() -> None:
    """D-kllm-3."""
    answers = [
        [UNIT.evaluate(config, block.inputs).y for block in UNIT.cases(config, "edge", 0)]
        for config in UNIT.configs.values()
    ]

    assert any(not np.array_equal(a, b) for a, b in zip(*answers, strict=True))
