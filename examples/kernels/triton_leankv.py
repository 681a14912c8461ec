"""LeanKV in Triton: paged attention [leankv §6.2] and the compaction of a prompt [leankv §4].

On a GPU where the driver finds one, else in Triton's interpreter. Needs the extra `triton` (with torch about 2 GB).
"""

import math
import os
import warnings

from examples.kernels import host, leankv

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
COLUMNS = tl.constexpr(leankv.COLUMNS)
K_BITS, V_BITS, TOKENS = tl.constexpr(leankv.K_BITS), tl.constexpr(leankv.V_BITS), tl.constexpr(leankv.TOKENS)
KEY_META, VAL, VAL_META = tl.constexpr(leankv.KEY_META), tl.constexpr(leankv.VAL), tl.constexpr(leankv.VAL_META)
SCORE, POS = tl.constexpr(leankv.SCORE), tl.constexpr(leankv.POS)


@triton.jit
def fma32(a, b, c):
    """a * b + c rounded once to float32: the sum of two float64 rounded to odd, then to float32."""
    product, addend = a.to(tl.float64) * b.to(tl.float64), c.to(tl.float64)
    total = product + addend
    part = total - product
    left = (product - (total - part)) + (addend - part)
    bits = total.to(tl.int64, bitcast=True)
    odd = tl.where((left > 0) == (total > 0), bits + 1, bits - 1)
    return tl.where((left != 0) & (bits & 1 == 0), odd, bits).to(tl.float64, bitcast=True).to(tl.float32)


@triton.jit
def decoded(word, shift, bits, scale, zero):
    """Codes, dequantized with one rounding."""
    return scale * ((word >> shift) & ((1 << bits) - 1)).to(tl.float32) - zero


@triton.jit
def halved(values, COUNT: tl.constexpr, WIDTH: tl.constexpr):
    """(COUNT, WIDTH) -> (COUNT,): elements i and i + half are added, again and again."""
    for level in tl.static_range(10):
        if WIDTH >> level > 1:
            low, high = tl.split(tl.permute(tl.reshape(values, (COUNT, 2, WIDTH >> (level + 1))), (0, 2, 1)))
            values = low + high
    return tl.reshape(values, (COUNT,))


@triton.jit
def logits_of(
    q, words, halves, entry, layouts, high, count, cells, page_words,
    F: tl.constexpr, L: tl.constexpr, SHARED_BY: tl.constexpr,
):  # fmt: skip
    """(L,) products of a query and every key: SHARED_BY sums over some features each, then a tree of neighbours."""
    token, member = tl.arange(0, L), tl.arange(0, SHARED_BY)
    low = (token >= high).to(tl.int32)
    here, table = token < count, layouts + low * COLUMNS
    held, bits = tl.load(table + TOKENS), tl.load(table + K_BITS)
    number, slot = (token - low * high) // held, (token - low * high) % held
    cell = tl.where(low == 0, number, cells - 1 - number)
    base = tl.load(entry + cell, mask=here, other=0) * page_words
    meta = base + tl.load(table + KEY_META) + 2 * slot
    step = tl.load(halves + meta, mask=here, other=0.0)[:, None]
    zero = tl.load(halves + meta + 1, mask=here, other=0.0)[:, None]
    per, d = (16 // bits)[:, None], tl.zeros((L, SHARED_BY), tl.float32)
    vectors = F // per // (K_VEC * K_GROUP)
    for f in range(F // SHARED_BY):
        feature = (member * (F // SHARED_BY) + f)[None, :]
        vector, lane = feature // per // K_VEC, feature // per % K_VEC
        word = ((vector % vectors * held[:, None] + slot[:, None]) * K_GROUP + vector // vectors) * K_VEC + lane
        code = tl.load(words + base[:, None] + word, mask=here[:, None], other=0)
        key = decoded(code, feature % per * bits[:, None], bits[:, None], step, zero)
        x = tl.load(q + feature) + tl.zeros((L, SHARED_BY), tl.float32)
        d = tl.where(f == 0, x * key, fma32(x, key, d))
    for level in tl.static_range(5):
        if SHARED_BY >> level > 1:
            even, odd = tl.split(tl.reshape(d, (L, SHARED_BY >> (level + 1), 2)))
            d = even + odd
    return tl.reshape(d, (L,))


@triton.jit
def total_of(e, L: tl.constexpr, THREADS: tl.constexpr):
    """Sum of (L,): lane t adds terms t, t + THREADS, ...; then halves of each warp, then halves of the warps."""
    WARP: tl.constexpr = THREADS if THREADS < 32 else 32
    rounds, lanes = tl.reshape(e, (L // THREADS, THREADS)), tl.zeros((THREADS,), tl.float32)
    for r in range(L // THREADS):
        lanes = lanes + tl.sum(tl.where((tl.arange(0, L // THREADS) == r)[:, None], rounds, 0.0), axis=0)
    of_warps = halved(tl.reshape(lanes, (THREADS // WARP, WARP)), THREADS // WARP, WARP)
    return tl.sum(halved(tl.reshape(of_warps, (1, THREADS // WARP)), 1, THREADS // WARP), axis=0)


@triton.jit
def accumulated(
    p, words, halves, entry, layouts, counts, cells, page_words,
    F: tl.constexpr, WARPS: tl.constexpr, ROWS: tl.constexpr, SLOTS: tl.constexpr,
):  # fmt: skip
    """(WARPS * ROWS, F): (warp, row) takes pages warp, warp + WARPS, ... and of these every ROWS-th block of SLOTS."""
    place, f = tl.arange(0, WARPS * ROWS), tl.arange(0, F)[None, :]
    warp, row = place // ROWS, place % ROWS
    acc = tl.zeros((WARPS * ROWS, F), tl.float32)
    for section in range(2):
        table, own = layouts + section * COLUMNS, tl.load(counts + section)
        held, bits = tl.load(table + TOKENS), tl.load(table + V_BITS)
        per, pairs = 16 // bits, (held + V_VEC - 1) // V_VEC
        parts, pack = F // per // V_GROUP, f // per
        for turn in range(tl.cdiv(tl.cdiv(own, held), WARPS)):
            for block in range(tl.cdiv(held, ROWS * SLOTS)):
                for e in range(SLOTS):
                    number, slot = turn * WARPS + warp, (block * ROWS + row) * SLOTS + e
                    there = (slot < held) & (number * held + slot < own)
                    cell = number + section * (cells - 1 - 2 * number)
                    base = tl.load(entry + cell, mask=there, other=0) * page_words
                    meta = base + tl.load(table + VAL_META) + 2 * slot
                    step = tl.load(halves + meta, mask=there, other=0.0)[:, None]
                    zero = tl.load(halves + meta + 1, mask=there, other=0.0)[:, None]
                    word = (pack % parts * pairs + (slot // V_VEC)[:, None]) * V_GROUP + pack // parts
                    word = tl.load(table + VAL) + word * V_VEC + (slot % V_VEC)[:, None]
                    code = tl.load(words + base[:, None] + word, mask=there[:, None], other=0)
                    value = decoded(code, f % per * bits, bits, step, zero)
                    at = section * tl.load(counts) + number * held + slot
                    weight = tl.load(p + at, mask=there, other=0.0)[:, None] + tl.zeros_like(value)
                    acc = tl.where(there[:, None], fma32(weight, value, acc), acc)
    return acc


@triton.jit
def attention(
    q, words, halves, entry, counts, layouts, scale, logits, tops, totals, p, acc, sums, cells, page_words, most,
    F: tl.constexpr, L: tl.constexpr, WARPS: tl.constexpr, THREADS: tl.constexpr, SHARED_BY: tl.constexpr,
    ROWS: tl.constexpr, SLOTS: tl.constexpr, IN_TURN: tl.constexpr,
):  # fmt: skip
    """A program attends for one query head of a row; L: places for tokens, at least THREADS."""
    i, first, token = tl.program_id(0), tl.program_id(0) * tl.num_programs(1) + tl.program_id(1), tl.arange(0, L)
    high, count = tl.load(counts + 2 * i), tl.load(counts + 2 * i) + tl.load(counts + 2 * i + 1)
    own, pages, here = entry + i * cells, i * cells * page_words, token < count

    codes, metadata = words + pages, halves + pages
    product = logits_of(q + first * F, codes, metadata, own, layouts, high, count, cells, page_words, F, L, SHARED_BY)
    logit = product * scale
    top = tl.max(tl.where(here, logit, float("-inf")), axis=0)
    e = tl.where(here, tl.exp((logit - top).to(tl.float64)).to(tl.float32), 0.0)
    total = total_of(e, L, THREADS)
    tl.store(logits + first * most + token, logit, mask=here)
    tl.store(p + first * most + token, tl.math.div_rn(e, tl.zeros_like(e) + total), mask=here)
    tl.store(tops + first, top)
    tl.store(totals + first, total)
    tl.debug_barrier()  # what follows reads p of other threads
    terms = accumulated(
        p + first * most, codes, metadata, own, layouts, counts + 2 * i, cells, page_words, F, WARPS, ROWS, SLOTS
    )
    place, f = tl.arange(0, WARPS * ROWS), tl.arange(0, F)
    tl.store(acc + (first * WARPS * ROWS + place)[:, None] * F + f[None, :], terms)
    if IN_TURN:
        joined = tl.zeros((F,), tl.float32)
        for a in range(WARPS * ROWS):
            joined = joined + tl.sum(tl.where((place == a)[:, None], terms, 0.0), axis=0)
    else:
        joined = halved(tl.trans(terms), F, WARPS * ROWS)
    tl.store(sums + first * F + f, joined)


@triton.jit
def add_scores(p, words, entry, counts, newest, layouts, score, cells, page_words, most, heads, L: tl.constexpr):
    """A program adds the largest p of the heads to the scores of a row; the newest token keeps its own."""
    i, token = tl.program_id(0), tl.arange(0, L)
    high, count = tl.load(counts + 2 * i), tl.load(counts + 2 * i) + tl.load(counts + 2 * i + 1)
    low = (token >= high).to(tl.int32)
    here, table = token < count, layouts + low * COLUMNS
    held = tl.load(table + TOKENS)
    number, slot = (token - low * high) // held, (token - low * high) % held
    cell = tl.where(low == 0, number, cells - 1 - number)
    base = (i * cells + tl.load(entry + i * cells + cell, mask=here, other=0)) * page_words + 2 * slot
    at, where = base + tl.load(table + SCORE), base + tl.load(table + POS)
    old = tl.load(words + at, mask=here, other=0) | tl.load(words + at + 1, mask=here, other=0) << 16
    position = tl.load(words + where, mask=here, other=0) | tl.load(words + where + 1, mask=here, other=0) << 16
    largest = tl.zeros((L,), tl.float32)
    for head in range(heads):
        largest = tl.maximum(largest, tl.load(p + (i * heads + head) * most + token, mask=here, other=0.0))
    largest = tl.where(position == tl.load(newest + i), 0.0, largest)
    tl.store(score + i * most + token, old.to(tl.float32, bitcast=True) + largest, mask=here)


@triton.jit
def compact(share, window, thresholds, cls, order, counts, tokens, N: tl.constexpr):
    """A program classifies the tokens of a prompt, N places: the rank of each, then one running sum.

    A parallel scan would round differently. counts: tokens pruned, low and high.
    """
    i, t, u = tl.program_id(0), tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    border = tl.maximum(tokens - tl.load(window + i), 0)
    mine = tl.load(share + i * tokens + t, mask=t < border, other=0.0)
    other = tl.load(share + i * tokens + u, mask=u < border, other=0.0)
    before = (other < mine) | (other == mine) & (u < t)
    rank = tl.sum((before & (u < border)).to(tl.int32), axis=1)
    number = tl.arange(0, N)
    rank = tl.where(number < border, rank, number)
    tl.store(order + i * tokens + rank, number, mask=number < tokens)
    tl.debug_barrier()  # the sum reads the places of other threads
    low, high = tl.load(thresholds + 2 * i), tl.load(thresholds + 2 * i + 1)
    running, kept, pruned, lows = 0.0, 0, 0, 0
    for place in range(border):
        token = tl.load(order + i * tokens + place)
        running = running + tl.load(share + i * tokens + token)
        is_pruned = (kept == 0) & (running < low)
        own = tl.where(is_pruned, 0, tl.where((kept < 2) & (running < high), 1, 2))
        kept = own  # 0 until a token is retained, 2 from the first one of high precision
        pruned += tl.where(own == 0, 1, 0)
        lows += tl.where(own == 1, 1, 0)
        tl.store(cls + i * tokens + token, own)
    tl.store(cls + i * tokens + number, 3, mask=(number >= border) & (number < tokens))
    tl.store(counts + 3 * i, pruned)
    tl.store(counts + 3 * i + 1, lows)
    tl.store(counts + 3 * i + 2, border - pruned - lows)


def put(array):
    """A NumPy array where the kernel runs."""
    return torch.from_numpy(np.ascontiguousarray(array)).to(DEVICE)


def prepare_attention(manifest, arrays):
    """Launches of `attention` and `add_scores` on the stimulus of a set."""
    config, rows, block = manifest["config"], manifest["rows"], leankv.block(manifest["config"])
    heads, features, cells = config["heads"], config["head_size"], config["cells"]
    q, entry = put(leankv.queries(manifest, arrays)), put(host.int32(arrays["in.entry"]))
    words, halves = (put(array) for array in leankv.images(manifest, arrays))
    counts = put(np.stack([host.int32(arrays[f"in.{name}"]) for name in ("n_high", "n_low")], axis=1))
    newest, layouts = put(host.int32(arrays["in.newest"])), put(leankv.layouts(config))
    most, slots = arrays["out.score"].shape[1], block["warps"] * block["rows"]
    places = max(triton.next_power_of_2(most), block["sum_threads"])
    shapes = {
        "logits": (rows, heads, most),
        "tops": (rows, heads),
        "totals": (rows, heads),
        "p": (rows, heads, most),
        "acc": (rows, heads, slots, features),
        "sums": (rows, heads, features),
    }
    made = {name: torch.zeros(shape, dtype=torch.float32, device=DEVICE) for name, shape in shapes.items()}
    score = torch.zeros((rows, most), dtype=torch.float32, device=DEVICE)
    sizes = cells, config["page_bytes"] // 2, most

    def launch():
        attention[(rows, heads)](
            q,
            words,
            halves,
            entry,
            counts,
            layouts,
            float(np.float32(1 / math.sqrt(features))),
            *made.values(),
            *sizes,
            F=features,
            L=places,
            WARPS=block["warps"],
            THREADS=block["sum_threads"],
            SHARED_BY=block["key_threads"],
            ROWS=block["rows"],
            SLOTS=block["slots"],
            IN_TURN=block["in_turn"],
            enable_fp_fusion=False,
        )
        add_scores[(rows,)](made["p"], words, entry, counts, newest, layouts, score, *sizes, heads, L=places)
        return leankv.answers(
            manifest, {name: array.cpu().numpy() for name, array in made.items()} | {"score": score.cpu().numpy()}
        )

    return launch


def prepare_prompt(manifest, arrays):
    """A launch of `compact` on the stimulus of a set."""
    share, thresholds = (put(arrays[f"in.{name}"].view(np.float32)) for name in ("share", "thresholds"))
    window = put(host.int32(arrays["in.window"]))
    rows, tokens = share.shape
    cls, order = (torch.zeros((rows, tokens), dtype=torch.int32, device=DEVICE) for _ in range(2))
    counts = torch.zeros((rows, 3), dtype=torch.int32, device=DEVICE)

    def launch():
        compact[(rows,)](
            share, window, thresholds, cls, order, counts, tokens, N=triton.next_power_of_2(tokens),
            enable_fp_fusion=False,
        )  # fmt: skip
        names = "n_pruned", "n_low", "n_high"
        numbers = {f"out.{name}": column for name, column in zip(names, counts.cpu().numpy().T, strict=True)}
        return {"out.cls": cls.cpu().numpy(), "out.order": order.cpu().numpy(), **numbers}

    return launch


if __name__ == "__main__":
    warnings.simplefilter("ignore", RuntimeWarning)  # of places without a token
    np.seterr(all="ignore")
    kernels = {"paged_attention": prepare_attention, "prompt_compressor": prepare_prompt}
    host.main(kernels, GPU or "interpreter", not GPU)
