"""What the golden cases of kllm_chip must hold."""

import numpy as np
import pytest

from refemu.units.kllm.kllm_chip import UNIT

CONFIGS = list(UNIT.configs)


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


@pytest.mark.parametrize("name", CONFIGS)
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
