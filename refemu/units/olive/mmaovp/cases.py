"""Golden cases of mmaovp. An outlier of [olive §4.2] in every row of the tile; the ends of 32 bits; random tiles."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from refemu.units import Cases, Config, Kind, find
from refemu.units.olive.olive_edp.cases import outlier_biases
from refemu.units.stimuli import Seeds, random_inputs

HIGH, LOW = (1 << 31) - 1, -(1 << 31)


def cases(config: Config, kind: Kind, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind for one configuration."""
    ports = find("mmaovp").ports(config).inputs
    lanes, wide = ports[0].count, config["a_type"].startswith("ovpi8")
    biases = outlier_biases(ports)
    outlier, ones = (0x8040, 0x0101) if wide else (0x85, 0x11)
    if kind == "paper":
        a = np.zeros((1, lanes), np.int64)
        a[:, :: lanes // 8] = outlier
        why = "[olive §4.2] an outlier at the head of every row of A, B all ones, C its index"
        yield Cases(kind, why, _inputs(a, np.full((1, lanes), ones), *biases, np.arange(64)[None]))
    if kind == "edge":
        unit = np.zeros((4, lanes), np.int64)
        unit[:, 0] = ones & 0x0F
        c = np.resize([HIGH, HIGH - 1, LOW, LOW + 1], (4, 64))
        yield Cases(kind, "C at the ends of 32 bits, and 1 added", _inputs(unit, unit, *biases, c), "D-olive-33")
        top = np.full((2, lanes), 0x8040 if wide else 0x87)
        signs = np.stack([top[0], top[0] + (0x80 if wide else 8)])
        why = "the largest outliers everywhere, added and subtracted"
        yield Cases(kind, why, _inputs(top, signs, *biases, np.ones((2, 64), np.int64)))
        single = np.zeros((12, lanes), np.int64)
        single[:, :: lanes // 8] = ones & 0x0F
        place, bit = np.arange(64), np.arange(12)[:, None]
        c = np.where((place >> bit // 2 & 1) == bit % 2, HIGH, place - 32)
        why = "elements that leave 32 bits by the bits of their position, so that no two are alike"
        yield Cases(kind, why, _inputs(single, single, *biases, c), "D-olive-33")
        mark = np.where(np.arange(lanes) == lanes - 1, 0x0080 if wide else 0x08, ones)[None]
        why = "one illegal pair, the last of A"
        yield Cases(kind, why, _inputs(mark, mark * 0 + ones, *biases, np.zeros((1, 64), np.int64)), "D-olive-18")
        why = "biases beyond 7, which a signed reading would take as negative"
        yield Cases(kind, why, _inputs(top, top, [8, 15], [15, 8], np.zeros((2, 64), np.int64)), "D-olive-21")
        zero = np.zeros((1, lanes), np.int64)
        yield Cases(kind, "tiles of zeros: D is C", _inputs(zero, zero, *biases, c[:1]))
        border = np.where(np.arange(lanes) % 2 == 0, 0x4080 if wide else 0x58, outlier)[None]  # V-O, O-V, V-O, ...
        why = "outliers on both sides of every pair border"
        yield Cases(kind, why, _inputs(border, border, *biases, np.zeros((1, 64), np.int64)))
        minus = {"ovpi4": 0x0F, "ovpf4": 0x09, "ovpi8": 0xFF, "ovpi8_repo": 0xFF}[config["b_type"]]
        c = np.resize([[HIGH, LOW], [LOW, HIGH]], (4, 64))
        why = "1 and -1 in two neighbouring pairs: a sum in order from C on leaves 32 bits and comes back"
        yield Cases(kind, why, _inputs(*_there_and_back(lanes, 1, 1, minus), *biases, c), "D-olive-34")
        why = "products beyond 32 bits that cancel in two neighbouring pairs: a sum in order leaves 32 bits"
        far = (0x807F, 0x807F, 0x80FF) if wide else (0x87, 0x87, 0x8F)
        yield Cases(kind, why, _inputs(*_there_and_back(lanes, *far), 12, 12, c >> 12), "D-olive-34")
        left, right, bias = (0x8040, 0x8048, 4) if wide else (0x86, 0x84, 12)
        heads = np.arange(lanes) % (lanes // 8) == np.array([0, lanes // 16, lanes // 8 - 1])[:, None]
        c = np.resize([-1, -2, -(1 << 20), LOW], (3, 64))
        why = "a product of 2**31 that C brings back: products reduced to 32 bits before C overflow"
        yield Cases(kind, why, _inputs(heads * left, heads * right, bias, bias, c), "D-olive-34")
        if wide:
            place, row = np.arange(lanes), lanes // 8
            sizes = np.where(place % row == 0, 0x8001 + place // row % 6, 0)[None]
            why = "outliers of six sizes at the heads of rows of A and columns of B"
            yield Cases(kind, why, _inputs(sizes, sizes, 10, 11, np.zeros((1, 64), np.int64)))
    if kind == "random":
        drawn = random_inputs("mmaovp", ports, (4,), seed)
        why = "uniform pairs at the formats' biases, C of 20 bits"
        yield Cases(kind, why, _inputs(drawn["a_pairs"], drawn["b_pairs"], *biases, drawn["c"] >> 12))
        yield Cases(kind, "uniform pairs, biases and C", drawn)


def _there_and_back(lanes: int, factor: int, plus: int, minus: int) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of A and of B, 4 tiles: products up and down, or down and up, at the start of either half of each row."""
    pairs, row = np.zeros((2, 4, lanes), np.int64), lanes // 8
    for tile, (start, away, back) in enumerate((s, *p) for s in (0, row // 2) for p in ((plus, minus), (minus, plus))):
        pairs[0, tile, start::row] = pairs[0, tile, start + 1 :: row] = factor
        pairs[1, tile, start::row], pairs[1, tile, start + 1 :: row] = away, back
    return pairs[0], pairs[1]


def _inputs(a_pairs: np.ndarray, b_pairs: np.ndarray, bias_a: Any, bias_b: Any, c: np.ndarray) -> dict[str, np.ndarray]:
    count = np.zeros(len(a_pairs), np.int64)
    return {"a_pairs": a_pairs, "b_pairs": b_pairs, "bias_a": count + bias_a, "bias_b": count + bias_b, "c": c}


def mark(config: Config, inputs: Mapping[str, np.ndarray], result: Any) -> dict[str, np.ndarray]:
    """Rows of each flag."""
    return {
        "OVERFLOW": result.overflow.any(axis=-1),
        "ILLEGAL": result.illegal,
        "UNSPECIFIED": (np.asarray(inputs["bias_a"]) > 7) | (np.asarray(inputs["bias_b"]) > 7),
    }
