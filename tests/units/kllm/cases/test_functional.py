"""Cases of the Functional Unit stay in its domain and reach the ends of exp."""

import numpy as np
import pytest

from refemu.units.kllm import functional


@pytest.mark.parametrize("name", list(functional.UNIT.configs))
def test_words_are_finite_or_masks(name: str) -> None:
    config = functional.UNIT.configs[name]
    for kind in ("paper", "edge", "random"):
        for block in functional.UNIT.cases(config, kind, 0):
            x = block.inputs["x"]
            assert (((x & 0x7FFF) < 0x7C00) | (x == 0xFC00)).all()


def test_exp_reaches_zero_subnormals_and_infinity() -> None:
    config = functional.UNIT.configs["exp"]
    results = [functional.UNIT.evaluate(config, block.inputs).y for block in functional.UNIT.cases(config, "edge", 0)]
    answers = np.concatenate(results).ravel()

    assert {0, 1, 0x3C00, 0x7C00} <= set(answers.tolist())
    assert min(answers[answers > 0x3F8]) < 0x410  # both sides of the smallest normal value
