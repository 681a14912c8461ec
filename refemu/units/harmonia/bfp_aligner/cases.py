"""Golden cases of bfp_aligner: a group with the shape of [harmonia Fig. 3], every shift, subnormals, random words."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from refemu.units import Config
from refemu.units.stimuli import Blocks, Inputs, Seeds, first_of_each, uniform

LANES = 8


def paper(config: Config) -> Blocks:
    why = "[harmonia Fig. 3] 6.28125, -1.5703125, 0.2001953125 under the exponent 17, 8 and 4 bits"
    yield why, _inputs([[0x4648, 0xBE48, 0x3268, 0, 0, 0, 0, 0]] * 2, 17, [8, 4])


def edge(config: Config) -> Blocks:
    words = np.array([0x7BFF, 0xBC00, 0x3C01, 0x83FF, 0x0400, 0x8000, 0x0001, 0x0000])
    least = np.where(words & 0x7C00 == 0x7800, 30, words >> 10 & 31)
    emax = np.maximum(np.arange(0, 32, 2)[:, None], least)
    yield "one word of every kind under every exponent at or above its own", _inputs([words] * 16, emax)
    x = [[0x3FFF, 0xBFFF, 0x3C00, 0x3BFF, 0xB800, 0x1400, 0x0001, 0x83FF]] * 11
    yield "every width, from a single leading one to the whole significand", _inputs(x, 15, range(1, 12))
    ties = [[0x3C04, 0x3C0C, 0x3C05, 0x3C03, 0xBC04, 0xBC0C, 0x3FFC, 0xBFFF]]
    why = "ties and their neighbours at 8 bits, and a magnitude that would round to 256"
    yield why, _inputs(ties, 15), "D-harmonia-2"
    x = [[0x0001, 0x8003, 0x03FF, 0x8000, 0x0000, 0x8001, 0x0008, 0x83FF]]
    x += [[0x0400, 0x83FF, 0x0001, 0x8000, 0x8400, 0x8001, 0x07FF, 0x0200]]
    why = "only subnormals, a subnormal next to field 1, negative zeros and magnitudes that become 0"
    yield why, _inputs(x, [[0], [1]]), "D-harmonia-3"
    x = [[0x7C00, 0xFC00, 0x7E00, 0x7BFF, 0x3C00, 0x0001, 0xFFFF, 0x7C01]] * 2
    beyond = _inputs(x, [[31], [30]], [8, 11])
    yield "infinities and NaN with finite words, under 31 and under 30", beyond, "D-harmonia-5"
    single = 0x3D55 + 0x0400 * np.eye(LANES, dtype=np.int64)
    yield "an exponent above emax in one lane alone, each in turn", _inputs(single, 15)
    x = [[0x4000, 0x3C00, 0x7BFF, 0x0400, 0xC000, 0x3FFF, 0x8400, 0x0000]]
    above = _inputs(x, [15] * 3 + [0] + [15] * 4)
    yield "an exponent above emax, by one and by much, with lanes at emax", above


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


def _inputs(x: ArrayLike, emax: ArrayLike, m: ArrayLike = 8) -> Inputs:
    """Words by lane; exponents and widths of all lanes or rows may be one number."""
    words = np.array(x)
    return {"x": words, "emax": np.full(words.shape, emax), "m": np.full(len(words), m)}


def mark(config: Config, inputs: Inputs, result: Any) -> dict[str, np.ndarray]:
    lost = (result.mantissa == 0) & (np.asarray(inputs["x"]) & 0x7FFF != 0) & ~result.illegal
    return {"ILLEGAL": result.illegal.any(axis=-1), "LOST": lost.any(axis=-1)}


def care(config: Config, inputs: Inputs, result: Any) -> dict[str, np.ndarray]:
    """Outputs that a device must match: sign and mantissa of the legal lanes."""
    return {"out.sign": ~result.illegal, "out.mantissa": ~result.illegal}
