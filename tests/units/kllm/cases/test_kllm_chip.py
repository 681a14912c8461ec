"""What the golden cases of kllm_chip must hold."""

import numpy as np
import pytest

from refemu.units.kllm import functional
from refemu.units.kllm.kllm_chip import UNIT
from refemu.units.unit import Config

CONFIGS = list(UNIT.configs)
PLAIN = [name for name in CONFIGS if UNIT.configs[name]["function"] == "none"]


@pytest.mark.parametrize("name", CONFIGS)
def test_every_place_is_an_outlier_and_none(name: str) -> None:
    config = UNIT.configs[name]
    blocks = {block.why: block for block in UNIT.cases(config, "edge", 0)}
    mask = UNIT.evaluate(config, blocks["outliers at every place in turn"].inputs).a_mask

    assert (mask.sum(axis=1) == 2).all() and (mask.sum(axis=0) == 1).all()


@pytest.mark.parametrize("name", CONFIGS)
def test_scales_of_zeros_are_one(name: str) -> None:
    """D-kllm-11: at least three rows."""
    config = UNIT.configs[name]
    (block,) = (each for each in UNIT.cases(config, "edge", 0) if each.why.startswith("zeros"))

    assert np.ravel(UNIT.evaluate(config, block.inputs).a_scale).tolist() == [0x3C00] * 4


@pytest.mark.parametrize("name", PLAIN)
def test_every_other_column_overflows(name: str) -> None:
    config = UNIT.configs[name]
    (block,) = (each for each in UNIT.cases(config, "edge", 0) if each.why.startswith("every other"))
    overflow = UNIT.evaluate(config, block.inputs).overflow

    assert (overflow[0] != overflow[1]).all() and (overflow[:, 1:] != overflow[:, :-1]).all()


def test_mappings_differ_in_cycles_only() -> None:
    """D-kllm-31."""
    results = [
        UNIT.evaluate(UNIT.configs[name], next(iter(UNIT.cases(UNIT.configs[name], "paper", 0))).inputs)
        for name in ("column", "counter")
    ]

    assert np.array_equal(results[0].y, results[1].y) and np.array_equal(results[0].a_index, results[1].a_index)
    assert results[0].cycles != results[1].cycles and results[0].count_cycles != results[1].count_cycles


@pytest.mark.parametrize("kind", ["paper", "edge"])
@pytest.mark.parametrize("pops", [0, 1, 3])
def test_outputs_are_the_arguments_of_functional(pops: int, kind: str) -> None:
    """Masked ones are products beyond fp16; of zeros the sum of both paths is the positive one."""
    config = Config(**{**UNIT.configs["softmax"], "pops": pops})
    own = Config(op="softmax", t=config["n"], softmax=config["softmax"])
    blocks = {block.why: block for block in UNIT.cases(config, kind, 0)}  # type: ignore[arg-type]
    for block in functional.UNIT.cases(own, kind, 0):  # type: ignore[arg-type]
        x, result = block.inputs["x"], UNIT.evaluate(config, blocks[f"{block.why} (outputs)"].inputs)
        assert np.array_equal(result.y, np.where(x == 0x8000, 0, x))
        assert np.array_equal(result.overflow, x == 0xFC00)


@pytest.mark.parametrize("seed", range(8))
def test_random_outputs_are_arguments_of_functional(seed: int) -> None:
    """D-kllm-63: no infinity, no NaN."""
    for function in ("exp", "sqrt", "recip", "softmax"):
        config = Config(**{**UNIT.configs["softmax"], "function": function})
        for block in UNIT.cases(config, "random", seed):
            result = UNIT.evaluate(config, block.inputs)
            assert not result.overflow.any() and result.z.shape == result.y.shape
