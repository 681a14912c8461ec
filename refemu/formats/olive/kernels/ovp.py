"""Kernels of outlier-victim pairs: encode, decode, and the squared errors of many scales at once.

Paper: [olive Alg. 1, Alg. 2, §3.4, §4.2]. They work on float32 patterns as int32: magnitudes order like their patterns,
and [olive Alg. 2] is rounding a pattern at bit 23 - man_bits. Integer normal types and flint4 have kernels.
Decision: D-olive-17 (what rounds to 0 has no sign).
"""

import functools
from typing import Any, NamedTuple

import numpy as np

from refemu.arith.jit import callee, inlined, kernel
from refemu.arith.kernels.scalars import widen
from refemu.formats.integer import IntFormat
from refemu.formats.olive.flint import FLINT4
from refemu.formats.olive.ovp import Ovp

SIGN = np.int32(-(1 << 31))
MAGNITUDE = np.int32((1 << 31) - 1)
WHOLE = np.float32(8388608.0)  # 2**23: adding it rounds a smaller float32 to an integer, ties to even
PIECE = 128  # elements after which candidates that cannot win are left out
LIKELY = 16  # candidates that are finished first: a register of them
FLINT4_CODES = np.int32(0x57604)  # one digit per half value 0 (for 16), 2, 3, 4: codes 4, 6, 7, 5


class Plan(NamedTuple):
    """A format as the kernels read it. A pattern is that of a float32 magnitude."""

    boundary: np.int32  #: pattern of the largest magnitude that is not an outlier
    top: np.int32  #: pattern of N
    low: np.int32  #: pattern of the smallest outlier
    high: np.int32  #: pattern of the largest
    shift: np.int32  #: mantissa bits of float32 that an outlier drops
    offset: np.int32  #: a shifted pattern less this is the magnitude code
    carry: np.int32  #: half a unit of the last retained bit, less 1
    left_wins: np.int32  #: -1 = of two outliers the left one stays
    width: np.int32  #: bits of a code
    left_at: np.int32  #: position of the left code in a pair word


class Special(NamedTuple):
    """What only formats with a far bound or other ties than half_even need; the paper's formats have none."""

    far: np.int32  #: pattern of the largest magnitude that is not far
    even: np.int32  #: 1 = ties to even
    tie: np.int32  #: pattern of +0.5 (a positive tie goes outward) or -0.5 (inward); 0 for ties to even
    flip: np.int32  #: SIGN where negative ties go the other way, else 0


@functools.cache
def plan(fmt: Ovp) -> Plan | None:
    """Parameters of `fmt` for the kernels; None for a normal type without a kernel."""
    if not isinstance(fmt.normal, IntFormat) and fmt.normal != FLINT4:
        return None
    outlier = fmt.outlier
    man_bits, bias = (outlier.man_bits, outlier.bias) if outlier else (1, 0)
    low, high = (outlier.smallest, outlier.largest) if outlier else (1, 1)
    shift = 23 - man_bits
    return Plan(
        boundary=_below(fmt.boundary, strict=fmt.closed),
        top=_pattern(fmt.normal.largest),
        low=_pattern(low),
        high=_pattern(high),
        shift=np.int32(shift),
        offset=np.int32((127 + man_bits + bias) << man_bits),
        carry=np.int32((1 << (shift - 1)) - 1),
        left_wins=np.int32(-(fmt.winner == "left")),
        width=np.int32(fmt.width),
        left_at=np.int32(fmt.low_first[0] * fmt.width),
    )


@functools.cache
def special(fmt: Ovp) -> Special | None:
    """What the kernels need beyond `plan`; None for most formats, and the kernels then leave those steps out."""
    even = fmt.rounding == "half_even"
    if even and fmt.far is None:
        return None
    return Special(
        far=_below(float("inf") if fmt.far is None else fmt.far, strict=False),
        even=np.int32(even),
        tie=_pattern({"half_even": 0.0, "half_down": -0.5}.get(fmt.rounding, 0.5)),
        flip=SIGN if fmt.rounding in ("half_up", "half_down") else np.int32(0),
    )


def _pattern(value: float) -> np.int32:
    """The float32 nearest to `value`, infinity beyond all, as an int32."""
    with np.errstate(over="ignore"):
        return np.float32(value).view(np.int32)


def _below(value: float, strict: bool) -> np.int32:
    """Pattern of the largest float32 that is at most `value`, or below it for `strict`; infinity stays."""
    with np.errstate(over="ignore"):
        near = float(np.float32(value))
    beyond = near > value or (strict and near == value < float("inf"))
    return np.int32(_pattern(near) - beyond)


@inlined
def _mask(condition: bool) -> np.int32:
    """All ones where the condition holds, else 0."""
    return np.int32(np.int32(0) - np.int32(condition))


@inlined
def _bits(value: np.float32) -> np.int32:
    return np.float32(value).view(np.int32)


@inlined
def _value(bits: np.int32) -> np.float32:
    return np.int32(bits).view(np.float32)


@inlined
def _is_outlier(size: np.int32, plan: Plan, special: Special | None) -> np.int32:
    out = _mask(size > plan.boundary)
    if special is not None:
        out = np.int32(out & _mask(size <= special.far))
    return out


@inlined
def _stored(left: np.int32, right: np.int32, plan: Plan, special: Special | None) -> tuple[np.int32, np.int32]:
    """Masks: is the left element of a pair of patterns stored as an outlier, is the right one; never both."""
    size1, size2 = np.int32(left & MAGNITUDE), np.int32(right & MAGNITUDE)
    out1, out2 = _is_outlier(size1, plan, special), _is_outlier(size2, plan, special)
    stored1 = np.int32(out1 & np.int32(np.int32(~out2) | np.int32(_mask(size1 > size2) | plan.left_wins)))
    return stored1, np.int32(out2 & np.int32(~stored1))


@inlined
def _tie(bits: np.int32, special: Special) -> np.float32:
    """Half a step as a float32: outward (positive) or inward, where a tie of this pattern's sign goes; 0 to even."""
    return _value(special.tie ^ np.int32(bits & special.flip))


@inlined
def _outlier(bits: np.int32, plan: Plan, special: Special | None) -> np.int32:
    """Pattern of the nearest outlier magnitude, bits below `shift` undefined: clamp, then round at `shift`."""
    size = np.int32(min(max(np.int32(bits & MAGNITUDE), plan.low), plan.high))
    up = np.int32(np.int32(np.int32(size >> np.int32(plan.shift & 31)) + plan.offset) & np.int32(1))
    if special is not None:
        outward = np.int32(np.int32(1) + np.int32(_bits(_tie(bits, special)) >> np.int32(31)))
        up = np.int32(np.int32(up & special.even) + np.int32(outward & np.int32(np.int32(1) - special.even)))
    return np.int32(size + np.int32(plan.carry + up))


@inlined
def _rounded(size: np.float32, step: np.float32, bits: np.int32, special: Special | None) -> np.int32:
    """Multiple of `step` (1 or 2) nearest to the float32 `size`, as an integer."""
    big = np.float32(step * WHOLE)
    near = np.float32(np.float32(size + big) - big)
    if special is not None:
        tie = np.float32(step * _tie(bits, special))
        near = np.float32(near + np.float32(np.float32(np.float32(size - near) == tie) * np.float32(tie + tie)))
    return np.int32(_bits(np.float32(near + WHOLE)) & np.int32(0xFF))


@inlined
def _not_far(whole: np.int32, bits: np.int32, special: Special | None) -> np.int32:
    if special is not None:
        whole = np.int32(whole & _mask(np.int32(bits & MAGNITUDE) <= special.far))
    return whole


@inlined
def _integer(bits: np.int32, plan: Plan, special: Special | None) -> np.int32:
    """Magnitude of the integer nearest to a pattern: N beyond it, 0 beyond far."""
    size = _value(min(np.int32(bits & MAGNITUDE), plan.top))
    return _not_far(_rounded(size, np.float32(1), bits, special), bits, special)


@inlined
def _flint4(bits: np.int32, plan: Plan, special: Special | None) -> np.int32:
    """The same for flint4: steps of 1 up to 4, of 2 up to 8, then 8 and 16 alone, 12 between them."""
    size = _value(min(np.int32(bits & MAGNITUDE), plan.top))
    dense = _rounded(size, np.float32(np.float32(1) + np.float32(size >= np.float32(4))), bits, special)
    last = _mask(size > np.float32(12))
    if special is not None:
        last = np.int32(last | np.int32(_mask(size == np.float32(12)) & _mask(_tie(bits, special) > np.float32(0))))
    return _not_far(np.int32(min(dense, np.int32(8)) + np.int32(last & np.int32(8))), bits, special)


@inlined
def _integer_code(bits: np.int32, plan: Plan, special: Special | None) -> np.int32:
    """Two's complement code of the nearest integer."""
    size, sign = _integer(bits, plan, special), np.int32(bits >> np.int32(31))
    ones = np.int32(np.int32(np.int32(1) << np.int32(plan.width & 31)) - np.int32(1))
    return np.int32(np.int32(np.int32(size ^ sign) - sign) & ones)


@inlined
def _flint4_code(bits: np.int32, plan: Plan, special: Special | None) -> np.int32:
    """Sign and unsigned flint of the nearest flint4 value; 0 has no sign (D-olive-17)."""
    size = _flint4(bits, plan, special)
    large = np.int32(FLINT4_CODES >> np.int32(np.int32(size << np.int32(1)) & np.int32(0x1C)))
    dense = _mask(size < np.int32(4))
    code = np.int32(np.int32(size & dense) | np.int32(np.int32(large & np.int32(7)) & np.int32(~dense)))
    return np.int32(code | np.int32(np.int32(8) & np.int32(_mask(bits < 0) & _mask(size > 0))))


@inlined
def _word(
    left: np.int32, right: np.int32, normal1: np.int32, normal2: np.int32, plan: Plan, special: Special | None
) -> np.int32:
    """The pair word: codes of two normal values, or of the stored outlier and the identifier."""
    stored1, stored2 = _stored(left, right, plan, special)
    chosen = np.int32(np.int32(left & stored1) | np.int32(right & np.int32(~stored1)))
    identifier = np.int32(np.int32(1) << np.int32(np.int32(plan.width - np.int32(1)) & 31))
    magnitude = np.int32(np.int32(_outlier(chosen, plan, special) >> np.int32(plan.shift & 31)) - plan.offset)
    outlier = np.int32(magnitude | np.int32(_mask(chosen < 0) & identifier))
    at1, at2 = np.int32(plan.left_at & 31), np.int32(np.int32(plan.width - plan.left_at) & 31)
    word1 = np.int32(np.int32(outlier << at1) | np.int32(identifier << at2))
    word2 = np.int32(np.int32(identifier << at1) | np.int32(outlier << at2))
    normal = np.int32(np.int32(normal1 << at1) | np.int32(normal2 << at2))
    kept = np.int32(normal & np.int32(~np.int32(stored1 | stored2)))
    return np.int32(np.int32(np.int32(word1 & stored1) | np.int32(word2 & stored2)) | kept)


@kernel
def encode_integer(bits: np.ndarray, words: np.ndarray, plan: Plan, special: Special | None) -> np.int32:
    """Words of the pairs in `bits`, float32 patterns (2 * len(words),); returns the largest magnitude pattern."""
    return _encode(_integer_code, bits, words, plan, special)


@kernel
def encode_flint4(bits: np.ndarray, words: np.ndarray, plan: Plan, special: Special | None) -> np.int32:
    """The same with flint4 as the normal type."""
    return _encode(_flint4_code, bits, words, plan, special)


@inlined
def _encode(code: Any, bits: np.ndarray, words: np.ndarray, plan: Plan, special: Special | None) -> np.int32:
    largest = np.int32(0)
    for k in range(len(words)):
        left, right = np.int32(bits[2 * k]), np.int32(bits[2 * k + 1])
        largest = max(largest, np.int32(max(np.int32(left & MAGNITUDE), np.int32(right & MAGNITUDE))))
        words[k] = _word(left, right, code(left, plan, special), code(right, plan, special), plan, special)
    return largest


@kernel
def quotients(halves: np.ndarray, scale: np.float32, out: np.ndarray) -> None:
    """out <- the fp16 words `halves` as float32, each divided by `scale`."""
    for i in range(len(halves)):
        out[i] = np.float32(widen(halves[i]) / scale)


@kernel
def decode(words: np.ndarray, table: np.ndarray, out: np.ndarray) -> np.uint64:
    """out[k] = low half of table[words[k]], both values of a pair in one element; returns all entries met, or-ed.

    table: uint32 or uint64 entries, out: of half their width, or of the same width where they have no flag above.
    """
    met = np.uint64(0)
    for k in range(len(words)):
        entry = table[np.int64(words[k])]
        met = np.uint64(met | np.uint64(entry))
        out[k] = entry
    return met


@kernel
def any_marked(words: np.ndarray, marks: np.ndarray) -> bool:
    """Whether marks[word] holds for any word."""
    met = np.int64(0)
    for k in range(len(words)):
        met = np.int64(met | np.int64(marks[np.int64(words[k])]))
    return met != 0


@inlined
def _off(grid: np.float32, scale: np.float32, x: np.float32) -> np.float64:
    """Square of grid * scale - x in float64; the product is exact."""
    off = np.float64(np.float64(np.float64(grid) * np.float64(scale)) - np.float64(x))
    return np.float64(off * off)


@inlined
def _grid(bits: np.int32, normal: np.int32, outlier: np.int32, stored: np.int32, victim: np.int32) -> np.float32:
    """Value in grid units as a float32: of the outlier where stored, 0 of a victim, else of the normal magnitude."""
    kept = np.int32(_bits(np.float32(normal)) & np.int32(~np.int32(stored | victim)))
    return _value(np.int32(np.int32(outlier & stored) | kept) | np.int32(bits & SIGN))


@inlined
def _pair_grid(
    left: np.int32,
    right: np.int32,
    normal1: np.int32,
    normal2: np.int32,
    plan: Plan,
    special: Special | None,
) -> tuple[np.float32, np.float32]:
    """Both values of a pair in grid units."""
    stored1, stored2 = _stored(left, right, plan, special)
    chosen = np.int32(np.int32(left & stored1) | np.int32(right & np.int32(~stored1)))
    outlier = np.int32(_outlier(chosen, plan, special) & np.int32(-(np.int32(1) << np.int32(plan.shift & 31))))
    return _grid(left, normal1, outlier, stored1, stored2), _grid(right, normal2, outlier, stored2, stored1)


@callee
def add_errors(
    grid1: np.ndarray, grid2: np.ndarray, scale: np.ndarray, error: np.ndarray, x1: np.float32, x2: np.float32
) -> None:
    """error (C,) += squared errors of the left, then of the right element; grid1, grid2 (C,): their grid values."""
    for c in range(len(scale)):
        first = np.float64(error[c] + _off(grid1[c], scale[c], x1))
        error[c] = np.float64(first + _off(grid2[c], scale[c], x2))


@callee
def advance_integer(
    row: np.ndarray,
    scale: np.ndarray,
    error: np.ndarray,
    grid1: np.ndarray,
    grid2: np.ndarray,
    plan: Plan,
    special: Special | None,
) -> None:
    """error (C,) += (value * scale - x)**2 over a piece of a row, left to right, for each scale (C,).

    grid1, grid2: work space (C,). Values and errors have separate loops, so that each fills registers with its type.
    """
    for k in range(len(row) // 2):
        x1, x2 = row[2 * k], row[2 * k + 1]
        for c in range(len(scale)):
            left, right = _bits(x1 / scale[c]), _bits(x2 / scale[c])
            normal1, normal2 = _integer(left, plan, special), _integer(right, plan, special)
            grid1[c], grid2[c] = _pair_grid(left, right, normal1, normal2, plan, special)
        add_errors(grid1, grid2, scale, error, x1, x2)


@callee
def advance_flint4(
    row: np.ndarray,
    scale: np.ndarray,
    error: np.ndarray,
    grid1: np.ndarray,
    grid2: np.ndarray,
    plan: Plan,
    special: Special | None,
) -> None:
    """The same with flint4 as the normal type; spelled out, because a loop that takes the type as an argument is slower
    by a sixth.
    """
    for k in range(len(row) // 2):
        x1, x2 = row[2 * k], row[2 * k + 1]
        for c in range(len(scale)):
            left, right = _bits(x1 / scale[c]), _bits(x2 / scale[c])
            normal1, normal2 = _flint4(left, plan, special), _flint4(right, plan, special)
            grid1[c], grid2[c] = _pair_grid(left, right, normal1, normal2, plan, special)
        add_errors(grid1, grid2, scale, error, x1, x2)


@callee
def keep_least(scale: np.ndarray, error: np.ndarray, place: np.ndarray, bound: np.float64) -> int:
    """Move what belongs to candidates with an error of at most `bound` to the front; returns how many they are."""
    left = 0
    for c in range(len(scale)):
        if error[c] <= bound:
            scale[left], error[left], place[left] = scale[c], error[c], place[c]
            left += 1
    return left


@callee
def likely(error: np.ndarray) -> np.int64:
    """Where the LIKELY candidates around the one of least error begin."""
    least = np.int64(0)
    for c in range(len(error)):
        least = np.int64(c) if error[c] < error[least] else least
    return min(max(least - LIKELY // 2, np.int64(0)), np.int64(len(error) - LIKELY))


@kernel
def errors_integer(
    rows: np.ndarray, scales: np.ndarray, errors: np.ndarray, plan: Plan, special: Special | None
) -> None:
    """errors (R, C) <- sum of (value * scale - x)**2 over each row (R, even), for each of its scales (R, C).

    C is a multiple of LIKELY. Infinity where an error is known to be above that of another candidate: sums of squares
    only grow, so one that is above the whole error of another candidate need not be finished. Those around the least
    error of the first pairs come first, and give that bound.
    """
    _errors(advance_integer, rows, scales, errors, plan, special)


@kernel
def errors_flint4(
    rows: np.ndarray, scales: np.ndarray, errors: np.ndarray, plan: Plan, special: Special | None
) -> None:
    """The same with flint4 as the normal type."""
    _errors(advance_flint4, rows, scales, errors, plan, special)


@inlined
def _errors(
    advance: Any, rows: np.ndarray, scales: np.ndarray, errors: np.ndarray, plan: Plan, special: Special | None
) -> None:
    length, count = rows.shape[1], scales.shape[1]
    start = min(PIECE, length) if count > LIKELY else length
    for r in range(rows.shape[0]):
        row, error = rows[r], np.zeros(count, np.float64)
        scale, place = np.empty(count, np.float32), np.empty(count, np.int64)
        for c in range(count):
            scale[c] = scales[r, c]
        for c in range(count):
            place[c] = c
        grid1, grid2 = np.zeros(count, np.float32), np.zeros(count, np.float32)
        advance(row[:start], scale, error, grid1, grid2, plan, special)
        left = count
        if start < length:
            i = likely(error)
            advance(row[start:], scale[i : i + LIKELY], error[i : i + LIKELY], grid1, grid2, plan, special)
            bound = error[i]
            for c in range(i, i + LIKELY):
                bound = min(bound, error[c])
            errors[r, i : i + LIKELY] = error[i : i + LIKELY]
            error[i : i + LIKELY] = np.inf
            for k in range(start, length, PIECE):
                left = keep_least(scale[:left], error[:left], place[:left], bound)
                full = (left + LIKELY - 1) // LIKELY * LIKELY  # what is left of the others fills the last register
                advance(row[k : k + PIECE], scale[:full], error[:full], grid1, grid2, plan, special)
        for c in range(left):
            errors[r, place[c]] = error[c]
