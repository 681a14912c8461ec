"""Golden cases of index_function: a codebook over [-1, 1] at some scales, zeros, subnormals, random. [kllm §III-C1]"""

from typing import Any

import numpy as np

from refemu.units import Config, find
from refemu.units.stimuli import Block, Blocks, Inputs, Seeds, patterns16, repeated, uniform

ONE, LARGEST, MINUS = 0x3C00, 0x7BFF, 0x8000


def paper(config: Config) -> Blocks:
    even = _even(1 << config["bits"])
    why = "[kllm §III-C1, Eq. (2)] one evaluation per centroid, at scale 2"
    yield _cases(why, config, even, [(0x4000, [0x4500, 0xC500])], "D-kllm-17")


def edge(config: Config) -> Blocks:
    n = 1 << config["bits"]
    even = _even(n)
    rows = [(scale, [LARGEST, LARGEST | MINUS]) for scale in (1, 0x3FF, 0x400, ONE, 0x4900, LARGEST)]
    yield _cases("scales from the smallest to the largest", config, even, rows)
    why = "all centroids zero, of either sign; outliers too"
    yield _cases(why, config, np.array([0, MINUS] * (n // 2)), [(ONE, [0, MINUS]), (LARGEST, [1, MINUS | 1])])
    rows = [(ONE, [ONE, MINUS | ONE]), (0x4248, [0x3555, 0xB555])]
    yield _cases("repeated centroids at both ends", config, np.array([MINUS | ONE, ONE]).repeat(n // 2), rows)
    words = [MINUS | 0x3A00, MINUS | 0x3600, 0x3600, 0x3A00] if n > 2 else [0x3A00]
    some = np.repeat(words, n // len(words))
    rows = [(scale, [scale, MINUS | scale]) for scale in (0x3C01, 0x3C03, 0x3E05, 0x4107, 0x4009, 0x380B)]
    yield _cases("scale times centroid halfway between two fp16 values", config, some, rows, "D-arith-2")


def random(config: Config, seed: Seeds) -> Blocks:
    drawn = uniform("index_function", config, (96,), seed)
    words = drawn["codebook"]
    why = "random centroids of magnitude up to 1, any scale"
    yield why, {**drawn, "codebook": (words & MINUS) | (words & 0x7FFF) % (ONE + 1)}


def _even(n: int) -> np.ndarray:
    """Centroids spread over [-1, 1]."""
    return patterns16(np.arange(1 - n, n, 2) / n)


def _cases(why: str, config: Config, codebook: np.ndarray, rows: Any, decision: str = "") -> Block:
    """One codebook at several scales, with outliers repeated to their port."""
    scales, outliers = zip(*rows, strict=True)
    count = find("index_function").ports(config).inputs[2].count
    inputs = {"codebook": np.tile(codebook, (len(rows), 1)), "scale": np.array(scales)}
    return why, inputs | {"outlier": repeated(outliers, count)}, decision


def legal(config: Config, inputs: Inputs) -> dict[str, np.ndarray]:
    """Centroids of magnitude up to 1, as if normalized: s * c stays finite."""
    words = inputs["codebook"]
    magnitude = words & 0x7FFF
    return {**inputs, "codebook": np.where(magnitude > ONE, (words & MINUS) | (magnitude % ONE), words)}
