"""Kernels in Triton: on a GPU where the driver finds one, else in Triton's interpreter.

The interpreter computes with NumPy: it shows that the logic is right, not the arithmetic of a GPU. So every code is an
int32 before the kernel sees it, and nothing overflows. Needs the extra `triton` (with torch about 2 GB).
"""

import os
import warnings

from examples.kernels import host

GPU = host.gpu()
if not GPU:
    os.environ["TRITON_INTERPRET"] = "1"  # before triton is imported

import numpy as np  # noqa: E402
import torch  # noqa: E402
import triton  # noqa: E402
import triton.language as tl  # noqa: E402

BLOCK = 256  #: pairs of a program
DEVICE = "cuda" if GPU else "cpu"


@triton.jit
def decoded(
    code, partner, bias, WIDTH: tl.constexpr, MAN_BITS: tl.constexpr, EXPONENT_BITS: tl.constexpr, FLINT: tl.constexpr
):
    """Exponents and integers of elements next to their partners."""
    IDENTIFIER: tl.constexpr = 1 << (WIDTH - 1)
    magnitude, negative = code & (IDENTIFIER - 1), code >> (WIDTH - 1)
    hidden = tl.where(magnitude == 0, 0, 1 << MAN_BITS)
    outlier = hidden | (magnitude & ((1 << MAN_BITS) - 1))
    outlier = tl.where(negative == 1, -outlier, outlier)
    shift = (bias + (magnitude >> MAN_BITS)) & ((1 << EXPONENT_BITS) - 1)
    if FLINT:
        low, top = magnitude & 3, magnitude >> 2
        normal = tl.where(top == 0, low, tl.where(low == 0, 1, 2 * low))
        normal = tl.where(negative == 1, -normal, normal)
        exponent = tl.where(top == 0, 0, tl.where(low == 0, 4, tl.where(low == 1, 2, 0)))
    else:
        normal = code - (negative << WIDTH)
        exponent = code * 0
    exponent = tl.where(partner == IDENTIFIER, shift, exponent)
    value = tl.where(partner == IDENTIFIER, outlier, normal)
    return tl.where(code == IDENTIFIER, 0, exponent), tl.where(code == IDENTIFIER, 0, value)


@triton.jit
def ovp_decode(
    pair,
    bias,
    exponent,
    base_int,
    illegal,
    count,
    WIDTH: tl.constexpr,
    MAN_BITS: tl.constexpr,
    EXPONENT_BITS: tl.constexpr,
    FLINT: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """A program decodes BLOCK pairs; the left element is in the low half."""
    IDENTIFIER: tl.constexpr = 1 << (WIDTH - 1)
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    there = i < count
    word, offset = tl.load(pair + i, mask=there, other=0), tl.load(bias + i, mask=there, other=0)
    left, right = word & ((1 << WIDTH) - 1), word >> WIDTH
    shift, value = decoded(left, right, offset, WIDTH, MAN_BITS, EXPONENT_BITS, FLINT)
    tl.store(exponent + 2 * i, shift, mask=there)
    tl.store(base_int + 2 * i, value, mask=there)
    shift, value = decoded(right, left, offset, WIDTH, MAN_BITS, EXPONENT_BITS, FLINT)
    tl.store(exponent + 2 * i + 1, shift, mask=there)
    tl.store(base_int + 2 * i + 1, value, mask=there)
    bad = (left == IDENTIFIER) & (right & (IDENTIFIER - 1) == 0)
    bad = bad | (right == IDENTIFIER) & (left & (IDENTIFIER - 1) == 0)
    tl.store(illegal + i, bad.to(tl.int32), mask=there)


@triton.jit
def bfp_dot(
    starts,
    mode,
    clear,
    a_sign,
    a_mag,
    a_exp,
    b,
    b_sign,
    b_exp,
    scale,
    acc,
    flags,
    psum,
    value,
    LANES: tl.constexpr,
    HALF: tl.constexpr,
):
    """A program makes a reduction, group after group: exact sums of 32 products, added in float32."""
    case = tl.program_id(0)
    lane = tl.arange(0, LANES)
    total, sticky = 0.0, 0
    for i in range(tl.load(starts + case), tl.load(starts + case + 1)):
        m, at = tl.load(mode + i), i * LANES + lane
        right = tl.load(b + at)
        right = tl.where(m == 0, right - (right >> 3) * 16, right)  # INT4 is two's complement of four bits
        product = tl.load(a_mag + at) * right
        p = tl.sum(tl.where(tl.load(a_sign + at) == tl.load(b_sign + at), product, -product), axis=0)
        x = tl.maximum(tl.load(a_exp + i), 1) + tl.where(m == 0, -22, tl.where(m == 1, -40, -44))
        x += tl.where(m == 0, 0, tl.maximum(tl.load(b_exp + i), 1))
        fresh = tl.load(clear + i) == 1
        total, sticky = tl.where(fresh, 0.0, total), tl.where(fresh, 0, sticky)
        v = p.to(tl.float32) * ((x + 127) << 23).to(tl.float32, bitcast=True)  # exact: 22 bits by a power of two
        if HALF:
            half = v.to(tl.float16).to(tl.float32)  # to nearest, ties to even
            size = tl.abs(half)
            sticky |= tl.where(size == float("inf"), 1, 0)
            sticky |= tl.where((size < 6.103515625e-05) & (half != v), 2, 0)
            v = half
        v = tl.where(m == 0, v * tl.load(scale + i), v)
        total = total + v
        sticky |= tl.where(total != total, 4, 0)
        tl.store(acc + i, total)
        tl.store(flags + i, sticky)
        tl.store(psum + i, p)
        tl.store(value + i, v)


def put(array):
    """A NumPy array where the kernel runs."""
    return torch.from_numpy(array).to(DEVICE)


def prepare_ovp_decoder(manifest, arrays):
    """A launch of `ovp_decode` on the stimulus of a set."""
    exp_bits, man_bits = manifest["config"]["outlier"]
    width, rows = 1 + exp_bits + man_bits, manifest["rows"]
    pair, bias = put(host.int32(arrays["in.pair"])), put(host.int32(arrays["in.bias"]))
    exponent, base_int = (torch.zeros((rows, 2), dtype=torch.int32, device=DEVICE) for _ in range(2))
    illegal = torch.zeros(rows, dtype=torch.int32, device=DEVICE)

    def launch():
        ovp_decode[(triton.cdiv(rows, BLOCK),)](
            pair,
            bias,
            exponent,
            base_int,
            illegal,
            rows,
            WIDTH=width,
            MAN_BITS=man_bits,
            EXPONENT_BITS=4 if width == 4 else 5,
            FLINT=manifest["config"]["normal"] == "flint4",
            BLOCK=BLOCK,
        )
        return {
            "out.exponent": exponent.cpu().numpy(),
            "out.base_int": base_int.cpu().numpy(),
            "out.illegal": illegal.cpu().numpy(),
        }

    return launch


def prepare_bfp_pe(manifest, arrays):
    """A launch of `bfp_dot` on the stimulus of a set."""
    names = ("mode", "clear", "a_sign", "a_mag", "a_exp", "b", "b_sign", "b_exp")
    starts, rows = host.reductions(manifest), manifest["rows"]
    inputs = [put(starts), *(put(host.int32(arrays[f"in.{name}"])) for name in names), put(host.scales(arrays))]
    acc, value = (torch.zeros(rows, dtype=torch.float32, device=DEVICE) for _ in range(2))
    flags, psum = (torch.zeros(rows, dtype=torch.int32, device=DEVICE) for _ in range(2))

    def launch():
        bfp_dot[(len(starts) - 1,)](
            *inputs,
            acc,
            flags,
            psum,
            value,
            LANES=arrays["in.b"].shape[1],
            HALF=manifest["config"]["partial"] == "fp16",
            enable_fp_fusion=False,
        )
        return {
            "out.acc": host.words(acc.cpu().numpy()),
            "out.flags": flags.cpu().numpy(),
            "st.psum": psum.cpu().numpy(),
            "st.value": host.words(value.cpu().numpy()),
        }

    return launch


if __name__ == "__main__":
    warnings.simplefilter("ignore", RuntimeWarning)  # infinities are added and rounded to, as they should be
    np.seterr(all="ignore")
    host.main({"ovp_decoder": prepare_ovp_decoder, "bfp_pe": prepare_bfp_pe}, GPU or "interpreter", not GPU)
