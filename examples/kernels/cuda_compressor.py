"""LeanKV's compressor in numba.cuda: tokens of heads into pages, and from the high to the low section [leankv §4].

A block works for one head: a thread for each feature, then one for each word of the record. On a GPU where the driver
finds one, else in numba's simulator.
"""

import os
import warnings

from examples.kernels import compressor, host, leankv

GPU = host.gpu()
if not GPU:
    os.environ["NUMBA_ENABLE_CUDASIM"] = "1"  # before numba is imported

import numpy as np  # noqa: E402
from numba import cuda, float32, int32  # noqa: E402

FEATURES = 128  #: features of a head, at most
APPEND_HIGH, APPEND_LOW, MOVE = range(3)  #: operations; any other drops the victim
K_VEC, K_GROUP, V_VEC, V_GROUP = leankv.K_VEC, leankv.K_GROUP, leankv.V_VEC, leankv.V_GROUP
K_BITS, V_BITS, TOKENS, KEY_META = leankv.K_BITS, leankv.V_BITS, leankv.TOKENS, leankv.KEY_META
VAL, VAL_META, SCORE, POS = leankv.VAL, leankv.VAL_META, leankv.SCORE, leankv.POS


@cuda.jit(device=True)
def half_of(x):
    """Word of a float32 rounded to fp16, to nearest, ties to even."""
    bits = np.int32(np.float32(x).view(np.int32))
    size, sign = bits & 0x7FFFFFFF, 0x8000 if bits < 0 else 0
    if size >= 0x47800000:
        return sign | 0x7C00
    drop = 13
    if size >= 0x38800000:
        digits = size - 0x38000000
    else:  # below the smallest normal fp16 value
        drop = min(126 - (size >> 23), 25)
        digits = 0x800000 | (size & 0x7FFFFF)
    rest, half = digits & ((1 << drop) - 1), 1 << (drop - 1)
    digits >>= drop
    if rest > half or (rest == half and digits & 1):
        digits += 1
    return sign | digits


@cuda.jit(device=True)
def value_of(word):
    """float32 of a finite fp16 word."""
    power, part = (word >> 10) & 31, word & 1023
    size = np.float32(part) * np.float32(2.0**-24)
    if power:
        size = np.int32(((power + 112) << 23) | (part << 13)).view(np.float32)
    return -size if word >> 15 else size


@cuda.jit(device=True)
def key_word(layout, features, slot, word):
    """Place in a page of a word of a key."""
    vectors = features * layout[K_BITS] // 16 // (K_VEC * K_GROUP)
    vector, lane = word // K_VEC, word % K_VEC
    return ((vector % vectors * layout[TOKENS] + slot) * K_GROUP + vector // vectors) * K_VEC + lane


@cuda.jit(device=True)
def val_word(layout, features, slot, word):
    """Place in a page of a word of a value."""
    own, pairs = features * layout[V_BITS] // 16 // V_GROUP, (layout[TOKENS] + V_VEC - 1) // V_VEC
    member, row = word // own, word % own
    return layout[VAL] + ((row * pairs + slot // V_VEC) * V_GROUP + member) * V_VEC + slot % V_VEC


@cuda.jit(device=True)
def quantized(t, features, x, bits, low, high, code):
    """Step of a vector, of which each thread has a feature; low[0] and code are its minimum and its codes."""
    low[t] = x + np.float32(0)  # -0 becomes +0
    high[t] = low[t]
    cuda.syncthreads()
    half = features // 2
    while half > 0:
        if t < half:
            low[t] = min(low[t], low[t + half])
            high[t] = max(high[t], high[t + half])
        cuda.syncthreads()
        half //= 2
    largest = (1 << bits) - 1
    step = np.float32(np.float32(high[0] - low[0]) / np.float32(largest))
    code[t] = 0
    if step != 0:
        exact = np.float32(np.float32(x - low[0]) / step)
        whole = int(exact)
        rest = exact - np.float32(whole)
        if rest > 0.5 or (rest == 0.5 and whole % 2 == 1):
            whole += 1
        code[t] = min(whole, largest)
    cuda.syncthreads()
    return step


@cuda.jit(device=True)
def packed(code, word, bits):
    """Word of 16 bits, feature 0 in the lowest ones."""
    per, value = 16 // bits, 0
    for lane in range(per):
        value |= code[word * per + lane] << (lane * bits)
    return value


@cuda.jit(device=True)
def put(t, features, image, page_words, layout, slot, key, value, tail, record, low, high, code):
    """Write a token into its slot and its record; tail: of the first four threads, words of score and position."""
    base, place, at = slot // layout[TOKENS] * page_words, slot % layout[TOKENS], 0
    for side in range(2):
        bits = layout[V_BITS] if side else layout[K_BITS]
        step = quantized(t, features, value if side else key, bits, low, high, code)
        size, meta = features * bits // 16, layout[VAL_META] if side else layout[KEY_META]
        if t < size:
            where = val_word(layout, features, place, t) if side else key_word(layout, features, place, t)
            record[at + t] = packed(code, t, bits)
            image[base + where] = record[at + t]
        if t < 2:
            record[at + size + t] = half_of(np.float32(0) - low[0]) if t else half_of(step)
            image[base + meta + 2 * place + t] = record[at + size + t]
        at += size + 2
        cuda.syncthreads()
    if t < 4:
        record[at + t] = tail
        image[base + (layout[SCORE] if t < 2 else layout[POS] - 2) + 2 * place + t] = tail
    cuda.syncthreads()


@cuda.jit(device=True)
def feature_of(image, meta, word, lane, bits):
    """Feature of a stored vector, dequantized with one rounding."""
    code = (image[word] >> (lane * bits)) & ((1 << bits) - 1)
    return np.float32(np.float32(value_of(image[meta]) * np.float32(code)) - value_of(image[meta + 1]))


@cuda.jit
def compress(starts, ops, slots, key, value, tails, layouts, page_words, written, moved, counts, high_pages, low_pages):
    """A block does the operations of a head, one after the other; slots: victim and low slot of each.

    counts, high_pages, low_pages (rows, ...): after each operation.
    """
    t, features, n_high, n_low = cuda.threadIdx.x, key.shape[1], 0, 0
    least = cuda.shared.array(FEATURES, float32)
    most = cuda.shared.array(FEATURES, float32)
    code = cuda.shared.array(FEATURES, int32)
    for i in range(starts[cuda.blockIdx.x], starts[cuda.blockIdx.x + 1]):
        if i > starts[cuda.blockIdx.x]:
            for word in range(t, high_pages.shape[1], features):
                high_pages[i, word] = high_pages[i - 1, word]
            for word in range(t, low_pages.shape[1], features):
                low_pages[i, word] = low_pages[i - 1, word]
        cuda.syncthreads()
        op, victim, to = ops[i], slots[i, 0], slots[i, 1]
        if op == MOVE:
            layout, image = layouts[0], high_pages[i]
            place, base = victim % layout[TOKENS], victim // layout[TOKENS] * page_words
            per = 16 // layout[K_BITS]
            word = base + key_word(layout, features, place, t // per)
            k = feature_of(image, base + layout[KEY_META] + 2 * place, word, t % per, layout[K_BITS])
            per = 16 // layout[V_BITS]
            word = base + val_word(layout, features, place, t // per)
            v = feature_of(image, base + layout[VAL_META] + 2 * place, word, t % per, layout[V_BITS])
            tail = image[base + (layout[SCORE] if t < 2 else layout[POS] - 2) + 2 * place + min(t, 3)]
            put(t, features, low_pages[i], page_words, layouts[1], to, k, v, tail, moved[i], least, most, code)
            n_low = max(n_low, to + 1)
        tail = tails[i, min(t, 3)]
        if op == APPEND_LOW:
            put(t, features, low_pages[i], page_words, layouts[1], n_low, key[i, t], value[i, t], tail, written[i],
                least, most, code)  # fmt: skip
            n_low += 1
        else:
            slot = n_high if op == APPEND_HIGH else victim
            put(t, features, high_pages[i], page_words, layouts[0], slot, key[i, t], value[i, t], tail, written[i],
                least, most, code)  # fmt: skip
            n_high += 1 if op == APPEND_HIGH else 0
        counts[i, 0], counts[i, 1] = n_high, n_low


def prepare(manifest, arrays):
    """A launch of `compress` on the stimulus of a set."""
    operands, made = compressor.operands(manifest, arrays), compressor.results(manifest, arrays)
    starts, features = operands[0], manifest["config"]["head_size"]

    def launch():
        for array in made:
            array[...] = 0
        compress[len(starts) - 1, features](*operands, manifest["config"]["page_bytes"] // 2, *made)
        return compressor.answers(made)

    return launch


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # small grids
    host.main({"kv_compressor": prepare}, GPU or "simulator", not GPU)
