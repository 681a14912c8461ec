"""What a product through Harmonia's accelerator gives [harmonia §IV-A], on Python numbers, without any order of events.

Operands are rows of `bfp.Group`, weights rows of (codes of a BFP group, FP16 word of its factor). What else comes to a
port is in `Given`.

    Product(kind, rows, inner, columns, ...)
    words(product, a, b, given)     -> C in FP16 before its conversion, and the offsets
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cache
from itertools import pairwise
from typing import Any

from tests.oracles import exp, fp16
from tests.oracles.fp16 import f32
from tests.oracles.harmonia import bfp, units
from tests.oracles.kllm import functions

PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803")
Matrix = list[list[int]]


@dataclass(frozen=True)
class Product:
    """What is asked for; names as those of the unit."""

    kind: str
    rows: int
    inner: int
    columns: int
    b_type: str = "int4"
    m: int = 8
    tile_m: int = 64
    tile_k: int = 64
    head_dim: int = 32
    start: int = 0
    base: int = 10000
    activation: str = "none"
    force: int = 0
    partial: str = "fp16"
    rotation: str = "half"
    window: int = 32
    positions: str = "start"
    bias_add: str = "none"
    codes: str = "sets"

    @property
    def groups(self) -> int:
        """Of 32 in a reduction."""
        return math.ceil(self.inner / 32)

    @property
    def shifted(self) -> bool:
        """Whether keys lose offsets."""
        return self.kind == "k" and self.window > 0

    @property
    def ends(self) -> list[int]:
        """Columns where a group ends, and 0; of V where the array's columns end."""
        if self.kind == "v":
            return sorted({0, self.columns, *range(0, self.columns, 16)})
        head = self.head_dim if self.kind in ("q", "k") else self.columns
        return sorted({0, self.columns, *(c for c in range(self.columns) if c % head % 32 == 0)})


@dataclass(frozen=True)
class Given:
    """Inputs of some products besides A and B."""

    frozen: Sequence[int] = ()  #: offsets
    position: Sequence[int] = ()  #: of every row
    wide: Sequence[Sequence[int]] = ()  #: by row, which keys or groups of values it sees in 8 bits
    bias: Sequence[int] = ()  #: FP16 word of every column


NOTHING = Given()


def places(p: Product, given: Given) -> list[int]:
    """Position of every row."""
    return list(given.position) if p.positions == "port" else [p.start + row for row in range(p.rows)]


def tracked(p: Product, given: Given) -> int:
    """Rows at positions inside the window of the prompt."""
    return sum(place < p.window for place in places(p, given)) if p.kind == "k" else 0


def words(p: Product, a: Sequence[Any], b: Sequence[Any], given: Given = NOTHING) -> tuple[Matrix, list[int]]:
    """C in FP16 before its conversion, and the offsets that its rows lost."""
    sums = summed(p, a, b, given)
    raw = halves(with_bias(sums, given.bias) if p.bias_add == "accumulator" else sums)
    _, final, offset = stages(p, behind(raw, given.bias) if p.bias_add == "after" else raw, given)
    return final, offset


def summed(p: Product, a: Sequence[Any], b: Sequence[Any], given: Given) -> list[list[float]]:
    """FP32 sums of every row and column."""
    return [
        [
            dot(p, row, narrowed(p, column, given.wide[r] if p.b_type == "mixed" else (), c))
            for c, column in enumerate(b)
        ]
        for r, row in enumerate(a)
    ]


def narrowed(p: Product, column: Sequence[Any], wide: Sequence[int], c: int) -> Sequence[Any]:
    """A column as a row sees it: groups of 4 bits where it does not see 8."""
    if p.b_type != "mixed":
        return column
    seen = [wide[c]] * len(column) if p.kind == "score" else wide
    return [group if bit else bfp.demote(group, 4) for group, bit in zip(column, seen, strict=True)]


def halves(sums: Sequence[Sequence[float]]) -> Matrix:
    """FP16 words of FP32 values."""
    return [[fp16.from_float(x) for x in row] for row in sums]


def with_bias(sums: Sequence[Sequence[float]], bias: Sequence[int]) -> list[list[float]]:
    """FP32 sums and their biases, rounded to FP32."""
    return [[f32(x + fp16.to_float(word)) for x, word in zip(row, bias, strict=True)] for row in sums]


def behind(raw: Matrix, bias: Sequence[int]) -> Matrix:
    """FP16 words and their biases, each exact sum rounded once."""
    return [
        [fp16.from_float(fp16.to_float(x) + fp16.to_float(word)) for x, word in zip(row, bias, strict=True)]
        for row in raw
    ]


def dot(p: Product, a: Sequence[bfp.Group], b: Sequence[Any]) -> float:
    """FP32 sum over the groups in order; exact inside a group."""
    terms = []
    for x, y in zip(a, b, strict=True):
        left = [-m if s else m for s, m in zip(x.sign, x.mantissa, strict=True)]
        if p.b_type == "int4":
            codes, factor = y
            terms.append((sum(map(int.__mul__, left, codes)) * bfp.unit(x.exponent, x.m), fp16.to_float(factor)))
        else:
            right = [-m if s else m for s, m in zip(y.sign, y.mantissa, strict=True)]
            worth = bfp.unit(x.exponent, x.m) * bfp.unit(y.exponent, y.m)
            terms.append((sum(map(int.__mul__, left, right)) * worth, None))
    return units.accumulate(terms, "paper" if p.partial == "fp16" else "exact")[0]


def stages(p: Product, raw: Matrix, given: Given) -> tuple[Matrix, Matrix, list[int]]:
    """C after the vector unit, C after the offsets, and the offsets."""
    turned = [vector(p, row, place) for row, place in zip(raw, places(p, given), strict=True)]
    if not p.shifted:
        return turned, turned, []
    window = tracked(p, given)
    offset = units.k_offsets(turned[:window])[0] if window else list(given.frozen)
    return turned, [units.apply_offsets(row, offset) for row in turned], offset


def vector(p: Product, row: Sequence[int], position: int) -> list[int]:
    """The vector unit on a row of FP16 words."""
    if p.kind == "score":
        return softmax(row[: position + 1], p.inner) + [0] * (p.columns - position - 1)
    if p.kind in ("q", "k") and p.rotation != "none":
        return [
            word
            for first in range(0, p.columns, p.head_dim)
            for word in rotated(row[first : first + p.head_dim], position, p)
        ]
    if p.activation == "none":
        return list(row)
    return [functions.function16(p.activation, word) for word in row]


def rotated(head: Sequence[int], position: int, p: Product) -> list[int]:
    """(a, b) -> (a c - b s, a s + b c), products and sums in FP32, then FP16."""
    found, half = list(head), len(head) // 2
    for i in range(half):
        j, k = (2 * i, 2 * i + 1) if p.rotation == "interleaved" else (i, i + half)
        c, s = cos_sin(position, i, len(head), p.base)
        x, y = fp16.to_float(head[j]), fp16.to_float(head[k])
        found[j] = fp16.from_float(f32(f32(x * c) - f32(y * s)))
        found[k] = fp16.from_float(f32(f32(x * s) + f32(y * c)))
    return found


@cache
def cos_sin(position: int, i: int, head_dim: int, base: int) -> tuple[float, float]:
    """Of position * base**(-2i / head_dim), each rounded once to FP32; by their series, with 60 digits."""
    context = exp.CONTEXT
    power = context.exp(context.multiply(context.ln(Decimal(base)), context.divide(Decimal(-2 * i), Decimal(head_dim))))
    x = Fraction(context.remainder(context.multiply(Decimal(position), power), 2 * PI))
    term, sums = Fraction(1), [Fraction(0), Fraction(0)]
    for n in range(80):
        sums[n % 2] += term * (-1) ** (n // 2)
        term = Fraction(round(term * x / (n + 1) * 10**50), 10**50)
    return fp16.f32_from_fraction(sums[0]), fp16.f32_from_fraction(sums[1])


def softmax(row: Sequence[int], head_dim: int) -> list[int]:
    """Of scores scaled in FP32; the sum in ascending order."""
    scale = f32(1 / math.sqrt(head_dim))
    x = [f32(fp16.to_float(word) * scale) for word in row]
    e = [exp.exp32(f32(value - max(x))) for value in x]
    total = 0.0
    for value in e:
        total = f32(total + value)
    return [fp16.from_float(f32(value / total)) for value in e]


def encoded(p: Product, y: Matrix) -> tuple[Matrix, Matrix, Matrix]:
    """Signs, mantissas, exponents of C as the converter leaves them; of kind "final" there are none."""
    zeros = [[0] * p.columns for _ in y]
    if p.kind == "v":
        columns = [bfp.encode([row[c] for row in y], p.m) for c in range(p.columns)]
        sign, mantissa = (
            [[value for group in column for value in getattr(group, name)][: p.rows] for column in columns]
            for name in ("sign", "mantissa")
        )
        exponent = [[group.exponent for group in column] for column in columns]
        return tuple([list(row) for row in zip(*part, strict=True)] for part in (sign, mantissa, exponent))  # type: ignore[return-value]
    rows = [[bfp.encode_group(row[left:right], p.m) for left, right in pairwise(p.ends)] for row in y]
    exponent = [[group.exponent for group in row] for row in rows]
    if p.kind == "final":
        return zeros, zeros, [[0] * len(row) for row in exponent]
    return (
        [[x for group in row for x in group.sign] for row in rows],
        [[x for group in row for x in group.mantissa] for row in rows],
        exponent,
    )
