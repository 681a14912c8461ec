"""What the golden cases of significance must hold."""

import numpy as np
import pytest

from refemu.units.leankv.significance import UNIT


@pytest.mark.parametrize("name", UNIT.configs)
def test_zero_sums_and_tokens_without_queries_occur(name: str) -> None:
    config = UNIT.configs[name]
    results = [UNIT.evaluate(config, block.inputs) for block in UNIT.cases(config, "edge", 0)]

    assert any((result.sum == 0).all(axis=-1).any() for result in results)
    assert config["include_self"] or all((result.count[:, -1] == 0).all() for result in results)


def test_heads_of_the_aggregation_case_differ() -> None:
    """D-leankv-19: joined query by query the sums would be larger."""
    config = UNIT.configs["paper"]
    block = next(block for block in UNIT.cases(config, "edge", 0) if block.decision == "D-leankv-19")
    late, early = (UNIT.evaluate({**config, "gqa_order": order}, block.inputs) for order in ("sums", "queries"))

    assert (early.sum.view(np.float32) > late.sum.view(np.float32)).any()
