"""The cases of clustering include the values that distinguish one reading from another."""

import numpy as np
import pytest

from refemu.units.kllm.clustering import UNIT
from refemu.units.unit import Cases


def blocks(name: str) -> list[Cases]:
    return [block for kind in ("paper", "edge", "random") for block in UNIT.cases(UNIT.configs[name], kind, 0)]


@pytest.mark.parametrize("name", ["paper", "exact"])
def test_every_flag_is_raised_where_it_can_be(name: str) -> None:
    """D-kllm-7, D-kllm-8: ties in both presets, an infinite x^ only where there is one."""
    config = UNIT.configs[name]
    met = dict.fromkeys(UNIT.flags, 0)
    for block in blocks(name):
        assert UNIT.mark is not None
        marks = UNIT.mark(config, block.inputs, UNIT.evaluate(config, block.inputs))
        for flag, rows in marks.items():
            met[flag] += int(rows.sum())

    assert met["TIE"] > 10
    assert (met["OVERFLOW"] > 0) == (name == "paper")


def test_presets_give_other_answers_to_same_stimuli() -> None:
    """D-kllm-8: in the edge cases, not by chance in the random ones."""
    differing = 0
    for block in UNIT.cases(UNIT.configs["paper"], "edge", 0):
        paper, exact = (UNIT.evaluate(UNIT.configs[name], block.inputs).index for name in ("paper", "exact"))
        differing += int(np.count_nonzero(paper != exact))

    assert differing >= 7


def test_every_index_is_an_answer() -> None:
    for name, config in UNIT.configs.items():
        answers = {int(i) for block in blocks(name) for i in UNIT.evaluate(config, block.inputs).index}
        assert answers == set(range(1 << config["bits"]))


def test_a_set_is_small() -> None:
    assert all(block.inputs["x"].shape[0] <= 512 for name in UNIT.configs for block in blocks(name))
