"""Compiled twins of bfp_converter.run_clocks and .run: same arguments, same results. Read bfp_converter.py first.

Paper: [harmonia §IV-C, Fig. 14]. A kernel keeps the banks and says which words the aligner sees in which clock; the
aligner's own twin shifts them. A whole matrix is encoded at once, and its counters have closed forms.
"""

from math import prod
from typing import Any

import numpy as np

from refemu.arith.checks import Refused
from refemu.arith.integers import total
from refemu.arith.jit import kernel
from refemu.formats import bfp_jit
from refemu.units import bfp_aligner_jit, bfp_converter
from refemu.units.bfp_converter import BfpConverter
from refemu.units.bfp_converter_matrix_parts import Conversion, require_matrix
from refemu.units.bfp_converter_parts import COUNTERS, KINDS, Result
from refemu.units.unit import admit_events

LANES, GROUP, COLUMNS, FULL = 8, 32, 16, 64
ERROR, HW, SATURATE = range(3)


def run_clocks(x: Any, valid: Any, kind: Any, m: Any, last: Any, *, rounding: str = "truncate", special: str = "error",
               subnormals: str = "keep", zero_sign: str = "keep") -> Result:
    """As `bfp_converter.run_clocks`."""
    options: dict[str, Any] = {"rounding": rounding, "special": special, "subnormals": subnormals,
                               "zero_sign": zero_sign}
    converter = BfpConverter(**options)
    arrays = admit_events(converter.name, converter.ports.inputs, (x, valid, kind, m, last))
    shape = arrays[1].shape
    devices, count = prod(shape[:-1]), shape[-1]
    flat = [array.astype(np.int64).reshape(devices, count, *array.shape[len(shape):]) for array in arrays]
    seen = [np.zeros((devices, count, LANES), np.int64) for _ in range(2)]
    width = np.ones((devices, count), np.int64)
    shown: dict[str, Any] = {
        port.name: np.zeros(shape + ((port.lanes,) if port.lanes > 1 else ()), port.result_dtype)
        for port in converter.ports.outputs + converter.ports.state
    }
    registers = [array.reshape(devices, count, *array.shape[len(shape):])
                 for name, array in shown.items() if name not in ("sign", "mantissa")]
    counts = np.zeros(len(COUNTERS), np.int64)
    if _clocks(*flat, ("error", "hw", "saturate").index(special), *seen, width, *registers, counts):
        bfp_converter.run_clocks(x, valid, kind, m, last, **options)  # refuses it
    aligned = bfp_aligner_jit.run(seen[0], seen[1], width, **options)
    lanes = shown["out_valid"][..., None] >> np.arange(LANES) & 1
    shown["sign"] = aligned.sign.reshape(lanes.shape) & (lanes == 1)
    shown["mantissa"] = (aligned.mantissa.reshape(lanes.shape) * lanes).astype(np.uint16)
    shown.update(zip(COUNTERS, counts.tolist(), strict=True))
    return Result(**shown)


def run(x: Any, *, kind: str = "token", m: int = 8, rounding: str = "truncate", special: str = "error",
        subnormals: str = "keep", zero_sign: str = "keep") -> Conversion:
    """As `bfp_converter.run`."""
    values, fmt = require_matrix(x, kind, m, rounding, special, subnormals, zero_sign)
    try:
        tensor = bfp_jit.encode(fmt, values, 1 - KINDS.index(kind))
    except Refused:
        fmt.admitted(values, False, BfpConverter.name)  # refuses it in the name of the unit
        raise
    tokens, channels = values.shape
    lengths = _lengths(tokens, channels, kind)
    comparisons = values.size if kind == "token" else LANES * channels * -(-tokens // LANES)
    columns = int(total(lengths))
    return Conversion(tensor, lengths.size, int(_cycles(lengths)), columns, columns, comparisons, values.size)


def _lengths(tokens: int, channels: int, kind: str) -> np.ndarray:
    """Columns of every block, int64."""
    if kind == "token":
        return np.tile(np.minimum(GROUP, channels - np.arange(0, channels, GROUP)), -(-tokens // LANES))
    loops = -(-np.minimum(GROUP, tokens - np.arange(0, tokens, GROUP)) // LANES)
    return np.repeat(loops * COLUMNS, -(-channels // COLUMNS))


@kernel
def _cycles(lengths):  # type: ignore[no-untyped-def]
    """Clocks of a stream: a block begins when the one two before it has left its bank."""
    compared = aligned = left = np.int64(0)
    for i in range(lengths.size):
        compared = max(compared, left) + lengths[i]
        left, aligned = aligned, max(compared, aligned) + lengths[i]
    return aligned


@kernel
def _clocks(x, valid, kind, m, last, special, word, emax, width,  # type: ignore[no-untyped-def]
            exponent, out_valid, out_kind, element, subgroup, ready, maximum, align_maximum, filled, position, counts):
    """Returns 1 at the first clock that is to be refused. word, emax, width: what the aligner sees."""
    for d in range(x.shape[0]):
        words = np.zeros((2, FULL, LANES), np.int64)
        masks = np.zeros((2, FULL), np.int64)
        top = np.zeros((2, COLUMNS), np.int64)
        what = np.zeros((2, 4), np.int64)  # kind, m, columns, columns aligned
        filling = 0
        complete = False
        partial = False
        for t in range(x.shape[1]):
            other = 1 - filling
            arrives = valid[d, t] != 0 or kind[d, t] == 1
            count = what[other, 2]
            if count > 0:  # align
                at, group, loop = what[other, 3], what[other, 3], np.int64(0)
                if what[other, 0] == 1:
                    loops = (count + COLUMNS - 1) // COLUMNS
                    group, loop = what[other, 3] // loops, what[other, 3] % loops
                    at = loop * COLUMNS + group
                for lane in range(LANES):
                    inside = (masks[other, at] >> lane) & 1
                    shared = top[other, group * what[other, 0] + lane * (1 - what[other, 0])]
                    word[d, t, lane] = words[other, at, lane] * inside
                    emax[d, t, lane] = shared * inside
                    exponent[d, t, lane] = shared * inside
                    counts[3] += inside
                width[d, t] = what[other, 1]
                out_valid[d, t] = masks[other, at]
                out_kind[d, t] = what[other, 0] == 1
                element[d, t] = group
                subgroup[d, t] = loop
                counts[1] += 1
                what[other, 3] += 1
                if what[other, 3] == count:
                    what[other] = 0
                    top[other] = 0
            if arrives:  # compare
                n = what[filling, 2]
                mask = valid[d, t]
                if complete or (n > 0 and (kind[d, t] != what[filling, 0] or m[d, t] != what[filling, 1])):
                    return 1
                if kind[d, t] == 0 and n > 0 and mask != masks[filling, 0]:
                    return 1
                if n % COLUMNS == 0:  # a V loop begins: were all lanes of the earlier ones there?
                    for c in range(n):
                        partial = partial or (masks[filling, c] != 0 and masks[filling, c] != 255)
                    if kind[d, t] == 1 and partial:
                        return 1
                    partial = False
                if kind[d, t] == 1 and last[d, t] == 1 and n % COLUMNS != COLUMNS - 1:
                    return 1
                root = np.int64(0)
                for lane in range(LANES):
                    inside = (mask >> lane) & 1
                    u = x[d, t, lane]
                    size = u & 0x7FFF
                    if inside == 1 and size >= 0x7C00 and (special == ERROR or (special == SATURATE and size > 0x7C00)):
                        return 1
                    field = ((u - np.int64(special == SATURATE and size == 0x7C00)) >> 10) & 31 & (-inside)
                    root = max(root, field)
                    words[filling, n, lane] = u
                    if kind[d, t] == 0:
                        top[filling, lane] = max(top[filling, lane], field)
                        counts[2] += inside
                if kind[d, t] == 1:
                    top[filling, n % COLUMNS] = max(top[filling, n % COLUMNS], root)
                    counts[2] += LANES * min(mask, 1)
                masks[filling, n] = mask
                what[filling, 0], what[filling, 1], what[filling, 2] = kind[d, t], m[d, t], n + 1
                complete = last[d, t] == 1 or n + 1 == GROUP + kind[d, t] * (FULL - GROUP)
                counts[0] += 1
            if complete and what[other, 2] == 0:
                filling, complete = other, False
            ready[d, t] = not complete
            for c in range(COLUMNS):
                maximum[d, t, c] = top[filling, c]
                align_maximum[d, t, c] = top[1 - filling, c]
            filled[d, t] = what[filling, 2]
            position[d, t] = what[1 - filling, 3]
    return 0
