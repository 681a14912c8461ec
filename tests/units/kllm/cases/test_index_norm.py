"""Cases of index_norm: squares are those of the centroids, overflow is reached."""

import numpy as np
import pytest

from refemu.units.kllm import index_norm


@pytest.mark.parametrize("name", list(index_norm.UNIT.configs))
def test_squares_belong_to_centroids(name: str) -> None:
    config = index_norm.UNIT.configs[name]
    for kind in ("paper", "edge", "random"):
        for block in index_norm.UNIT.cases(config, kind, 0):
            if "centroids" in block.inputs:
                c, s = (block.inputs[port].astype(np.uint16).view(np.float16) for port in ("centroids", "squares"))
                assert np.array_equal(s, c * c)


def test_overflow_is_reached_and_marked() -> None:
    config = index_norm.UNIT.configs["rms"]
    results = [index_norm.UNIT.evaluate(config, block.inputs) for block in index_norm.UNIT.cases(config, "edge", 0)]

    assert any(result.overflow.any() for result in results)
