"""Compiled forms of `Affine.encode` and `Affine.decode`, and of both with packed words. Read affine.py first.

Paper: [leankv §2.2 Eq. (2), §6.2]. What has one value per group (scale, zero point, flags) is computed by the readable
format; the kernels do what has one per feature.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith import fp16_compiled
from refemu.arith.checks import refuse_as
from refemu.arith.fp16 import canonical
from refemu.arith.fp16_compiled import plain
from refemu.arith.jit import callee, kernel
from refemu.arith.kernels import narrow_all
from refemu.formats.leankv.affine import WORD, Affine, AffineTensor, require_codes, require_values

INFINITY = 0x7F800000  #: magnitude bits of the float32 infinity
ROUND = np.float32(12_582_912)  # 1.5 * 2**23: added to t in [0, 255] it leaves t, rounded half to even, in the low bits
ZERO, ONE = np.float32(0), np.float32(1)


def encode(fmt: Affine, x: ArrayLike) -> AffineTensor:
    """`fmt.encode(x)`."""
    grouped = _grouped(fmt, x)
    if grouped is None:
        return fmt.encode(x)
    stages = _stages(fmt, grouped)
    code = np.empty(grouped.shape, np.uint8)
    _codes(*_flat(grouped, stages), stages[4], fmt.steps, code.reshape(-1, grouped.shape[-1]))
    scale, zero, s32, inv32, _, _, _, low, high = stages
    return AffineTensor(fmt, code.reshape(np.shape(x)), scale, zero, s32, inv32, fmt.status(low, high, scale, zero))


def encode_words(fmt: Affine, x: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """`words()` and `metadata()` of `fmt.encode(x)`, without a byte per code between."""
    grouped = _grouped(fmt, x)
    if grouped is None:
        tensor = fmt.encode(x)
        return tensor.words(), tensor.metadata()
    features = grouped.shape[-1]
    words = np.empty((*grouped.shape[:-2], grouped.shape[-2] * features * fmt.bits // WORD), np.uint16)
    if fused(fmt):
        metadata = np.empty((*grouped.shape[:-2], 2 * fmt.groups), np.uint16)
        with np.errstate(all="ignore"):
            multiplies = fmt.quant_div == "recip_mul"
            out = words.reshape(-1).view(np.uint8)
            largest = encode_groups(
                grouped.reshape(-1, features), fmt.bits, fmt.zero == "min", multiplies, out, metadata.reshape(-1)
            )
        if largest >= INFINITY:
            refuse_as(require_values, grouped.reshape(*grouped.shape[:-2], -1))
        return words, metadata
    stages = _stages(fmt, grouped)
    _words(*_flat(grouped, stages), stages[4], fmt.steps, fmt.bits, words.reshape(-1).view(np.uint8))
    scale, zero = stages[:2]
    return words, np.stack([scale, zero], axis=-1).reshape(*scale.shape[:-1], 2 * scale.shape[-1])


def fused(fmt: Affine) -> bool:
    """Whether `encode_groups` computes this format."""
    return fmt.quantize_with == "unrounded" and fmt.meta == "fp16" and fmt.bits < WORD


def ends(fmt: Affine, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """float32 patterns of the smallest and the largest feature of every group, (..., groups) uint32; `x` is finite."""
    grouped = _grouped(fmt, x)
    assert grouped is not None
    low, high = _stages(fmt, grouped)[-2:]
    return low.view(np.uint32), high.view(np.uint32)


def _grouped(fmt: Affine, x: ArrayLike) -> np.ndarray | None:
    """x as float32 (..., groups, features); None if the readable format passes it on or rejects it."""
    array = np.asarray(x)
    if fmt.bits == WORD or array.ndim < 1 or array.dtype not in (np.float16, np.float32) or not array.size:
        return None
    values = fp16_compiled.to_f32(array) if array.dtype == np.float16 else plain(array)
    fmt.require_features(values.shape[-1])
    return values.reshape(*values.shape[:-1], fmt.groups, values.shape[-1] // fmt.groups)


def _stages(fmt: Affine, x: np.ndarray) -> tuple[Any, ...]:
    """What there is per group: scale, zero, s32, inv32, whether to multiply, factor, minimum, and both ends."""
    low, high = np.empty(x.shape[:-1], np.float32), np.empty(x.shape[:-1], np.float32)
    largest = _ends(
        x.reshape(-1, x.shape[-1]).view(np.int32),
        fmt.zero == "min",
        low.reshape(-1).view(np.int32),
        high.reshape(-1).view(np.int32),
    )
    if largest >= INFINITY:
        refuse_as(require_values, x.reshape(*x.shape[:-2], -1))
    with np.errstate(all="ignore"):
        s = (high - low) / np.float32(fmt.steps)
        scale, zero = fmt.stored(s), fmt.stored(ZERO - low if fmt.zero == "neg_min" else low)
        step, least = fmt.used(s, low, scale, zero)
        multiplies = fmt.quant_div == "recip_mul"
        inv = np.float32(1) / step if multiplies else np.zeros_like(step)
    factor = inv if multiplies else step
    return scale, zero, s.view(np.uint32), inv.view(np.uint32), multiplies, factor, least, low, high


def _flat(x: np.ndarray, stages: tuple[Any, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values, factor and minimum with one leading axis."""
    return x.reshape(-1, x.shape[-1]), plain(stages[5]).reshape(-1), plain(stages[6]).reshape(-1)


def decode(fmt: Affine, code: ArrayLike, scale: ArrayLike | None = None, zero: ArrayLike | None = None) -> np.ndarray:
    """`fmt.decode(code, scale, zero)`."""
    codes = require_codes(code, fmt.bits)
    if fmt.bits == WORD:
        return fmt.decode(codes)
    fmt.require_features(codes.shape[-1])
    s, z = fmt.widened(np.asarray(scale)), fmt.widened(np.asarray(zero))
    out = np.empty(codes.shape, np.float32)
    features = codes.shape[-1] // fmt.groups
    with np.errstate(all="ignore"):
        offset = plain(-z if fmt.zero == "neg_min" else z).reshape(-1)
        _values(plain(codes).reshape(-1, features), plain(s).reshape(-1), offset, out.reshape(-1, features))
    return out if np.isfinite(s).all() and np.isfinite(z).all() else canonical(out)


@kernel
def encode_groups(x, bits, last_zero, multiplies, out, meta):  # type: ignore[no-untyped-def]
    """Words `out`, as bytes, and scale and zero point of each row of x (groups, features); see `_stages`.

    Returns the largest magnitude, a pattern: from INFINITY on nothing was made.
    """
    low, high = np.empty(x.shape[0], np.float32), np.empty(x.shape[0], np.float32)
    step, pair = np.empty(x.shape[0], np.float32), np.empty(2 * x.shape[0], np.float32)
    largest = _ends(x.view(np.int32), last_zero, low.view(np.int32), high.view(np.int32))
    if largest >= INFINITY:
        return largest
    steps = np.float32((1 << bits) - 1)
    for row in range(x.shape[0]):
        s = np.float32(np.float32(high[row] - low[row]) / steps)
        pair[2 * row], pair[2 * row + 1], step[row] = s, low[row], s
        if not last_zero:
            pair[2 * row + 1] = np.float32(ZERO - low[row])
        if multiplies:
            step[row] = np.float32(ONE / s)
    narrow_all(pair, meta)
    _words(x, step, low, multiplies, np.int64((1 << bits) - 1), bits, out)
    return largest


@kernel
def _ends(x, last_zero, low, high):  # type: ignore[no-untyped-def]
    """Patterns of the smallest and largest value of each row of float32 patterns; returns the largest magnitude."""
    top = np.int32(0)
    for row in range(x.shape[0]):
        least, most = np.int32(0x7FFFFFFF), np.int32(-0x80000000)
        for i in range(x.shape[1]):
            key = np.int32(x[row, i] ^ np.int32((x[row, i] >> np.int32(31)) & np.int32(0x7FFFFFFF)))  # in order
            least, most = min(least, key), max(most, key)
        low[row] = np.int32(least ^ np.int32((least >> np.int32(31)) & np.int32(0x7FFFFFFF)))
        high[row] = np.int32(most ^ np.int32((most >> np.int32(31)) & np.int32(0x7FFFFFFF)))
        sizes = np.int32(low[row] & np.int32(0x7FFFFFFF)), np.int32(high[row] & np.int32(0x7FFFFFFF))
        top = max(top, max(sizes[0], sizes[1]))
        if sizes[0] == 0 or sizes[1] == 0:
            zero = _zero(x[row], last_zero)
            if sizes[0] == 0:
                low[row] = zero
            if sizes[1] == 0:
                high[row] = zero
    return top


@kernel
def _zero(x, last):  # type: ignore[no-untyped-def]
    """The pattern of the last zero, or of +0."""
    zero = np.int32(0)
    if last:
        for i in range(x.size):
            if np.int32(x[i] & np.int32(0x7FFFFFFF)) == 0:
                zero = x[i]
    return zero


@callee
def _codes_of(x, factor, least, multiplies, top, out):  # type: ignore[no-untyped-def]
    """Codes of one row: NaN fails every comparison and gives 0."""
    if multiplies:
        for i in range(x.size):
            t = np.float32(np.float32(x[i] - least) * factor)
            if not t > ZERO:
                t = ZERO
            if t > top:
                t = top
            out[i] = np.float32(t + ROUND).view(np.int32) & np.int32(0xFF)
    else:
        for i in range(x.size):
            t = np.float32(np.float32(x[i] - least) / factor)
            if not t > ZERO:
                t = ZERO
            if t > top:
                t = top
            out[i] = np.float32(t + ROUND).view(np.int32) & np.int32(0xFF)


@kernel
def _codes(x, factor, least, multiplies, steps, out):  # type: ignore[no-untyped-def]
    top = np.float32(steps)
    for row in range(x.shape[0]):
        _codes_of(x[row], factor[row], least[row], multiplies, top, out[row])


@kernel
def _words(x, factor, least, multiplies, steps, bits, out):  # type: ignore[no-untyped-def]
    """Codes packed into bytes out, row by row, feature 0 in the lowest bits."""
    top, size = np.float32(steps), x.shape[1] * bits // 8
    code = np.empty(x.shape[1], np.uint8)
    for row in range(x.shape[0]):
        _codes_of(x[row], factor[row], least[row], multiplies, top, code)
        o = out[row * size : (row + 1) * size]
        if bits == 8:
            for i in range(o.size):
                o[i] = code[i]
        elif bits == 4:
            for i in range(o.size):
                o[i] = code[2 * i] | (code[2 * i + 1] << 4)
        elif bits == 2:
            for i in range(o.size):
                o[i] = code[4 * i] | (code[4 * i + 1] << 2) | (code[4 * i + 2] << 4) | (code[4 * i + 3] << 6)
        else:
            for i in range(o.size):
                low = code[8 * i] | (code[8 * i + 1] << 1) | (code[8 * i + 2] << 2) | (code[8 * i + 3] << 3)
                high = code[8 * i + 4] | (code[8 * i + 5] << 1) | (code[8 * i + 6] << 2) | (code[8 * i + 7] << 3)
                o[i] = low | (high << 4)


@kernel
def _values(code, scale, offset, out):  # type: ignore[no-untyped-def]
    for row in range(code.shape[0]):
        s, z = scale[row], offset[row]
        for i in range(code.shape[1]):
            out[row, i] = np.float32(np.float32(s * np.float32(code[row, i])) + z)
