"""Values: rounding to fp16, widening, fused multiply-add, exp; one form each for every kernel that needs it."""

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from refemu.arith import fp32
from refemu.arith.attention import scores
from refemu.arith.jit import FUSES, ROUND16, callee, jit_is_off

U = np.uint32
U64 = np.uint64
FP32, FP32_FMA, FP16, FP16_FMA = range(4)  # accumulators
ACCUMULATORS = {"fp32": FP32, "fp32_fma": FP32_FMA, "fp16": FP16, "fp16_fma": FP16_FMA}
TWO_112 = np.float32(float.fromhex("0x1p112"))
SPLIT = np.float32(8193)  # 2**13 + 1: float32 has 13 bits more than fp16
EXP_TABLE = fp32.exp_table()  # a constant of the compiled code: as an argument it would block vectorisation
EXP_LOW, EXP_HIGH = np.float64(-110), np.float64(90)
EXP_INV, EXP_HI, EXP_LO = np.float64(fp32.INV), np.float64(fp32.HI), np.float64(fp32.LO)
EXP_SHIFT, EXP_SHIFT_BITS = np.float64(fp32.SHIFT), np.int64(0x4338000000000000)
C2, C3, C4, C5 = np.float64(0.5), np.float64(fp32.C3), np.float64(fp32.C4), np.float64(fp32.C5)
TANH_SERIES, TANH_TERMS = np.float64(scores.SERIES), tuple(np.float64(c) for c in scores.TERMS)
ONE, HALF = np.float32(1), np.float32(0.5)


@callee
def _round16_portable(x):
    """float32 rounded to fp16, by adding 1.5 * 2**(E + 13), whose ulp is the quantum, and taking it away again."""
    u = np.float32(x).view(np.uint32)
    m = U(u & U(0x7FFFFFFF))
    e = max(U(m & U(0x7F800000)), U(0x38800000))  # exponent field, at least that of 2**-14
    big = U(e + U(0x06C00000)).view(np.float32)
    r = np.float32(np.float32(U(m).view(np.float32) + big) - big).view(np.uint32)
    over = U(U(0) - U(U(m - U(0x477FF000)) <= U(0x38001000)))  # 65520 to infinity; wraps on purpose
    r = U(U(r & U(~over)) | U(U(0x7F800000) & over))
    return U(r | U(u & U(0x80000000))).view(np.float32)


@callee
def round16_of_f64(x):
    """float64 rounded once to fp16: `_round16_portable` with 1.5 * 2**(E + 42)."""
    u = np.float64(x).view(np.uint64)
    m = U64(u & U64(0x7FFFFFFFFFFFFFFF))
    e = max(U64(m & U64(0x7FF0000000000000)), U64(0x3F10000000000000))
    big = U64(e + U64(0x02A8000000000000)).view(np.float64)
    r = np.float64(np.float64(U64(m).view(np.float64) + big) - big).view(np.uint64)
    over = U64(U64(0) - U64(U64(m - U64(0x40EFFE0000000000)) <= U64(0x3F00020000000000)))
    r = U64(U64(r & U64(~over)) | U64(U64(0x7FF0000000000000) & over))
    return np.float32(U64(r | U64(u & U64(0x8000000000000000))).view(np.float64))


@callee
def _widen_portable(u):
    """The float32 value of fp16 word `u`: its fields moved, then scaled by 2**112, which subnormals survive."""
    m = U(U(u) & U(0x7FFF))
    special = U(U(0) - U(m >= U(0x7C00)))
    f = np.float32(U(m << U(13)).view(np.float32) * TWO_112).view(np.uint32)
    return U(U(f | U(special & U(0x7F800000))) | U(U(U(u) & U(0x8000)) << U(16))).view(np.float32)


@callee
def _narrow_portable(x):
    """The word of float32 rounded to fp16; a subnormal, added to 1/2 whose ulp is 2**-24, leaves its fraction."""
    u = np.float32(_round16_portable(x)).view(np.uint32)
    m = U(u & U(0x7FFFFFFF))
    small = U(U(0) - U(m < U(0x38800000)))
    tiny = U(np.float32(U(m).view(np.float32) + HALF).view(np.uint32) - U(0x3F000000))
    word = U(U(tiny & small) | U(min(U(U(m >> U(13)) - U(0x1C000)), U(0x7C00)) & U(~small)))
    return np.uint16(U(U(word + U(m > U(0x7F800000))) | U(U(u >> U(16)) & U(0x8000))))


if jit_is_off():

    def fma32(a, b, c):
        return np.float32(fp32.fma32(a, b, c))

    def round16(x):
        return _round16_portable(x)

    def widen(u):
        return _widen_portable(u)

    def narrow(x):
        return _narrow_portable(x)

    def prefetch(x, i, j):
        pass

else:

    @intrinsic
    def _llvm_fma(context, a, b, c):
        """One instruction where the CPU has it, else a correct library call."""

        def build(context, builder, signature, arguments):
            return builder.fma(*arguments)

        return types.float32(types.float32, types.float32, types.float32), build

    @intrinsic
    def _llvm_round16(context, x):
        """To half and back: two conversions of F16C."""

        def build(context, builder, signature, arguments):
            return builder.fpext(builder.fptrunc(arguments[0], ir.HalfType()), ir.FloatType())

        return types.float32(types.float32), build

    @intrinsic
    def _llvm_widen(context, u):
        """The half of these bits, as float."""

        def build(context, builder, signature, arguments):
            return builder.fpext(builder.bitcast(arguments[0], ir.HalfType()), ir.FloatType())

        return types.float32(types.uint16), build

    @intrinsic
    def _llvm_narrow(context, x):
        """The bits of this float as half."""

        def build(context, builder, signature, arguments):
            return builder.bitcast(builder.fptrunc(arguments[0], ir.HalfType()), ir.IntType(16))

        return types.uint16(types.float32), build

    @intrinsic
    def _llvm_prefetch(context, x, i, j):
        """A hint that x[i, j] is read soon, and often."""

        def build(context, builder, signature, arguments):
            array = context.make_array(signature.args[0])(context, builder, arguments[0])
            word, byte = ir.IntType(32), ir.IntType(8).as_pointer()
            steps = [
                builder.mul(place, builder.extract_value(array.strides, axis))
                for axis, place in enumerate(arguments[1:])
            ]
            address = builder.gep(builder.bitcast(array.data, byte), [builder.add(*steps)])
            hint = builder.module.declare_intrinsic(
                "llvm.prefetch", (byte,), ir.FunctionType(ir.VoidType(), [byte, word, word, word])
            )
            builder.call(hint, [address, word(0), word(3), word(1)])  # to be read, keep, data
            return context.get_dummy_value()

        return types.void(x, types.int64, types.int64), build

    @callee
    def fma32(a, b, c):
        return _llvm_fma(a, b, c)

    @callee
    def prefetch(x, i, j):
        _llvm_prefetch(x, i, j)

    if ROUND16 == "hardware":

        @callee
        def round16(x):
            return _llvm_round16(x)

        @callee
        def widen(u):
            return _llvm_widen(u)

        @callee
        def narrow(x):
            return _llvm_narrow(x)

    else:
        round16, widen, narrow = _round16_portable, _widen_portable, _narrow_portable


@callee
def fma16(a, b, c):
    """a * b + c rounded once to fp16: an exact product, a float32 sum rounded to odd by its error, one rounding."""
    p = np.float32(a * b)
    s = np.float32(p + c)
    back = np.float32(s - p)
    e = np.float32(np.float32(p - np.float32(s - back)) + np.float32(c - back))
    u = s.view(np.uint32)
    step = U(U(U(e != np.float32(0)) & U(e == e)) & U(U(~u) & U(1)))  # inexact, finite, and even
    inwards = U(U(e.view(np.uint32) ^ u) >> U(31))
    return round16(U(U(u + step) - U(U(step & inwards) << U(1))).view(np.float32))


@callee
def round16_product(x, bounded):
    """float32 rounded to fp16; `bounded` says that |x| < 65520 and that the sign of a zero result does not matter."""
    if bounded:
        e = max(U(np.float32(x).view(np.uint32) & U(0x7F800000)), U(0x38800000))
        big = U(e + U(0x06C00000)).view(np.float32)
        return np.float32(np.float32(np.float32(x) + big) - big)
    return round16(x)


@callee
def round16_sum(x):
    """float32 rounded to fp16 by splitting, for multiples of 2**-24 below 65520: sums of two fp16 values, and
    products of one and an integer up to 2048. Tests go through all significands.
    """
    c = np.float32(x * SPLIT)
    return np.float32(c - np.float32(c - x))


@callee
def round16_times(n, p):
    """`round16_sum` of n * p, an integer and an fp16 value: p * SPLIT is exact too, so a fused operation saves one."""
    if not FUSES:
        return round16_sum(np.float32(n * p))
    c = np.float32(n * np.float32(p * SPLIT))
    return np.float32(c - fma32(-n, p, c))


@callee
def canonical(x):
    """float32 with the one NaN."""
    u = np.float32(x).view(np.uint32)
    nan = U(U(0) - U(U(u & U(0x7FFFFFFF)) > U(0x7F800000)))
    return U(U(u & U(~nan)) | U(U(0x7FC00000) & nan)).view(np.float32)


@callee
def exp64(d):
    """`fp32.exp64` of one value; the power of two is added to the exponent field, since y is normal."""
    t = d * EXP_INV + EXP_SHIFT
    kf = t - EXP_SHIFT
    r = (d - kf * EXP_HI) - kf * EXP_LO
    k = np.int64(np.float64(t).view(np.int64) - EXP_SHIFT_BITS)
    s = EXP_TABLE[k & np.int64(63)]
    y = s + s * (r + (r * r) * (C2 + r * (C3 + r * (C4 + r * C5))))
    return np.int64(np.float64(y).view(np.int64) + ((k >> np.int64(6)) << np.int64(52))).view(np.float64)


@callee
def exp(x):
    """`fp32.exp32` of one value."""
    e = np.float32(exp64(min(max(np.float64(x), EXP_LOW), EXP_HIGH)))
    nan = U(U(0) - U(U(np.float32(x).view(np.uint32) & U(0x7FFFFFFF)) > U(0x7F800000)))
    return U(U(e.view(np.uint32) & U(~nan)) | U(U(0x7FC00000) & nan)).view(np.float32)


@callee
def tanh(x):
    """`scores.tanh32` of one value."""
    a = np.float64(abs(x))
    if not a < TANH_SERIES:
        t = exp64(min(max(np.float64(-2) * a, EXP_LOW), EXP_HIGH))
        y = (np.float64(1) - t) / (np.float64(1) + t)
    else:
        z = a * a
        y = np.float64(0)
        for c in TANH_TERMS:
            y = y * z + c
        y = a + a * (z * y)
    y = np.copysign(y, np.float64(x))
    return canonical(np.float32(y if x == x else x))
