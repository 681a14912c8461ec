"""Golden cases of bfp_aligner: a group with the shape of [harmonia Fig. 3], every shift, subnormals, random words."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from refemu.units import Config
from refemu.units.stimuli import Block, Blocks, Inputs, Seeds, first_of_each, uniform

LANES = 8


def paper(config: Config) -> Blocks:
    why = "[harmonia Fig. 3] 6.28125, -1.5703125, 0.2001953125 under the exponent 17, 8 and 4 bits"
    yield _cases(why, [[0x4648, 0xBE48, 0x3268, 0, 0, 0, 0, 0]] * 2, [[17] * LANES] * 2, [8, 4])


def edge(config: Config) -> Blocks:
    words = [0x7BFF, 0xBC00, 0x3C01, 0x83FF, 0x0400, 0x8000, 0x0001, 0x0000]
    yield _cases(
        "one word of every kind under every exponent at or above its own",
        [words] * 16,
        [
            [max(exponent, 30) if word & 0x7C00 == 0x7800 else max(exponent, word >> 10 & 31) for word in words]
            for exponent in range(0, 32, 2)
        ],
        [8] * 16,
    )
    x = [[0x3FFF, 0xBFFF, 0x3C00, 0x3BFF, 0xB800, 0x1400, 0x0001, 0x83FF]] * 11
    emax = [[15] * LANES] * 11
    yield _cases("every width, from a single leading one to the whole significand", x, emax, range(1, 12))
    yield _cases(
        "ties and their neighbours at 8 bits, and a magnitude that would round to 256",
        [[0x3C04, 0x3C0C, 0x3C05, 0x3C03, 0xBC04, 0xBC0C, 0x3FFC, 0xBFFF]],
        [[15] * LANES],
        [8],
        "D-harmonia-2",
    )
    yield _cases(
        "only subnormals, a subnormal next to field 1, negative zeros and magnitudes that become 0",
        [
            [0x0001, 0x8003, 0x03FF, 0x8000, 0x0000, 0x8001, 0x0008, 0x83FF],
            [0x0400, 0x83FF, 0x0001, 0x8000, 0x8400, 0x8001, 0x07FF, 0x0200],
        ],
        [[0] * LANES, [1] * LANES],
        [8, 8],
        "D-harmonia-3",
    )
    x = [[0x7C00, 0xFC00, 0x7E00, 0x7BFF, 0x3C00, 0x0001, 0xFFFF, 0x7C01]] * 2
    emax = [[31] * LANES, [30] * LANES]
    yield _cases("infinities and NaN with finite words, under 31 and under 30", x, emax, [8, 11], "D-harmonia-5")
    single = np.eye(LANES, dtype=np.int64)
    why = "an exponent above emax in one lane alone, each in turn"
    yield _cases(why, 0x3D55 + 0x0400 * single, [[15] * LANES] * LANES, [8] * LANES)
    x = [[0x4000, 0x3C00, 0x7BFF, 0x0400, 0xC000, 0x3FFF, 0x8400, 0x0000]]
    emax = [[15] * 3 + [0] + [15] * 4]
    yield _cases("an exponent above emax, by one and by much, with lanes at emax", x, emax, [8])


def random(config: Config, seed: Seeds) -> Blocks:
    drawn = uniform("bfp_aligner", config, (192,), seed)
    field = drawn["x"] >> 10 & 31
    yield "words of any kind under an exponent at or above theirs", drawn | {"emax": np.maximum(drawn["emax"], field)}
    near = first_of_each(drawn, 192, 64)
    why = "shifts up to 7: exponents near emax, as in activations"
    yield why, near | {"emax": np.minimum((near["x"] >> 10 & 31) + (near["emax"] & 7), 31)}
    beside = first_of_each(drawn, 192, 32)
    why = "emax from 2 below the exponent of a word to 5 above it: some lanes are illegal"
    yield why, beside | {"emax": np.clip((beside["x"] >> 10 & 31) - 2 + (beside["emax"] & 7), 0, 31)}


def _cases(
    why: str,
    x: Sequence[Sequence[int]] | np.ndarray,
    emax: Sequence[Sequence[int]],
    m: Sequence[int],
    decision: str = "",
) -> Block:
    return why, {"x": np.array(x), "emax": np.array(emax), "m": np.array(m)}, decision


def mark(config: Config, inputs: Inputs, result: Any) -> dict[str, np.ndarray]:
    lost = (result.mantissa == 0) & (np.asarray(inputs["x"]) & 0x7FFF != 0) & ~result.illegal
    return {"ILLEGAL": result.illegal.any(axis=-1), "LOST": lost.any(axis=-1)}


def care(config: Config, inputs: Inputs, result: Any) -> dict[str, np.ndarray]:
    """Outputs that a device must match: sign and mantissa of the legal lanes."""
    return {"out.sign": ~result.illegal, "out.mantissa": ~result.illegal}
