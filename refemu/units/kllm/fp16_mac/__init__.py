"""The FP16 multiply-accumulate unit of KLLM's lanes, with the directions and flags of IEEE 754 as options."""

from refemu.units.kllm.fp16_mac.fp16_mac import DYNAMIC, ONE, ROUNDINGS, UNIT, Fp16Mac, InfZeroNan, Rounding, State, run
from refemu.units.kllm.fp16_mac.ieee16 import DIRECTIONS, Direction, Tininess

__all__ = [
    "DIRECTIONS",
    "DYNAMIC",
    "ONE",
    "ROUNDINGS",
    "UNIT",
    "Direction",
    "Fp16Mac",
    "InfZeroNan",
    "Rounding",
    "State",
    "Tininess",
    "run",
]
