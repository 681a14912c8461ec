"""The chip: bits and cycles of lanes that work clock by clock, what [kllm Table I] says of its sizes."""

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from refemu.arith.checks import Refused
from refemu.formats.kllm.kmeans_tables import cartesian
from refemu.formats.kllm.kmeans_tensor import KMeansTensor
from refemu.units.kllm import index_matmul, kllm_chip
from refemu.units.kllm.index_matmul import COUNTERS, Scores
from refemu.units.kllm.kllm_chip import UNIT, ChipSizes, KllmChip
from refemu.units.kllm.twins import kllm_chip as kllm_chip_jit
from refemu.units.kllm.twins.index_matmul import prepare
from tests.oracles.kllm import chip as oracle
from tests.oracles.kllm import formats
from tests.units.kllm.kmeans_operands import tensor, vector

#: [kllm Table I], rows of the chip: area in mm2, power in W
TABLE = {
    "lanes": ("8.25", "5.73"),
    "out": ("4.61", "0.570"),
    "index": ("2.16", "0.540"),
    "codebook": ("0.00844", "0.00211"),
    "clustering": ("0.211", "0.710"),
    "orizuru": ("0.739", "0.273"),
    "functional": ("0.889", "0.563"),
}
IMPLEMENTATIONS = [pytest.param(kllm_chip.matmul, id="unit"), pytest.param(kllm_chip_jit.matmul, id="twin")]


def at_ports(inputs: Mapping[str, np.ndarray], m: int) -> tuple[formats.Vector, list[formats.Vector], list[int]]:
    """Row m of port inputs as the oracle has it: A, the columns of B, products."""
    words = {name: array[m].tolist() for name, array in inputs.items()}
    k, mask = len(words["a_index"]), words["a_mask"]
    outliers = [word for word, marked in zip(words["a_outlier"], mask, strict=True) if marked]
    columns = [
        formats.Vector(words["b_codebook"], words["b_index"][n * k : (n + 1) * k], scale, [0] * k, [])
        for n, scale in enumerate(words["b_scale"])
    ]
    return (
        formats.Vector(words["a_codebook"], words["a_index"], words["a_scale"], mask, outliers),
        columns,
        words["products"],
    )


@pytest.mark.parametrize("jit", [False, True], ids=["unit", "twin"])
@pytest.mark.parametrize("mapping", ["column", "counter"])
@pytest.mark.parametrize("kind", ["paper", "edge", "random"])
def test_rows_at_the_ports_are_those_of_lanes_that_work_clock_by_clock(jit: bool, mapping: str, kind: str) -> None:
    """[kllm §IV-A, Fig. 6] outputs, overflow, cycles and work, of three tiles, the last one partial."""
    config = {**UNIT.configs[mapping], "k": 33} if kind == "edge" else UNIT.configs[mapping]  # 33: a last turn of one
    chip, rows = oracle.Chip(*config["sizes"], mapping), 3
    for block in UNIT.cases(config, kind, 5):
        inputs = {name: array[:rows] for name, array in block.inputs.items()}
        expected = [oracle.row(chip, *at_ports(inputs, m)) for m in range(len(inputs["a_scale"]))]
        result = UNIT.evaluate(config, inputs, jit=jit)

        assert result.y.tolist() == [one.y for one in expected]
        assert result.overflow.tolist() == [one.overflow for one in expected]
        for name in ("tiles", "count_cycles", "mac_cycles", "cycles"):
            assert getattr(result, name) == sum(getattr(one, name) for one in expected), name
        for name in expected[0].work:
            assert getattr(result, name) == sum(one.work[name] for one in expected), name


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize("acc", ["fp16", "exact"])
@pytest.mark.parametrize("mapping", ["column", "counter"])
def test_matrices_are_those_of_lanes_that_work_clock_by_clock(run: Any, acc: str, mapping: str) -> None:
    """[kllm §IV-A, Fig. 6] rows one after the other, with outliers of both operands."""
    a, b = tensor((3, 40), 4, 1, 2), tensor((7, 40), 3, 2, 1)
    sizes = oracle.Chip(2, 4, 4, 4, mapping)
    products = cartesian(a.codebook, b.codebook).values.tolist()
    columns = [vector(b, n) for n in range(7)]
    expected = [oracle.row(sizes, vector(a, m), columns, products, acc) for m in range(3)]
    chip = ChipSizes(lanes=2, counters=4, counter_inputs=4, macs=4, lane_mapping=mapping)
    result = run(a, b, preset="exact" if acc == "exact" else "paper", chip=chip)

    assert result.y.view(np.uint16).tolist() == [one.y for one in expected]
    assert (result.tiles, result.count_cycles, result.mac_cycles, result.cycles) == tuple(
        sum(getattr(one, name) for one in expected) for name in ("tiles", "count_cycles", "mac_cycles", "cycles")
    )
    assert {name: getattr(result, name) for name in expected[0].work} == {
        name: sum(one.work[name] for one in expected) for name in expected[0].work
    }


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize("preset", ["paper", "exact"])
def test_bits_are_those_of_the_matmul(run: Any, preset: str) -> None:
    """Every field that both have, with outliers, and rows that see less."""
    a, b, seen = tensor((3, 40), 4, 1, 2), tensor((7, 40), 4, 2, 1), np.array([7, 0, 3])
    chip, plain = run(a, b, preset=preset, seen=seen), index_matmul.matmul(a, b, preset=preset, seen=seen)

    assert chip.y.tobytes() == plain.y.tobytes() and chip.overflow.tobytes() == plain.overflow.tobytes()
    assert all(getattr(chip, name) == getattr(plain, name) for name in COUNTERS)


def test_twin_equals_unit() -> None:
    a, b, v = tensor((2, 40), 4, 1, 2), tensor((70, 40), 4, 2), tensor((9, 30), 4, 3, 1)
    q, ones = np.arange(18, dtype=np.uint8).reshape(2, 9) % 16, np.ones((2, 9), np.float16)
    scores = Scores(q, ones[:, 0], ones)
    chip = ChipSizes(lanes=2, macs=4, counters=4, counter_inputs=4)
    for left, right in ((a, b), (scores, v)):
        given = prepare(right, integer=left is scores)
        assert kllm_chip.matmul(left, right, chip=chip).equals(kllm_chip_jit.matmul(left, given, chip=chip))


@pytest.mark.parametrize("mapping", ["column", "counter"])
def test_cycles_of_a_large_matmul(mapping: str) -> None:
    """D-kllm-31: 4096 x 4096 at W4A4, eight tiles: counting 8 * 256, reduction 8 * 258, in all 2,320 cycles."""
    chip = ChipSizes(lane_mapping=mapping)

    assert (chip.tiles(4096), chip.count_cycles(4096), chip.mac_cycles(256, 0)) == (8, 256, 258)
    assert chip.cycles(4096, 4096, 256, 0) == 8 * 258 + 256 == 2320
    assert [chip.lane_of(n) for n in (0, 31, 32, 511, 512)] == [0, 0, 1, 15, 0]
    assert (chip.count_cycles(513), chip.cycles(64, 0, 256, 0)) == ((64, 0) if mapping == "column" else (33, 0))


@pytest.mark.parametrize("mapping", ["column", "counter"])
def test_counting_and_reduction_balance(mapping: str) -> None:
    """[kllm Table I]'s 16 inputs, 32 counters and MACs, 16 lanes: at 4096 x 4096 both are at work for 2,048 cycles.

    Beside them a MAC scales and merges every column: two cycles more for each of the eight tiles.
    """
    chip = ChipSizes(lane_mapping=mapping)
    a, b = tensor((1, 4096), 4, 1), tensor((4096, 64), 4, 2)
    wide = KMeansTensor(
        b.codebook,
        np.tile(b.index, (1, 64)),
        np.full(4096, 0x3C00, np.uint16),
        np.zeros((4096, 4096), np.bool_),
        b.outlier,
        0,
    )
    result = kllm_chip_jit.matmul(a, prepare(wide), chip=chip)

    assert result.count_cycles == 2048 == result.concats // (chip.lanes * chip.counters * chip.counter_inputs)
    assert result.mac_cycles == 2048 + 2 * result.tiles
    assert result.macs_reduce // (chip.lanes * chip.macs) == 2048


def test_units_of_the_chip() -> None:
    """[kllm §IV-A] 65,536 Concat units: columns of 4,096 at once in 16 lanes, and not of one more."""
    chip = ChipSizes()

    assert sum(chip.concat for lane in {chip.lane_of(n) for n in range(8192)}) == 65536
    chip.require_capacity(1, 4096, 16, 4, 4)
    with pytest.raises(Refused, match="a column of 4097 needs as many Concat units, a lane has 4096"):
        chip.require_capacity(1, 4097, 16, 3, 3)


@pytest.mark.parametrize(
    ("rows", "k", "n", "bits", "message"),
    [
        pytest.param(1, 4096, 1, (4, 4), None, id="a column of 4096 weights"),
        pytest.param(1, 4096, 1, (4, 5), "buffer weight must hold 20480 bits, it has 16384", id="of 5 bits"),
        pytest.param(16, 4096, 1, (4, 4), None, id="16 tokens of 4096 indices"),
        pytest.param(17, 4096, 1, (4, 4), "buffer index must hold 278528 bits, it has 262144", id="17 tokens"),
        pytest.param(16, 64, 4096, (4, 4), None, id="65,536 results and their mask bits"),
        pytest.param(16, 64, 4097, (4, 4), "buffer out must hold 1114384 bits, it has 1114112", id="16 results more"),
        pytest.param(1, 64, 1, (6, 4), None, id="1,024 products"),
        pytest.param(1, 64, 1, (7, 4), "buffer codebook must hold 32768 bits, it has 16384", id="2,048 products"),
        pytest.param(1, 4097, 1, (4, 4), "a column of 4097 needs as many Concat units, a lane has 4096", id="concat"),
    ],
)
def test_buffers_are_exact_fits(rows: int, k: int, n: int, bits: tuple[int, int], message: str | None) -> None:
    """[kllm Table I] 2 KB a lane, 32 KB, 2 KB (four product codebooks of 256) and 136 KB: full, and refused beyond."""
    if message is None:
        ChipSizes().require_capacity(rows, k, n, *bits)
    else:
        with pytest.raises(Refused, match=message):
            ChipSizes().require_capacity(rows, k, n, *bits)


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
    chip = ChipSizes()
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
    chip = KllmChip(**config).chip

    assert [state.event for state in states] == ["fill", "overlap", "overlap", "drain"]
    assert [state.counted for state in states] == [(0, 1, 2, 3), (4, 5, 6, 7), (8, 9), ()]
    assert [state.reduced for state in states] == [(), (0, 1, 2, 3), (4, 5, 6, 7), (8, 9)]
    assert states[-1].cycles == chip.cycles(20, 10, 32, 0) and states[-1].tiles == 3
    device = KllmChip(**config)
    with pytest.raises(Refused, match="kllm_chip: step takes the inputs of an operation now"):
        device.step()
    device.restore(states[1])
    with pytest.raises(Refused, match=r"kllm_chip: step takes no inputs now: \w+ came last"):
        device.step(1)


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_capacity_is_refused_when_it_is_checked(run: Any) -> None:
    a, b = tensor((1, 64), 4, 1), tensor((3, 64), 4, 2)
    small = ChipSizes(buffers={**ChipSizes().buffers, "codebook": 4095})

    assert run(a, b, chip=small).equals(run(a, b, chip=ChipSizes()))
    with pytest.raises(Refused, match="ChipSizes: buffer codebook must hold 4096 bits, it has 4095"):
        run(a, b, chip=small, check_capacity=True)
    assert run(a, b, check_capacity=True).tiles == 1


@pytest.mark.parametrize(
    "wrong", [{"lanes": 0}, {"counter_inputs": 0}, {"macs": -1}, {"lane_mapping": "row"}, {"buffers": {"weight": 1}}]
)
def test_refuses_impossible_chips(wrong: dict[str, Any]) -> None:
    with pytest.raises(Refused, match=f"ChipSizes: {next(iter(wrong))} must be"):
        ChipSizes(**wrong)


def test_repr_evaluates_back() -> None:
    chip = replace(ChipSizes(), lanes=2)
    config = UNIT.configs["column"]

    assert eval(repr(chip)) == chip and chip != ChipSizes()
    assert eval(repr(KllmChip(**config))).snapshot() == KllmChip(**config).snapshot()
