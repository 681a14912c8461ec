"""Compiled twin of ovp_encoder.run: same arguments, same Result. Read ovp_encoder.py first. [olive Alg. 1, Alg. 2]

Values are compared with the midpoints of the formats' magnitudes, where the unit follows Algorithm 2.
"""

from typing import Any

import numpy as np

from refemu.arith.jit import helper, kernel
from refemu.formats import AbFloat, Flint, IntFormat, Ovp
from refemu.formats.nearest import TIES
from refemu.units.ovp_encoder import COUNTERS, OvpEncoder, Result


def run(value: Any, *, fmt: str | Ovp = "OVP_INT4") -> Result:
    """As `ovp_encoder.run`."""
    encoder = OvpEncoder(fmt)
    values = encoder.admitted(value)
    shape, found = values.shape[:-1], encoder.fmt
    outputs: dict[str, Any] = {port.name: np.empty(shape, port.result_dtype) for port in encoder.ports.outputs}
    counts = np.zeros(len(COUNTERS), np.int64)
    pairs = np.ascontiguousarray(values).view(np.float32).reshape(-1, 2).astype(np.float64)
    normal, outlier = _tables(found.normal), _tables(found.outlier or found.normal)
    ends = np.array(
        [
            found.normal.largest,
            found.outlier.smallest if found.outlier else 0,
            found.outlier.largest if found.outlier else 0,
            found.boundary,
            found.far or np.inf,
        ]
    )
    choices = np.array(
        [
            found.closed,
            found.winner == "left",
            TIES.index(found.rounding),
            found.left == "high",
            found.width,
            found.normal.identifier,
        ],
        np.int64,
    )
    _encode(pairs, *normal, *outlier, ends, choices, *(output.reshape(-1) for output in outputs.values()), counts)
    outputs.update(zip(COUNTERS, counts.tolist(), strict=True))
    return Result(**outputs)


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
def _encode(
    pairs,
    normal_middles,
    normal_codes,
    outlier_middles,
    outlier_codes,  # type: ignore[no-untyped-def]
    ends,
    choices,
    pair,
    kind,
    saturated,
    raised,
    counts,
):
    largest, smallest, top, boundary, far = ends[0], ends[1], ends[2], ends[3], ends[4]
    closed, left_wins, rule, high_left, width, identifier = (
        choices[0],
        choices[1],
        choices[2],
        choices[3],
        choices[4],
        choices[5],
    )
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
