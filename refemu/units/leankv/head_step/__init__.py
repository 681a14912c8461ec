"""One generation step of one KV head: decide, allocate, move, quantize and write, attend, add scores."""

from refemu.units.leankv.head_step.registers import ADMIT, FINISH, LOAD, NONE, STEP
from refemu.units.leankv.head_step.unit import UNIT, HeadStep, run

__all__ = ["ADMIT", "FINISH", "LOAD", "NONE", "STEP", "UNIT", "HeadStep", "run"]
