"""Other answers to decisions, each by a row that is computed by hand."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from refemu import units
from refemu.units import variant as other
from refemu.units.leankv.variants import rounding
from refemu.units.stepping import Result


def answers(name: str, config: str, says: str, **inputs: Any) -> Result:
    """What the device with one other answer gives to a row."""
    unit = units.find(name)
    (chosen,) = (each for each in unit.variants if each.says == says)
    device = other.device(unit, unit.configs[config], [chosen])
    assert device is not None
    return device.evaluate({port: np.array(value) for port, value in inputs.items()})


@pytest.mark.parametrize(
    ("x", "cut", "away"),
    [(2049.0, 2048.0, 2050.0), (2051.0, 2050.0, 2052.0), (-2049.0, -2048.0, -2050.0), (65519.0, 65504.0, 65504.0)],
)
def test_fp16_is_cut_off_or_rounds_half_away(x: float, cut: float, away: float) -> None:
    assert rounding.value16(rounding.toward_zero16(x)) == cut
    assert rounding.value16(rounding.half_away16(x)) == away


def test_half_of_smallest_subnormal_and_end_of_range() -> None:
    assert (rounding.toward_zero16(2.0**-25), rounding.half_away16(2.0**-25)) == (0, 1)
    assert (rounding.toward_zero16(65520.0), rounding.half_away16(65520.0)) == (0x7BFF, 0x7C00)


def test_float32_is_cut_off() -> None:
    assert rounding.toward_zero32(Fraction(2, 3)) == 0xAAAAAA / (1 << 24)
    assert rounding.sum32(1.0, -(2.0**-30)) == 1 - 2.0**-24
    assert rounding.quotient32(-1.0, 3.0) == -0xAAAAAA / (1 << 25)
    assert rounding.flushed32(2.0**-127) == 0 and rounding.flushed32(2.0**-126) == 2.0**-126


def test_prefix_sums_are_exclusive_saturate_or_forget_base() -> None:
    row = {"counts": [[2, 3] + [0] * 6], "base": [10]}
    assert answers("prefix_sum", "paper", "Blelloch's network: sums are exclusive", **row).inclusive[
        0, :3
    ].tolist() == [
        10,
        12,
        15,
    ]
    assert answers("prefix_sum", "paper", "the base is not added: places relative to it", **row).inclusive[0, 1] == 5
    top = {"counts": [[1 << 31, 1 << 31] + [0] * 6], "base": [0]}
    assert answers("prefix_sum", "paper", "adders saturate at 32 bits", **top).inclusive[0, 1] == (1 << 32) - 1


def test_ids_that_come_last_leave_first() -> None:
    history = {"op": [0, 1, 0], "count": [2, 1, 1], "ids": [[0] * 5, [1, 0, 0, 0, 0], [0] * 5]}
    taken = answers("free_page_list", "small", "the last ids leave first", **history).taken
    assert taken[:, 0].tolist() == [0, -1, 1]  # the right list gives 2


@pytest.mark.parametrize(
    ("says", "free"),
    [("an empty list reads as full", [3, 2, 5]), ("a full list reads as empty", [3, 2, 0])],
)
def test_bounds_alone_do_not_distinguish_empty_from_full(says: str, free: list[int]) -> None:
    """Of 5 pages 2 are taken, 1, and the last 2."""
    history = {"op": [0, 0, 0], "count": [2, 1, 2], "ids": [[0] * 5] * 3}
    assert answers("free_page_list", "small", f"two bounds only: {says}", **history).free.tolist() == free


@pytest.mark.parametrize(
    ("says", "words"),
    [
        ("codes halfway go up", [0b11_10_01_00] * 2),
        ("codes are truncated", [0b11_01_00_00] * 2),
        ("feature 0 is in the highest bits", [0b00_00_10_11] * 2),
    ],
)
def test_codes_of_two_bits_at_step_1(says: str, words: list[int]) -> None:
    """0, 0.5, 1.5, 3 have codes 0, 0, 2, 3: the word of eight is 0b11_10_00_00 twice."""
    x = np.tile(np.array([0, 0.5, 1.5, 3], np.float16), 8).view(np.uint16)
    low = answers("kv_quantizer", "paper", says, x=x[None], bits=[2]).words[0, 0]
    assert [int(low) & 0xFF, int(low) >> 8] == words


def test_percentage_of_17_tokens_rounds_up_to_9() -> None:
    share = np.arange(1, 18, dtype=np.float32)[None].view(np.uint32)
    row = {"share": share, "window": [1], "thresholds": [[0, 0]]}
    assert answers("prompt_compressor", "odd_static", "the percentage is rounded up", **row).n_pruned[0] == 8
    right = units.find("prompt_compressor")
    assert right.evaluate(right.configs["odd_static"], {k: np.array(v) for k, v in row.items()}).n_pruned[0] == 9
