"""The golden stimuli reach what they say they reach."""

import numpy as np
import pytest

from refemu.units.harmonia.bfp_pe_array_clocked import UNIT

#: words of reasons
EDGES = ("both files are in use", "some find", "at once", "every bit", "too small", "an edge late")


def blocks(name: str) -> dict[str, list[np.ndarray]]:
    """Results of the edge cases of a configuration by their reason."""
    results: dict[str, list[np.ndarray]] = {}
    for case in UNIT.cases(UNIT.configs[name], "edge", 0):
        results.setdefault(case.why, []).append(UNIT.evaluate(UNIT.configs[name], case.inputs))
    return results


def test_every_edge_has_a_case() -> None:
    reasons = [case.why for config in UNIT.configs.values() for case in UNIT.cases(config, "edge", 0)]
    assert [edge for edge in EDGES if not any(edge in why for why in reasons)] == []


@pytest.mark.parametrize("name", UNIT.configs)
def test_edges_are_reached(name: str) -> None:
    overlap = UNIT.configs[name]["overlap"]
    for why, found in blocks(name).items():
        for result in found:
            if EDGES[0] in why:
                assert (result.waiting.astype(bool) & (result.left > 0)).any() and not result.lost, why
            if EDGES[1] in why:
                assert result.lost and not result.missed, why
            if EDGES[2] in why:
                assert (result.missed, bool(result.lost)) == (int(overlap), not overlap), why
            if EDGES[3] in why:
                assert (result.flags == 7).any() == (UNIT.configs[name]["partial"] == "fp16"), why
            if EDGES[4] in why:
                assert {tuple(flags) for flags in result.flags[result.valid.all(axis=-1)].tolist()} == {(2, 0)}, why
            if EDGES[5] in why:
                assert (result.b_waiting != result.waiting).any() and result.valid.all(axis=-1).any(), why


@pytest.mark.parametrize("name", UNIT.configs)
def test_seeds_draw_cases_of_one_length(name: str) -> None:
    lengths = [
        [case.inputs["mode"].shape[1:] for case in UNIT.cases(UNIT.configs[name], "random", seed)] for seed in (0, 1)
    ]

    assert lengths[0] == lengths[1]
    many = [case.inputs["mode"].shape[0] for case in UNIT.cases(UNIT.configs[name], "random", range(3))]
    assert set(many) == {3}


def test_a_reduction_of_4096_is_there() -> None:
    """[harmonia §V-A] 128 groups, an edge each."""
    (case,) = UNIT.cases(UNIT.configs["long"], "paper", 0)

    assert case.inputs["a_valid"].sum() == 128 and case.inputs["last"][0, 127] == 1
