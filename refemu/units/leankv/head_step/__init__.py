"""One generation step of one KV head: decide, allocate, move, quantize and write, attend, add scores."""

from refemu.units.leankv.head_step.heads import ATTENDING
from refemu.units.leankv.head_step.registers import ADMIT, COUNTERS, FINISH, LOAD, NONE, STEP, StepState
from refemu.units.leankv.head_step.steps import Steps
from refemu.units.leankv.head_step.unit import UNIT, HeadStep, run

__all__ = [
    "ADMIT",
    "ATTENDING",
    "COUNTERS",
    "FINISH",
    "LOAD",
    "NONE",
    "STEP",
    "UNIT",
    "HeadStep",
    "StepState",
    "Steps",
    "run",
]
