"""Counting indices of four bits, two in a byte, of one panel of 128 columns [kllm §III-B].

Byte 32 * h + i of a row has the index of column 64 * h + i in its lower half, of column 64 * h + 32 + i in its upper
half. The adders of `counts` as vectors of LLVM: sixteen bit planes stay in registers over all members of a group.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from refemu.arith.jit import callee
from refemu.units.kllm.kernels.counts import EIGHT

LANES = 32  # 16-bit counters of a vector
HALF = 2 * LANES  # columns that are counted at a time
PANEL = 2 * HALF  # columns of a panel, whose row is a cache line
PLANES = 8
WORD, LONG = ir.IntType(16), ir.IntType(64)
VECTOR = ir.VectorType(WORD, LANES)


def _splat(x):
    return ir.Constant(VECTOR, [x] * LANES)


def _carry_save(b, x, y, z):
    """Sum and carry of three words."""
    xy = b.xor(x, y)
    return b.xor(xy, z), b.or_(b.and_(xy, z), b.and_(b.not_(xy), x))


def _add_hot(b, planes, hot):
    """Planes plus eight one-hot words."""
    ones, t = _carry_save(b, planes[0], hot[0], hot[1])
    ones, u = _carry_save(b, ones, hot[2], hot[3])
    twos, f = _carry_save(b, planes[1], t, u)
    ones, t = _carry_save(b, ones, hot[4], hot[5])
    ones, u = _carry_save(b, ones, hot[6], hot[7])
    twos, g = _carry_save(b, twos, t, u)
    fours, carry = _carry_save(b, planes[2], f, g)
    upper = []
    for plane in planes[3:]:
        upper.append(b.xor(plane, carry))
        carry = b.and_(plane, carry)
    return [ones, twos, fours, *upper]


def _transposed(b, planes):
    """Sixteen vectors of counts from eight planes."""
    for shift, mask in ((4, 0x0F0F), (2, 0x3333), (1, 0x5555)):
        low, high, step = _splat(mask), _splat(0xFFFF ^ mask), _splat(shift)
        moved = list(planes)
        for i in range(PLANES):
            if not i & shift:
                x, y = planes[i], planes[i + shift]
                moved[i] = b.or_(b.and_(x, low), b.shl(b.and_(y, low), step))
                moved[i + shift] = b.or_(b.and_(b.lshr(x, step), low), b.and_(y, high))
        planes = moved
    return [b.and_(p, _splat(0xFF)) for p in planes] + [b.lshr(p, _splat(8)) for p in planes]


def _pointer(context, b, array, value, *places):
    """Address of an element of a contiguous array."""
    view = context.make_array(array)(context, b, value)
    shape, strides = cgutils.unpack_tuple(b, view.shape), cgutils.unpack_tuple(b, view.strides)
    return cgutils.get_item_pointer2(context, b, view.data, shape, strides, "C", places)


def _build(context, b, signature, arguments):
    """The code of `count_panel`."""
    codes, panel, half, members, first, last, part = arguments
    of_codes, of_members, of_part = signature.args[0], signature.args[3], signature.args[6]
    zero, eight = LONG(0), LONG(EIGHT)
    start = b.mul(half, LONG(LANES))
    planes = [[cgutils.alloca_once_value(b, _splat(0)) for _ in range(PLANES)] for _ in range(2)]
    byte, word = ir.IntType(8), ir.IntType(32)
    form = ir.FunctionType(ir.VoidType(), [byte.as_pointer(), word, word, word])
    hint = b.module.declare_intrinsic("llvm.prefetch", (byte.as_pointer(),), form)
    with cgutils.for_range_slice(b, first, last, eight, inc=True) as (k, _):
        hot: tuple[list[Any], list[Any]] = [], []
        for j in range(EIGHT):
            member = b.sext(b.load(_pointer(context, b, of_members, members, b.add(k, LONG(j)))), LONG)
            row = _pointer(context, b, of_codes, codes, panel, member, start)
            packed = b.zext(b.load(b.bitcast(row, ir.VectorType(byte, LANES).as_pointer()), align=1), VECTOR)
            hot[0].append(b.shl(_splat(1), b.and_(packed, _splat(15))))
            hot[1].append(b.shl(_splat(1), b.lshr(packed, _splat(4))))
            if j % 2:
                ahead = b.add(panel, LONG(1)), b.add(k, b.add(LONG(j - 1), half)), zero
                b.call(hint, [_pointer(context, b, of_codes, codes, *ahead), word(0), word(3), word(1)])
        for words, counters in zip(hot, planes, strict=True):
            for word, slot in zip(_add_hot(b, [b.load(slot) for slot in counters], words), counters, strict=True):
                b.store(word, slot)
    for side, counters in enumerate(planes):
        counts = _transposed(b, [b.load(slot) for slot in counters])
        column = b.add(b.mul(half, LONG(HALF)), LONG(side * LANES))
        for index, count in enumerate(counts):
            place = _pointer(context, b, of_part, part, LONG(index), column)
            b.store(count, b.bitcast(place, VECTOR.as_pointer()), align=2)
    return context.get_dummy_value()


@intrinsic
def _count_panel(context, codes, panel, half, members, first, last, part):
    return types.void(codes, *[types.int64] * 2, members, *[types.int64] * 2, part), _build


@callee
def count_panel(codes, panel, half, members, first, last, part):
    """part (16, PANEL) uint16: the 64 columns of a half <- counts of every index in rows members[first:last].

    codes (P, K + 1, 64): packed. last - first: a multiple of eight, at most CHUNK.
    """
    _count_panel(codes, panel, half, members, first, last, part)
