"""LeanKV in numba.cuda: paged attention [leankv §6.2] and the compaction of a prompt [leankv §4].

On a GPU where the driver finds one, else in numba's simulator, which shows the logic: which thread reads and adds what.
"""

import math
import os
import warnings

from examples.kernels import host, leankv

GPU = host.gpu()
if not GPU:
    os.environ["NUMBA_ENABLE_CUDASIM"] = "1"  # before numba is imported

import numpy as np  # noqa: E402
from numba import cuda, float32, int32  # noqa: E402

WARP = 32
MOST = 640  #: most tokens of a head that fit in shared memory
PART_SUMS = MOST * 8  #: partial dot products of a head; at most 8 threads share a key
LANES = 256  #: threads that sum exponentials, at most
ACCUMULATORS = 32 * 128  #: floats of all accumulators of a head, at most
PROMPT = 64  #: tokens of a prompt, at most
K_VEC, K_GROUP, V_VEC, V_GROUP = leankv.K_VEC, leankv.K_GROUP, leankv.V_VEC, leankv.V_GROUP
K_BITS, V_BITS, TOKENS, KEY_META = leankv.K_BITS, leankv.V_BITS, leankv.TOKENS, leankv.KEY_META
VAL, VAL_META, SCORE, POS = leankv.VAL, leankv.VAL_META, leankv.SCORE, leankv.POS
ZERO, LOWEST = np.float32(0), np.float32(-np.inf)


@cuda.jit(device=True)
def fma32(a, b, c):
    """a * b + c rounded once to float32: the sum of two float64 rounded to odd, then to float32."""
    product, addend = np.float64(a) * np.float64(b), np.float64(c)
    total = product + addend
    part = total - product
    left = (product - (total - part)) + (addend - part)
    if left != 0:
        bits = np.float64(total).view(np.int64)
        if bits & 1 == 0:
            total = np.int64(bits + (1 if (left > 0) == (total > 0) else -1)).view(np.float64)
    return np.float32(total)


@cuda.jit(device=True)
def value_of(word, shift, bits, scale, zero):
    """A code, dequantized with one rounding."""
    code = (word >> shift) & ((1 << bits) - 1)
    return np.float32(np.float32(scale * np.float32(code)) - zero)


@cuda.jit(device=True)
def key_of(words, halves, layout, features, token, feature):
    """Feature of the key in slot `token` of a page."""
    per, size = 16 // layout[K_BITS], features * layout[K_BITS] // 16
    vectors = size // (K_VEC * K_GROUP)
    vector, lane = feature // per // K_VEC, feature // per % K_VEC
    word = ((vector % vectors * layout[TOKENS] + token) * K_GROUP + vector // vectors) * K_VEC + lane
    meta = layout[KEY_META] + 2 * token
    return value_of(words[word], feature % per * layout[K_BITS], layout[K_BITS], halves[meta], halves[meta + 1])


@cuda.jit(device=True)
def value_at(words, halves, layout, features, token, feature):
    """Feature of the value in slot `token` of a page."""
    per, size = 16 // layout[V_BITS], features * layout[V_BITS] // 16
    own, pairs = size // V_GROUP, (layout[TOKENS] + V_VEC - 1) // V_VEC
    member, row = feature // per // own, feature // per % own
    word = layout[VAL] + ((row * pairs + token // V_VEC) * V_GROUP + member) * V_VEC + token % V_VEC
    meta = layout[VAL_META] + 2 * token
    return value_of(words[word], feature % per * layout[V_BITS], layout[V_BITS], halves[meta], halves[meta + 1])


@cuda.jit(device=True)
def page_of(section, number, cells):
    """Cell of a page: high ones from the left, low ones from the right."""
    return number if section == 0 else cells - 1 - number


@cuda.jit
def attention(q, words, halves, entry, counts, layouts, shape, scale, logits, tops, totals, p, acc, sums):
    """A block attends for one query head of a row; shape: warps, threads of a sum, of a key, rows, slots, in turn."""
    i, head, thread = cuda.blockIdx.x, cuda.blockIdx.y, cuda.threadIdx.x
    warps, sum_threads, key_threads, rows, slots, in_turn = shape[0], shape[1], shape[2], shape[3], shape[4], shape[5]
    warp, lane, threads = thread // WARP, thread % WARP, cuda.blockDim.x
    features, cells, total = q.shape[2], entry.shape[1], counts[i, 0] + counts[i, 1]
    part = cuda.shared.array(PART_SUMS, float32)  # a GPU takes a constant here, no expression
    chance = cuda.shared.array(MOST, float32)
    lanes = cuda.shared.array(LANES, float32)
    every = cuda.shared.array(ACCUMULATORS, float32)
    top = cuda.shared.array(1, float32)

    # keys: a warp takes a page, a group of its threads one key after the other
    group, member, own = lane // key_threads, lane % key_threads, features // key_threads
    for section in range(2):
        held, before = layouts[section, TOKENS], section * counts[i, 0]
        for number in range(warp, (counts[i, section] + held - 1) // held, warps):
            page = entry[i, page_of(section, number, cells)]
            for slot in range(group, min(held, counts[i, section] - number * held), WARP // key_threads):
                d = ZERO
                for feature in range(member * own, (member + 1) * own):
                    k = key_of(words[i, page], halves[i, page], layouts[section], features, slot, feature)
                    d = q[i, head, feature] * k if feature == member * own else fma32(q[i, head, feature], k, d)
                part[(before + number * held + slot) * key_threads + member] = d
    cuda.syncthreads()
    for token in range(thread, total, threads):
        left = key_threads
        while left > 1:
            left //= 2
            for m in range(left):
                at = token * key_threads
                part[at + m] = part[at + 2 * m] + part[at + 2 * m + 1]
        logits[i, head, token] = part[token * key_threads] * scale
        chance[token] = logits[i, head, token]
    cuda.syncthreads()

    # softmax: threads add every sum_threads-th exponential, then halves of each warp, then halves of the warps
    if thread == 0:
        top[0] = LOWEST
        for token in range(total):
            top[0] = max(top[0], chance[token])
    cuda.syncthreads()
    for token in range(thread, total, threads):
        chance[token] = np.float32(math.exp(np.float64(np.float32(chance[token] - top[0]))))
    cuda.syncthreads()
    for start in range(thread, sum_threads, threads):
        lanes[start] = ZERO
        for token in range(start, total, sum_threads):
            lanes[start] = lanes[start] + chance[token]
    cuda.syncthreads()
    width = min(sum_threads, WARP)
    half = width // 2
    while half > 0:
        for start in range(thread, sum_threads, threads):
            if start % width < half:
                lanes[start] = lanes[start] + lanes[start + half]
        cuda.syncthreads()
        half //= 2
    half = sum_threads // width // 2
    while half > 0:
        if thread < half:
            lanes[thread * width] = lanes[thread * width] + lanes[(thread + half) * width]
        cuda.syncthreads()
        half //= 2
    for token in range(thread, total, threads):
        p[i, head, token] = chance[token] / lanes[0]
        chance[token] = p[i, head, token]
    if thread == 0:
        tops[i, head], totals[i, head] = top[0], lanes[0]
    cuda.syncthreads()

    # values: groups of threads take neighbouring slots, each thread some features of them
    row, member, own = lane // V_GROUP, lane % V_GROUP, features // V_GROUP
    if row < rows:
        for feature in range(member * own, (member + 1) * own):
            mine = ZERO
            for section in range(2):
                held, before = layouts[section, TOKENS], section * counts[i, 0]
                for number in range(warp, (counts[i, section] + held - 1) // held, warps):
                    page, first = entry[i, page_of(section, number, cells)], before + number * held
                    for slot in range(min(held, counts[i, section] - number * held)):
                        if slot // slots % rows == row:
                            v = value_at(words[i, page], halves[i, page], layouts[section], features, slot, feature)
                            mine = fma32(chance[first + slot], v, mine)
            every[(warp * rows + row) * features + feature] = mine
            acc[i, head, warp * rows + row, feature] = mine
    cuda.syncthreads()
    for feature in range(thread, features, threads):
        left = warps * rows
        while left > 1:
            if in_turn:
                every[feature] = every[feature] + every[(warps * rows + 1 - left) * features + feature]
                left -= 1
            else:
                left //= 2
                for place in range(left):
                    at = place * features + feature
                    every[at] = every[at] + every[at + left * features]
        sums[i, head, feature] = every[feature]


@cuda.jit
def add_scores(p, words, entry, counts, newest, layouts, score):
    """A thread adds the largest p of the heads to the score of a token; the newest keeps its own."""
    i, token = cuda.grid(2)
    if i < entry.shape[0] and token < counts[i, 0] + counts[i, 1]:
        section = int(token >= counts[i, 0])
        held, own = layouts[section, TOKENS], token - section * counts[i, 0]
        page, slot = entry[i, page_of(section, own // held, entry.shape[1])], own % held
        at = layouts[section, SCORE] + 2 * slot
        place = layouts[section, POS] + 2 * slot
        old = np.int32(words[i, page, at] | (words[i, page, at + 1] << 16)).view(np.float32)
        most = ZERO
        for head in range(p.shape[1]):
            most = max(most, p[i, head, token])
        if words[i, page, place] | (words[i, page, place + 1] << 16) == newest[i]:
            most = ZERO
        score[i, token] = np.float32(old + most)


@cuda.jit
def compact(share, window, thresholds, cls, order, counts):
    """A block classifies the tokens of a prompt; every thread finds the place of its own among those before the window.

    counts: tokens pruned, low and high. The sums are those of one thread: a parallel scan would round differently.
    """
    i, t, tokens = cuda.blockIdx.x, cuda.threadIdx.x, share.shape[1]
    ranked = cuda.shared.array(PROMPT, int32)  # the simulator tells shared arrays apart by their lines
    own = cuda.shared.array(PROMPT, int32)
    border = max(tokens - window[i], 0)
    rank = t
    if t < border:
        rank = 0
        for u in range(border):
            before = u < t if share[i, u] == share[i, t] else share[i, u] < share[i, t]
            rank += 1 if before else 0
    ranked[rank] = t
    cuda.syncthreads()
    order[i, t] = ranked[t]
    if t == 0:
        running, kept, kept_high = ZERO, 0, 0
        for place in range(tokens):
            u = ranked[place]
            own[u] = 3
            if place < border:
                running = np.float32(running + share[i, u])
                if kept == 0 and running < thresholds[i, 0]:
                    own[u] = 0
                elif kept_high == 0 and running < thresholds[i, 1]:
                    own[u], kept = 1, 1
                else:
                    own[u], kept, kept_high = 2, 1, 1
                counts[i, own[u]] += 1
    cuda.syncthreads()
    cls[i, t] = own[t]


def prepare_attention(manifest, arrays):
    """Launches of `attention` and `add_scores` on the stimulus of a set."""
    config, rows = manifest["config"], manifest["rows"]
    q, (words, halves) = leankv.queries(manifest, arrays), leankv.images(manifest, arrays)
    names = ("entry", "n_high", "n_low", "newest")
    entry, high, low, newest = (host.int32(arrays[f"in.{name}"]) for name in names)
    counts, layouts, block = np.stack([high, low], axis=1), leankv.layouts(config), leankv.block(config)
    heads, features, tokens = config["heads"], config["head_size"], arrays["out.score"].shape[1]
    slots = block["warps"] * block["rows"]
    made = {
        "logits": np.zeros((rows, heads, tokens), np.float32),
        "tops": np.zeros((rows, heads), np.float32),
        "totals": np.zeros((rows, heads), np.float32),
        "p": np.zeros((rows, heads, tokens), np.float32),
        "acc": np.zeros((rows, heads, slots, features), np.float32),
        "sums": np.zeros((rows, heads, features), np.float32),
    }
    score, scale = np.zeros((rows, tokens), np.float32), np.float32(1 / math.sqrt(features))
    shape = np.array([int(value) for value in block.values()], np.int32)

    def launch():
        threads = WARP * block["warps"]
        attention[(rows, heads), threads](q, words, halves, entry, counts, layouts, shape, scale, *made.values())
        add_scores[(rows, -(-tokens // WARP)), (1, WARP)](made["p"], words, entry, counts, newest, layouts, score)
        return leankv.answers(manifest, made | {"score": score})

    return launch


def prepare_prompt(manifest, arrays):
    """A launch of `compact` on the stimulus of a set."""
    share, thresholds = (arrays[f"in.{name}"].view(np.float32) for name in ("share", "thresholds"))
    window = host.int32(arrays["in.window"])
    rows, tokens = share.shape
    cls, order = np.zeros((rows, tokens), np.int32), np.zeros((rows, tokens), np.int32)
    counts = np.zeros((rows, 4), np.int32)

    def launch():
        counts[:] = 0
        compact[rows, tokens](share, window, thresholds, cls, order, counts)
        numbers = {f"out.{name}": counts[:, i] for i, name in enumerate(("n_pruned", "n_low", "n_high"))}
        return {"out.cls": cls, "out.order": order, **numbers}

    return launch


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # infinities, and small grids
    host.main({"paged_attention": prepare_attention, "prompt_compressor": prepare_prompt}, GPU or "simulator", not GPU)
