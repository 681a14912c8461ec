"""Golden cases of olive_systolic. An outlier of [olive §4.2] in every row; the ends of 32 bits; random matrices."""

import numpy as np

from refemu.units import Config
from refemu.units.olive.olive_edp.cases import operands
from refemu.units.stimuli import Blocks, Seeds, columns, uniform


def paper(config: Config) -> Blocks:
    lanes, wide, biases = operands("olive_systolic", config)
    outlier = 0x8040 if wide else 0x85
    a = np.where(np.arange(lanes[0]) % (config["k"] // 2) == 0, outlier, 0)[None]
    why = "[olive §4.2] an outlier at the head of every row of A, B counts"
    yield why, _inputs(a, (np.arange(lanes[1]) % 7 + 1)[None], *biases)


def edge(config: Config) -> Blocks:
    lanes, wide, biases = operands("olive_systolic", config)
    outlier, ones, top, far = (0x8040, 0x0101, 0x8040, 15) if wide else (0x85, 0x11, 0x87, 12)
    a, b = (np.full((2, count), top) for count in lanes)
    b[1] += 0x80 if wide else 8
    why = "the largest outliers everywhere, of either sign: 8-bit sums exceed 32 bits"
    yield why, _inputs(a, b, *biases), "D-olive-33"
    yield "the same at the largest bias whose exponents fit their port", _inputs(a, b, far, far), "D-olive-33"
    if not wide:
        for bias in (13, 14, 15):
            a, b = (np.where(np.arange(count) == 0, outlier, 0)[None] for count in lanes)
            b[:] = ones
            yield f"one outlier at bias {bias}, whose exponent leaves 4 bits", _inputs(a, b, bias, 0), "D-olive-20"
    # one row of A and one column of B of largest outliers: their product overflows, all others are 0
    row, column = np.indices((config["m"], config["n"])).reshape(2, -1, 1)
    a, b = (
        top * (np.arange(count) // (config["k"] // 2) == at) for count, at in zip(lanes, (row, column), strict=True)
    )
    yield "one element at a time beyond 32 bits", _inputs(a, b, far, far), "D-olive-33"
    bad = np.where(np.arange(lanes[0]) == lanes[0] - 1, 0x8000 if wide else 0x80, ones)[None]
    yield "one illegal pair, the last of A", _inputs(bad, np.full((1, lanes[1]), ones), *biases), "D-olive-18"
    yield "matrices of zeros", _inputs(bad * 0, np.zeros((1, lanes[1]), np.int64), *biases)
    pair = (0x8040, 0x4080) if wide else (0x85, 0x58)  # O-V, then V-O and O-V meet at a border
    a, b = (np.where(np.arange(count) % 2 == 0, pair[1], pair[0])[None] for count in lanes)
    yield "outliers on both sides of every other pair border", _inputs(a, b, *biases)
    pairs, first = config["k"] // 2, 0x8001 if wide else 0x81
    a, b = (np.where(np.arange(count) % pairs == 0, first + np.arange(count) // pairs % 6, 0)[None] for count in lanes)
    yield "outliers of six sizes at the heads of rows of A and columns of B", _inputs(a, b, 10, 11)


def random(config: Config, seed: Seeds) -> Blocks:
    _, _, biases = operands("olive_systolic", config)
    drawn = uniform("olive_systolic", config, (16,), seed)
    yield "uniform pairs at the formats' biases", _inputs(drawn["a_pairs"], drawn["b_pairs"], *biases)
    yield "uniform pairs and biases", drawn


def _inputs(a_pairs: np.ndarray, b_pairs: np.ndarray, bias_a: int, bias_b: int) -> dict[str, np.ndarray]:
    return columns(a_pairs=a_pairs, b_pairs=b_pairs, bias_a=bias_a, bias_b=bias_b)
