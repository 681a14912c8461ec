"""Compiled twin of ovp_encoder: values are compared with the midpoints of the formats' magnitudes. [olive Alg. 1]

The readable unit follows Algorithm 2 instead [olive Alg. 2].
"""

from collections.abc import Sequence

import numpy as np

from refemu.arith.jit import helper, kernel
from refemu.formats import AbFloat, Flint, IntFormat, Ovp
from refemu.formats.nearest import TIES
from refemu.units.derived import Arrays, twin
from refemu.units.olive.ovp_encoder import UNIT, OvpEncoder


@twin(UNIT)
def run(encoder: OvpEncoder, inputs: Arrays, outputs: Arrays) -> Sequence[int]:
    """Encode every pair."""
    fmt, counts = encoder.format, np.zeros(len(UNIT.counters), np.int64)
    pairs = inputs[0].view(np.float32).astype(np.float64)
    normal, outlier = _tables(fmt.normal), _tables(fmt.outlier or fmt.normal)
    _encode(pairs, *normal, *outlier, _ends(fmt), _choices(fmt), *outputs, counts)
    totals: list[int] = counts.tolist()
    return totals


def _ends(fmt: Ovp) -> np.ndarray:
    """Magnitudes at which the kind of a value or a flag changes."""
    ends = (fmt.outlier.smallest, fmt.outlier.largest) if fmt.outlier else (0, 0)
    return np.array([fmt.normal.largest, *ends, fmt.boundary, fmt.far or np.inf])


def _choices(fmt: Ovp) -> np.ndarray:
    """Options of the format as integers."""
    rules = fmt.closed, fmt.winner == "left", TIES.index(fmt.rounding), fmt.left == "high"
    return np.array([*rules, fmt.width, fmt.normal.identifier], np.int64)


def _tables(fmt: IntFormat | Flint | AbFloat) -> tuple[np.ndarray, np.ndarray]:
    """Midpoints of the magnitudes that `fmt` encodes, and the codes of both signs by rank."""
    magnitudes = np.unique(np.abs(fmt.decode(fmt.codes())))
    magnitudes = magnitudes[magnitudes <= fmt.largest]
    codes = np.stack([fmt.encode(magnitudes), fmt.encode(-magnitudes)]).astype(np.int64)
    return (magnitudes[:-1] + magnitudes[1:]) / 2, codes


@helper
def _code(value, middles, codes, first_rank, rule):  # type: ignore[no-untyped-def]
    size, negative = abs(value), np.int64(value < 0)
    low, high = 0, middles.size
    while low < high:
        half = (low + high) >> 1
        if middles[half] < size:
            low = half + 1
        else:
            high = half
    tie = np.int64(low < middles.size) * np.int64(middles[min(low, middles.size - 1)] == size)
    odd = (low + first_rank) & 1
    up = (rule == 0) * odd + (rule == 1) + (rule == 2) * (1 - negative) + (rule == 3) * negative
    return codes[negative, low + tie * up]


@kernel
def _encode(  # type: ignore[no-untyped-def]
    pairs,
    normal_middles,
    normal_codes,
    outlier_middles,
    outlier_codes,
    ends,
    choices,
    pair,
    kind,
    saturated,
    raised,
    counts,
):
    largest, smallest, top, boundary, far = ends[0], ends[1], ends[2], ends[3], ends[4]
    closed, left_wins, rule = choices[0], choices[1], choices[2]
    high_left, width, identifier = choices[3], choices[4], choices[5]
    for i in range(pairs.shape[0]):
        first, second = pairs[i, 0], pairs[i, 1]
        out1 = (abs(first) > boundary or (closed == 1 and abs(first) == boundary)) and abs(first) <= far
        out2 = (abs(second) > boundary or (closed == 1 and abs(second) == boundary)) and abs(second) <= far
        left = out1 and (left_wins == 1 or not out2 or abs(first) > abs(second))
        right = out2 and not left
        code1, code2 = identifier, identifier
        over, under = False, False
        if left or right:
            stored = first
            if right:
                stored = second
            code = _code(stored, outlier_middles, outlier_codes, 1, rule)
            over, under = abs(stored) > top, abs(stored) < smallest
            if left:
                code1 = code
            else:
                code2 = code
        else:
            code1 = _code(first, normal_middles, normal_codes, 0, rule) * np.int64(abs(first) <= far)
            code2 = _code(second, normal_middles, normal_codes, 0, rule) * np.int64(abs(second) <= far)
            counts[7] += np.int64(largest < abs(first) <= far) + np.int64(largest < abs(second) <= far)
        pair[i] = (code1 << (width * high_left)) | (code2 << (width * (1 - high_left)))
        kind[i] = np.int64(left) + 2 * np.int64(right)
        saturated[i] = over
        raised[i] = under
        counts[1] += np.int64(left)
        counts[2] += np.int64(right)
        counts[3] += np.int64(out1 and out2)
        counts[4] += np.int64(left or right) * (1 - np.int64(out1 and out2))
        counts[5] += np.int64(over)
        counts[6] += np.int64(under)
    counts[0] += pairs.shape[0]
