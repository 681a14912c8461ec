"""Golden cases of weighted_sum: worked columns of [kllm §III-B1], counts over eleven bits, cancellation, overflow."""

from collections.abc import Sequence

import numpy as np

from refemu.units import Config
from refemu.units.stimuli import Block, Blocks, Seeds, first_of_each, uniform

#: products of (-0.5, 0.75) by (-1, -.25, .25, 1)
PRODUCTS = [0x3800, 0x3000, 0xB000, 0xB800, 0xBA00, 0xB200, 0x3200, 0x3A00]
CENTROIDS = [0xBC00, 0xB400, 0x3400, 0x3C00]


def paper(config: Config) -> Blocks:
    size = 1 << config["bits"]
    why = "[kllm §III-B1, Fig. 3a] counts 1 0 1 2 1 2 1 0 of eight products: -1.5625"
    yield _case(why, size, [[1, 0, 1, 2, 1, 2, 1, 0]], [PRODUCTS])
    yield _case("[kllm §III-B2, Fig. 3b] counts 0 3 3 6 of four centroids: 6", size, [[0, 3, 3, 6]], [CENTROIDS])


def edge(config: Config) -> Blocks:
    size = 1 << config["bits"]
    around = [2047, 2048, 2049, 2050, 2051, 4095, 4096, 4097]
    why = "counts around 2048 and 4096, above which fp16 has no odd numbers"
    yield _case(why, size, [around], [PRODUCTS], "D-kllm-4")
    count = [[65503, 0], [65519, 0], [65520, 0], [65535, 0], [65535, 1]]
    codebook = [[0x0001, 0]] * 4 + [[0, 0x3C00]]
    yield _case("counts of the largest finite fp16 value, or infinite in fp16", size, count, codebook, "D-kllm-4")
    why = "a sum that exceeds fp16 on the way, and one that comes back"
    yield _case(why, size, [[3, 3, 0, 0], [1, 1, 2, 0], [2, 2, 0, 0]], [[0x7BFF, 0xFBFF, 0, 0]] * 3, "D-kllm-3")
    why = "large entries cancel and leave what rounding lost"
    yield _case(why, size, [[100, 1, 100, 0]], [[0x5640, 0x1234, 0xD640, 0]], "D-kllm-2")
    yield _case("no count at all; subnormal entries", size, [[0, 0], [1, 3]], [[0x3C00, 0xBC00], [1, 0x8003]])


def random(config: Config, seed: Seeds) -> Blocks:
    size = 1 << config["bits"]
    rows = max(16, 256 >> max(config["bits"] - 2, 0))
    drawn = uniform("weighted_sum", config, (rows,), seed)
    small = drawn["codebook"] & 0x83FF | 0x2C00 + (drawn["codebook"] & 0xC00)
    why = "counts of a row of 4096, entries like products of centroids"
    yield why, {"count": drawn["count"] * 8192 // size >> 16, "codebook": small}
    yield "uniform words: most sums overflow", first_of_each(drawn, rows, 8)


def _case(
    why: str, size: int, count: Sequence[Sequence[int]], codebook: Sequence[Sequence[int]], decision: str = ""
) -> Block:
    """Rows of `size` entries that begin as given, cut to size; the rest have counts of 0 and entries of 1.0."""
    counts, words = np.zeros((len(count), size), np.int64), np.full((len(count), size), 0x3C00)
    for row, (numbers, entries) in enumerate(zip(count, codebook, strict=True)):
        width = min(len(numbers), size)
        counts[row, :width], words[row, :width] = numbers[:width], entries[:width]
    return why, {"count": counts, "codebook": words}, decision
