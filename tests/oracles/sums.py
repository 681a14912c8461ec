"""Ordered sums, one scalar at a time. An order is a plain tuple:

("sequential",) ("tree", w) ("halves", w) ("lanes", count, split, across, first) ("chunks", w, inner, outer) ("exact",)

with split "strided", "blocked" or a list of lane numbers, and first "zero" or "product".
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from tests.oracles import fp16
from tests.oracles.fp16 import f32

Order = tuple[Any, ...]
Add = Callable[[float, float], float]
Step = Callable[[float, Any], float]
Leaf = Callable[[Any], float]


def f16(x: float) -> float:
    """A Python float rounded to fp16, as a Python float."""
    return fp16.to_float(fp16.from_float(x))


def fma16(a: float, b: float, c: float) -> float:
    """a*b + c rounded once to fp16, as Python floats."""
    return fp16.to_float(fp16.fma(fp16.from_float(a), fp16.from_float(b), fp16.from_float(c)))


ROUND: dict[str, Callable[[float], float]] = {"fp16": f16, "fp32": f32}
FUSED = {"fp16_fma": fma16, "fp32_fma": fp16.fma32}


def reduce(order: Order, terms: Sequence[Any], add: Add, step: Step, leaf: Leaf, start: float = 0.0) -> float:
    """Terms into one value: `step` accumulates a term, `leaf` turns one into a value, `add` adds two values."""
    if not terms:
        return start
    kind = order[0]
    if kind == "sequential":
        for term in terms:
            start = step(start, term)
        return start
    if kind in ("tree", "halves"):
        fold = tree if kind == "tree" else halves
        blocks = [fold([leaf(t) for t in block], order[1], add) for block in cut(terms, order[1])]
        if len(blocks) == 1 and start == 0:
            return blocks[0]
        return reduce(("sequential",), blocks, add, add, float, start)
    if kind == "lanes":
        _, count, split, across, first = order
        results = [lane(terms_of, add, step, leaf, first) for terms_of in deal(terms, count, split)]
        return reduce(across, results, add, add, float, start)
    _, width, inner, outer = order
    results = [reduce(inner, chunk, add, step, leaf) for chunk in cut(terms, width)]
    return reduce(outer, results, add, add, float, start)


def cut(terms: Sequence[Any], width: int) -> list[Sequence[Any]]:
    """Consecutive blocks of `width` terms; the last may be short."""
    return [terms[i : i + width] for i in range(0, len(terms), width)]


def tree(values: list[float], _: int, add: Add) -> float:
    """Neighbours, level by level; an odd last one moves up unchanged."""
    while len(values) > 1:
        values = [add(*pair) if len(pair) == 2 else pair[0] for pair in cut(values, 2)]
    return values[0]


def halves(values: list[float], width: int, add: Add) -> float:
    """Value i plus value i + width/2, halving; missing values are +0."""
    values = values + [0.0] * (width - len(values))
    while len(values) > 1:
        half = len(values) // 2
        values = [add(values[i], values[i + half]) for i in range(half)]
    return values[0]


def deal(terms: Sequence[Any], count: int, split: Any) -> list[list[Any]]:
    """The terms of each lane, in ascending order of their index."""
    lanes: list[list[Any]] = [[] for _ in range(count)]
    for k, term in enumerate(terms):
        if split == "strided":
            number = k % count
        elif split == "blocked":
            number = k // -(-len(terms) // count)
        else:
            number = split[k]
        lanes[number].append(term)
    return lanes


def lane(terms: list[Any], add: Add, step: Step, leaf: Leaf, first: str) -> float:
    """One lane: from +0, or from its first product; an empty lane is +0."""
    if first == "product" and terms:
        return reduce(("sequential",), terms[1:], add, step, leaf, leaf(terms[0]))
    return reduce(("sequential",), terms, add, step, leaf)


def dot(a: Sequence[float], b: Sequence[float], order: Order, acc: str, start: float = 0.0, out: str = "fp32") -> float:
    """Sum of a[k]*b[k]; acc "fp32", "fp32_fma", "fp16", "fp16_fma" or "exact" (rounded once, to `out`)."""
    terms = list(zip(a, b, strict=True))
    if acc == "exact":
        return exact_dot(terms, start, out)
    rnd = ROUND[acc.removesuffix("_fma")]

    def add(s: float, value: float) -> float:
        return rnd(s + value)

    def leaf(term: tuple[float, float]) -> float:
        return rnd(term[0] * term[1])

    def step(s: float, term: tuple[float, float]) -> float:
        return FUSED[acc](term[0], term[1], s) if acc in FUSED else add(s, leaf(term))

    return reduce(order, terms, add, step, leaf, start)


def exact_dot(terms: list[tuple[float, float]], start: float, out: str) -> float:
    """The exact sum of finite products, rounded once."""
    if not terms:
        return start
    exact = sum((Fraction(x) * Fraction(y) for x, y in terms), Fraction(start))
    return fp16.to_float(fp16.from_fraction(exact)) if out == "fp16" else fp16.f32_from_fraction(exact)


def total32(x: Sequence[float], order: Order) -> float:
    """Sum of float32 values, every addition rounded to float32."""

    def add(s: float, value: float) -> float:
        return f32(s + value)

    return reduce(order, x, add, add, float)


def total64(x: Sequence[float], order: Order) -> float:
    """Sum of float64 values, every addition rounded to float64."""
    return reduce(order, x, float.__add__, float.__add__, float)


def grouped(
    a: Sequence[int],
    b: Sequence[int],
    *,
    group: int,
    a_exp: Sequence[int],
    b_exp: Sequence[int] | None = None,
    b_scale: Sequence[float] | None = None,
    partial: str,
    product: str,
    order: Order,
    acc: str,
) -> float:
    """One output of a grouped matmul: a, b hold K integers, the exponents and scales one entry per group."""
    values = []
    for g in range(len(a) // group):
        total = sum(a[k] * b[k] for k in range(g * group, (g + 1) * group))
        exponent = a_exp[g] + (b_exp[g] if b_exp is not None else 0)
        value = rounded(Fraction(total) * Fraction(2) ** exponent, partial)
        if b_scale is not None:
            value = ROUND[product](value * b_scale[g])
        values.append(value)

    def add(s: float, value: float) -> float:
        return ROUND[acc](s + value)

    return reduce(order, values, add, add, float)


def rounded(x: Fraction, to: str) -> float:
    """An exact value rounded once to "fp16" or "fp32"."""
    return fp16.to_float(fp16.from_fraction(x)) if to == "fp16" else fp16.f32_from_fraction(x)
