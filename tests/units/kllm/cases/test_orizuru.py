"""Cases of Orizuru bring the row of Fig. 7, ties and infinities to every size."""

import numpy as np
import pytest

from refemu.units.kllm import orizuru
from refemu.units.kllm.orizuru import cases as orizuru_cases


@pytest.mark.parametrize("name", list(orizuru.UNIT.configs))
def test_rows_fill_the_unit(name: str) -> None:
    config = orizuru.UNIT.configs[name]
    blocks = [block for kind in ("paper", "edge", "random") for block in orizuru.UNIT.cases(config, kind, 0)]

    assert all(block.inputs["x"].shape[1:] == (config["n"],) for block in blocks)
    assert any(block.decision == "D-kllm-21" for block in blocks)
    assert any("NaN" in block.why for block in blocks) == config["total_order"]


def test_the_papers_row_is_that_of_fig7() -> None:
    """[kllm Fig. 7] 3 7 1 5 2 6 9 4."""
    assert np.array(orizuru_cases.FIG7, np.uint16).view(np.float16).tolist() == [3, 7, 1, 5, 2, 6, 9, 4]
