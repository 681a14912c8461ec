"""The golden stimuli reach what they say they reach."""

import numpy as np
import pytest

from refemu.units.olive.olive_systolic_clocked import UNIT

EDGES = ("exceed 32 bits", "illegal", "change of width")  #: words of reasons


def blocks(name: str) -> dict[str, list[np.ndarray]]:
    """Results of the edge cases of a configuration by their reason."""
    config, results = UNIT.configs[name], {}
    for case in UNIT.cases(config, "edge", 0):
        results.setdefault(case.why, []).append(UNIT.evaluate(config, case.inputs))
    return results


@pytest.mark.parametrize("name", UNIT.configs)
def test_edges_are_reached(name: str) -> None:
    results = blocks(name)

    for edge in EDGES:
        assert any(edge in why for why in results), edge
    for why, found in results.items():
        if EDGES[0] in why:
            assert all(result.overflows and result.south_overflow.any() for result in found), why
        if EDGES[1] in why:
            assert all(result.illegal.any() for result in found), why
        if EDGES[2] in why:
            assert all(len(np.unique(result.mode)) == 2 and result.macs for result in found), why


@pytest.mark.parametrize("name", UNIT.configs)
def test_seeds_draw_cases_of_one_length(name: str) -> None:
    lengths = [
        [case.inputs["wide"].shape[1:] for case in UNIT.cases(UNIT.configs[name], "random", seed)] for seed in (0, 1)
    ]

    assert lengths[0] == lengths[1]
