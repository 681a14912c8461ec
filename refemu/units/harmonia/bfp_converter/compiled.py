"""Compiled forms of bfp_converter, its clocks and its whole matrices. [harmonia §IV-C, Fig. 14]

A kernel keeps the banks and records which words the aligner sees in which clock; the compiled aligner shifts them. A
whole matrix is encoded at once, with closed forms for its counters.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith.checks import Refused
from refemu.arith.integers import total
from refemu.arith.jit import inlined, kernel
from refemu.formats.harmonia.compiled import bfp as bfp_compiled
from refemu.units.derivation import Arrays, Rejected, compiled_run
from refemu.units.harmonia.bfp_aligner import UNIT as ALIGNER
from refemu.units.harmonia.bfp_aligner import Rounding, Special, Subnormals, ZeroSign
from refemu.units.harmonia.bfp_aligner.bfp_aligner import PAPER
from refemu.units.harmonia.bfp_converter import UNIT, BfpConverter, Conversion, Kind
from refemu.units.harmonia.bfp_converter.bfp_converter import KINDS
from refemu.units.harmonia.bfp_converter.matrix import require_matrix

LANES, GROUP, COLUMNS, FULL = 8, 32, 16, 64
ERROR, HW, SATURATE = range(3)
KIND, WIDTH, HELD, ALIGNED = range(4)  #: fields of a bank: kind and m of its block, columns held, columns aligned


@compiled_run(UNIT)
def run(converter: BfpConverter, inputs: Arrays, outputs: Arrays) -> Sequence[int]:
    """Run clock by clock."""
    options = {name: getattr(converter, name) for name in PAPER}
    sign, mantissa, *registers = outputs
    for array in registers:
        array.fill(0)
    width, counts = np.ones(sign.shape[:-1], np.int64), np.zeros(len(converter.counters), np.int64)
    seen = np.zeros(sign.shape, np.int64), np.zeros(sign.shape, np.int64), width
    special = ("error", "hw", "saturate").index(converter.special)
    ports = tuple(array.astype(np.int64) for array in inputs)
    if _clocks(ports, special, seen, tuple(registers[:5]), tuple(registers[5:]), counts):
        raise Rejected
    aligned = ALIGNER.run_compiled(*seen, **options)
    lanes = registers[1][..., None] >> np.arange(LANES) & 1  # out_valid
    sign[:] = aligned.sign & (lanes == 1)
    mantissa[:] = aligned.mantissa * lanes
    return counts.tolist()


def convert(
    x: ArrayLike,
    *,
    kind: Kind = "token",
    m: int = 8,
    rounding: Rounding = "truncate",
    special: Special = "error",
    subnormals: Subnormals = "keep",
    zero_sign: ZeroSign = "keep",
) -> Conversion:
    """Convert a whole matrix at once; arguments and Conversion as for `bfp_converter.convert`."""
    values, fmt = require_matrix(x, kind, m, rounding, special, subnormals, zero_sign)
    try:
        tensor = bfp_compiled.encode(fmt, values, 1 - KINDS.index(kind))
    except Refused:
        fmt.validated(values, False, BfpConverter.name)  # raises in the name of the unit
        raise
    tokens, channels = values.shape
    return Conversion(tensor, *stream(tokens, channels, kind), values.size)


def stream(tokens: int, channels: int, kind: Kind) -> tuple[int, int, int, int, int]:
    """Blocks, clocks, compare and align cycles, and comparisons of a matrix."""
    lengths = _lengths(tokens, channels, kind)
    comparisons = tokens * channels if kind == "token" else LANES * channels * -(-tokens // LANES)
    columns = int(total(lengths))
    return lengths.size, int(_cycles(lengths)), columns, columns, comparisons


def _lengths(tokens: int, channels: int, kind: Kind) -> np.ndarray:
    """Columns of every block, int64."""
    if kind == "token":
        return np.tile(np.minimum(GROUP, channels - np.arange(0, channels, GROUP)), -(-tokens // LANES))
    loops = -(-np.minimum(GROUP, tokens - np.arange(0, tokens, GROUP)) // LANES)
    return np.repeat(loops * COLUMNS, -(-channels // COLUMNS))


@kernel
def _cycles(lengths):  # type: ignore[no-untyped-def]
    """Clocks of a stream: a block begins when the second block before it has left its bank."""
    compared = aligned = left = np.int64(0)
    for i in range(lengths.size):
        compared = max(compared, left) + lengths[i]
        left, aligned = aligned, max(compared, aligned) + lengths[i]
    return aligned


@kernel
def _clocks(inputs, special, seen, shown, registers, counts):  # type: ignore[no-untyped-def]
    """Return 1 at the first clock with an invalid column. seen: inputs of the aligner, words, exponents and widths."""
    x, valid, kind, m, last, there = inputs
    ready, maximum, align_maximum, filled, position = registers
    for d in range(x.shape[0]):
        words = np.zeros((2, FULL, LANES), np.int64)
        masks = np.zeros((2, FULL), np.int64)
        top = np.zeros((2, COLUMNS), np.int64)
        what = np.zeros((2, 4), np.int64)
        filling, complete = 0, False
        for t in range(x.shape[1]):
            other = 1 - filling
            if what[other, HELD] > 0:
                _align(d, t, (words[other], masks[other], top[other], what[other]), seen, shown, counts)
            if there[d, t] == 1:
                bank, held = what[filling], what[filling, HELD] + 1
                fits = _fits(valid[d, t], kind[d, t], m[d, t], last[d, t], masks[filling], bank)
                if complete or not fits:
                    return 1
                column = x[d, t], valid[d, t], kind[d, t]
                if not _compare(*column, special, words[filling], top[filling], held - 1, counts):
                    return 1
                masks[filling, held - 1] = valid[d, t]
                bank[KIND], bank[WIDTH], bank[HELD] = kind[d, t], m[d, t], held
                complete = last[d, t] == 1 or held == GROUP + kind[d, t] * (FULL - GROUP)
            if complete and what[other, HELD] == 0:
                filling, complete = other, False
            ready[d, t] = not complete
            for c in range(COLUMNS):
                maximum[d, t, c] = top[filling, c]
                align_maximum[d, t, c] = top[1 - filling, c]
            filled[d, t] = what[filling, HELD]
            position[d, t] = what[1 - filling, ALIGNED]
    return 0


@inlined
def _align(d, t, bank, seen, shown, counts):  # type: ignore[no-untyped-def]
    """Clock t of device d: the next column of a full bank leaves it, the last one empties it."""
    words, masks, top, what = bank
    word, emax, width = seen
    exponent, out_valid, out_kind, element, subgroup = shown
    at, group, loop = what[ALIGNED], what[ALIGNED], np.int64(0)
    if what[KIND] == 1:
        loops = (what[HELD] + COLUMNS - 1) // COLUMNS
        group, loop = what[ALIGNED] // loops, what[ALIGNED] % loops
        at = loop * COLUMNS + group
    for lane in range(LANES):
        inside = (masks[at] >> lane) & 1
        shared = top[group * what[KIND] + lane * (1 - what[KIND])]
        word[d, t, lane] = words[at, lane] * inside
        emax[d, t, lane] = shared * inside
        exponent[d, t, lane] = shared * inside
        counts[3] += inside
    width[d, t], out_valid[d, t], out_kind[d, t] = what[WIDTH], masks[at], what[KIND] == 1
    element[d, t], subgroup[d, t] = group, loop
    counts[1] += 1
    what[ALIGNED] += 1
    if what[ALIGNED] == what[HELD]:
        what[:] = 0
        top[:] = 0


@inlined
def _fits(mask, kind, m, last, masks, what):  # type: ignore[no-untyped-def]
    """Whether a column may follow those that the bank holds."""
    n = what[HELD]
    fine = kind == 1 or mask != 0
    fine = fine and (n == 0 or (kind == what[KIND] and m == what[WIDTH] and (kind == 1 or mask == masks[0])))
    if kind == 1 and n % COLUMNS == 0:  # a V loop begins: did the earlier loops have all lanes?
        for c in range(n):
            fine = fine and (masks[c] == 0 or masks[c] == 255)
    return fine and (kind == 0 or last == 0 or n % COLUMNS == COLUMNS - 1)


@inlined
def _compare(x, mask, kind, special, words, top, n, counts):  # type: ignore[no-untyped-def]
    """Enter column n into the bank, with the maxima of exponents; return whether its words are admitted."""
    root, fine = np.int64(0), True
    for lane in range(LANES):
        inside = (mask >> lane) & 1
        size = x[lane] & 0x7FFF
        refused = special == ERROR or (special == SATURATE and size > 0x7C00)
        fine = fine and not (inside == 1 and size >= 0x7C00 and refused)
        field = ((x[lane] - np.int64(special == SATURATE and size == 0x7C00)) >> 10) & 31 & (-inside)
        root = max(root, field)
        words[n, lane] = x[lane]
        if kind == 0:
            top[lane] = max(top[lane], field)
            counts[2] += inside
    if kind == 1:
        top[n % COLUMNS] = max(top[n % COLUMNS], root)
        counts[2] += LANES * min(mask, 1)
    counts[0] += 1
    return fine
