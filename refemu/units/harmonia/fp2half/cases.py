"""Golden cases of fp2half: halfway points at either end of the range of [harmonia §IV-A (4)], then random values."""

from typing import Any

import numpy as np

from refemu.units import Config
from refemu.units.stimuli import Blocks, Inputs, Seeds, patterns32, uniform

SUBNORMAL = float.fromhex("0x1p-24")  #: the smallest fp16 value


def paper(config: Config) -> Blocks:
    values = [1, -2.5, 1000.25, -25.3359375, 57.03125, 1 / 3, -0.0, 2048]
    yield "a column of results on and off the fp16 grid", {"x": patterns32([values])}


def edge(config: Config) -> Blocks:
    ends = _both(65504, np.nextafter(np.float32(65520), np.float32(0)), 65520, 65536)
    yield "the last value below the overflow, the first one that overflows, either sign", ends, "D-harmonia-13"
    beyond = _both(np.inf, np.nan, 3.4e38, 65519)
    yield "infinity, NaN of any payload, the largest float32", beyond, "D-harmonia-13"
    half = np.float32(SUBNORMAL / 2)
    why = "half of the smallest value rounds to zero, one step above it does not"
    yield why, _both(half, np.nextafter(half, np.float32(1)), SUBNORMAL * 1.5, SUBNORMAL * 2.5)
    normal = np.float32(1024 * SUBNORMAL)
    small = _both(normal, np.nextafter(normal, np.float32(0)), normal - np.float32(SUBNORMAL / 2), 1e-45)
    yield "the boundary of subnormal and normal values, and float32 subnormals", small
    why = "ties to even: 2049 down, 2051 up, one step off a tie, a carry into the exponent"
    yield why, _both(2049, 2051, np.nextafter(np.float32(2049), np.float32(4096)), 4095)


def random(config: Config, seed: Seeds) -> Blocks:
    words = uniform("fp2half", config, (64,), seed)["x"]
    yield "words of any kind: most are far outside fp16", {"x": words}
    yield "from subnormals to the first values beyond the range", {"x": (words & 0x8FFFFFFF) + 0x38000000}


def _both(*values: Any) -> Inputs:
    """Values of either sign."""
    column = np.array(values, np.float32)
    return {"x": patterns32([[*column, *-column]])}


def mark(config: Config, inputs: Inputs, result: Any) -> dict[str, np.ndarray]:
    y = result.y & 0x7FFF
    return {"OVERFLOW": result.overflow.any(axis=-1), "SUBNORMAL": ((y > 0) & (y < 0x400)).any(axis=-1)}
