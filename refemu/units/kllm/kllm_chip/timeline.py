"""Edges of a product without stepping the lanes: when columns are counted, merged and reduced, by maxima and sums.

Paper: [kllm §IV-A]. Lane 0 has as many columns as any lane in every pass, so its times are those of the chip. A test
compares them with the edges of stepped lanes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from refemu.arith.integers import total
from refemu.units.kllm.kllm_chip.plan import Pass
from refemu.units.kllm.kllm_chip.sizes import ChipSizes

ALONE = 3  #: first columns of a pass, which may wait for the bank; the rest follow in equal steps
FINISH = 2  #: edges for the scale and for the sum of both paths


@dataclass
class Times:
    """First edge at which each part is free."""

    load: int = 0  #: the Concat registers can take a slab
    merged: int = 0  #: last edge of the last merge
    bank: int = 0  #: the bank of histograms can take columns
    free: int = 0  #: the MACs can take a tile
    unsure: bool = False  #: the last merge ended with the swap for which it had waited


def edges(plan: Sequence[Pass], sizes: ChipSizes, entries: int, extra: int = 0) -> int:
    """Count the edges of a product until the last output. [kllm §IV-A]

    entries: of the codebook. extra: edges for a shift and a bias.
    """
    times, apart = Times(), sizes.lane_mapping == "counter"
    merge = sizes.counters if sizes.merge == "serial" and not apart else 1
    for task in plan:
        columns = 1 if apart else min(task.width, sizes.macs)
        turns = _turns(task, sizes)
        for _ in range(min(columns, ALONE)):
            _column(times, turns, merge)
        alike = max(columns - ALONE, 0) * (int(total(np.array(turns))) + merge - 1)
        times.load, times.merged = times.load + alike, times.merged + alike
        times.bank = max(times.merged + 1, times.free)
        times.free = times.bank + entries + (task.outliers + FINISH + extra) * task.closes
    return times.free + 1 if plan else 0


def _turns(task: Pass, sizes: ChipSizes) -> list[int]:
    """Counting edges of every slab of a column."""
    lengths = [
        min(low + sizes.positions, task.high) - low
        for low in range(task.low, max(task.high, task.low + 1), sizes.positions)
    ]
    return [max(1, -(-length // sizes.turn)) for length in lengths]


def _column(times: Times, turns: Sequence[int], merge: int) -> None:
    """Count one column slab after slab, then merge its histogram into the bank."""
    done = 0
    for slab in turns:
        start = max(times.load + 1, times.merged)
        done = start + slab - 1
        times.load = done + (slab == 1 and start == times.merged and times.unsure)
    first = max(done + 1, times.bank)
    times.merged = first + merge - 1
    times.unsure = times.merged == times.bank
