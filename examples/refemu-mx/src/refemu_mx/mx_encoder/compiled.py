"""Compiled form of mx_encoder: one kernel over magnitudes, which mx_converter shares."""

from collections.abc import Sequence

import numpy as np

from refemu.arith.jit import kernel
from refemu.units import compiled_run
from refemu_mx.elements import Element
from refemu_mx.mx_encoder import RULES, UNIT, MxEncoder, Rule
from refemu_mx.rounding import code_of, length


@compiled_run(UNIT)
def run(encoder: MxEncoder, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> Sequence[int]:
    """Encode every block."""
    words = inputs[0].astype(np.int64)
    field, fraction = words >> 23 & 0xFF, words & 0x7FFFFF
    m = np.where(field == 0, fraction, fraction | 1 << 23)
    e = np.maximum(field, 1) - 150
    finite = (field != 0xFF).all(axis=-1)
    return encoded(encoder.format, encoder.rule, words >> 31, m, e, finite, outputs)


def encoded(
    fmt: Element,
    rule: Rule,
    negative: np.ndarray,
    m: np.ndarray,
    e: np.ndarray,
    finite: np.ndarray,
    outputs: Sequence[np.ndarray],
) -> Sequence[int]:
    """Fill scale, codes and clipped of blocks of magnitudes m * 2**e; returns the counters."""
    facts = [fmt.exp_bits, fmt.man_bits, fmt.emin, fmt.largest_code, fmt.emax, fmt.largest[0], fmt.width]
    count = _encode(negative, m, e, finite, np.array([*facts, RULES.index(rule)], np.int64), *outputs)
    return len(m), int(count)


@kernel
def _scale(m, e, man_bits, emax, largest, rule):  # type: ignore[no-untyped-def]
    top = length(m) - 1
    exponent = top + e - emax
    aligned = m << (40 - top)  # the leading one at place 40
    if rule == 1:
        exponent += np.int64(aligned != np.int64(1) << 40)
    elif rule == 2:
        exponent += np.int64(aligned + (np.int64(1) << (39 - man_bits)) >= np.int64(1) << 41)
    elif rule == 3:
        exponent += np.int64(aligned > largest << (41 - length(largest)))
    return min(max(exponent + 127, 0), 254)


@kernel
def _encode(negative, m, e, finite, facts, scale, codes, clipped):  # type: ignore[no-untyped-def]
    exp_bits, man_bits, emin, largest_code = facts[0], facts[1], facts[2], facts[3]
    emax, largest, width, rule = facts[4], facts[5], facts[6], facts[7]
    count = 0
    for row in range(m.shape[0]):
        clipped[row] = False
        if not finite[row]:
            scale[row] = 255
            for lane in range(m.shape[1]):
                codes[row, lane] = 0
            continue
        shared = np.int64(0)
        for lane in range(m.shape[1]):
            if m[row, lane]:
                shared = max(shared, _scale(m[row, lane], e[row, lane], man_bits, emax, largest, rule))
        scale[row] = shared
        for lane in range(m.shape[1]):
            size = m[row, lane]
            exponent = e[row, lane] - shared + 127
            code = code_of(size, exponent, exp_bits, man_bits, emin)
            if code > largest_code:
                code = largest_code
                clipped[row] = True
            if exp_bits:
                code |= negative[row, lane] << (width - 1)
            elif negative[row, lane]:
                code = -code & 0xFF
            codes[row, lane] = code
        count += np.int64(clipped[row])
    return count
