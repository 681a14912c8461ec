"""Golden cases of mmaovp. An outlier of [olive §4.2] in every row of the tile; the ends of 32 bits; random tiles."""

from typing import Any

import numpy as np

from refemu.units import Config
from refemu.units.olive.olive_edp.cases import operands, operation
from refemu.units.stimuli import Blocks, Inputs, Seeds, uniform

HIGH, LOW = (1 << 31) - 1, -(1 << 31)


def paper(config: Config) -> Blocks:
    (lanes, _), wide, biases = operands("mmaovp", config)
    outlier, ones = (0x8040, 0x0101) if wide else (0x85, 0x11)
    a = np.where(np.arange(lanes) % (lanes // 8) == 0, outlier, 0)[None]
    why = "[olive §4.2] an outlier at the head of every row of A, B all ones, C its index"
    yield why, operation(a, np.full((1, lanes), ones), *biases, np.arange(64)[None])


def edge(config: Config) -> Blocks:
    (lanes, _), wide, biases = operands("mmaovp", config)
    outlier, ones = (0x8040, 0x0101) if wide else (0x85, 0x11)
    place, none = np.arange(lanes), np.zeros((1, 64), np.int64)
    unit = np.tile(place == 0, (4, 1)) * 1
    c = np.resize([HIGH, HIGH - 1, LOW, LOW + 1], (4, 64))
    yield "C at the ends of 32 bits, and 1 added", operation(unit, unit, *biases, c), "D-olive-33"
    top = np.full((2, lanes), 0x8040 if wide else 0x87)
    signs = np.stack([top[0], top[0] + (0x80 if wide else 8)])
    yield "the largest outliers everywhere, added and subtracted", operation(top, signs, *biases, none.repeat(2, 0) + 1)
    single = np.tile(place % (lanes // 8) == 0, (12, 1)) * 1
    element, bit = np.arange(64), np.arange(12)[:, None]
    c = np.where((element >> bit // 2 & 1) == bit % 2, HIGH, element - 32)
    why = "elements that leave 32 bits by the bits of their position, so that no two are alike"
    yield why, operation(single, single, *biases, c), "D-olive-33"
    last = np.where(place == lanes - 1, 0x0080 if wide else 0x08, ones)[None]
    yield "one illegal pair, the last of A", operation(last, last * 0 + ones, *biases, none), "D-olive-18"
    why = "biases beyond 7, which a signed reading would take as negative"
    yield why, operation(top, top, [8, 15], [15, 8], none.repeat(2, 0)), "D-olive-21"
    yield "tiles of zeros: D is C", operation(last * 0, last * 0, *biases, c[:1])
    border = np.where(place % 2 == 0, 0x4080 if wide else 0x58, outlier)[None]  # V-O, O-V, V-O, ...
    yield "outliers on both sides of every pair border", operation(border, border, *biases, none)
    minus = {"ovpi4": 0x0F, "ovpf4": 0x09, "ovpi8": 0xFF, "ovpi8_repo": 0xFF}[config["b_type"]]
    c = np.resize([[HIGH, LOW], [LOW, HIGH]], (4, 64))
    why = "1 and -1 in two neighbouring pairs: a sum in order from C on leaves 32 bits and comes back"
    yield why, operation(*_there_and_back(lanes, 1, 1, minus), *biases, c), "D-olive-34"
    why = "products beyond 32 bits that cancel in two neighbouring pairs: a sum in order leaves 32 bits"
    far = (0x807F, 0x807F, 0x80FF) if wide else (0x87, 0x87, 0x8F)
    yield why, operation(*_there_and_back(lanes, *far), 12, 12, c >> 12), "D-olive-34"
    left, right, bias = (0x8040, 0x8048, 4) if wide else (0x86, 0x84, 12)
    heads = place % (lanes // 8) == np.array([0, lanes // 16, lanes // 8 - 1])[:, None]
    c = np.resize([-1, -2, -(1 << 20), LOW], (3, 64))
    why = "a product of 2**31 that C brings back: products reduced to 32 bits before C overflow"
    yield why, operation(heads * left, heads * right, bias, bias, c), "D-olive-34"
    if wide:
        sizes = np.where(place % (lanes // 8) == 0, 0x8001 + place // (lanes // 8) % 6, 0)[None]
        why = "outliers of six sizes at the heads of rows of A and columns of B"
        yield why, operation(sizes, sizes, 10, 11, none)


def random(config: Config, seed: Seeds) -> Blocks:
    _, _, biases = operands("mmaovp", config)
    drawn = uniform("mmaovp", config, (4,), seed)
    why = "uniform pairs at the formats' biases, C of 20 bits"
    yield why, operation(drawn["a_pairs"], drawn["b_pairs"], *biases, drawn["c"] >> 12)
    yield "uniform pairs, biases and C", drawn


def _there_and_back(lanes: int, factor: int, plus: int, minus: int) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of A and of B, 4 tiles: products up and down, or down and up, at the start of either half of each row."""
    pairs, row = np.zeros((2, 4, lanes), np.int64), lanes // 8
    for tile, (start, away, back) in enumerate((s, *p) for s in (0, row // 2) for p in ((plus, minus), (minus, plus))):
        pairs[0, tile, start::row] = pairs[0, tile, start + 1 :: row] = factor
        pairs[1, tile, start::row], pairs[1, tile, start + 1 :: row] = away, back
    return pairs[0], pairs[1]


def mark(config: Config, inputs: Inputs, result: Any) -> dict[str, np.ndarray]:
    return {
        "OVERFLOW": result.overflow.any(axis=-1),
        "ILLEGAL": result.illegal,
        "UNSPECIFIED": (np.asarray(inputs["bias_a"]) > 7) | (np.asarray(inputs["bias_b"]) > 7),
    }
