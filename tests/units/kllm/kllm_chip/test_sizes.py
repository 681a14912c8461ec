"""Formulas of the chip's cycles at sizes of which one block is the bottleneck."""

import pytest

from refemu.units.kllm.kllm_chip.sizes import ChipSizes


@pytest.mark.parametrize(
    ("counters", "inputs", "macs", "k", "column", "counter"),
    [
        (32, 16, 32, 4096, 256, 256),
        (32, 16, 32, 1, 32, 1),
        (4, 4, 8, 33, 24, 18),
        (1, 1, 1, 5, 5, 5),
    ],
)
def test_cycles_of_counting(counters: int, inputs: int, macs: int, k: int, column: int, counter: int) -> None:
    """D-kllm-31: all counters of a lane on one column at a time, or one column each."""
    got = [
        ChipSizes(counters=counters, counter_inputs=inputs, macs=macs, lane_mapping=mapping).count_cycles(k)
        for mapping in ("column", "counter")
    ]

    assert got == [column, counter]


def test_the_slower_stage_of_the_pipeline_is_seen_in_every_tile() -> None:
    chip = ChipSizes()

    assert chip.cycles(4096, 512, 256, 0) == 256 + 258
    assert chip.cycles(4096, 513, 256, 0) == 2 * 258 + 256
    assert chip.cycles(16384, 1024, 16, 0) == 2 * 1024 + 18
