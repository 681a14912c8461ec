"""Compiled form of k_offset, and its parts for whole matrices, `select` and `shift`. [harmonia §III-C, Fig. 10]

Integer kernels compute peaks and choices of a whole window; the schedule of events follows from its length.
"""

from collections.abc import Sequence
from math import prod

import numpy as np

from refemu.arith import fp16, fp16_compiled
from refemu.arith.integers import total
from refemu.arith.jit import callee, kernel, quiet
from refemu.arith.kernels.scalars import canonical, narrow, widen
from refemu.units.derivation import Arrays, Rejected, compiled_run
from refemu.units.harmonia.k_offset import UNIT, KOffsetGenerator, Offsets


@compiled_run(UNIT)
def run(device: KOffsetGenerator, inputs: Arrays, outputs: Arrays) -> Sequence[int]:
    """Run all events: first the schedule, then the words."""
    channels = device.channels
    valid, last = (flag.astype(np.int64) for flag in inputs[1:])
    words = inputs[0].reshape(*valid.shape, channels)
    wide = [array.reshape(*valid.shape, channels) for place, array in enumerate(outputs) if place in (0, 1, 2, 5, 6)]
    offset, selected, k_out, peak, negative = wide
    shown = outputs[11] if len(outputs) > 11 else np.zeros(0, np.uint16)
    rows = shown.reshape(*valid.shape, device.window if shown.size else 0, channels)
    for array in (*wide, rows):
        array.fill(0)
    out_valid, ready = outputs[3:5]
    source = np.full(valid.shape, -1, np.int64)
    written, _, chosen, _ = counts = np.zeros((4, *valid.shape), np.int64)
    tracked, gated = np.zeros(len(valid), np.int64), np.zeros(len(valid), np.int64)
    if _schedule(valid, last, device.window, device.chosen, source, counts, tracked, gated, ready):
        raise Rejected
    for output, count in zip(outputs[7:11], counts, strict=True):
        output[:] = count
    taken = np.zeros(words.shape, np.uint16)
    _peaks(words, written, peak, negative, rows)
    halves, order = _ranked(device, words, valid, tracked)
    _fill(words, halves, order, chosen, source, offset, selected, taken)
    out_valid[:] = source >= 0
    k_out[out_valid] = shift(taken[out_valid], offset[out_valid])
    selections, tokens, rest = (int(total(counts)) for counts in (chosen.max(axis=1, initial=0), tracked, gated))
    subtractions = device.chosen * int(total(out_valid))
    return channels * tokens, selections * (device.scope - 1), subtractions, rest


def select(rule: Offsets, k: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Offsets, uint16 words, and chosen channels, bool, both (..., channels), of windows of fp16 words.

    k: (..., tokens, channels); the first `window` tokens of each matrix count.
    """
    *lead, tokens, channels = k.shape
    words = fp16_compiled.plain(k).reshape(prod(lead), tokens, channels)
    window = np.full(len(words), min(tokens, rule.window))
    halves, order = _ranked(rule, words, np.ones(words.shape[:2], np.int64), window)
    selected = np.zeros(halves.shape, np.bool_)
    np.put_along_axis(selected, order, True, axis=-1)
    offset = np.where(selected, halves, 0).astype(np.uint16)
    return offset.reshape(*lead, channels), selected.reshape(*lead, channels)


def shift(k: np.ndarray, offset: np.ndarray) -> np.ndarray:
    """fp16 words k - offset, which broadcasts, one rounding; where the offset is 0 the word is unchanged."""
    keys, shifts = (fp16_compiled.plain(words).reshape(-1) for words in (k, np.broadcast_to(offset, k.shape)))
    out = np.empty(k.shape, np.uint16)
    with quiet():
        _shift(keys, shifts, out.reshape(-1))
    return out


@kernel
def _shift(k, offset, out):  # type: ignore[no-untyped-def]
    for c in range(out.size):
        out[c] = k[c]
        if offset[c] & 0x7FFF:
            out[c] = narrow(canonical(np.float32(widen(k[c]) - widen(offset[c]))))


def _ranked(rule: Offsets, words: np.ndarray, valid: np.ndarray, tracked: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Half of every channel's peak as words, and the chosen channels in the order of their choice, of every device.

    words: (D, T, channels). valid: int64 (D, T), whether an event has a token. tracked: int64 (D,), tokens that count.
    """
    value = np.zeros((len(words), rule.channels), np.uint16)
    order = np.zeros((len(words), rule.chosen), np.int64)
    _choose(words, valid, tracked, rule.scope, rule.per_scope, value, order)
    if rule.offset_sign == "unsigned":
        value &= np.uint16(0x7FFF)
    exact = fp16_compiled.to_f32(value.view(np.float16)) * np.float32(0.5)
    return fp16.bits(fp16.narrow(fp16_compiled.round16(exact))), order


@kernel
def _choose(words, valid, tracked, scope, per_scope, value, order):  # type: ignore[no-untyped-def]
    """value <- the first word of largest magnitude of every channel; order <- the choices."""
    peak = np.zeros(words.shape[2], np.int64)
    for d in range(words.shape[0]):
        peak[:] = 0
        count = np.int64(0)
        for t in range(words.shape[1]):
            takes = valid[d, t] * np.int64(count < tracked[d])
            count += takes
            for c in range(words.shape[2]):
                size = (np.int64(words[d, t, c]) & 0x7FFF) * takes
                if size > peak[c]:
                    peak[c] = size
                    value[d, c] = words[d, t, c]
        _largest(peak, scope, per_scope, order[d])


@callee
def _largest(peak, scope, per_scope, order):  # type: ignore[no-untyped-def]
    """order <- scope by scope the channels of the largest peaks, lower ones first; overwrites peak."""
    n = 0
    for start in range(0, peak.size, scope):
        for _ in range(per_scope):
            best, largest = start, np.int64(-2)
            for c in range(start, start + scope):
                if peak[c] > largest:
                    best, largest = c, peak[c]
            peak[best] = -1
            order[n] = best
            n += 1


@kernel
def _fill(words, halves, order, chosen, source, offset, selected, taken):  # type: ignore[no-untyped-def]
    """Fill the registers by the number of chosen channels; taken <- the token that an event puts out, or 0."""
    for d in range(words.shape[0]):
        for t in range(words.shape[1]):
            for n in range(chosen[d, t]):
                offset[d, t, order[d, n]] = halves[d, order[d, n]]
                selected[d, t, order[d, n]] = True
            if source[d, t] >= 0:
                for c in range(words.shape[2]):  # one by one: a row at once takes numba a second more to compile
                    taken[d, t, c] = words[d, source[d, t], c]


@kernel
def _peaks(words, written, peak, negative, rows):  # type: ignore[no-untyped-def]
    """peak, negative <- the largest magnitudes of the tracked tokens up to t, their signs; rows <- tokens, if shown."""
    for d in range(words.shape[0]):
        count = np.int64(0)
        for t in range(words.shape[1]):
            before = max(t - 1, 0)
            takes = np.int64(written[d, t]) - count
            for n in range(min(count, rows.shape[2])):
                for c in range(words.shape[2]):
                    rows[d, t, n, c] = rows[d, before, n, c]
            for c in range(words.shape[2]):
                peak[d, t, c], negative[d, t, c] = peak[d, before, c], negative[d, before, c]
                size = (np.int64(words[d, t, c]) & 0x7FFF) * takes
                if size > np.int64(peak[d, t, c]):
                    peak[d, t, c], negative[d, t, c] = size, np.int64(words[d, t, c]) >> 15
                if takes == 1 and count < rows.shape[2]:
                    rows[d, t, count, c] = words[d, t, c]
            count += takes


@kernel
def _schedule(valid, last, window, choose, source, counts, tracked, gated, ready):  # type: ignore[no-untyped-def]
    """Schedule the tokens that events put out. counts <- tokens written and read, channels chosen, whether frozen.

    Returns 1 if a token comes too early.
    """
    for d in range(valid.shape[0]):
        rows = np.zeros(valid.shape[1], np.int64)
        count, picked, out, later = 0, 0, 0, 0
        over = False
        for t in range(valid.shape[1]):
            if valid[d, t] == 1 and over and out < count:
                return 1
            if valid[d, t] == 1 and not over:
                rows[count] = t
                count += 1
                over = last[d, t] == 1 or count == window
            elif over and picked < choose:
                picked += 1
            elif valid[d, t] == 1:
                source[d, t] = t
                later += 1
            elif over and out < count:
                source[d, t] = rows[out]
                out += 1
            counts[0, d, t], counts[1, d, t], counts[2, d, t], counts[3, d, t] = count, out, picked, over
            ready[d, t] = not over or out >= count
        tracked[d], gated[d] = count, later
    return 0
