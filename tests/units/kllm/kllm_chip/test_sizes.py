"""Sizes of the chip and what follows from them: slabs, turns, widths of counts, buffers."""

from typing import Any

import pytest

from refemu.arith.checks import Refused
from refemu.units.kllm.kllm_chip.sizes import ChipSizes


def test_sizes_of_table_1() -> None:
    """[kllm §IV-A, Table I] 65,536 Concat units, 512 MACs; a column of 4,096 positions in an edge of 512 at a time."""
    chip = ChipSizes()

    assert chip.lanes * chip.concat == 65536 and chip.tile == 512
    assert (chip.positions, chip.turn) == (4096, 512)
    apart = ChipSizes(lane_mapping="counter")
    assert (apart.positions, apart.turn) == (128, 16)


def test_a_lane_has_the_sizes_of_the_chip() -> None:
    lane = ChipSizes(concat=64, counters=4, counter_inputs=2, macs=4, merge="serial").lane(3, 2, counter_bits=9)

    assert (lane.concat, lane.counters, lane.inputs, lane.macs) == (64, 4, 2, 4)
    assert (lane.a_bits, lane.b_bits, lane.integer, lane.lane_mapping, lane.merge) == (3, 2, False, "column", "serial")
    assert lane.counter_bits == 9


@pytest.mark.parametrize(
    ("k", "integer", "carry", "bits"),
    [
        (4095, False, "counts", 12),
        (4096, False, "counts", 13),
        (14336, False, "counts", 14),
        (14336, False, "sums", 13),
        (4096, True, "counts", 16),
        (0, False, "counts", 1),
    ],
)
def test_counts_are_wide_enough_and_no_wider(k: int, integer: bool, carry: Any, bits: int) -> None:
    """Of integers of four bits a count grows by 15."""
    chip = ChipSizes(carry=carry)
    most = min(k, 4096 if carry == "sums" else k) * (15 if integer else 1)

    assert chip.counter_bits(k, 4, integer) == bits
    assert most >> bits == 0 and (bits == 1 or most >> bits - 1 == 1)


def test_buffers_hold_the_smaller_number_of_rows() -> None:
    chip = ChipSizes()

    assert chip.rows_at_once(4096, 512, 4, 256) == 16 and chip.rows_at_once(64, 4096, 4, 256) == 16
    assert chip.rows_at_once(32768, 1, 8, 16) == 1 == chip.rows_at_once(32768, 1, 8, 1024)
    with pytest.raises(Refused, match="ChipSizes: buffer codebook must hold 16400 bits, got 16384"):
        chip.rows_at_once(1, 1, 4, 1025)
    with pytest.raises(Refused, match="ChipSizes: buffer index must hold 262152 bits, got 262144"):
        chip.rows_at_once(32769, 1, 8, 16)


@pytest.mark.parametrize(
    "wrong",
    [
        {"lanes": 0},
        {"concat": 0},
        {"counters": 0},
        {"counter_inputs": 0},
        {"macs": -1},
        {"tree": 0},
        {"lane_mapping": "row"},
        {"merge": "ripple"},
        {"carry": "nothing"},
        {"buffers": {"weight": 1}},
    ],
)
def test_sizes_rejects_impossible_chips(wrong: dict[str, Any]) -> None:
    with pytest.raises(Refused, match=f"ChipSizes: {next(iter(wrong))} must be"):
        ChipSizes(**wrong)


def test_sizes_rejects_lanes_whose_sizes_do_not_fit() -> None:
    with pytest.raises(Refused, match="pe_lane: "):
        ChipSizes(concat=100).lane(4, 4)
