"""A lane of KLLM's chip with a clock: Concat units, index counters, merged histograms, MACs."""

from refemu.units.kllm.pe_lane.feed import Feeder, Slab, Tile, slabs
from refemu.units.kllm.pe_lane.registers import COUNTERS, PHASES, LaneMapping, Merge, State
from refemu.units.kllm.pe_lane.unit import UNIT, PeLane, run

__all__ = [
    "COUNTERS",
    "PHASES",
    "UNIT",
    "Feeder",
    "LaneMapping",
    "Merge",
    "PeLane",
    "Slab",
    "State",
    "Tile",
    "run",
    "slabs",
]
