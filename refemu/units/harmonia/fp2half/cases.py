"""Golden cases of fp2half: halfway points at either end of the range of [harmonia §IV-A (4)], then random values."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from refemu.units import Config, find
from refemu.units.stimuli import Block, Blocks, Inputs, Seeds, port_values

LANES = 8
SUBNORMAL = float.fromhex("0x1p-24")  #: the smallest fp16 value


def paper(config: Config) -> Blocks:
    why = "a column of results on and off the fp16 grid"
    yield _case(why, [1, -2.5, 1000.25, -25.3359375, 57.03125, 1 / 3, -0.0, 2048])


def edge(config: Config) -> Blocks:
    why = "the last value below the overflow, the first one that overflows, either sign"
    yield _case(why, _both([65504, np.nextafter(np.float32(65520), np.float32(0)), 65520, 65536]), "D-harmonia-13")
    why = "infinity, NaN of any payload, the largest float32"
    yield _case(why, _both([np.inf, np.nan, 3.4e38, 65519]), "D-harmonia-13")
    half = np.float32(SUBNORMAL / 2)
    why = "half of the smallest value rounds to zero, one step above it does not"
    yield _case(why, _both([half, np.nextafter(half, np.float32(1)), SUBNORMAL * 1.5, SUBNORMAL * 2.5]))
    normal = np.float32(1024 * SUBNORMAL)
    values = _both([normal, np.nextafter(normal, np.float32(0)), normal - np.float32(SUBNORMAL / 2), 1e-45])
    yield _case("the boundary of subnormal and normal values, and float32 subnormals", values)
    why = "ties to even: 2049 down, 2051 up, one step off a tie, a carry into the exponent"
    yield _case(why, _both([2049, 2051, np.nextafter(np.float32(2049), np.float32(4096)), 4095]))


def random(config: Config, seed: Seeds) -> Blocks:
    words = port_values("fp2half", find("fp2half").ports(config).inputs[0], (64,), seed)
    yield "words of any kind: most are far outside fp16", {"x": words}
    yield ("from subnormals to the first values beyond the range", {"x": (words & 0x8FFFFFFF) + 0x38000000})


def _both(values: Sequence[Any]) -> list[Any]:
    return [*values, *(-np.float32(value) for value in values)]


def _case(why: str, values: Sequence[Any], decision: str = "") -> Block:
    return why, {"x": np.array(values, np.float32).view(np.uint32).reshape(-1, LANES)}, decision


def mark(config: Config, inputs: Inputs, result: Any) -> dict[str, np.ndarray]:
    y = result.y & 0x7FFF
    return {"OVERFLOW": result.overflow.any(axis=-1), "SUBNORMAL": ((y > 0) & (y < 0x400)).any(axis=-1)}
