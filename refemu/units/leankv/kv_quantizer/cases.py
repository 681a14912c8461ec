"""Golden cases of kv_quantizer. The worked group of [leankv Eq. (2)] first; then constants, ends of fp16, ties."""

from typing import Any

import numpy as np

from refemu.formats.leankv.affine import CONSTANT, SCALE_OVERFLOW, SCALE_UNDERFLOW
from refemu.units import Config
from refemu.units.stimuli import Block, Blocks, Inputs, Seeds, finite, patterns16, uniform

WIDTHS = (1, 2, 4, 8)
TINY = 1 / (1 << 24)  #: the smallest fp16 value


def paper(config: Config) -> Blocks:
    features = config["features"]
    why = "[leankv Eq. (2)] -1.5, 0, 0.5, 1 at every width: at 2 bits step 5/6, codes 0 2 2 3"
    yield _case(why, [np.tile([-1.5, 0, 0.5, 1], features // 4)])


def edge(config: Config) -> Blocks:
    features = config["features"]
    ramp = np.arange(features)
    constants = [np.full(features, value) for value in (0.0, -0.0, 3.0, -7.25, TINY, 65504.0)]
    yield _case("constant groups, zeros of either sign: codes and step 0", constants, "D-leankv-6")
    zeros = [np.where(ramp % 2, -0.0, 0.0), np.where(ramp % 2, 0.0, -0.0), np.where(ramp == 3, -0.0, ramp % 3)]
    yield _case("the minimum is +0 and -0 at once", zeros, "D-leankv-8")
    ends = [np.where(ramp == 5, TINY, 0.0), np.where(ramp == 5, 2 * TINY, TINY)]
    ends += [np.where(ramp % 2, 65504.0, least) for least in (0.0, -65504.0)]
    why = "one subnormal, whose step underflows; the widest range, whose step overflows at 1 bit"
    yield _case(why, ends, "D-leankv-7")
    ties = [np.where(ramp == 0, 0.0, np.where(ramp == 1, top, (ramp - 2) % top + 0.5)) for top in (1, 3, 15, 255)]
    yield _case("step 1 at one of the widths, features halfway between codes", ties, "D-leankv-5")
    why = "ramps: every code in order, and in eighths, where a reciprocal changes codes"
    yield _case(why, [ramp - 7.0, ramp / 8, -ramp / 8 * 3], "D-leankv-2")
    steps = ((7, 255), (41, 15), (61, 15), (63, 15), (117, 3), (223, 3))
    halves = [np.where(ramp < 2, ramp * top, 2 * (ramp - 2) % top + 0.5) * step for step, top in steps]
    why = "halfway between codes at steps 7, 41, 61, 63, 117, 223, whose rounded reciprocals change codes"
    yield _case(why, halves, "D-leankv-2")
    why = "31 times 1, 12, 20, 28, 47 subnormals: steps far from the stored ones, which give codes above the largest"
    yield _case(why, [ramp * size * TINY for size in (1, 12, 20, 28, 47)], "D-leankv-5")
    why = "a signed zero at each lane in turn, first, last and between the others"
    lanes = (0, 1, features // 2, features - 1)
    zeros = [np.where(ramp == lane, -0.0, np.where(ramp < lane, 0.0, 1.0)) for lane in lanes]
    yield _case(why, zeros, "D-leankv-8")


def random(config: Config, seed: Seeds) -> Blocks:
    drawn = uniform("kv_quantizer", config, (32,), seed)
    drawn["bits"] = np.array(WIDTHS)[drawn["bits"] & 3]
    yield "uniform fp16 words: magnitudes of all orders", drawn
    near = drawn["x"] & 0x83FF | 0x3800 | (drawn["x"] & 0x400)  # one or two binades
    yield "features of one order of magnitude, as in keys and values", drawn | {"x": near}


def _case(why: str, groups: list[np.ndarray], decision: str = "") -> Block:
    """Every group at every width."""
    words = np.repeat(patterns16(groups), len(WIDTHS), axis=0)
    return why, {"x": words, "bits": np.tile(WIDTHS, len(groups))}, decision


def legal(config: Config, inputs: Inputs) -> dict[str, np.ndarray]:
    """`inputs` with admitted widths and finite features."""
    x, bits = np.asarray(inputs["x"]), np.asarray(inputs["bits"])
    return {"x": finite(x), "bits": np.array(WIDTHS, bits.dtype)[bits & 3]}


def mark(config: Config, inputs: Inputs, result: Any) -> dict[str, np.ndarray]:
    flags = {"CONSTANT": CONSTANT, "UNDERFLOW": SCALE_UNDERFLOW, "OVERFLOW": SCALE_OVERFLOW}
    return {name: np.asarray(result.status & flag != 0) for name, flag in flags.items()}
