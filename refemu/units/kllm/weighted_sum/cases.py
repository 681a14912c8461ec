"""Golden cases of weighted_sum: worked columns of [kllm §III-B1], counts over eleven bits, cancellation, overflow."""

from collections.abc import Sequence

import numpy as np

from refemu.units import Config
from refemu.units.stimuli import Blocks, Inputs, Seeds, first_of_each, uniform

#: products of (-0.5, 0.75) by (-1, -.25, .25, 1)
PRODUCTS = [0x3800, 0x3000, 0xB000, 0xB800, 0xBA00, 0xB200, 0x3200, 0x3A00]
CENTROIDS = [0xBC00, 0xB400, 0x3400, 0x3C00]


def paper(config: Config) -> Blocks:
    why = "[kllm §III-B1, Fig. 3a] counts 1 0 1 2 1 2 1 0 of eight products: -1.5625"
    yield why, _inputs(config, [[1, 0, 1, 2, 1, 2, 1, 0]], [PRODUCTS])
    yield "[kllm §III-B2, Fig. 3b] counts 0 3 3 6 of four centroids: 6", _inputs(config, [[0, 3, 3, 6]], [CENTROIDS])


def edge(config: Config) -> Blocks:
    around = _inputs(config, [[2047, 2048, 2049, 2050, 2051, 4095, 4096, 4097]], [PRODUCTS])
    yield "counts around 2048 and 4096, above which fp16 has no odd numbers", around, "D-kllm-4"
    count = [[65503, 0], [65519, 0], [65520, 0], [65535, 0], [65535, 1]]
    large = _inputs(config, count, [[0x0001, 0]] * 4 + [[0, 0x3C00]])
    yield "counts of the largest finite fp16 value, or infinite in fp16", large, "D-kllm-4"
    back = _inputs(config, [[3, 3, 0, 0], [1, 1, 2, 0], [2, 2, 0, 0]], [[0x7BFF, 0xFBFF, 0, 0]] * 3)
    yield "a sum that exceeds fp16 on the way, and one that comes back", back, "D-kllm-3"
    cancelled = _inputs(config, [[100, 1, 100, 0]], [[0x5640, 0x1234, 0xD640, 0]])
    yield "large entries cancel and leave what rounding lost", cancelled, "D-kllm-2"
    small = _inputs(config, [[0, 0], [1, 3]], [[0x3C00, 0xBC00], [1, 0x8003]])
    yield "no count at all; subnormal entries", small


def random(config: Config, seed: Seeds) -> Blocks:
    size = 1 << config["bits"]
    rows = max(16, 256 >> max(config["bits"] - 2, 0))
    drawn = uniform("weighted_sum", config, (rows,), seed)
    small = drawn["codebook"] & 0x83FF | 0x2C00 + (drawn["codebook"] & 0xC00)
    why = "counts of a row of 4096, entries like products of centroids"
    yield why, {"count": drawn["count"] * 8192 // size >> 16, "codebook": small}
    yield "uniform words: most sums overflow", first_of_each(drawn, rows, 8)


def _inputs(config: Config, count: Sequence[Sequence[int]], codebook: Sequence[Sequence[int]]) -> Inputs:
    """Rows that begin as given, cut to the size of a codebook; the rest have counts of 0 and entries of 1.0."""
    size = 1 << config["bits"]
    counts, words = (np.array(rows)[:, :size] for rows in (count, codebook))
    after = ((0, 0), (0, size - counts.shape[1]))
    return {"count": np.pad(counts, after), "codebook": np.pad(words, after, constant_values=0x3C00)}
