"""The timeline of the accelerator: the converter's clocks are those of the unit, and each wait is where it arises."""

from typing import Any

import numpy as np
import pytest

from refemu.units.harmonia import bfp_converter
from refemu.units.harmonia.harmonia_core import HarmoniaCore
from refemu.units.harmonia.harmonia_core import compiled as harmonia_core_compiled
from refemu.units.harmonia.harmonia_core.timeline import Event, Rates, Timeline, Waits, bits_of, stepped
from tests.units.harmonia.core_products import PRODUCTS

FAST = Rates(bytes_per_second=256 * 10**15)  #: operands are there after a clock for each load


def core(kind: Any, rows: int, inner: int, columns: int, **options: Any) -> HarmoniaCore:
    return HarmoniaCore(kind, rows, inner, columns, **options)


def run(*cores: HarmoniaCore, rates: Rates = FAST) -> Timeline:
    timeline = Timeline(rates)
    for each in cores:
        timeline.product(each, harmonia_core_compiled.events(each, np.zeros((each.rows, 0), np.uint8)))
    return timeline


@pytest.mark.parametrize(
    "name", ["linear", "k beyond it", "v by tiles", "keys of both widths", "values, rows side by side"]
)
def test_sizes_give_the_events_that_the_core_makes(name: str) -> None:
    """D-harmonia-49: cycles and passes of each block, from its states and from sizes alone."""
    product = PRODUCTS[name]
    device = HarmoniaCore(**product.config)
    states = list(device.steps(**product.ports))
    wide = np.array(product.given.wide or np.zeros((device.rows, 0)), np.uint8)

    by_states, by_sizes = list(stepped(device, states)), list(harmonia_core_compiled.events(device, wide))

    assert [each[:3] for each in by_states] == [each[:3] for each in by_sizes]
    assert all(sum(each.entering) + 15 * each.passes == each.cycles for each in by_sizes if each.passes)
    lines = [Timeline(), Timeline()]
    for line, events in zip(lines, (by_states, by_sizes), strict=True):
        line.product(device, events)
    assert lines[0].clock == lines[1].clock > device.groups
    assert lines[0].busy["array"] == states[-1].cycles and lines[0].busy["fp2half"] == states[-1].half_columns
    assert lines[0].busy["align"] == states[-1].align_cycles


@pytest.mark.parametrize(
    ("kind", "rows", "columns"), [("v", 32, 64), ("v", 70, 16), ("linear", 8, 256), ("linear", 3, 32)]
)
def test_without_gaps_converter_takes_clocks_of_unit(kind: Any, rows: int, columns: int) -> None:
    """[harmonia §IV-C] One group of 32 inputs: the array gives a column in every clock."""
    timeline = run(core(kind, rows, 32, columns, tile_m=96, tile_k=512))
    path: Any = "v" if kind == "v" else "token"
    unit = bfp_converter.convert(np.ones((rows, columns), np.float16), kind=path)

    loads, through = 2, 2  # through the array's first column and FP2Half
    assert timeline.free["align"] == loads + through + unit.cycles


def test_a_v_block_delays_a_short_token_block() -> None:
    """D-harmonia-49: the aligner is busy for 64 clocks; the block of one column waits for it, the next for a bank."""
    v, one, more = core("v", 32, 32, 16), core("linear", 1, 32, 1), core("linear", 1, 32, 32)

    alone, both, three = run(v), run(v, one), run(v, one, more)

    assert alone.waits.aligner == both.waits.bank == 0
    assert 0 < both.waits.aligner < 64
    assert three.waits.bank > 0
    assert three.free["compare"] >= both.banks[0]


def test_converter_overlaps_the_array() -> None:
    """[harmonia §IV-C] Sums of 20 groups: a block is aligned while the next one is computed."""
    timeline = run(core("linear", 64, 640, 64))

    assert timeline.waits == Waits(load=timeline.waits.load)
    behind = timeline.clock - timeline.free["array"]
    assert behind <= 32 + 4
    assert timeline.busy["array"] == 8 * 4 * (20 + 15)


def test_slow_memory_stops_the_array() -> None:
    """D-harmonia-50: one token and weights of 4.125 bits: 6,826 bits a clock are enough, a hundredth is not."""
    one = core("final", 1, 512, 512)
    paper, slow = run(one, rates=Rates()), run(one, rates=Rates(bytes_per_second=256 * 10**7))

    assert Rates().clocks(bits_of(one)[1] * 512 * 512) == 159
    assert paper.waits.load < slow.waits.load
    assert slow.busy["load"] > slow.busy["array"] and slow.clock >= slow.busy["load"]
    assert paper.busy["array"] == 32 * (16 + 15)


def test_next_tile_is_loaded_while_array_works() -> None:
    """D-harmonia-49: two buffers; a load waits for the tile before the last one."""
    device = core("final", 64, 64, 192)
    timeline = run(device)

    assert timeline.waits.load <= 2
    assert timeline.waits.buffer > 0
    assert timeline.clock - timeline.busy["array"] < 16 + 32  # the last block leaves column by column


def test_heads_wait_for_the_vector_unit() -> None:
    """A head of 64 channels and 8 rows takes 64 clocks of 8 lanes, and half of them with 16."""
    one, two = (run(core("q", 8, 32, 64, head_dim=64), rates=Rates(256 * 10**15, lanes=lanes)) for lanes in (8, 16))

    assert (one.busy["vector"], two.busy["vector"]) == (64, 32)
    assert one.clock - two.clock == 32


def test_results_are_written_between_reads() -> None:
    timeline = Timeline()
    timeline.reads, timeline.writes = [(0, 4), (6, 9), (20, 30)], [(2, 5), (2, 1)]

    assert timeline.clock == 13  # 4, 5 | 9, 10, 11 | 12
    assert Event(device_action()).cycles == 0


def device_action() -> Any:
    return core("linear", 1, 1, 1).plan[0]
