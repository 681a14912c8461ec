"""Golden cases of ovp_decoder. Worked examples from [olive §3.1, Fig. 1b, §4.2]; the rest by sweep and seed."""

from typing import Any

import numpy as np

from refemu.units import Config
from refemu.units.stimuli import Blocks, Inputs, Seeds, columns, crossed, uniform

#: normal type -> (pairs, bias, why)
PAPER: dict[str, tuple[tuple[tuple[int, ...], int, str], ...]] = {
    "int4": (
        ((0x85,), 2, "[olive §4.2] bias 2, 0101: <4,3> = 48, next to its victim"),
        ((0xD5,), 2, "(5, -3): two normal values, exponent 0000 appended [olive §4.2]"),
        ((0x82, 0xF8, 0x84), 2, "[olive Fig. 1b] 17.6, -98 and 30.7 as outliers 16, -96 and 32"),
        ((0x58,), 2, "(0, 48): the outlier at the right"),
        ((0x18, 0x89), 2, "(0, 12) and (-12, 0): the smallest outlier, either side"),
    ),
    "flint4": (
        ((0x81,), 3, "[olive §3.3] (24, 0): the smallest outlier with flint4"),
        ((0x40,), 3, "(0, 16): the largest normal value"),
        ((0x21, 0x63, 0x57, 0x84, 0x86), 3, "[olive Tbl. 3] flint4 1 2 3 4 6 8, then outliers 64 and 128"),
    ),
    "int8": (
        ((0x8040, 0xC080), 4, "[olive §4.5] 2**15 and its negative, the largest after the clip, at bias 4"),
        ((0x8001, 0x0180), 4, "(144, 0) and (0, 144): the smallest outlier, either side"),
        ((0x817F,), 4, "(127, -127): the largest normal values"),
    ),
}


def paper(config: Config) -> Blocks:
    if config["outlier"] != (2, 5):
        for pairs, bias, why in PAPER[config["normal"]]:
            yield why, columns(pair=pairs, bias=bias)


def edge(config: Config) -> Blocks:
    width = 8 if config["normal"] == "int8" else 4
    identifier, bias = 1 << (width - 1), np.arange(16)
    code = np.delete(np.arange(1 << width), [0, identifier])
    outliers = np.concatenate([code | identifier << width, code << width | identifier])
    if width == 8:
        why, some = "every outlier code on either side, at every bias", bias
        if config["outlier"] == (2, 5):
            why, some = "every outlier code on either side, at biases 0, 5, 10, 15", bias[::5]
        yield why, crossed(pair=outliers, bias=some)
    else:
        raised = outliers[outliers & 0x66 != 0]  # some bit of the exponent field is set
        why = "bias + exponent field reaches or exceeds the end of the 4-bit exponent port"
        yield why, crossed(bias=[15, 14, 13], pair=raised), "D-olive-20"
    codes = np.array([0, 1, identifier - 1, identifier, identifier + 1, 2 * identifier - 1])
    corners = (codes | codes[:, None] << width).ravel()
    why = "identifier, its neighbours and the ends of the range on either side"
    yield why, crossed(bias=[2, 3, 12, 13, 15, 0], pair=corners)
    illegal = [identifier, identifier << width, identifier << width | identifier]
    why = "an identifier next to a code of magnitude 0, at every bias"
    yield why, crossed(bias=np.roll(bias, -1), pair=illegal), "D-olive-18"


def random(config: Config, seed: Seeds) -> Blocks:
    width = 8 if config["normal"] == "int8" else 4
    drawn = uniform("ovp_decoder", config, (256,), seed)
    yield "uniform pairs and biases", drawn
    pair, identifier, mask = drawn["pair"], 1 << (width - 1), (1 << width) - 1
    sided = np.where(drawn["bias"] & 1, pair & mask | identifier << width, pair & ~mask | identifier)
    yield "uniform codes next to an identifier", columns(pair=sided, bias=drawn["bias"])


def exhaustive(config: Config) -> Blocks:
    """From an outlier pair on, 48 at bias 2 or 2**15 at bias 4, since a row 0 of zeros would show nothing."""
    if config["normal"] == "int8":
        bias = 2 if config["outlier"] == (2, 5) else 4
        yield f"every word at bias {bias}", columns(pair=np.roll(np.arange(1 << 16), -0x8040), bias=bias)
    else:
        every = crossed(pair=np.roll(np.arange(256), -0x85), bias=np.roll(np.arange(16), -2))
        yield "every pair at every bias", every


def mark(config: Config, inputs: Inputs, result: Any) -> dict[str, np.ndarray]:
    exp_bits, man_bits = config["outlier"]
    width = 1 + exp_bits + man_bits
    identifier, pair = 1 << (width - 1), inputs["pair"].astype(np.int64)
    left, right = pair & ((1 << width) - 1), pair >> width
    victim = (left == identifier) | (right == identifier)
    outlier = np.where(left == identifier, right, left) & (identifier - 1)
    exponent_bits = 4 if width == 4 else 5
    wrapped = victim & (inputs["bias"] + (outlier >> man_bits) >= 1 << exponent_bits)
    illegal = np.asarray(result.illegal, np.bool_)
    return {"ILLEGAL": illegal, "VICTIM": victim, "WRAPPED": wrapped, "UNSPECIFIED": victim}
