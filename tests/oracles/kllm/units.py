"""KLLM's units on Python integers and fractions [kllm §III-B, §III-C, §IV].

FP16 ports are words (ints); codebooks of products and squares are lists of Python floats (see `kllm.cartesian`).
`acc` is "fp16", "fp16_fma", "fp32" or "exact"; orders are the tuples of `sums`. Everything else in the preset "exact"
follows from acc="exact".

    counts(indices, valid, size, amount)      Index Distribution Counter
    weighted_sum(counts, codebook, acc, order)    one reduction, on floats
    column(a, b, ...)                         one output of K-Means x K-Means
    divided_column(a, b, products, ...)       the same of operands that a norm divided, with shift and bias
    integer_column(q, ...)                    one output of integer x K-Means
    product(a, b, acc)                        element-wise index product
    orizuru(x, k, ...)                        pops, mask, roots, comparisons
    orizuru_events(x, k, ...)                 the same event by event, with every register
The norms, functions, softmax and the score quantizer are in `kllm_functions`.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple

from tests.oracles import fp16, sums
from tests.oracles.clocked import Change
from tests.oracles.fp16 import f32
from tests.oracles.kllm import formats
from tests.oracles.kllm.formats import Vector, exact

Number = float | Fraction
SEQUENTIAL: sums.Order = ("sequential",)


def f16(x: Number) -> float:
    """Rounded once to FP16, as a Python float."""
    return fp16.to_float(fp16.from_fraction(x) if isinstance(x, Fraction) else fp16.from_float(x))


def r32(x: Number) -> float:
    """Rounded once to float32, as a Python float."""
    return fp16.f32_from_fraction(x) if isinstance(x, Fraction) else f32(x)


def quotient(a: float, b: float) -> Fraction:
    """Exact a / b of finite floats."""
    return Fraction(a) / Fraction(b)


# Counting and reduction.


def counts(indices: Sequence[int], valid: Sequence[int], size: int, amount: Sequence[int] | None = None) -> list[int]:
    """How often, or with which total `amount`, each of `size` indices occurs at valid places."""
    totals = dict.fromkeys(range(size), 0)
    for place, index in enumerate(indices):
        if valid[place]:
            totals[index] += 1 if amount is None else amount[place]
    return [totals[i] for i in range(size)]


def weighted_sum(
    count: Sequence[int], codebook: Sequence[float], acc: str = "fp16", order: sums.Order = SEQUENTIAL
) -> float:
    """Counts, rounded to the accumulator's format, times centroids; as a float (an FP16 or float32 value)."""
    rnd = r32 if acc == "fp32" else f16

    def add(s: float, value: float) -> float:
        return rnd(s + value)

    def leaf(term: tuple[float, float]) -> float:
        return rnd(term[0] * term[1])  # at most 46 bits: exact before the rounding

    def step(s: float, term: tuple[float, float]) -> float:
        return f16(fp16.exact_fma(term[0], term[1], s)) if acc == "fp16_fma" else add(s, leaf(term))

    terms = [(rnd(float(n)), c) for n, c in zip(count, codebook, strict=True)]
    return sums.reduce(order, terms, add, step, leaf)


def exact_sum(count: Sequence[int], codebook: Sequence[float]) -> Fraction:
    """Counts times centroids without rounding."""
    return sum((n * Fraction(c) for n, c in zip(count, codebook, strict=True)), Fraction(0))


def sparse_sum(pairs: Sequence[tuple[int, int]], acc: str) -> float:
    """Products of FP16 words, ascending position, each step rounded."""
    rnd = r32 if acc == "fp32" else f16
    total = 0.0
    for a, b in pairs:
        x, y = fp16.to_float(a), fp16.to_float(b)
        total = f16(fp16.exact_fma(x, y, total)) if acc == "fp16_fma" else rnd(total + rnd(x * y))
    return total


# Index MatMul.


class Layer(NamedTuple):
    """What a norm before the MatMul leaves to one column: `rms` divides; LayerNorm: `rms` is std, `row_sum` is R_n."""

    rms: float
    mean: float | None = None
    row_sum: Number = 0.0


def column(
    a: Vector,
    b: Vector,
    acc: str = "fp16",
    order: sums.Order = SEQUENTIAL,
    table: str = "fp16",
    bias: int | None = None,
    norm: Layer | None = None,
) -> int:
    """Y of one column, K-Means x K-Means; an FP16 word. Outliers and zero points as in the vectors."""
    na, nb = len(a.codebook), len(b.codebook)
    excluded = [k for k in range(len(a.index)) if a.mask[k] or b.mask[k]]
    q = [formats.concat(i, j, nb.bit_length() - 1) for i, j in zip(a.index, b.index, strict=True)]
    count = counts(q, [int(k not in set(excluded)) for k in range(len(q))], na * nb)
    products = formats.cartesian(a.codebook, b.codebook, table)
    if acc == "exact":
        da, db = formats.dequantized(a), formats.dequantized(b)
        sparse = sum((exact(da[k]) * exact(db[k]) for k in excluded), Fraction(0))
        dense = exact_sum(count, products) + exact_zero_terms(count, a, b)
        return finish_exact(dense * exact(a.scale) * exact(b.scale) + sparse, bias, norm)
    scale_a, words_b = a.scale, b
    if norm is not None:
        scale_a = fp16.from_float(r32(quotient(fp16.to_float(a.scale), norm.rms)))
        divided = [fp16.from_float(r32(quotient(fp16.to_float(c), norm.rms))) for c in b.codebook]
        words_b = replace(b, codebook=divided)
    da, db = formats.dequantized(a), formats.dequantized(words_b)
    outside = sparse_sum([(da[k], db[k]) for k in excluded], acc)
    inside = zero_terms(weighted_sum(count, products, acc, order), count, a, b, acc, order)
    return merge(inside, fp16.to_float(fp16.mul(scale_a, b.scale)), outside, acc, bias, norm)


def merge(
    inside: float, scale: float, outside: float, acc: str, bias: int | None = None, norm: Layer | None = None
) -> int:
    """Scale, add the sparse part, subtract the mean of a LayerNorm, add the bias; the last operation rounds to FP16."""
    steps: list[float] = []
    if norm is not None and norm.mean is not None:
        steps.append(-f16(f16(r32(quotient(norm.mean, norm.rms))) * f16(norm.row_sum)))
    if bias is not None:
        steps.append(fp16.to_float(bias))
    return added(inside, scale, outside, acc, steps)


def added(inside: float, scale: float, outside: float, acc: str, steps: Sequence[float]) -> int:
    """The scaled sum, the sparse part, then further terms, each addition rounded, the last one to FP16."""
    rnd = r32 if acc == "fp32" else f16
    total = rnd(inside * scale)
    for place, term in enumerate([outside, *steps]):
        total = (f16 if place == len(steps) else rnd)(fp16.exact_fma(total, 1.0, term))
    return fp16.from_float(total)


def finish_exact(v: Fraction, bias: int | None, norm: Layer | None) -> int:
    """One rounding of v + bias; after a norm float64 operations before the rounding."""
    if norm is None:
        return fp16.from_fraction(v + (exact(bias) if bias is not None else 0))
    value = float(v)
    if norm.mean is not None:
        value = value - float(Fraction(norm.mean) * Fraction(norm.row_sum))
    value = value / norm.rms
    return fp16.from_float(value if bias is None else value + fp16.to_float(bias))


def divided_column(
    a: Vector,
    b: Vector,
    products: Sequence[float],
    acc: str = "fp16",
    shift: tuple[int, int] | None = None,
    bias: int | None = None,
) -> int:
    """Y of one column after a norm; an FP16 word. a.scale and b.codebook are divided, `products` are not.

    shift: words of h and R_n of a LayerNorm. b has no outliers, and of a only they meet b's values.
    """
    nb = len(b.codebook)
    q = [formats.concat(i, j, nb.bit_length() - 1) for i, j in zip(a.index, b.index, strict=True)]
    count = counts(q, [1 - m for m in a.mask], len(a.codebook) * nb)
    values, apart = formats.dequantized(b), iter(a.outlier)
    pairs = [(next(apart), values[k]) for k, m in enumerate(a.mask) if m]
    steps = [] if shift is None else [-f16(fp16.to_float(shift[0]) * fp16.to_float(shift[1]))]
    steps += [] if bias is None else [fp16.to_float(bias)]
    scale = fp16.to_float(fp16.mul(a.scale, b.scale))
    return added(weighted_sum(count, products, acc), scale, sparse_sum(pairs, acc), acc, steps)


def marginals(count: Sequence[int], a: Vector, b: Vector) -> tuple[list[int], list[int]]:
    """Counts by A's index and by B's index."""
    na, nb = len(a.codebook), len(b.codebook)
    by_a = [sum(count[i * nb + j] for j in range(nb)) for i in range(na)]
    return by_a, [sum(count[i * nb + j] for i in range(na)) for j in range(nb)]


def exact_zero_terms(count: Sequence[int], a: Vector, b: Vector) -> Fraction:
    """sum (ca - za)(cb - zb) - sum ca * cb."""
    if a.zero is None and b.zero is None:
        return Fraction(0)
    za, zb = exact(a.zero or 0), exact(b.zero or 0)
    by_a, by_b = marginals(count, a, b)
    sum_a = sum(n * exact(c) for n, c in zip(by_a, a.codebook, strict=True))
    sum_b = sum(n * exact(c) for n, c in zip(by_b, b.codebook, strict=True))
    return sum(count) * za * zb - zb * sum_a - za * sum_b


def zero_terms(total: float, count: Sequence[int], a: Vector, b: Vector, acc: str, order: sums.Order) -> float:
    """The three corrections by zero points, each step rounded; nothing without zero points."""
    if a.zero is None and b.zero is None:
        return total
    rnd = r32 if acc == "fp32" else f16
    za, zb = fp16.to_float(a.zero or 0), fp16.to_float(b.zero or 0)
    by_a, by_b = marginals(count, a, b)
    sum_a = weighted_sum(by_a, [fp16.to_float(c) for c in a.codebook], acc, order)
    sum_b = weighted_sum(by_b, [fp16.to_float(c) for c in b.codebook], acc, order)
    total = rnd(total - rnd(zb * sum_a))
    total = rnd(total - rnd(za * sum_b))
    return rnd(total + rnd(rnd(float(sum(count))) * rnd(za * zb)))


def integer_column(
    q: Sequence[int],
    b: Sequence[int],
    codebook: Sequence[int],
    scale: float,
    mask: Sequence[int] = (),
    outliers: Sequence[int] = (),
    p: Sequence[int] = (),
    v_scale: int | None = None,
    acc: str = "fp16",
    order: sums.Order = SEQUENTIAL,
) -> int:
    """Y of one column, integers q x indices b; an FP16 word.

    `mask` and `outliers` (one word per masked position, ascending) belong to B; a masked position contributes the
    unquantized score p[k] times the outlier. `scale` is the value of the scores' scale, `v_scale` one scale of all V.
    """
    mask = mask or [0] * len(b)
    count = counts(b, [1 - m for m in mask], len(codebook), q)
    floats = [fp16.to_float(c) for c in codebook]
    pairs = list(zip([p[k] for k, m in enumerate(mask) if m], outliers, strict=True))
    if acc == "exact":
        sparse = sum((exact(x) * exact(y) for x, y in pairs), Fraction(0))
        factor = Fraction(scale) * (1 if v_scale is None else exact(v_scale))
        return fp16.from_fraction(exact_sum(count, floats) * factor + sparse)
    factor16 = scale if v_scale is None else f16(scale * fp16.to_float(v_scale))
    return merge(weighted_sum(count, floats, acc, order), factor16, sparse_sum(pairs, acc), acc)


def matmul_counters(k: int, na: int, nb: int, excluded: Sequence[int], integer: bool = False) -> dict[str, int]:
    """Counters of a MatMul with len(excluded) columns; excluded[n] = number of positions outside the dense path."""
    n, entries = len(excluded), 2**nb if integer else 2 ** (na + nb)
    reduce, sparse = n * entries, sum(excluded)
    return {
        "concats": 0 if integer else k * n,
        "indices": k * n - sparse,
        "lookups": reduce,
        "macs_reduce": reduce,
        "macs_sparse": sparse,
        "weight_dequants": sparse,
        "mults_scale": n,
        "adds_merge": n,
        "macs_dense": k * n,
    }


def product(a: Vector, b: Vector, acc: str = "fp16", table: str = "fp16") -> tuple[list[int], list[int], list[int]]:
    """Element-wise: concatenated indices (0 at outliers), mask, and values as FP16 words. One vector = one scale."""
    products = formats.cartesian(a.codebook, b.codebook, table)
    scale = exact(a.scale) * exact(b.scale) if acc == "exact" else f16(exact(a.scale) * exact(b.scale))
    mask = [i | j for i, j in zip(a.mask, b.mask, strict=True)]
    da, db, index, values = formats.dequantized(a), formats.dequantized(b), [], []
    for k, m in enumerate(mask):
        q = 0 if m else formats.concat(a.index[k], b.index[k], len(b.codebook).bit_length() - 1)
        inlier = fp16.from_fraction(Fraction(products[q]) * Fraction(scale), negative_zero=products[q] < 0)
        index.append(q)
        values.append(fp16.mul(da[k], db[k]) if m else inlier)
    return index, mask, values


# Orizuru.


class Popped(NamedTuple):
    """Pops in order, the mask of both, the next values of both trees (None: nothing left), comparisons."""

    max_index: list[int]
    min_index: list[int]
    mask: list[int]
    root_max: int | None
    root_min: int | None
    comparisons: int
    comparisons_live: int
    cycles: int


def orizuru(x: Sequence[int], k: int, total_order: bool = False, min_leaf: str = "not_max") -> Popped:
    """[kllm §IV-C] by sorting; comparisons by the formula, those with both sides alive by counting leaves."""
    n = len(x)
    levels = max(1, math.ceil(math.log2(n)))
    top = formats.largest(x, n, total_order)
    bottom = formats.smallest(x, n, total_order, min_leaf)
    chosen = {*top[:k], *bottom[:k]}
    setup = 2 ** (levels + 1) - 2 if min_leaf == "compare" else 3 * 2**levels // 2 - 2
    live = init_live(n, levels, 0) + init_live(n, levels, 0 if min_leaf == "compare" else 1)
    live += sum(maintain_live(order[:k], n, levels) for order in (top, bottom))
    return Popped(
        top[:k],
        bottom[:k],
        [int(i in chosen) for i in range(n)],
        x[top[k]] if k < n else None,
        x[bottom[k]] if k < n else None,
        setup + 2 * k * levels,
        live,
        levels + k * (1 + levels),
    )


def orizuru_events(x: Sequence[int], k: int, total_order: bool = False, min_leaf: str = "not_max") -> Iterator[Change]:
    """[kllm §IV-C] a load, the levels of the max tree and of the min tree from below, the pops of each with repairs.

    A register that is set says which half below it has the available leaf that comes first in the order of its tree.
    """
    n, size = len(x), 2 ** max(1, math.ceil(math.log2(len(x))))
    orders = formats.largest(x, n, total_order), formats.smallest(x, n, total_order, min_leaf)
    places = [{leaf: place for place, leaf in enumerate(order)} for order in orders]
    bits, alive, popped, mask = [[0] * size, [0] * size], [set(range(n)), set(range(n))], [[0] * k, [0] * k], [0] * n

    def halves(tree: int, node: int) -> list[list[int]]:
        """Places in the order of the tree of what is available on either side of a node."""
        spans = ((side * size // (1 << (side.bit_length() - 1)) - size, side) for side in (2 * node, 2 * node + 1))
        widths = ((first, size >> (side.bit_length() - 1)) for first, side in spans)
        return [[places[tree][i] for i in range(first, first + width) if i in alive[tree]] for first, width in widths]

    def compared(tree: int, node: int) -> int:
        """Set a register; 1 if both its sides are available."""
        left, right = halves(tree, node)
        bits[tree][node] = int(bool(right) and (not left or min(right) < min(left)))
        return int(bool(left) and bool(right))

    def shown(tree: int, node: int, comparisons: int, live: int) -> Change:
        state: dict[str, Any] = {"x_held": list(x), "k": k, "node": node, "outlier_mask": list(mask)}
        for name, side in (("max", 0), ("min", 1)):
            place = 1
            while place < size:
                place = 2 * place + bits[side][place]
            state |= {f"{name}_index": list(popped[side]), f"root_{name}": x[place - size]}
            state |= {f"root_{name}_valid": int(place - size in alive[side]), "pq"[side]: bits[side][1:]}
            state |= {f"{'pq'[side]}_mask": [int(i in alive[side]) for i in range(n)]}
        return state, {"comparisons": comparisons, "comparisons_live": live, "cycles": int(tree == 0)}

    yield shown(1, 0, 0, 0)
    for tree in (0, 1):
        first = size // 2
        while first:
            both = [compared(tree, node) for node in range(first, 2 * first)]
            free = tree == 1 and first == size // 2 and min_leaf == "not_max"
            yield shown(tree, first, 0 if free else first, 0 if free else sum(both))
            first //= 2
    for tree in (0, 1):
        for pop, leaf in enumerate(orders[tree][:k]):
            popped[tree][pop], mask[leaf] = leaf, 1
            alive[tree].remove(leaf)
            yield shown(tree, size + leaf, 0, 0)
            node = (size + leaf) // 2
            while node:
                yield shown(tree, node, 1, compared(tree, node))
                node //= 2


class Passes(NamedTuple):
    """One token in passes: what one tree pops, with the counts of all passes in it, and their number."""

    popped: Popped
    passes: int


def orizuru_passes(
    x: Sequence[int], k: int, inputs: int, total_order: bool = False, min_leaf: str = "not_max"
) -> Passes:
    """[kllm §IV-C] D-kllm-60 by one sort of the token: a pass keeps the k + 1 elements that come first in it."""
    whole = orizuru(x, k, total_order, min_leaf)
    orders = formats.largest(x, len(x), total_order), formats.smallest(x, len(x), total_order, min_leaf)
    ranks = [{leaf: rank for rank, leaf in enumerate(order)} for order in orders]
    lists, comparisons, live, cycles, passes = [list(range(len(x)))] * 2, 0, 0, 0, 0
    compares = min_leaf == "compare"
    while True:
        kept: list[list[int]] = [[], []]
        starts = range(0, len(lists[0]), inputs)
        for start in starts:
            n = len(lists[0][start : start + inputs])
            pops, depth = min(k, n), max(1, math.ceil(math.log2(n)))
            passes += 1
            cycles += depth + pops * (1 + depth)
            comparisons += 2 * (2**depth - 1) - (0 if compares else 2**depth // 2) + 2 * pops * depth
            live += init_live(n, depth, 0) + init_live(n, depth, 0 if compares else 1)
            for tree in (0, 1):
                chunk = lists[tree][start : start + inputs]
                first = sorted(chunk, key=ranks[tree].__getitem__)[: k + 1]
                live += maintain_live([chunk.index(leaf) for leaf in first[:pops]], n, depth)
                kept[tree] += first
        if len(starts) == 1:
            return Passes(whole._replace(comparisons=comparisons, comparisons_live=live, cycles=cycles), passes)
        lists, compares = kept, True


def init_live(n: int, levels: int, lowest: int) -> int:
    """Nodes over 2**(h + 1) leaves, h >= lowest, whose right half holds a real leaf."""
    return sum(1 for h in range(lowest, levels) for start in range(0, 2**levels, 2 ** (h + 1)) if start + 2**h < n)


def maintain_live(pops: Sequence[int], n: int, levels: int) -> int:
    """Ancestors of popped leaves with an available leaf on both sides, after each pop."""
    gone: set[int] = set()
    total = 0
    for pop in pops:
        gone.add(pop)
        for h in range(levels):
            start = pop >> (h + 1) << (h + 1)
            halves = range(start, min(start + 2**h, n)), range(start + 2**h, min(start + 2 ** (h + 1), n))
            total += all(any(i not in gone for i in half) for half in halves)
    return total


def units_needed(n: int, inputs: int = 16) -> int:
    """16-input units that make up one tree over n inputs."""
    total = 0
    while True:
        n = -(-n // inputs)
        total += n
        if n == 1:
            return total
