"""One generation step of all KV heads of a layer: decide, allocate, move, quantize and write, attend, add scores."""

from refemu.units.leankv.layer_step.heads import ATTENDING
from refemu.units.leankv.layer_step.layer_step import UNIT, LayerStep, State, run
from refemu.units.leankv.layer_step.registers import ADMIT, COUNTERS, FINISH, LOAD, NONE, STEP

__all__ = ["ADMIT", "ATTENDING", "COUNTERS", "FINISH", "LOAD", "NONE", "STEP", "UNIT", "LayerStep", "State", "run"]
