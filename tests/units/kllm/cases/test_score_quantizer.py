"""Cases of the score quantizer reach rows of zeros, the largest integer and both ends of the scales."""

import numpy as np
import pytest

from refemu.units.kllm import score_quantizer


@pytest.mark.parametrize("name", list(score_quantizer.UNIT.configs))
def test_edges_are_reached(name: str) -> None:
    config = score_quantizer.UNIT.configs[name]
    blocks = [block.inputs for kind in ("edge", "random") for block in score_quantizer.UNIT.cases(config, kind, 0)]
    results = [score_quantizer.UNIT.evaluate(config, inputs) for inputs in blocks]
    q = np.concatenate([result.q for result in results])

    assert set(range(1 << config["bits"])) == set(q.ravel().tolist()) or config["bits"] == 8
    assert (q.max(axis=1) == 0).any() and (q.max(axis=1) == (1 << config["bits"]) - 1).any()


def test_a_scale_underflows_to_zero() -> None:
    config = score_quantizer.UNIT.configs["fold4"]
    results = [
        score_quantizer.UNIT.evaluate(config, block.inputs) for block in score_quantizer.UNIT.cases(config, "edge", 0)
    ]

    assert any((result.scale == 0).any() for result in results)
