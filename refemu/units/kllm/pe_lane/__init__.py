"""A lane of KLLM's chip, cycle-accurate: Concat units, index counters, merged histograms, MACs."""

from refemu.units.kllm.pe_lane.feed import Feeder, Slab, Tile, slabs
from refemu.units.kllm.pe_lane.pe_lane import UNIT, PeLane, State, run
from refemu.units.kllm.pe_lane.registers import PHASES, LaneMapping, Merge

__all__ = ["PHASES", "UNIT", "Feeder", "LaneMapping", "Merge", "PeLane", "Slab", "State", "Tile", "run", "slabs"]
