"""LeanKV's attention over pages, one float32 operation at a time [leankv §6.2].

Tokens are decoded (key, value) float32 vectors in pages: high[page][slot] and low[page][slot]. Results per query head:
FP16 words of the output, and p of the tokens, high slots before low ones.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from tests.oracles import fp16, sums
from tests.oracles.exp import exp32
from tests.oracles.fp16 import f32

Vector = Sequence[float]
Pages = Sequence[Sequence[tuple[Vector, Vector]]]

EPSILON = f32(1e-6)


class Options(NamedTuple):
    """diffkv: recip True, eps EPSILON, partition set."""

    order: str = "kernel"
    fma: bool = True
    recip: bool = False
    eps: float = 0.0
    lane_max: bool = False
    k_group: int = 4
    v_vec: int = 2
    v_group: int = 8
    partition: tuple[int, int] | None = None  #: tokens per high and per low page, once there are more than `chunk`
    warps: int = 8
    sum_threads: int = 256
    key_threads: int = 0  #: 0: k_group
    value_rows: int = 0  #: 0: 32 / v_group
    value_slots: int = 0  #: 0: v_vec
    in_turn: bool = False  #: accumulators


PAPER = Options()


class Softmax(NamedTuple):
    """One chunk: float32 outputs (not yet FP16), p, maximum and sum; logits, and accumulators feature by feature."""

    out: list[float]
    p: list[float]
    maximum: float
    total: float
    logits: list[float]
    accumulators: list[list[float]]


def multiply_add(a: float, b: float, c: float, fused: bool) -> float:
    """a * b + c in float32."""
    return fp16.fma32(a, b, c) if fused else f32(f32(a * b) + c)


def logit(q: Vector, key: Vector, options: Options) -> float:
    """One scaled dot product."""
    groups = (options.key_threads or options.k_group) if options.order == "kernel" else 1
    size = len(q) // groups
    partial = []
    for g in range(groups):
        d = f32(q[g * size] * key[g * size])
        for i in range(g * size + 1, (g + 1) * size):
            d = multiply_add(q[i], key[i], d, options.fma)
        partial.append(d)
    return f32(sums.tree(partial, groups, lambda a, b: f32(a + b)) * f32(1 / math.sqrt(len(q))))


def exponentials(options: Options) -> sums.Order:
    """Order of the sum over the threads of a block: halves within each warp of 32 or fewer, then of the warps."""
    warp = min(32, options.sum_threads)
    across = ("chunks", warp, ("halves", warp), ("halves", options.sum_threads // warp))
    return "lanes", options.sum_threads, "strided", across, "zero"


def attend(q: Vector, high: Pages, low: Pages, options: Options) -> Softmax:
    """Steps 1 to 6 over these pages."""
    paged = [(section, j, page) for section, pages in enumerate((high, low)) for j, page in enumerate(pages)]
    slots = [(section, j, t) for section, j, page in paged for t in range(len(page))]
    tokens = [(high, low)[section][j][t] for section, j, t in slots]
    logits = [logit(q, key, options) for key, _ in tokens]
    seen = [x for x, (_, _, t) in zip(logits, slots, strict=True) if t % 4 == 0] if options.lane_max else logits
    top = max(seen)
    e = [exp32(f32(x - top)) for x in logits]
    bottom = sums.total32(e, exponentials(options) if options.order == "kernel" else ("sequential",))
    if options.recip:
        inverse = f32(1 / f32(bottom + options.eps))
        p = [f32(x * inverse) for x in e]
    else:
        p = [f32(x / f32(bottom + options.eps)) for x in e]
    rows, side_by_side = options.value_rows or 32 // options.v_group, options.value_slots or options.v_vec
    out, accumulators = [], []
    for feature in range(len(q)):
        # every accumulator collects its terms first, then adds them up
        terms: list[list[tuple[float, float]]] = [[] for _ in range(options.warps * rows)]
        for weight, (_, value), (_, j, t) in zip(p, tokens, slots, strict=True):
            warp, row = j % options.warps, t // side_by_side % rows
            terms[(warp * rows + row) if options.order == "kernel" else 0].append((weight, value[feature]))
        acc = [dot(each, options.fma) for each in (terms if options.order == "kernel" else terms[:1])]
        accumulators.append(acc)
        out.append(total(acc, options))
    return Softmax(out, p, top, bottom, logits, accumulators)


def dot(terms: Sequence[tuple[float, float]], fused: bool) -> float:
    """Products added one after the other, from 0."""
    acc = 0.0
    for weight, value in terms:
        acc = multiply_add(weight, value, acc, fused)
    return acc


def total(acc: list[float], options: Options) -> float:
    """The accumulators in turn, or by halves."""
    if not options.in_turn:
        return sums.halves(acc, len(acc), lambda a, b: f32(a + b))
    done = acc[0]
    for each in acc[1:]:
        done = f32(done + each)
    return done


def paged_attention(q: Vector, high: Pages, low: Pages, options: Options = PAPER) -> tuple[list[int], list[float]]:
    """One query head: FP16 words of the output and p."""
    count = sum(map(len, high)) + sum(map(len, low))
    if options.partition is None or count <= chunk_tokens(*options.partition):
        found = attend(q, high, low, options)
        return [fp16.from_float(x) for x in found.out], found.p
    return partitioned(q, high, low, options, options.partition)


def chunk_tokens(t_high: int, t_low: int) -> int:
    """Tokens of a partition."""
    return -(-4800 // (t_high * t_low)) * t_high * t_low


def softmaxes(q: Vector, high: Pages, low: Pages, options: Options, per_page: tuple[int, int]) -> list[Softmax]:
    """Every chunk on its own."""
    chunks = []
    for section, pages in enumerate((high, low)):
        size = chunk_tokens(*per_page) // per_page[section]
        cut = [pages[i : i + size] for i in range(0, len(pages), size)]
        chunks += [attend(q, *((part, []) if section == 0 else ([], part)), options) for part in cut]
    return chunks


def partitioned(
    q: Vector, high: Pages, low: Pages, options: Options, per_page: tuple[int, int]
) -> tuple[list[int], list[float]]:
    """Chunks of pages, then their combination."""
    chunks = softmaxes(q, high, low, options, per_page)
    top = max(c.maximum for c in chunks)
    weights = [exp32(f32(c.maximum - top)) for c in chunks]
    wide = 1e-6 if options.eps == EPSILON else options.eps  # the constant of the published code in float64
    factors = [f32((c.total + wide) * w) for c, w in zip(chunks, weights, strict=True)]
    acc = "fp32_fma" if options.fma else "fp32"
    bottom = sums.dot([c.total for c in chunks], weights, exponentials(options), acc)
    inverse = f32(1 / f32(bottom + options.eps))
    out = []
    for feature in range(len(q)):
        value = 0.0
        for c, f in zip(chunks, factors, strict=True):
            rounded = fp16.to_float(fp16.from_float(c.out[feature]))
            value = multiply_add(f32(rounded * f), inverse, value, options.fma)
        out.append(fp16.from_float(value))
    return out, [f32(x * f32(f * inverse)) for c, f in zip(chunks, factors, strict=True) for x in c.p]
