"""Golden cases of olive_edp. An outlier, normal values as in [olive §4.2]; the ends of 32 bits; random operations."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from refemu import formats
from refemu.units import Cases, Config, Kind, Port, find
from refemu.units.stimuli import Seeds, random_inputs

HIGH, LOW = (1 << 31) - 1, -(1 << 31)
#: integers of outliers of A and of B in the first pairs, at the largest exponents, of 4-bit and of 8-bit pairs: sums of
#: their products are powers of two
POWERS = (
    (((2, 2), (2, 2)), ((2,) * 4, (2,) * 4), ((2,) * 8, (2,) * 8), ((3,) * 7 + (2,), (3,) * 6 + (2, 2))),
    (((8,), (8,)), ((8, 8), (8, 8)), ((8,) * 4, (8,) * 4), ((12, 12, 14, 14), (12, 12, 8, 8))),
)
BIASES = ((0, 0), (5, 10), (12, 12))  #: biases of outliers on either side of every pair


def cases(config: Config, kind: Kind, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind for one configuration."""
    ports = find("olive_edp").ports(config).inputs
    biases = outlier_biases(ports)
    if kind == "paper":
        first = 0x8040 if config["a"].startswith("int8") else 0x85
        why = "[olive §4.2] an outlier next to its victim, by two normal values, 5 and -3 in int4"
        yield _cases(kind, why, ports, [(first, 0xFD05 if config["a"].startswith("int8") else 0xD5, 0)], biases)
    if kind == "edge":
        yield from _edge(config, ports, biases)
    if kind == "random":
        yield from _random(ports, biases, seed)
    if kind == "exhaustive" and not config["a"].startswith("int8"):
        yield _sweep(biases)


def outlier_biases(ports: tuple[Port, ...]) -> tuple[int, int]:
    """Biases of outliers that go with the types of both operands, whose ports come first [olive §3.3]."""
    pairs = (formats.find(port.encoding) for port in ports[:2])
    a, b = (fmt.outlier.bias for fmt in pairs if isinstance(fmt, formats.Ovp) and fmt.outlier)
    return a, b


def _edge(config: Config, ports: tuple[Port, ...], biases: tuple[int, int]) -> Iterator[Cases]:
    wide = config["a"].startswith("int8")
    plus, minus = 0x01, {"int4": 0x0F, "flint4": 0x09, "int8": 0xFF, "int8_repo": 0xFF}[config["b"]]
    ends = [(plus, sign, c) for c in (HIGH, HIGH - 1, LOW, LOW + 1) for sign in (plus, minus)]
    yield _cases("edge", "one step below, at and over either end of 32 bits", ports, ends, biases, "D-olive-33")
    why = "1 and -1 in two neighbouring pairs: a sum in order from c on leaves 32 bits and comes back"
    ones = _there_and_back(ports[0].count, plus, plus, minus)
    yield Cases("edge", why, _inputs(*ones, *biases, np.repeat([HIGH, LOW], len(ones[0]) // 2)), "D-olive-34")
    why = "products beyond 32 bits that cancel in two neighbouring pairs: a sum in order leaves 32 bits and comes back"
    far = _there_and_back(ports[0].count, *((0x807F, 0x807F, 0x80FF) if wide else (0x87, 0x87, 0x8F)))
    yield Cases("edge", why, _inputs(*far, 12, 12, np.arange(len(far[0])) - 3), "D-olive-34")
    why = "a product of 2**31 that c brings back: products reduced to 32 bits before c overflow"
    left, right, bias = (0x8040, 0x8048, 4) if wide else (0x86, 0x84, 12)
    back = [(left, right, c) for c in (-1, -2, -(1 << 20), LOW)]
    yield _cases("edge", why, ports, back, (bias, bias), "D-olive-34")
    top, bottom = (0x8040, 0x80C0) if wide else (0x87, 0x8F)
    signs = [(left, right) for left in (top, bottom) for right in (top, bottom)]
    rows = np.array(signs)[:, :, None].repeat(ports[0].count, axis=2)
    yield Cases(
        "edge", "the largest outliers in every pair, of either sign", _inputs(rows[:, 0], rows[:, 1], *biases, 7)
    )
    why = "exact sums at and next to a power of two above 32 bits, all missed by an adder tree that is a bit short"
    yield Cases("edge", why, _powers(ports[0].count, wide), "D-olive-34")
    mark = 0x80 if wide else 0x8
    illegal = [mark, mark << (8 if wide else 4), mark | mark << (8 if wide else 4)]
    why = "an illegal pair contributes 0 and is flagged"
    yield _cases("edge", why, ports, [(pair, plus, 3) for pair in illegal], biases, "D-olive-18")
    tops = np.full((3, ports[0].count), top)
    yield Cases(
        "edge", "biases at the end of their range", _inputs(tops, tops, [15, 0, 15], [15, 15, 0], 1), "D-olive-20"
    )
    why = "outliers in the first or second values of all pairs, by others, at several biases"
    yield Cases("edge", why, sided(ports[0].count, wide))
    if wide:
        why = "three products that cancel, of which the first alone exceeds a power of two, at each of these"
        yield Cases("edge", why, _cancelled(ports[0].count), "D-olive-34")
        why = "an outlier of either operand by 1, with bits of the biases that are 0 in the rows before"
        yield _cases("edge", why, ports, [(0x8009, 1, 0), (1, 0x8009, 0)], (10, 5))


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
    return _inputs(pairs[0], pairs[1], bias, bias, 0)


def sided(lanes: int, wide: bool) -> dict[str, np.ndarray]:
    """Outliers by outliers on either side of every pair, at every pair of BIASES."""
    codes = (1, 3, 7, 0x15, 0x2B, 0x3F, 0x7F, 0x6A, 0x95, 0xEB, 0xFF) if wide else (1, 1, 1, 2, 5, 6, 7, 7, 9, 14, 15)
    by = (
        (1, 0x82, 0x86, 0xFF, 0xEB, 0x95, 0x6A, 0x7F, 0x3F, 0x2B, 0x15)
        if wide
        else (9, 1, 15, 14, 9, 6, 7, 15, 5, 2, 1)
    )
    width = 8 if wide else 4
    mark = 1 << (width - 1)
    a, b = (
        np.array([*(code | mark << width for code in each), *(code << width | mark for code in each)])
        for each in (codes, by)
    )
    biases = np.repeat(BIASES, len(a), axis=0)
    a_pairs, b_pairs = (np.tile(words, len(BIASES))[:, None].repeat(lanes, axis=1) for words in (a, b))
    return _inputs(a_pairs, b_pairs, biases[:, 0], biases[:, 1], 0)


def _powers(lanes: int, wide: bool) -> dict[str, np.ndarray]:
    """Every sum of POWERS, of either sign, with c = 0, 1 and -1."""
    first = 0x8070 if wide else 0x84  # where the outlier of integer 0 would be
    pairs = np.zeros((2, len(POWERS[wide]), 2, 3, lanes), np.int64)
    for row, operands in enumerate(POWERS[wide]):
        for operand, integers in enumerate(operands):
            pairs[operand, row, :, :, : len(integers)] = [first + each for each in integers]
    pairs[0, :, 1] |= np.where(pairs[0, :, 1], 0x80 if wide else 0x8, 0)
    a_pairs, b_pairs = pairs.reshape(2, -1, lanes)
    return _inputs(a_pairs, b_pairs, *((4, 4) if wide else (12, 12)), np.tile([0, 1, -1], len(a_pairs) // 3))


def _there_and_back(lanes: int, factor: int, plus: int, minus: int) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of A and of B whose products cancel: positive in one pair and negative in the next, then the reverse."""
    first = np.arange(lanes - 1)
    pairs = np.zeros((2, 2 * len(first), lanes), np.int64)
    for rows, away, back in ((first, plus, minus), (first + len(first), minus, plus)):
        pairs[0, rows, first] = pairs[0, rows, first + 1] = factor
        pairs[1, rows, first], pairs[1, rows, first + 1] = away, back
    return pairs[0], pairs[1]


def _random(ports: tuple[Port, ...], biases: tuple[int, int], seed: Seeds) -> Iterator[Cases]:
    drawn = random_inputs("olive_edp", ports, (16,), seed)
    yield Cases("random", "uniform pairs, biases and c", drawn)
    real = _inputs(drawn["a_pairs"], drawn["b_pairs"], *biases, drawn["c"] >> 12)
    yield Cases("random", "uniform pairs at the formats' biases, c of 20 bits", real)


def _sweep(biases: tuple[int, int]) -> Cases:
    """All 2**16 pairs of pairs, from 0x05 by 0x85 on so that row 0 is not 0; lane l has those of A from 32 l on."""
    row = np.roll(np.arange(1 << 13), -0x0585)[:, None]
    a_pairs, b_pairs = np.broadcast_arrays((row >> 8) + 32 * np.arange(8), row & 255)
    why = "every pair of A by every pair of B, eight products of pairs in an operation"
    return Cases("exhaustive", why, _inputs(a_pairs, b_pairs, *biases, 0))


def _cases(
    kind: Kind,
    why: str,
    ports: tuple[Port, ...],
    rows: list[tuple[int, int, int]],
    biases: tuple[int, int],
    decision: str = "",
) -> Cases:
    """Operations of one pair each: rows of a pair of A, a pair of B and c; the other pairs are 0."""
    pairs = np.zeros((2, len(rows), ports[0].count), np.int64)
    pairs[0, :, 0], pairs[1, :, 0] = [row[0] for row in rows], [row[1] for row in rows]
    return Cases(kind, why, _inputs(pairs[0], pairs[1], *biases, [row[2] for row in rows]), decision)


def _inputs(a_pairs: np.ndarray, b_pairs: np.ndarray, bias_a: Any, bias_b: Any, c: Any) -> dict[str, np.ndarray]:
    count = np.zeros(len(a_pairs), np.int64)
    return {"a_pairs": a_pairs, "b_pairs": b_pairs, "bias_a": count + bias_a, "bias_b": count + bias_b, "c": count + c}
