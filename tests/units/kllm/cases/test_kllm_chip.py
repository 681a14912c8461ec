"""What the golden cases of kllm_chip must hold."""

import numpy as np

from refemu.units.kllm.kllm_chip import UNIT


def test_edges_differ_in_cycles_by_their_outliers() -> None:
    """D-kllm-31: rows without, with one, with only outliers."""
    config = UNIT.configs["column"]
    block, beyond = UNIT.cases(config, "edge", 0)
    rows = [{port: array[i : i + 1] for port, array in block.inputs.items()} for i in range(3)]
    results = [UNIT.evaluate(config, row) for row in rows]

    assert [int(np.sum(row["a_mask"])) for row in rows] == [0, 1, config["k"]]
    assert results[0].cycles < results[1].cycles < results[2].cycles
    overflow = UNIT.evaluate(config, beyond.inputs).overflow
    assert (overflow[0] != overflow[1]).all() and (overflow[:, 1:] != overflow[:, :-1]).all()


def test_mappings_differ_in_cycles_only() -> None:
    """D-kllm-31."""
    results = [UNIT.evaluate(config, next(UNIT.cases(config, "paper", 0)).inputs) for config in UNIT.configs.values()]

    assert np.array_equal(results[0].y, results[1].y) and results[0].count_cycles != results[1].count_cycles
