"""Compiled form of `GroupInt.encode`: same arguments after the format, equal results. Read groupint.py first.

Paper: [harmonia §IV-B], [harmonia §V-A, Table I]. Formats with a zero point take the readable definition.
"""

from math import prod

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith import fp16, fp16_compiled
from refemu.arith.checks import refuse_as
from refemu.arith.jit import kernel
from refemu.arith.jit.tiers import early
from refemu.formats import groups
from refemu.formats.groupint import GroupInt, GroupIntTensor

INFINITY = 0x7F800000  # float32 word


def encode(fmt: GroupInt, w: ArrayLike) -> GroupIntTensor:
    """`fmt.encode(w)`."""
    array = np.asarray(w)
    if fmt.zero_point or array.dtype not in (np.float16, np.float32) or array.ndim == 0 or array.size == 0:
        return fmt.encode(w)
    if (tensor := early(codes_of_groups, array.size, lambda: fmt.encode(w))) is not None:
        return tensor
    length = array.shape[-1]
    values = fp16_compiled.plain(array.astype(np.float32, copy=False)).reshape(prod(array.shape[:-1]), length)
    size = fmt.size(length)
    peaks = np.empty((values.shape[0], groups.count(length, size)), np.float32)
    largest = largest_of_groups(values.view(np.uint32), size, peaks.view(np.uint32))
    quotient = peaks.astype(np.float64) / fmt.largest
    if largest >= INFINITY or quotient.max() > fp16.MAX:
        refuse_as(fmt.encode, w)
    scale = fp16_compiled.round16_of_f64(quotient)
    code = np.empty(values.shape, np.int8)
    codes_of_groups(values, size, scale, fmt.limits[0], fmt.limits[1], code)
    return fmt.tensor(code.reshape(array.shape), fp16.narrow(scale).reshape(*array.shape[:-1], -1))


@kernel
def largest_of_groups(words, size, peaks):  # type: ignore[no-untyped-def]
    """The largest magnitude of every group, float32 as its word; returns the largest of all."""
    largest = np.uint32(0)
    for row in range(words.shape[0]):
        for g in range(peaks.shape[1]):
            peak = np.uint32(0)
            group = words[row, g * size : min((g + 1) * size, words.shape[1])]
            for i in range(group.size):
                peak = max(peak, np.uint32(group[i] & np.uint32(0x7FFFFFFF)))
            peaks[row, g] = peak
            largest = max(largest, peak)
    return largest


@kernel
def codes_of_groups(values, size, scale, low, high, code):  # type: ignore[no-untyped-def]
    """The nearest code of every value, ties to even, between the limits; 0 under a scale of 0.

    A float32 quotient is on the same side of every tie as the exact one: a value W * 2**a, W < 2**24, over a scale of
    11 bits misses a tie t by more than t / 2**24, half a unit in its last place, or by nothing.
    """
    least, most = np.int32(low), np.int32(high)
    for row in range(values.shape[0]):
        for g in range(scale.shape[1]):
            step = np.float32(scale[row, g])
            first, last = g * size, min((g + 1) * size, values.shape[1])
            group, codes = values[row, first:last], code[row, first:last]
            if step == 0:
                codes[:] = 0
            else:
                for i in range(group.size):
                    place = np.int32(np.rint(np.float32(group[i] / step)))  # at most 1.5 * largest
                    codes[i] = np.int8(max(min(place, most), least))
