"""Kernels in numba.cuda: on a GPU where the driver finds one, else in numba's simulator.

The simulator shows that the logic is right, not the arithmetic: its integers are NumPy scalars, those of a GPU are
promoted to 64 bits. So every code is an int32 before the kernel sees it, and nothing overflows.
"""

import os
import warnings

from examples.kernels import host

GPU = host.gpu()
if not GPU:
    os.environ["NUMBA_ENABLE_CUDASIM"] = "1"  # before numba is imported

import numpy as np  # noqa: E402
from numba import cuda  # noqa: E402

THREADS = 64  #: of a block
POWER_ZERO = host.POWER_ZERO


@cuda.jit(device=True)
def decoded(code, partner, bias, width, man_bits, exponent_bits, flint):
    """Exponent and integer of one element next to `partner`."""
    identifier = 1 << (width - 1)
    magnitude, negative = code & (identifier - 1), code >> (width - 1)
    exponent, value = 0, 0
    if code == identifier:
        return 0, 0
    if partner == identifier:
        exponent = (bias + (magnitude >> man_bits)) & ((1 << exponent_bits) - 1)
        if magnitude:
            value = (1 << man_bits) | (magnitude & ((1 << man_bits) - 1))
    elif flint:
        low, top = magnitude & 3, magnitude >> 2
        value = low
        if top:
            value = 2 * low if low else 1
            exponent = 4 if low == 0 else 2 if low == 1 else 0
    else:
        return 0, code - (negative << width)
    return exponent, -value if negative else value


@cuda.jit
def ovp_decode(pair, bias, width, man_bits, exponent_bits, flint, exponent, base_int, illegal):
    """A thread decodes a pair; the left element is in the low half."""
    i = cuda.grid(1)
    if i < pair.size:
        identifier = 1 << (width - 1)
        left, right = pair[i] & (2 * identifier - 1), pair[i] >> width
        exponent[i, 0], base_int[i, 0] = decoded(left, right, bias[i], width, man_bits, exponent_bits, flint)
        exponent[i, 1], base_int[i, 1] = decoded(right, left, bias[i], width, man_bits, exponent_bits, flint)
        for code, partner in ((left, right), (right, left)):
            if code == identifier and partner & (identifier - 1) == 0:
                illegal[i] = 1


@cuda.jit(device=True)
def to_half(p, x, powers):
    """p * 2**x rounded to FP16, to nearest, ties to even; and the flags 1 overflow, 2 underflow."""
    m = -p if p < 0 else p
    drop = -24 - x if x < -24 else 0  # bits of p below the last place of a subnormal ...
    while m >> drop > 2047:  # ... or of the 11 significant bits
        drop += 1
    kept, rest = m >> drop, m & ((1 << drop) - 1)
    if 2 * rest > 1 << drop or (rest > 0 and 2 * rest == 1 << drop and kept & 1):
        kept += 1
    value, flags = np.float32(kept) * powers[x + drop + POWER_ZERO], 0
    if value > np.float32(65504):
        value, flags = np.float32(np.inf), 1
    elif rest and value < powers[POWER_ZERO - 14]:
        flags = 2
    return -value if p < 0 else value, flags


@cuda.jit
def bfp_dot(
    starts, mode, clear, a_sign, a_mag, a_exp, b, b_sign, b_exp, scale, point, powers, half, acc, flags, psum, value
):
    """A thread makes a reduction, group after group: exact sums of 32 products, added in float32."""
    case = cuda.grid(1)
    if case < starts.size - 1:
        total, sticky = np.float32(0), 0
        for i in range(starts[case], starts[case + 1]):
            p = 0
            for k in range(b.shape[1]):
                right = b[i, k]
                if mode[i] == 0:
                    right -= (right >> 3) * 16  # INT4 is two's complement of four bits
                p += -a_mag[i, k] * right if a_sign[i, k] ^ b_sign[i, k] else a_mag[i, k] * right
            x = point[mode[i]] + (a_exp[i] if a_exp[i] > 0 else 1)  # exponent 0 is that of the subnormals, as 1
            if mode[i] > 0:
                x += b_exp[i] if b_exp[i] > 0 else 1
            if clear[i]:
                total, sticky = np.float32(0), 0
            if half:
                v, raised = to_half(p, x, powers)
                sticky |= raised
            else:
                v = np.float32(p) * powers[x + POWER_ZERO]
            if mode[i] == 0:
                v = np.float32(np.float64(v) * np.float64(scale[i]))  # rounded before it is added
            total = total + v
            if total != total:
                sticky |= 4
            acc[i], flags[i], psum[i], value[i] = total, sticky, p, v


def blocks(threads):
    """Enough blocks of THREADS."""
    return -(-threads // THREADS)


def prepare_ovp_decoder(manifest, arrays):
    """A launch of `ovp_decode` on the stimulus of a set."""
    exp_bits, man_bits = manifest["config"]["outlier"]
    width, flint = 1 + exp_bits + man_bits, int(manifest["config"]["normal"] == "flint4")
    pair, bias = host.int32(arrays["in.pair"]), host.int32(arrays["in.bias"])
    lanes = [np.zeros((pair.size, 2), np.int32) for _ in range(2)]
    illegal = np.zeros(pair.size, np.int32)

    def launch():
        ovp_decode[blocks(pair.size), THREADS](
            pair, bias, width, man_bits, 4 if width == 4 else 5, flint, *lanes, illegal
        )
        return {"out.exponent": lanes[0], "out.base_int": lanes[1], "out.illegal": illegal}

    return launch


def prepare_bfp_pe(manifest, arrays):
    """A launch of `bfp_dot` on the stimulus of a set."""
    names = ("mode", "clear", "a_sign", "a_mag", "a_exp", "b", "b_sign", "b_exp")
    starts, inputs = host.reductions(manifest), [host.int32(arrays[f"in.{name}"]) for name in names]
    rows, half = manifest["rows"], int(manifest["config"]["partial"] == "fp16")
    point, powers, scale = np.array(host.POINT, np.int32), host.powers(), host.scales(arrays)
    acc, value = np.zeros(rows, np.float32), np.zeros(rows, np.float32)
    flags, psum = np.zeros(rows, np.int32), np.zeros(rows, np.int32)

    def launch():
        bfp_dot[blocks(starts.size - 1), THREADS](starts, *inputs, scale, point, powers, half, acc, flags, psum, value)
        return {"out.acc": host.words(acc), "out.flags": flags, "st.psum": psum, "st.value": host.words(value)}

    return launch


if __name__ == "__main__":
    warnings.simplefilter("ignore", RuntimeWarning)  # the simulator's threads add infinities, as they should
    if GPU:
        warnings.simplefilter("ignore")  # a small grid does not fill it
    host.main({"ovp_decoder": prepare_ovp_decoder, "bfp_pe": prepare_bfp_pe}, GPU or "simulator", not GPU)
