"""The golden stimuli reach what they say they reach."""

from typing import Any

import numpy as np
import pytest

from refemu.units.kllm.pe_lane import PHASES, UNIT


def results(name: str) -> dict[str, tuple[Any, Any]]:
    """Inputs and Result of every edge case of a configuration by its reason."""
    config = UNIT.configs[name]
    return {case.why: (case.inputs, UNIT.evaluate(config, case.inputs)) for case in UNIT.cases(config, "edge", 0)}


def of(name: str, words: str) -> tuple[Any, Any]:
    """The one case whose reason has these words."""
    (chosen,) = (case for why, case in results(name).items() if words in why)
    return chosen


@pytest.mark.parametrize("name", UNIT.configs)
def test_sums_leave_fp16(name: str) -> None:
    for words in ("product of the scales exceeds", "weighted sum exceeds", "sparse sum exceeds", "infinite bias"):
        _, result = of(name, words)
        assert result.overflows and result.overflow.any(), words


@pytest.mark.parametrize("name", UNIT.configs)
def test_lanes_and_macs_wait_for_each_other(name: str) -> None:
    """D-kllm-43."""
    _, short = of(name, "short columns")
    assert short.stalls and (short.full & (short.phase > 0)).any()
    _, long = of(name, "long columns")
    first, last = np.flatnonzero(long.y_valid[0])[[0, -1]]
    assert (long.phase[0, first : last + 1] == 0).sum() > 2 and not (long.full & (long.phase > 0)).any()
    inputs, waiting = of(name, "no go")
    assert (waiting.full[:, :-1] & (1 - inputs["go"][:, 1:])).any()


@pytest.mark.parametrize("name", UNIT.configs)
def test_slabs_come_too_early(name: str) -> None:
    """D-kllm-45."""
    inputs, result = of(name, "load high at every edge")
    early = inputs["load"][:, 1:] & (1 - result.ready[:, :-1])
    assert inputs["load"].all() and early.any() and (result.columns == UNIT.configs[name]["macs"]).any()


@pytest.mark.parametrize("name", UNIT.configs)
def test_cases_end_with_every_control_register_in_use(name: str) -> None:
    _, result = of(name, "end early")
    for register in ("full", "merging", "columns", "phase", "address", "left_turns", "left"):
        assert getattr(result, register)[:, -1].any(), register
    assert not result.ready[:, -1].all()


@pytest.mark.parametrize("name", UNIT.configs)
def test_counters_are_filled(name: str) -> None:
    """Every register of every counter, in one of the cases of widths."""
    most = (1 << UNIT.configs[name]["counter_bits"]) - 1
    largest = [
        result.count.max(axis=(0, 1)) for why, (_, result) in results(name).items() if "registers are full" in why
    ]

    assert len(largest) >= 2 and (np.max(largest, axis=0) == most).all()


@pytest.mark.parametrize("name", UNIT.configs)
def test_a_tile_of_many_outliers_begins(name: str) -> None:
    _, result = of(name, "outliers begins")
    assert result.left.max() == 1 << 15 and PHASES[int(result.phase[0, -1])] == "sparse"


@pytest.mark.parametrize("name", UNIT.configs)
@pytest.mark.parametrize("seed", range(30))
def test_seeds_draw_cases_of_equal_valid_length(name: str, seed: int) -> None:
    config = UNIT.configs[name]
    lengths = [[case.inputs["load"].shape[1:] for case in UNIT.cases(config, "random", each)] for each in (0, seed)]
    assert lengths[0] == lengths[1]
    for case in UNIT.cases(config, "random", seed):
        UNIT.evaluate(config, case.inputs)


def test_every_seed_is_a_case_of_its_own() -> None:
    config = UNIT.configs["column"]
    both, *each = (list(UNIT.cases(config, "random", seed)) for seed in (range(3, 5), 3, 4))
    for at, block in enumerate(both):
        for name, array in block.inputs.items():
            assert np.array_equal(array, np.concatenate([single[at].inputs[name] for single in each]))
