"""Golden cases of harmonia_core: small products through all steps of [harmonia §IV-A, Fig. 12]."""

from typing import Any

import numpy as np

from refemu.units import Config, find
from refemu.units.stimuli import Block, Blocks, Inputs, Seeds, filled, port_values, uniform

LANES = 32
KEPT = {"frozen", "position", "wide", "bias"}  #: ports that are drawn where all elements are equal
DRAWN = 22  #: products of kinds paper and edge
ANGLE = 5  #: number of the product with a rotated key so near a midpoint of FP16 that it shows angles rounded to FP32


def paper(config: Config, seed: Seeds) -> Blocks:
    drawn = legal(config, uniform("harmonia_core", config, (DRAWN,), seed))
    yield "[harmonia §IV-A] one product through all steps", {p: a[:1] for p, a in drawn.items()}


def edge(config: Config, seed: Seeds) -> Blocks:
    raw = uniform("harmonia_core", config, (DRAWN,), seed)
    drawn = legal(config, raw)

    def some(first: int, last: int) -> dict[str, np.ndarray]:
        return {port: array[first:last] for port, array in drawn.items()}

    yield "activations of 0, of either sign", {**some(1, 2), "a_mag": 0 * drawn["a_mag"][1:2]}
    small = {"a_exp": 0 * drawn["a_exp"][1:2] + 1, "w_scale": drawn["w_scale"][1:2] & 0x03FF}
    yield "weight factors and activations so small that results are 0", some(1, 2) | small
    why = "shared exponents of 0 and 1: most results of weights, keys and values are subnormal in FP16"
    yield why, {**some(2, 6), "a_exp": raw["a_exp"][2:6] & 1}, "D-harmonia-4"
    far = {**some(6, 12), "a_exp": 4 + raw["a_exp"][6:12] % 12}
    yield "activations of shared exponents from 4 to 15, far from each other", far
    why = "activations of one sign, mantissas of 128 and more: sums near the largest of their exponents"
    yield why, {**some(12, 16), "a_sign": 0 * drawn["a_sign"][12:16], "a_mag": drawn["a_mag"][12:16] | 128}
    why = "larger activations, shared exponents of 17 to 20: results beyond 2, scores far apart"
    yield why, {**some(16, DRAWN), "a_exp": raw["a_exp"][16:] % 4 + 17}
    yield "rows and columns that are all equal: every element reaches the exponent of its group", _equal(config, drawn)
    if config["b_type"] == "mixed":
        yield from _widths(some(0, 3))
    if "position" in drawn:  # windows of one key, of two, ... by position, in any row
        row, inside = np.arange(config["rows"]), np.arange(1, config["rows"])[:, None]
        gaps = {**some(0, len(inside)), "position": np.where(row < inside, row, row + config["window"])}
        yield "windows that each end at a different row", gaps, "D-harmonia-45"
    if "bias" in drawn:
        a_mag, bias = drawn["a_mag"][:8].copy(), drawn["bias"][:8].copy()
        a_mag[:2], bias[2], bias[3] = 0, 0, 0x8000
        why = "biases of results of 0, and results that biases take to 0"
        yield why, {**some(0, 8), "a_mag": a_mag, "bias": bias}, "D-harmonia-29"
    if config["kind"] == "score":
        yield "every query divides its attention among four keys, each key in turn", _keys(config)
    if config["kind"] == "k":
        yield _channels(config)
    if config["kind"] == "k" and config["start"] == 0 and "position" not in drawn:
        yield "small angles: rotated keys next to midpoints of FP16", some(ANGLE, ANGLE + 1), "D-arith-8"


def random(config: Config, seed: Seeds) -> Blocks:
    ports, count = find("harmonia_core").ports(config).inputs, 8 if config["kind"] == "score" else 4
    inputs = {port.name: port_values("harmonia_core", port, (count,), seed, first=DRAWN) for port in ports}
    yield "exponents and factors as in real tensors", legal(config, inputs)


def _equal(config: Config, drawn: Inputs) -> dict[str, np.ndarray]:
    """Two products of positive numbers, the second with the other sign; a frozen offset stays."""
    inputs = {port: np.repeat(array[:1], 2, axis=0) for port, array in drawn.items()}
    others = {"w_scale": 0x2555} if config["b_type"] == "int4" else {"b_exp": 15}
    equal = {"a_mag": 200, "a_exp": 17, "b": 0x47 if config["b_type"] == "mixed" else 7, **others}
    inputs |= filled("harmonia_core", config, 2, **{port: inputs[port] for port in KEPT & inputs.keys()}, **equal)
    inputs["a_sign"][1] = 1
    return inputs


def _widths(some: Inputs) -> Blocks:
    """Codes of one width for all rows, then different codes for every row: one set in a pass, or one for each row."""
    lanes = some["wide"].shape[-1]
    for width, wide in (("4", 0), ("8", 1)):
        yield f"codes of {width} bits for all rows", {**some, "wide": np.full_like(some["wide"], wide)}, "D-harmonia-46"
    alone = np.arange(lanes) == np.arange(len(some["wide"]))[:, None] * lanes // 3
    yield "one code of 8 bits in one row", {**some, "wide": alone.astype(np.int64)}, "D-harmonia-36"


def _keys(config: Config) -> Inputs:
    """Equal queries and four keys equal to them, each in turn; the other keys are 0."""
    place, turn = np.arange(config["columns"] * config["inner"]), np.arange(-(-config["columns"] // 4))[:, None]
    b = 255 * (place // config["inner"] // 4 == turn)
    return filled("harmonia_core", config, len(turn), a_mag=255, a_exp=15, b_exp=15, wide=1, b=b)


def _channels(config: Config) -> Block:
    """Products with one offset of alternating bits, in each channel in turn: a factor meets one element."""
    columns, inner = config["columns"], config["inner"]
    count, groups = 2 * columns, -(-inner // LANES)
    channel, case = np.arange(count) // 2, np.arange(count)
    inputs = filled("harmonia_core", config, count, a_exp=15, position=np.arange(config["rows"]))
    inputs["a_mag"][:, 0] = inputs["a_mag"][:, -inner] = 128
    inputs["b"][case, channel * inner] = 4
    inputs["w_scale"][case, channel * groups] = np.where(case % 2 == 0, 0x5155, 0xA6AA)
    why = "the key of token 0 has one channel, each in turn, whose bits alternate: it is the offset"
    if "frozen" in inputs:
        inputs["frozen"][case, channel] = np.where(case % 2 == 0, 0x4AAA, 0xB555)
        why = "keys with one channel, each in turn, and a frozen offset in it, whose bits alternate"
    return why, inputs, "D-harmonia-24"


def legal(config: Config, inputs: Inputs) -> dict[str, np.ndarray]:
    """`inputs` with 0 where the mode has no field, within a range whose results have a BFP code."""
    fitted = {**inputs, "a_exp": inputs["a_exp"] & 3 | 12}
    if "frozen" in inputs:
        fitted["frozen"] = _offsets(inputs["frozen"])
    if "position" in inputs:
        fitted["position"] = _positions(config, inputs["position"])
    if "bias" in inputs:
        fitted["bias"] = inputs["bias"] & 0xBFFF
    if config["b_type"] == "int4":
        none = {port: np.zeros_like(inputs[port]) for port in ("b_sign", "b_exp")}
        return fitted | none | {"b": inputs["b"] & 15, "w_scale": inputs["w_scale"] & 0x03FF | 0x2400}
    b = inputs["b"] & 15 if config["b_type"] == "bfp4" else inputs["b"]
    return fitted | {"b": b, "b_exp": inputs["b_exp"] & 3 | 12, "w_scale": np.zeros_like(inputs["w_scale"])}


def _positions(config: Config, words: np.ndarray) -> np.ndarray:
    """Positions from 0 on that ascend by 1 or 2, in the last row by up to a million."""
    steps = 1 + (words & 1)
    steps[..., 0] = 0
    steps[..., -1] += words[..., -1] >> 2
    return np.cumsum(steps, axis=-1)


def _offsets(words: np.ndarray) -> np.ndarray:
    """Words (..., channels), below 2 in magnitude, of one channel in 32, at least one: as many as a window chooses."""
    channels = words.shape[-1]
    place = np.arange(channels)
    kept = (place % LANES == words[..., :1] % min(LANES, channels)) & (place < max(channels // LANES, 1) * LANES)
    return np.where(kept, words & 0xBFFF, 0)


def mark(config: Config, inputs: Inputs, result: Any) -> dict[str, np.ndarray]:
    """Products of each flag."""
    words = result.y & 0x7FFF
    return {"SUBNORMAL": np.asarray(((words > 0) & (words < 0x0400)).any(axis=-1))}
