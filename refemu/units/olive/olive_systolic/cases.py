"""Golden cases of olive_systolic. An outlier of [olive §4.2] in every row; the ends of 32 bits; random matrices."""

from collections.abc import Iterator

import numpy as np

from refemu.units import Cases, Config, Kind, find
from refemu.units.olive.olive_edp.cases import outlier_biases
from refemu.units.stimuli import Seeds, random_inputs


def cases(config: Config, kind: Kind, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind for one configuration."""
    ports = find("olive_systolic").ports(config).inputs
    wide, biases = config["a"].startswith("int8"), outlier_biases(ports)
    outlier, ones, top = (0x8040, 0x0101, 0x8040) if wide else (0x85, 0x11, 0x87)
    lanes = ports[0].count, ports[1].count
    if kind == "paper":
        a = np.where(np.arange(lanes[0]) % (config["k"] // 2) == 0, outlier, 0)[None]
        why = "[olive §4.2] an outlier at the head of every row of A, B counts"
        yield Cases(kind, why, _inputs(a, (np.arange(lanes[1]) % 7 + 1)[None], *biases))
    if kind == "edge":
        a, b = (np.full((2, count), top) for count in lanes)
        b[1] += 0x80 if wide else 8
        why = "the largest outliers everywhere, of either sign: 8-bit sums exceed 32 bits"
        yield Cases(kind, why, _inputs(a, b, *biases), "D-olive-33")
        far = 15 if wide else 12
        yield Cases(
            kind, "the same at the largest bias whose exponents fit their port", _inputs(a, b, far, far), "D-olive-33"
        )
        if not wide:
            for bias in (13, 14, 15):
                a, b = (np.where(np.arange(count) == 0, outlier, 0)[None] for count in lanes)
                b[:] = ones
                why = f"one outlier at bias {bias}, whose exponent leaves 4 bits"
                yield Cases(kind, why, _inputs(a, b, bias, 0), "D-olive-20")
        yield Cases(kind, "one element at a time beyond 32 bits", _each_element(config, lanes, top), "D-olive-33")
        bad = np.where(np.arange(lanes[0]) == lanes[0] - 1, 0x8000 if wide else 0x80, ones)[None]
        yield Cases(
            kind, "one illegal pair, the last of A", _inputs(bad, np.full((1, lanes[1]), ones), *biases), "D-olive-18"
        )
        zeros = [np.zeros((1, count), np.int64) for count in lanes]
        yield Cases(kind, "matrices of zeros", _inputs(zeros[0], zeros[1], *biases))
        pair = (0x8040, 0x4080) if wide else (0x85, 0x58)  # O-V, then V-O and O-V meet at a border
        a, b = (np.where(np.arange(count) % 2 == 0, pair[1], pair[0])[None] for count in lanes)
        yield Cases(kind, "outliers on both sides of every other pair border", _inputs(a, b, *biases))
        pairs, first = config["k"] // 2, 0x8001 if wide else 0x81
        a, b = (
            np.where(np.arange(count) % pairs == 0, first + np.arange(count) // pairs % 6, 0)[None] for count in lanes
        )
        yield Cases(kind, "outliers of six sizes at the heads of rows of A and columns of B", _inputs(a, b, 10, 11))
    if kind == "random":
        drawn = random_inputs("olive_systolic", ports, (16,), seed)
        yield Cases(kind, "uniform pairs at the formats' biases", _inputs(drawn["a_pairs"], drawn["b_pairs"], *biases))
        yield Cases(kind, "uniform pairs and biases", drawn)


def _each_element(config: Config, lanes: tuple[int, int], top: int) -> dict[str, np.ndarray]:
    """One row of A and one column of B of largest outliers: their product overflows, all others are 0."""
    pairs = config["k"] // 2
    places = [(i, j) for i in range(config["m"]) for j in range(config["n"])]
    a, b = (np.zeros((len(places), count), np.int64) for count in lanes)
    for row, (i, j) in enumerate(places):
        a[row, i * pairs : (i + 1) * pairs] = top
        b[row, j * pairs : (j + 1) * pairs] = top
    bias = 15 if config["a"].startswith("int8") else 12
    return _inputs(a, b, bias, bias)


def _inputs(a_pairs: np.ndarray, b_pairs: np.ndarray, bias_a: int, bias_b: int) -> dict[str, np.ndarray]:
    count = np.zeros(len(a_pairs), np.int64)
    return {"a_pairs": a_pairs, "b_pairs": b_pairs, "bias_a": count + bias_a, "bias_b": count + bias_b}
