"""Terms of groups, norms, rotation, softmax."""

import numpy as np

from refemu.arith.jit import kernel
from refemu.arith.kernels.elementwise import round16_all
from refemu.arith.kernels.matmul import row_fp32
from refemu.arith.kernels.orders import clear_all, total_rows
from refemu.arith.kernels.scalars import ONE, canonical, exp, round16_of_f64


@kernel
def group_terms(a, b, powers, b_powers, scale, partial16, product16, out):
    """out (G, M, N) <- the rounded terms of `dot.grouped_matmul`; a, b hold integers, group sums stay below 2**24."""
    groups, outputs = b_powers.shape
    size = b.shape[0] // groups
    sums = np.empty(outputs, np.float32)
    for m in range(a.shape[0]):
        for g in range(groups):
            clear_all(sums)
            row_fp32(a[m, g * size :], b[g * size : (g + 1) * size], np.int64(0), sums, outputs)
            o = out[g, m]
            for n in range(outputs):  # powers of two: exact in float64
                o[n] = _rounded(np.float64(sums[n]) * (powers[m, g] * b_powers[g, n]), partial16)
            if scale.shape[0] > 0:
                for n in range(outputs):
                    o[n] = _rounded(np.float64(o[n]) * np.float64(scale[g, n]), product16)


@kernel
def _rounded(x, to16):
    """float64 rounded once, to fp16 or to float32."""
    if to16:
        return round16_of_f64(x)
    return np.float32(x)


@kernel
def rmsnorm_rows(x, gain, eps, to16, out):
    """out <- `fp32.rmsnorm` of the rows of x (R, K), in sequence; rounded to fp16 then with `to16`."""
    terms = np.float32(x.shape[1])
    for r in range(x.shape[0]):
        s = np.float32(0)
        for k in range(x.shape[1]):
            s = s + x[r, k] * x[r, k]
        g = ONE / np.sqrt(s / terms + eps)
        for k in range(x.shape[1]):
            out[r, k] = canonical((x[r, k] * g) * gain[k])
        if to16:
            round16_all(out[r], out[r])


@kernel
def rotate_pairs(x, c, s, first, second, to16, out):
    """Pairs of the last axis: (first * i, second + first * i), with second 1 for neighbours or D/2; `to16` as above."""
    for t in range(x.shape[0]):
        for h in range(x.shape[1]):
            for i in range(c.shape[1]):
                a, b = x[t, h, first * i], x[t, h, first * i + second]
                out[t, h, first * i] = canonical(a * c[t, i] - b * s[t, i])
                out[t, h, first * i + second] = canonical(a * s[t, i] + b * c[t, i])
            if to16:
                round16_all(out[t, h], out[t, h])


@kernel
def shifted_exp(x, out):
    """out <- exp32(x - max x) of one row; the maximum is taken on integer keys."""
    top = np.int32(-2147483648)
    for i in range(x.size):
        word = np.float32(x[i]).view(np.int32)
        top = max(top, np.int32(word ^ np.int32((word >> np.int32(31)) & np.int32(0x7FFFFFFF))))
    peak = np.int32(top ^ np.int32((top >> np.int32(31)) & np.int32(0x7FFFFFFF))).view(np.float32)
    for i in range(x.size):
        out[i] = exp(x[i] - peak)


@kernel
def softmax_rows(x, out):
    """`fp32.softmax32` of the rows of x (R, K) in sequence."""
    sums = np.zeros(x.shape[0], np.float32)
    for r in range(x.shape[0]):
        shifted_exp(x[r], out[r])
    total_rows(out, x.shape[1], sums)
    for r in range(x.shape[0]):
        for k in range(x.shape[1]):
            out[r, k] = canonical(out[r, k] / sums[r])
