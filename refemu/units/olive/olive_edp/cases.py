"""Golden cases of olive_edp. An outlier, normal values as in [olive §4.2]; the ends of 32 bits; random operations."""

from typing import Any

import numpy as np

from refemu import formats
from refemu.units import Config, find
from refemu.units.stimuli import Blocks, Inputs, Seeds, columns, uniform

HIGH, LOW = (1 << 31) - 1, -(1 << 31)
#: integers of outliers of A and of B in the first pairs, at the largest exponents, of 4-bit and of 8-bit pairs: sums of
#: their products are powers of two
POWERS = (
    (((2, 2), (2, 2)), ((2,) * 4, (2,) * 4), ((2,) * 8, (2,) * 8), ((3,) * 7 + (2,), (3,) * 6 + (2, 2))),
    (((8,), (8,)), ((8, 8), (8, 8)), ((8,) * 4, (8,) * 4), ((12, 12, 14, 14), (12, 12, 8, 8))),
)
#: codes of outliers of A and of B in turn, of 4-bit and of 8-bit pairs
SIDED = (
    ((1, 1, 1, 2, 5, 6, 7, 7, 9, 14, 15), (9, 1, 15, 14, 9, 6, 7, 15, 5, 2, 1)),
    ((1, 3, 7, 21, 43, 63, 127, 106, 149, 235, 255), (1, 130, 134, 255, 235, 149, 106, 127, 63, 43, 21)),
)
BIASES = ((0, 0), (5, 10), (12, 12))  #: biases of outliers on either side of every pair


def paper(config: Config) -> Blocks:
    (lanes, _), wide, biases = operands("olive_edp", config)
    why = "[olive §4.2] an outlier next to its victim, by two normal values, 5 and -3 in int4"
    yield why, _single(lanes, biases, (0x8040, 0xFD05, 0) if wide else (0x85, 0xD5, 0))


def edge(config: Config) -> Blocks:
    (lanes, _), wide, biases = operands("olive_edp", config)
    plus, minus = 0x01, {"int4": 0x0F, "flint4": 0x09, "int8": 0xFF, "int8_repo": 0xFF}[config["b"]]
    ends = [(plus, sign, c) for c in (HIGH, HIGH - 1, LOW, LOW + 1) for sign in (plus, minus)]
    yield "one step below, at and over either end of 32 bits", _single(lanes, biases, *ends), "D-olive-33"
    why = "1 and -1 in two neighbouring pairs: a sum in order from c on leaves 32 bits and comes back"
    ones = _there_and_back(lanes, plus, plus, minus)
    yield why, operation(*ones, *biases, np.repeat([HIGH, LOW], len(ones[0]) // 2)), "D-olive-34"
    why = "products beyond 32 bits that cancel in two neighbouring pairs: a sum in order leaves 32 bits and comes back"
    far = _there_and_back(lanes, *((0x807F, 0x807F, 0x80FF) if wide else (0x87, 0x87, 0x8F)))
    yield why, operation(*far, 12, 12, np.arange(len(far[0])) - 3), "D-olive-34"
    why = "a product of 2**31 that c brings back: products reduced to 32 bits before c overflow"
    left, right, bias = (0x8040, 0x8048, 4) if wide else (0x86, 0x84, 12)
    back = [(left, right, c) for c in (-1, -2, -(1 << 20), LOW)]
    yield why, _single(lanes, (bias, bias), *back), "D-olive-34"
    top, bottom = (0x8040, 0x80C0) if wide else (0x87, 0x8F)
    signs = [(left, right) for left in (top, bottom) for right in (top, bottom)]
    rows = np.array(signs)[:, :, None].repeat(lanes, axis=2)
    yield "the largest outliers in every pair, of either sign", operation(rows[:, 0], rows[:, 1], *biases, 7)
    why = "exact sums at and next to a power of two above 32 bits, all missed by an adder tree that is a bit short"
    yield why, _powers(lanes, wide), "D-olive-34"
    illegal = (0x80, 0x8000, 0x8080) if wide else (0x8, 0x80, 0x88)
    why = "an illegal pair contributes 0 and is flagged"
    yield why, _single(lanes, biases, *((pair, plus, 3) for pair in illegal)), "D-olive-18"
    tops = np.full((3, lanes), top)
    yield "biases at the end of their range", operation(tops, tops, [15, 0, 15], [15, 15, 0], 1), "D-olive-20"
    yield "outliers in the first or second values of all pairs, by others, at several biases", sided(lanes, wide)
    if wide:
        why = "three products that cancel, of which the first alone exceeds a power of two, at each of these"
        yield why, _cancelled(lanes), "D-olive-34"
        why = "an outlier of either operand by 1, with bits of the biases that are 0 in the rows before"
        yield why, _single(lanes, (10, 5), (0x8009, 1, 0), (1, 0x8009, 0))


def random(config: Config, seed: Seeds) -> Blocks:
    _, _, biases = operands("olive_edp", config)
    drawn = uniform("olive_edp", config, (16,), seed)
    yield "uniform pairs, biases and c", drawn
    real = operation(drawn["a_pairs"], drawn["b_pairs"], *biases, drawn["c"] >> 12)
    yield "uniform pairs at the formats' biases, c of 20 bits", real


def exhaustive(config: Config) -> Blocks:
    """All 2**16 pairs of pairs, from 0x05 by 0x85 on so that row 0 is not 0; lane l has those of A from 32 l on."""
    _, wide, biases = operands("olive_edp", config)
    if not wide:
        row = np.roll(np.arange(1 << 13), -0x0585)[:, None]
        a_pairs, b_pairs = np.broadcast_arrays((row >> 8) + 32 * np.arange(8), row & 255)
        why = "every pair of A by every pair of B, eight products of pairs in an operation"
        yield why, operation(a_pairs, b_pairs, *biases, 0)


def operands(unit: str, config: Config) -> tuple[tuple[int, int], bool, tuple[int, int]]:
    """Pairs of A and of B, whether elements have 8 bits, and biases of outliers of A and of B [olive §3.3]."""
    a, b, *_ = find(unit).ports(config).inputs
    pairs = (formats.find(port.encoding) for port in (a, b))
    bias_a, bias_b = (fmt.outlier.bias for fmt in pairs if isinstance(fmt, formats.Ovp) and fmt.outlier)
    return (a.count, b.count), a.bits == 16, (bias_a, bias_b)


def _cancelled(lanes: int) -> dict[str, np.ndarray]:
    """12 * 12 - 8 * 9 - 8 * 9 = 0, times each power of two from 2**24 to 2**60.

    A register of products that is too short for the first changes the sum.
    """
    powers = np.arange(24, 61)
    bias = np.minimum(powers // 2 - 1, 15)  # fields of at least 1: an outlier of 8 with field 0 is illegal
    fields = powers - 2 * bias
    pairs = np.zeros((2, len(powers), lanes), np.int64)
    for operand, (field, integers) in enumerate((((fields + 1) // 2, (12, -8, -8)), (fields // 2, (12, 9, 9)))):
        for lane, integer in enumerate(integers):
            pairs[operand, :, lane] = 0x8000 | (0x80 if integer < 0 else 0) | field << 3 | (abs(integer) & 7)
    return operation(pairs[0], pairs[1], bias, bias, 0)


def sided(lanes: int, wide: bool) -> dict[str, np.ndarray]:
    """Outliers by outliers on either side of every pair, at every pair of BIASES."""
    width = 8 if wide else 4
    mark = 1 << (width - 1)
    a, b = (
        np.array([*(code | mark << width for code in each), *(code << width | mark for code in each)])
        for each in SIDED[wide]
    )
    biases = np.repeat(BIASES, len(a), axis=0)
    a_pairs, b_pairs = (np.tile(words, len(BIASES))[:, None].repeat(lanes, axis=1) for words in (a, b))
    return operation(a_pairs, b_pairs, biases[:, 0], biases[:, 1], 0)


def _powers(lanes: int, wide: bool) -> dict[str, np.ndarray]:
    """Every sum of POWERS, of either sign, with c = 0, 1 and -1."""
    first = 0x8070 if wide else 0x84  # where the outlier of integer 0 would be
    pairs = np.zeros((2, len(POWERS[wide]), 2, 3, lanes), np.int64)
    for row, operands in enumerate(POWERS[wide]):
        for operand, integers in enumerate(operands):
            pairs[operand, row, :, :, : len(integers)] = [first + each for each in integers]
    pairs[0, :, 1] |= np.where(pairs[0, :, 1], 0x80 if wide else 0x8, 0)
    a_pairs, b_pairs = pairs.reshape(2, -1, lanes)
    return operation(a_pairs, b_pairs, *((4, 4) if wide else (12, 12)), np.tile([0, 1, -1], len(a_pairs) // 3))


def _there_and_back(lanes: int, factor: int, plus: int, minus: int) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of A and of B whose products cancel: positive in one pair and negative in the next, then the reverse."""
    first = np.arange(lanes - 1)
    pairs = np.zeros((2, 2 * len(first), lanes), np.int64)
    for rows, away, back in ((first, plus, minus), (first + len(first), minus, plus)):
        pairs[0, rows, first] = pairs[0, rows, first + 1] = factor
        pairs[1, rows, first], pairs[1, rows, first + 1] = away, back
    return pairs[0], pairs[1]


def _single(lanes: int, biases: tuple[int, int], *rows: tuple[int, int, int]) -> Inputs:
    """Operations of one pair each: rows of a pair of A, a pair of B and c; the other pairs are 0."""
    a, b, c = np.array(rows).T
    first = np.arange(lanes) == 0
    return operation(a[:, None] * first, b[:, None] * first, *biases, c)


def operation(a_pairs: np.ndarray, b_pairs: np.ndarray, bias_a: Any, bias_b: Any, c: Any) -> dict[str, np.ndarray]:
    """Operations by port; a bias or c of all of them may be one number."""
    return columns(a_pairs=a_pairs, b_pairs=b_pairs, bias_a=bias_a, bias_b=bias_b, c=c)
