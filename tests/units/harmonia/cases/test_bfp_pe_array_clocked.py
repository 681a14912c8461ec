"""The golden stimuli reach what they say they reach."""

import numpy as np
import pytest

from refemu.units.harmonia.bfp_pe_array_clocked import UNIT


def blocks(name: str) -> dict[str, list[np.ndarray]]:
    """Results of the edge cases of a configuration by their reason."""
    results: dict[str, list[np.ndarray]] = {}
    for case in UNIT.cases(UNIT.configs[name], "edge", 0):
        results.setdefault(case.why, []).append(UNIT.evaluate(UNIT.configs[name], case.inputs))
    return results


@pytest.mark.parametrize("name", UNIT.configs)
def test_edges_are_reached(name: str) -> None:
    overlap = UNIT.configs[name]["overlap"]
    for why, found in blocks(name).items():
        for result in found:
            if "both files are in use" in why:
                assert (result.waiting.astype(bool) & (result.left > 0)).any() and not result.lost, why
            if "some find" in why:
                assert result.lost and not result.missed, why
            if "at once" in why:
                assert (result.missed, bool(result.lost)) == (int(overlap), not overlap), why
            if "every bit" in why:
                assert (result.flags == 7).any() == (UNIT.configs[name]["partial"] == "fp16"), why
            if "too small" in why:
                assert {tuple(flags) for flags in result.flags[result.valid.all(axis=-1)].tolist()} == {(2, 0)}, why
            if "an edge late" in why:
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
