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

SOFTMAX = ("lanes", 256, "strided", ("chunks", 32, ("halves", 32), ("halves", 8)), "zero")
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


PAPER = Options()


class Softmax(NamedTuple):
    """One chunk: float32 outputs (not yet FP16), p, maximum and sum."""

    out: list[float]
    p: list[float]
    maximum: float
    total: float


def multiply_add(a: float, b: float, c: float, fused: bool) -> float:
    """a * b + c in float32."""
    return fp16.fma32(a, b, c) if fused else f32(f32(a * b) + c)


def logit(q: Vector, key: Vector, options: Options) -> float:
    """One scaled dot product."""
    groups = options.k_group if options.order == "kernel" else 1
    size = len(q) // groups
    partial = []
    for g in range(groups):
        d = f32(q[g * size] * key[g * size])
        for i in range(g * size + 1, (g + 1) * size):
            d = multiply_add(q[i], key[i], d, options.fma)
        partial.append(d)
    return f32(sums.tree(partial, groups, lambda a, b: f32(a + b)) * f32(1 / math.sqrt(len(q))))


def attend(q: Vector, high: Pages, low: Pages, options: Options) -> Softmax:
    """Steps 1 to 6 over these pages."""
    paged = [(section, j, page) for section, pages in enumerate((high, low)) for j, page in enumerate(pages)]
    slots = [(section, j, t) for section, j, page in paged for t in range(len(page))]
    tokens = [(high, low)[section][j][t] for section, j, t in slots]
    logits = [logit(q, key, options) for key, _ in tokens]
    seen = [x for x, (_, _, t) in zip(logits, slots, strict=True) if t % 4 == 0] if options.lane_max else logits
    top = max(seen)
    e = [exp32(f32(x - top)) for x in logits]
    total = sums.total32(e, SOFTMAX if options.order == "kernel" else ("sequential",))
    if options.recip:
        inverse = f32(1 / f32(total + options.eps))
        p = [f32(x * inverse) for x in e]
    else:
        p = [f32(x / f32(total + options.eps)) for x in e]
    rows = 32 // options.v_group  # accumulators of a warp
    out = []
    for feature in range(len(q)):
        acc = [0.0] * (8 * rows if options.order == "kernel" else 1)
        for weight, (_, value), (_, j, t) in zip(p, tokens, slots, strict=True):
            place = (rows * (j % 8) + t // options.v_vec % rows) % len(acc)
            acc[place] = multiply_add(weight, value[feature], acc[place], options.fma)
        out.append(sums.halves(acc, len(acc), lambda a, b: f32(a + b)))
    return Softmax(out, p, top, total)


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


def partitioned(
    q: Vector, high: Pages, low: Pages, options: Options, per_page: tuple[int, int]
) -> tuple[list[int], list[float]]:
    """Chunks of pages, then their combination."""
    chunks = []
    for section, pages in enumerate((high, low)):
        size = chunk_tokens(*per_page) // per_page[section]
        cut = [pages[i : i + size] for i in range(0, len(pages), size)]
        chunks += [attend(q, *((part, []) if section == 0 else ([], part)), options) for part in cut]
    top = max(c.maximum for c in chunks)
    weights = [exp32(f32(c.maximum - top)) for c in chunks]
    wide = 1e-6 if options.eps == EPSILON else options.eps  # the constant of the published code in float64
    factors = [f32((c.total + wide) * w) for c, w in zip(chunks, weights, strict=True)]
    acc = "fp32_fma" if options.fma else "fp32"
    total = sums.dot([c.total for c in chunks], weights, SOFTMAX, acc)
    inverse = f32(1 / f32(total + options.eps))
    out = []
    for feature in range(len(q)):
        value = 0.0
        for c, f in zip(chunks, factors, strict=True):
            rounded = fp16.to_float(fp16.from_float(c.out[feature]))
            value = multiply_add(f32(rounded * f), inverse, value, options.fma)
        out.append(fp16.from_float(value))
    return out, [f32(x * f32(f * inverse)) for c, f in zip(chunks, factors, strict=True) for x in c.p]
