"""Golden cases of olive_systolic. An outlier of [olive §4.2] in every row; the ends of 32 bits; random matrices.

This module describes stimuli only; the descriptor, and with it every answer, is in olive_systolic.py.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from refemu.units.unit import Cases, Config, Port
from refemu.units.unit_cases import Seeds, random_inputs

BIAS = {"int4": 2, "flint4": 3, "int8": 4}  #: bias of the outliers beside each type [olive §3.3]


def cases(config: Config, ports: tuple[Port, ...], kind: str, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind for one configuration, whose input ports are `ports`."""
    wide, biases = config["a"] == "int8", (BIAS[config["a"]], BIAS[config["b"]])
    outlier, ones, top = (0x8040, 0x0101, 0x8040) if wide else (0x85, 0x11, 0x87)
    lanes = ports[0].lanes, ports[1].lanes
    if kind == "paper":
        a = np.where(np.arange(lanes[0]) % (config["k"] // 2) == 0, outlier, 0)[None]
        yield Cases(
            kind,
            "[olive §4.2] an outlier at the head of every row of A, B counts",
            _inputs(a, (np.arange(lanes[1]) % 7 + 1)[None], *biases),
        )
    if kind == "edge":
        a, b = (np.full((2, count), top) for count in lanes)
        b[1] += 0x80 if wide else 8
        yield Cases(
            kind,
            "the largest outliers everywhere, of either sign: in 8 bits over the end of 32 bits",
            _inputs(a, b, *biases),
            "D-olive-33",
        )
        far = 15 if wide else 12
        yield Cases(
            kind, "the same at the largest bias whose exponents fit their port", _inputs(a, b, far, far), "D-olive-33"
        )
        bad = np.where(np.arange(lanes[0]) == lanes[0] - 1, 0x8000 if wide else 0x80, ones)[None]
        yield Cases(
            kind, "one illegal pair, the last of A", _inputs(bad, np.full((1, lanes[1]), ones), *biases), "D-olive-18"
        )
        zeros = [np.zeros((1, count), np.int64) for count in lanes]
        yield Cases(kind, "matrices of zeros", _inputs(zeros[0], zeros[1], *biases))
        pair = (0x8040, 0x4080) if wide else (0x85, 0x58)  # O-V, then V-O and O-V meet at a border
        a, b = (np.where(np.arange(count) % 2 == 0, pair[1], pair[0])[None] for count in lanes)
        yield Cases(kind, "outliers on both sides of every other pair border", _inputs(a, b, *biases))
    if kind == "random":
        drawn = random_inputs("olive_systolic", ports, (16,), seed)
        yield Cases(kind, "uniform pairs at the formats' biases", _inputs(drawn["a_pairs"], drawn["b_pairs"], *biases))
        yield Cases(kind, "uniform pairs and biases", drawn)


def _inputs(a_pairs: np.ndarray, b_pairs: np.ndarray, bias_a: int, bias_b: int) -> dict[str, np.ndarray]:
    count = np.zeros(len(a_pairs), np.int64)
    return {"a_pairs": a_pairs, "b_pairs": b_pairs, "bias_a": count + bias_a, "bias_b": count + bias_b}


def mark(config: Config, inputs: Mapping[str, np.ndarray], result: Any) -> dict[str, np.ndarray]:
    """Which rows carry which flag."""
    return {"OVERFLOW": result.overflow.any(axis=-1), "ILLEGAL": result.illegal}
