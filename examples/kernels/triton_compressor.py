"""LeanKV's compressor in Triton: tokens of heads into their pages, and from the high to the low section [leankv §4].

A program works for one head. On a GPU where the driver finds one, else in Triton's interpreter. Needs the extra
`triton` (with torch about 2 GB).
"""

import os
import warnings

from examples.kernels import compressor, host, leankv

GPU = host.gpu()
if not GPU:
    os.environ["TRITON_INTERPRET"] = "1"  # before triton is imported

import numpy as np  # noqa: E402
import torch  # noqa: E402
import triton  # noqa: E402
import triton.language as tl  # noqa: E402

DEVICE = "cuda" if GPU else "cpu"
K_VEC, K_GROUP = tl.constexpr(leankv.K_VEC), tl.constexpr(leankv.K_GROUP)
V_VEC, V_GROUP = tl.constexpr(leankv.V_VEC), tl.constexpr(leankv.V_GROUP)
K_BITS, V_BITS, TOKENS = tl.constexpr(leankv.K_BITS), tl.constexpr(leankv.V_BITS), tl.constexpr(leankv.TOKENS)
KEY_META, VAL, VAL_META = tl.constexpr(leankv.KEY_META), tl.constexpr(leankv.VAL), tl.constexpr(leankv.VAL_META)
SCORE, POS, COLUMNS = tl.constexpr(leankv.SCORE), tl.constexpr(leankv.POS), tl.constexpr(leankv.COLUMNS)


@triton.jit
def key_word(layout, features, slot, word):
    """Places in a page of words of a key."""
    vectors = features * tl.load(layout + K_BITS) // 16 // (K_VEC * K_GROUP)
    vector, lane = word // K_VEC, word % K_VEC
    return ((vector % vectors * tl.load(layout + TOKENS) + slot) * K_GROUP + vector // vectors) * K_VEC + lane


@triton.jit
def val_word(layout, features, slot, word):
    """Places in a page of words of a value."""
    own = features * tl.load(layout + V_BITS) // 16 // V_GROUP
    pairs = (tl.load(layout + TOKENS) + V_VEC - 1) // V_VEC
    member, row = word // own, word % own
    return tl.load(layout + VAL) + ((row * pairs + slot // V_VEC) * V_GROUP + member) * V_VEC + slot % V_VEC


@triton.jit
def half_of(x):
    """Words of float32 values rounded to fp16, to nearest, ties to even."""
    return x.to(tl.float16).to(tl.int16, bitcast=True).to(tl.int32) & 0xFFFF


@triton.jit
def put_vector(x, bits, record, image, places, meta, F: tl.constexpr):
    """Quantize a vector: its words to a record and to places of a page, then scale and zero point."""
    value = x + 0.0  # -0 becomes +0
    low, high = tl.min(value, 0), tl.max(value, 0)
    largest = (1 << bits) - 1
    step = tl.math.div_rn(tl.zeros_like(value) + (high - low), tl.zeros_like(value) + largest.to(tl.float32))
    exact = tl.math.div_rn(value - low, tl.where(step == 0, 1.0, step))
    whole = exact.to(tl.int32)
    rest = exact - whole.to(tl.float32)
    whole += ((rest > 0.5) | ((rest == 0.5) & (whole % 2 == 1))).to(tl.int32)
    code = tl.where(step == 0, 0, tl.minimum(whole, largest))
    per, t, w = 16 // bits, tl.arange(0, F), tl.arange(0, F // 2)
    here = (t[None, :] // per) == w[:, None]
    words = tl.sum(tl.where(here, (code << (t % per * bits))[None, :], 0), 1)
    size = F // per
    tl.store(record + w, words, mask=w < size)
    tl.store(image + places, words, mask=w < size)
    scale, zero = half_of(tl.max(step, 0)), half_of(0.0 - low)
    tl.store(record + size, scale)
    tl.store(record + size + 1, zero)
    tl.store(image + meta, scale)
    tl.store(image + meta + 1, zero)


@triton.jit
def put(image, page_words, layout, slot, key, value, tail, record, F: tl.constexpr):
    """Write a token into its slot and its record; tail: four words of score and position."""
    held, w, four = tl.load(layout + TOKENS), tl.arange(0, F // 2), tl.arange(0, 4)
    base, place, bits = image + slot // held * page_words, slot % held, tl.load(layout + K_BITS)
    meta = tl.load(layout + KEY_META) + 2 * place
    put_vector(key, bits, record, base, key_word(layout, F, place, w), meta, F)
    at, bits, meta = F * bits // 16 + 2, tl.load(layout + V_BITS), tl.load(layout + VAL_META) + 2 * place
    put_vector(value, bits, record + at, base, val_word(layout, F, place, w), meta, F)
    tl.store(record + at + F * bits // 16 + 2 + four, tail)
    tl.store(base + tail_words(layout, place, four), tail)


@triton.jit
def tail_words(layout, place, four):
    """Places in a page of the words of score and position."""
    return tl.where(four < 2, tl.load(layout + SCORE), tl.load(layout + POS) - 2) + 2 * place + four


@triton.jit
def feature_of(image, meta, word, lane, bits):
    """Features of a stored vector, dequantized with one rounding."""
    code = (tl.load(image + word) >> (lane * bits)) & ((1 << bits) - 1)
    scale = tl.load(image + meta).to(tl.int16).to(tl.float16, bitcast=True).to(tl.float32)
    zero = tl.load(image + meta + 1).to(tl.int16).to(tl.float16, bitcast=True).to(tl.float32)
    return scale * code.to(tl.float32) - zero


@triton.jit
def compress(
    starts, ops, slots, key, value, tails, layouts, page_words, written, moved, counts, high_pages, low_pages,
    record_words, moved_words, high_words, low_words, F: tl.constexpr, N: tl.constexpr,
):  # fmt: skip
    """A program does the operations of a head, one after the other; N: at least the words of a section."""
    case, t, four, n = tl.program_id(0), tl.arange(0, F), tl.arange(0, 4), tl.arange(0, N)
    n_high, n_low, first = 0, 0, tl.load(starts + case)
    for i in range(first, tl.load(starts + case + 1)):
        high, low = high_pages + i * high_words, low_pages + i * low_words
        before = tl.where(i > first, 1, 0)  # whether there was an operation
        word = tl.load(high - high_words + n, mask=n < high_words * before, other=0)
        tl.store(high + n, word, mask=n < high_words)
        word = tl.load(low - low_words + n, mask=n < low_words * before, other=0)
        tl.store(low + n, word, mask=n < low_words)
        tl.debug_barrier()  # what follows reads and replaces words of other threads
        op, victim, to = tl.load(ops + i), tl.load(slots + 2 * i), tl.load(slots + 2 * i + 1)
        if op == 2:
            held = tl.load(layouts + TOKENS)
            place, image = victim % held, high + victim // held * page_words
            bits = tl.load(layouts + K_BITS)
            word = key_word(layouts, F, place, t // (16 // bits))
            k = feature_of(image, tl.load(layouts + KEY_META) + 2 * place, word, t % (16 // bits), bits)
            bits = tl.load(layouts + V_BITS)
            word = val_word(layouts, F, place, t // (16 // bits))
            v = feature_of(image, tl.load(layouts + VAL_META) + 2 * place, word, t % (16 // bits), bits)
            tail = tl.load(image + tail_words(layouts, place, four))
            put(low, page_words, layouts + COLUMNS, to, k, v, tail, moved + i * moved_words, F)
            n_low = tl.maximum(n_low, to + 1)
            tl.debug_barrier()  # the victim is read before its slot is written
        k, v, tail = tl.load(key + i * F + t), tl.load(value + i * F + t), tl.load(tails + 4 * i + four)
        if op == 1:
            put(low, page_words, layouts + COLUMNS, n_low, k, v, tail, written + i * record_words, F)
        else:
            put(high, page_words, layouts, tl.where(op == 0, n_high, victim), k, v, tail, written + i * record_words, F)
        n_high += tl.where(op == 0, 1, 0)
        n_low += tl.where(op == 1, 1, 0)
        tl.store(counts + 2 * i, n_high)
        tl.store(counts + 2 * i + 1, n_low)
        tl.debug_barrier()


def put_on(array):
    """An array on the device."""
    return torch.from_numpy(np.ascontiguousarray(array)).to(DEVICE)


def prepare(manifest, arrays):
    """A launch of `compress` on the stimulus of a set."""
    operands = [put_on(array) for array in compressor.operands(manifest, arrays)]
    made = [put_on(array) for array in compressor.results(manifest, arrays)]
    words = [made[place].shape[1] for place in (0, 1, 3, 4)]

    def launch():
        for array in made:
            array.zero_()
        compress[(len(operands[0]) - 1,)](
            *operands, manifest["config"]["page_bytes"] // 2, *made, *words, F=manifest["config"]["head_size"],
            N=triton.next_power_of_2(max(words)), enable_fp_fusion=False,
        )  # fmt: skip
        return compressor.answers(tuple(array.cpu().numpy() for array in made))

    return launch


if __name__ == "__main__":
    warnings.simplefilter("ignore", RuntimeWarning)
    host.main({"kv_compressor": prepare}, GPU or "interpreter", not GPU)
