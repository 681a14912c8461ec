"""The chip: the same bits as index_matmul, cycles by formula, what [kllm Table I] says of its sizes."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from refemu.arith.checks import Refused
from refemu.units import index_matmul, kllm_chip, kllm_chip_jit
from refemu.units.index_matmul import COUNTERS, Scores
from refemu.units.index_matmul_jit import prepare
from refemu.units.kllm_chip import UNIT, ChipUnit
from refemu.units.kllm_chip_parts import KllmChip
from tests.units.kmeans_operands import tensor

#: [kllm Table I], rows of the chip: area in mm2, power in W
TABLE = {"lanes": ("8.25", "5.73"), "out": ("4.61", "0.570"), "index": ("2.16", "0.540"),
         "codebook": ("0.00844", "0.00211"), "clustering": ("0.211", "0.710"), "orizuru": ("0.739", "0.273"),
         "functional": ("0.889", "0.563")}
IMPLEMENTATIONS = [pytest.param(kllm_chip.run, id="unit"), pytest.param(kllm_chip_jit.run, id="twin")]


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize("preset", ["paper", "exact"])
def test_bits_are_those_of_the_matmul(run: Any, preset: str) -> None:
    """Every field that both have, with outliers, and rows that see less."""
    a, b, seen = tensor((3, 40), 4, 1, 2), tensor((7, 40), 4, 2, 1), np.array([7, 0, 3])
    chip, plain = run(a, b, preset=preset, seen=seen), index_matmul.run(a, b, preset=preset, seen=seen)

    assert chip.y.tobytes() == plain.y.tobytes() and chip.overflow.tobytes() == plain.overflow.tobytes()
    assert all(getattr(chip, name) == getattr(plain, name) for name in COUNTERS)


def test_twin_equals_unit() -> None:
    a, b, v = tensor((2, 40), 4, 1, 2), tensor((70, 40), 4, 2), tensor((9, 30), 4, 3, 1)
    q, ones = np.arange(18, dtype=np.uint8).reshape(2, 9) % 16, np.ones((2, 9), np.float16)
    scores = Scores(q, ones[:, 0], ones)
    chip = KllmChip(lanes=2, macs=4, counters=4, counter_inputs=4)
    for left, right in ((a, b), (scores, v)):
        given = prepare(right, integer=left is scores)
        assert kllm_chip.run(left, right, chip=chip).equals(kllm_chip_jit.run(left, given, chip=chip))


@pytest.mark.parametrize("mapping", ["column", "counter"])
def test_cycles_of_a_large_matmul(mapping: str) -> None:
    """D-kllm-31: 4096 x 4096 at W4A4, eight tiles: counting 8 * 256, reduction 8 * 258, in all 2,320 cycles."""
    chip = KllmChip(lane_mapping=mapping)

    assert (chip.tiles(4096), chip.count_cycles(4096), chip.mac_cycles(256, 0)) == (8, 256, 258)
    assert chip.cycles(4096, 4096, 256, 0) == 8 * 258 + 256 == 2320
    assert [chip.lane_of(n) for n in (0, 31, 32, 511, 512)] == [0, 0, 1, 15, 0]
    assert (chip.count_cycles(513), chip.cycles(64, 0, 256, 0)) == ((64, 0) if mapping == "column" else (33, 0))


def test_counting_and_reduction_balance() -> None:
    """[kllm Table I]'s 16 inputs, 32 counters and MACs, 16 lanes: both take 2,048 cycles at 4096 x 4096."""
    assert Fraction(4096 * 4096, 16 * 32 * 16) == Fraction(4096 * 256, 16 * 32) == 2048


def test_units_of_the_chip() -> None:
    """[kllm §IV-A] 65,536 Concat units."""
    assert KllmChip().lanes * KllmChip().concat == 65536


def test_buffers_are_exact_fits() -> None:
    """[kllm Table I] 2 KB a lane: a column of 4096 weights; 32 KB: 16 tokens; 2 KB: four products; 136 KB: 17 bits."""
    sizes = KllmChip().buffers

    assert sizes["weight"] == 4096 * 4 and sizes["index"] == 16 * 4096 * 4
    assert sizes["codebook"] == 4 * 256 * 16 and sizes["out"] == 65536 * 17


def test_areas_of_table_1_add_up_and_power_does_not() -> None:
    """[kllm Table I] Lane blocks make 8.25 mm2, all rows 16.87. Known inconsistency: the rows of power add up to 8.388
    W, not to the 8.96 stated; with the Out Buffer counted twice they do."""
    lane = [Fraction(x) for x in ("0.0868", "0.0675", "0.271", "0.0905")]
    areas, powers = ([Fraction(row[i]) for row in TABLE.values()] for i in (0, 1))

    assert round(float(16 * sum(lane)), 2) == 8.25
    assert round(float(sum(areas)), 2) == 16.87
    assert round(float(sum(powers)), 3) == 8.388
    assert round(float(sum(powers) + Fraction(TABLE["out"][1])), 2) == 8.96


def test_pipeline_of_a_batch_and_of_heads() -> None:
    """[kllm §IV-A, §V-D] quantizing hides behind the MatMul of the token before, from two tokens on."""
    chip = KllmChip()
    quantize = chip.quantize_cycles(4096, 21)

    assert quantize == 12 + 21 * 13 + 256 and chip.quantize_cycles(4096, 0) == 256
    assert chip.batch_cycles(1, quantize, 2320) == quantize + 2320 and chip.batch_cycles(0, 5, 5) == 0
    assert chip.batch_cycles(4, quantize, 2320) == quantize + 4 * 2320
    assert chip.softmax_cycles(9) == 6
    assert chip.head_cycles([6, 6, 6], [10, 4, 10]) == 6 + 10 + 6 + 10
    with pytest.raises(Refused, match="every head needs both times, got 1 and 0"):
        chip.head_cycles([1], [])


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_outliers_take_cycles_of_the_macs(run: Any) -> None:
    """D-kllm-31: the column with most positions left out decides."""
    a, b = tensor((1, 64), 4, 1, 4), tensor((3, 64), 4, 2)
    result = run(a, b)
    left_out = int(a.mask.sum())

    assert result.mac_cycles == 256 + left_out + 2 and result.count_cycles == 32 and result.tiles == 1
    assert result.cycles == result.mac_cycles + 32


def test_events_are_slots_of_the_pipeline() -> None:
    """Three tiles: counting alone, overlap twice, reduction alone; columns by lanes."""
    config = UNIT.configs["column"]
    (block,) = UNIT.cases(config, "paper", 0)
    states = list(UNIT.trace(config, block.inputs))
    chip = ChipUnit(**config).chip

    assert [state.event for state in states] == ["fill", "overlap", "overlap", "drain"]
    assert [state.counted for state in states] == [(0, 1, 2, 3), (4, 5, 6, 7), (8, 9), ()]
    assert [state.reduced for state in states] == [(), (0, 1, 2, 3), (4, 5, 6, 7), (8, 9)]
    assert states[-1].cycles == chip.cycles(20, 10, 32, 0) and states[-1].tiles == 3
    device = ChipUnit(**config)
    with pytest.raises(Refused, match="kllm_chip: step takes the inputs of a row"):
        device.step()
    device.restore(states[1])
    with pytest.raises(Refused, match="kllm_chip: step takes no inputs: slot 1 came last"):
        device.step(1)


@pytest.mark.parametrize(("rows", "k", "n", "bits", "message"), [
    pytest.param(1, 4097, 1, 4, "a column of 4097 needs as many Concat units, a lane has 4096", id="concat"),
    pytest.param(17, 4096, 1, 4, "buffer index must hold 278528 bits, it has 262144", id="index"),
    pytest.param(16, 64, 4097, 4, "buffer out must hold 1114384 bits, it has 1114112", id="out"),
])
def test_refuses_what_no_buffer_holds(rows: int, k: int, n: int, bits: int, message: str) -> None:
    with pytest.raises(Refused, match=message):
        KllmChip().require_capacity(rows, k, n, bits, bits)


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_capacity_is_refused_when_it_is_checked(run: Any) -> None:
    a, b = tensor((1, 64), 4, 1), tensor((3, 64), 4, 2)
    small = KllmChip(buffers={**KllmChip().buffers, "codebook": 4095})

    assert run(a, b, chip=small).equals(run(a, b, chip=KllmChip()))
    with pytest.raises(Refused, match="KllmChip: buffer codebook must hold 4096 bits, it has 4095"):
        run(a, b, chip=small, check_capacity=True)
    assert run(a, b, check_capacity=True).tiles == 1


@pytest.mark.parametrize("wrong", [{"lanes": 0}, {"counter_inputs": 0}, {"macs": -1}, {"lane_mapping": "row"},
                                   {"buffers": {"weight": 1}}])
def test_refuses_impossible_chips(wrong: dict[str, Any]) -> None:
    with pytest.raises(Refused, match=f"KllmChip: {next(iter(wrong))} must be"):
        KllmChip(**wrong)


def test_repr_evaluates_back() -> None:
    chip = replace(KllmChip(), lanes=2)
    config = UNIT.configs["column"]

    assert eval(repr(chip)) == chip and chip != KllmChip()
    assert eval(repr(ChipUnit(**config))).snapshot() == ChipUnit(**config).snapshot()
