"""Cases of index_function: every answer is finite, and scales reach both ends."""

import numpy as np
import pytest

from refemu.units.kllm import index_function


@pytest.mark.parametrize("name", list(index_function.UNIT.configs))
def test_cases_are_finite_and_wide(name: str) -> None:
    config = index_function.UNIT.configs[name]
    blocks = [
        block.inputs for kind in ("paper", "edge", "random") for block in index_function.UNIT.cases(config, kind, 0)
    ]
    scales = np.concatenate([inputs["scale"] for inputs in blocks])
    tables = np.concatenate([index_function.UNIT.evaluate(config, inputs).entries for inputs in blocks])

    assert scales.min() == 1 and scales.max() == 0x7BFF
    assert ((tables & 0x7C00) < 0x7C00).all() and not (tables == 0x8000).any()
