"""Compiled form of olive_systolic_clocked: pairs decoded in advance in both widths, then edge by edge. [olive §4.3]"""

from collections.abc import Sequence

import numpy as np

from refemu.arith.jit import inlined, kernel
from refemu.units.derivation import Arrays, compiled_run
from refemu.units.olive.kernels.pairs import decoded
from refemu.units.olive.kernels.systolic import compute, drain, halves
from refemu.units.olive.olive_edp import Operand
from refemu.units.olive.olive_systolic_clocked import olive_systolic_clocked as systolic
from refemu.units.olive.olive_systolic_clocked.olive_systolic_clocked import UNIT, Narrow, OliveSystolicClocked, Wide


@compiled_run(UNIT)
def run(array: OliveSystolicClocked, inputs: Arrays, outputs: Arrays) -> Sequence[int]:
    """Every edge of every device."""
    wide, drains, west, west_valid, north, north_valid, bias_a, bias_b, *flint = inputs
    kinds = flint or (np.zeros_like(wide),) * 2
    borders = ((array.a, west, bias_a, kinds[0]), (array.b, north, bias_b, kinds[1]))
    sides = [_decoded(systolic.types(narrow), array.eight, *border) for narrow, *border in borders]
    counts = np.zeros(len(array.counters), np.int64)
    options = np.array([array.overflow == "saturate", array.split == "sign_magnitude"], np.int64)
    (devices, edges), lanes = wide.shape, array.rows * array.cols
    held = [np.empty((edges, 3, lines), np.int64) for lines in (array.rows, array.cols)]
    operands, partial, acc, flags = (np.empty((edges, *shape), np.int64) for shape in ((6, lanes), *[(lanes,)] * 3))
    for device in range(devices):
        ports = (each[device].astype(np.int64) for each in (wide, drains, west_valid, north_valid))
        shown = tuple(output[device] for output in outputs[:4])
        traced = (*shown, *held, operands, partial, acc, flags)
        _edges(*ports, sides[0][device], sides[1][device], options, traced, counts)
        lines = [side[:, part] for side in held for part in range(3)]
        arrays = [*lines, *(operands[:, part] for part in range(6)), partial, acc, flags]
        for output, values in zip(outputs[4:], arrays, strict=True):
            output[device] = values
    totals: list[int] = counts.tolist()
    return totals


def _decoded(
    narrow: tuple[Narrow, ...], eight: Wide, words: np.ndarray, bias: np.ndarray, flint: np.ndarray
) -> np.ndarray:
    """int64 (devices, edges, lines, widths, 5): exponent and integer of both elements, and 1 for an illegal pair.

    narrow: types of 4-bit pairs. flint: (devices, edges), which of them a pair has.
    """
    parts = []
    kinds: tuple[tuple[Operand, int], ...] = (*((kind, 0xFF) for kind in narrow), (eight, 0xFFFF))
    for kind, mask in kinds:
        done = decoded(kind, (words & mask).astype(np.uint8 if mask == 0xFF else np.uint16), bias[..., None])
        fields = [done.exponent[..., 0], done.base_int[..., 0], done.exponent[..., 1], done.base_int[..., 1]]
        parts.append(np.stack([*fields, done.illegal], axis=-1).astype(np.int64))
    four = parts[0] if len(narrow) == 1 else np.where(flint[..., None, None] == 0, *parts[:2])
    return np.stack([four, parts[-1]], axis=-2)


@kernel
def _edges(  # type: ignore[no-untyped-def]
    wide, drains, west_valid, north_valid, west, north, options, traced, counts
):
    """counts: in the order of the unit's counters. traced: arrays that are filled, by edge."""
    south, south_overflow, illegal, modes, west_held, north_held, operands, partials, accs, overflows = traced
    rows, cols = west.shape[1], north.shape[1]
    grid, elements = (rows, cols), (3, rows, cols)
    a, b = np.zeros(elements, np.int32), np.zeros(elements, np.int32)
    acc, flags, partial = np.zeros(grid, np.int64), np.zeros(grid, np.int64), np.zeros(rows * cols, np.int64)
    held_west, held_north = np.zeros((3, rows), np.int64), np.zeros((3, cols), np.int64)
    in_west, in_north = np.zeros((3, rows), np.int32), np.zeros((3, cols), np.int32)
    bottom, bottom_flags = np.zeros(cols, np.int64), np.zeros(cols, np.int64)
    mode, bad = np.int64(0), np.int64(0)
    for edge in range(wide.size):
        partial[:], bottom[:], bottom_flags[:] = 0, 0, 0
        changes = np.int64(wide[edge] != mode)
        if changes == 1:
            mode = wide[edge]
            acc[:, :], flags[:, :] = 0, 0
        if changes | drains[edge]:
            held_west[:, :], held_north[:, :] = 0, 0
            a[:, :, :], b[:, :, :] = 0, 0
        counts[0] += 1
        down, across = rows >> mode, cols >> mode
        if drains[edge]:
            drain(down, across, acc, flags, bottom, bottom_flags)
            counts[2] += 1
        else:
            first = _border(west[edge], west_valid[edge], mode, down, held_west, in_west)
            second = _border(north[edge], north_valid[edge], mode, across, held_north, in_north)
            macs, overs = compute(down, across, options[0], in_west, in_north, a, b, acc, flags)
            if mode == 1:
                halves(down, across, options[1], a, b, partial)
            decodes = (first >> 1) + (second >> 1)
            bad |= (first | second) & 1
            counts[1] += 1
            counts[3] += decodes
            counts[4] += down + across - decodes
            counts[5] += macs
            counts[6] += down * across - macs
            counts[7] += overs
        south[edge], south_overflow[edge] = bottom, bottom_flags != 0
        illegal[edge], modes[edge] = bad != 0, mode
        west_held[edge], north_held[edge] = held_west, held_north
        operands[edge], accs[edge], overflows[edge] = 0, 0, 0
        for i in range(down):
            for j in range(across):
                at = (i * cols + j) << mode  # the 4-bit element at the top left
                for field in range(3):
                    operands[edge, field, at], operands[edge, 3 + field, at] = a[field, i, j], b[field, i, j]
                accs[edge, at], overflows[edge, at] = acc[i, j], flags[i, j]
        partials[edge] = partial


@inlined
def _border(words, valid, mode, used, held, enters):  # type: ignore[no-untyped-def]
    """Advance a border: what enters, and what it holds next. Return 2 * decoded pairs + 1 if one is illegal."""
    decodes, bad = np.int64(0), np.int64(0)
    for line in range(held.shape[1]):
        takes = np.int64(line < used) & valid[line] & (1 - held[0, line])
        if takes:
            pair = words[line, mode]
            enters[0, line], enters[1, line], enters[2, line] = 1, pair[0], pair[1]
            held[0, line], held[1, line], held[2, line] = 1, pair[2], pair[3]
            bad |= pair[4]
        else:
            enters[0, line], enters[1, line], enters[2, line] = held[0, line], held[1, line], held[2, line]
            held[0, line], held[1, line], held[2, line] = 0, 0, 0
        decodes += takes
    return 2 * decodes + bad
