"""KLLM's norms, functions, softmax and score quantizer on Python floats and fractions [kllm §III-A, §III-C, §IV-A].

FP16 ports are words (ints). `stat` "fp32" or "fp16" rounds every step, "exact" is float64 after an exact sum.

    function16(name, u)                        correctly rounded FP16 function
    index_function(vector, name, mode, static) -> (table, outliers), FP16 words
    rms(vector, ...), layer_stats(vector, ...) from the counts of one vector
    row_sum(b, stat), folded_bias(...)         what LayerNorm needs of the weights
    softmax(x, preset)                         FP16 words of one row
    softmax_row(x, preset) -> (scores, largest logit, exponentials, their sum)
    quantize_scores(p, v_scale, bits, mode, preset) -> (q, scale as float)
"""

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import cache
from typing import NamedTuple

from tests.oracles import exp, fp16, sums
from tests.oracles.fp16 import f32
from tests.oracles.kllm import formats
from tests.oracles.kllm.formats import Vector, exact
from tests.oracles.kllm.units import counts, f16, r32
from tests.oracles.rounding import round_fraction

Number = float | Fraction


def real_exp(x: Fraction) -> Fraction:
    """e**x to 60 digits; beyond +-200 the end, which is equal to the value in FP16."""
    context, x = exp.CONTEXT, max(Fraction(-200), min(Fraction(200), x))
    return Fraction(context.exp(context.divide(Decimal(x.numerator), Decimal(x.denominator))))


def sigmoid(x: Fraction) -> Fraction:
    """1 / (1 + e**-x)."""
    return 1 / (1 + real_exp(-x))


def gelu_tanh(x: Fraction) -> Fraction:
    """x / (1 + exp(-2 sqrt(2/pi) (x + 0.044715 x**3)))."""
    root = Fraction(exp.CONTEXT.sqrt(2 / Decimal("3.14159265358979323846264338327950288419716939937511")))
    return x * sigmoid(2 * root * (x + Fraction(44715, 1000000) * x**3))


def gelu_erf(x: Fraction) -> Fraction:
    """x / 2 * erfc(-x / sqrt(2)); float64 is far more than an FP16 result needs."""
    return Fraction(float(x) / 2 * math.erfc(-float(x) / math.sqrt(2)))


REAL: dict[str, Callable[[Fraction], Fraction]] = {
    "exp": real_exp,
    "sigmoid": sigmoid,
    "silu": lambda x: x * sigmoid(x),
    "tanh": lambda x: 2 * sigmoid(2 * x) - 1,
    "gelu_tanh": gelu_tanh,
    "gelu_erf": gelu_erf,
}


@cache
def function16(name: str, u: int) -> int:
    """One entry of a function table; finite arguments and, for "exp", -Inf. ReLU gives +0 for everything else."""
    if name == "relu":
        return u if formats.key(u) > 0 else 0
    if name in ("sqrt", "recip"):
        return fp16.sqrt(u) if name == "sqrt" else fp16.div(formats.ONE, u)
    if u == fp16.SIGN | fp16.INF and name == "exp":
        return 0
    if exact(u) == 0 and name not in ("exp", "sigmoid"):
        return u  # odd at 0: keeps the sign
    return fp16.from_fraction(REAL[name](exact(u)), negative_zero=u >= fp16.SIGN and name not in ("exp", "sigmoid"))


Table = Callable[[int], int]


def index_function(
    vector: Vector, name: str | Table, mode: str = "token", static: int = formats.ONE
) -> tuple[list[int], list[int]]:
    """The table that replaces the codebook, and the outliers' values. A callable stands for a user's table.

    "token": F(r16(s * c)); "offline": the same with the `static` scale; "literal": r16(s * F(c)).
    """
    function: Table = name if callable(name) else lambda u: function16(str(name), u)
    if mode == "literal":
        table = [fp16.mul(vector.scale, function(c)) for c in vector.codebook]
    else:
        scale = vector.scale if mode == "token" else static
        table = [function(fp16.mul(scale, c)) for c in vector.codebook]
    return [formats.positive_zero(t) for t in table], [function(o) for o in vector.outlier]


# Norms.

ROUND: dict[str, Callable[[Number], float]] = {"fp32": r32, "fp16": f16, "exact": float}


def inlier_counts(vector: Vector) -> list[int]:
    """Counts of the vector's own indices; outliers are not counted."""
    return counts(vector.index, [1 - m for m in vector.mask], len(vector.codebook))


def mean_square(vector: Vector, stat: str = "fp32", table: str = "fp16") -> float:
    """Mean of the squares, from counts and squared centroids, plus the outliers' own squares."""
    return moment(vector, formats.squares(vector.codebook, table), 2, stat)


def mean(vector: Vector, stat: str = "fp32") -> float:
    """Mean of the values, from counts and centroids, plus the outliers."""
    return moment(vector, [fp16.to_float(c) for c in vector.codebook], 1, stat)


def moment(vector: Vector, codebook: Sequence[float], power: int, stat: str) -> float:
    """(s**power * sum count * c + sum outlier**power) / N, sums in the order of indices and of positions."""
    count, size = inlier_counts(vector), len(vector.index)
    scale = exact(vector.scale) ** power
    if stat == "exact":
        dense = scale * sum(n * Fraction(c) for n, c in zip(count, codebook, strict=True))
        return float((dense + sum(exact(o) ** power for o in vector.outlier)) / size)
    rnd = ROUND[stat]
    total = 0.0
    for n, c in zip(count, codebook, strict=True):
        total = rnd(total + rnd(rnd(float(n)) * c))
    apart = 0.0
    for o in vector.outlier:
        apart = rnd(apart + rnd(fp16.to_float(o) ** power))
    # The scale's power is not rounded by itself: one rounding of the whole product.
    whole = rnd(scale * Fraction(total)) if math.isfinite(total) and total else rnd(float(scale) * total)
    return rnd(rnd(whole + apart) / size)


def rms(vector: Vector, eps: float = 0.0, stat: str = "fp32", table: str = "fp16") -> float:
    """[kllm Eq. 3] with eps; float32 or float64."""
    return root(mean_square(vector, stat, table), eps, stat)


def root(square: float, eps: float, stat: str) -> float:
    """sqrt(square + eps), each operation rounded."""
    rnd = ROUND[stat]
    return rnd(math.sqrt(rnd(square + rnd(eps))))


def layer_stats(vector: Vector, eps: float = 0.0, stat: str = "fp32", table: str = "fp16") -> tuple[float, float]:
    """Mean and standard deviation of LayerNorm; a negative variance is 0."""
    rnd = ROUND[stat]
    average = mean(vector, stat)
    variance = rnd(mean_square(vector, stat, table) - rnd(average * average))
    return average, root(max(0.0, variance), eps, stat)


def row_sum(b: Vector, stat: str = "fp32") -> float:
    """R_n: the column's scale times the sum of its centroids, one rounding: to FP16, "exact" to float64."""
    total = exact(b.scale) * sum(exact(b.codebook[i]) for i in b.index)
    return float(total) if stat == "exact" else f16(Fraction(total))


def folded_bias(beta: Sequence[int], weights: Sequence[int], bias: int = 0) -> int:
    """b_n: the sum of beta * W plus the bias, exact, rounded once."""
    total = sum(exact(g) * exact(w) for g, w in zip(beta, weights, strict=True)) + exact(bias)
    return fp16.from_fraction(Fraction(total))


# Softmax and scores.


class Softmax(NamedTuple):
    """Scores of a row of logits, FP16 words, and how they came about."""

    scores: list[int]
    top: int  #: the largest logit, a word; of zeros the first
    terms: list[float]
    total: float


def softmax(x: Sequence[int], preset: str = "paper") -> list[int]:
    """One row of logits, FP16 words; -Inf is masked."""
    return softmax_row(x, preset).scores


def softmax_row(x: Sequence[int], preset: str = "paper") -> Softmax:
    """The same with what it takes."""
    top = max(x, key=formats.key)
    if preset == "exact":
        terms = [exp.exp32(f32(fp16.to_float(u) - fp16.to_float(top))) for u in x]
    else:
        terms = [fp16.to_float(function16("exp", fp16.sub(u, top))) for u in x]
    total = sums.total32(terms, ("sequential",))
    return Softmax([fp16.from_float(f32(t / total)) for t in terms], top, terms, total)


def quantize_scores(
    p: Sequence[int], v_scale: Sequence[int] = (), bits: int = 4, mode: str = "fold", preset: str = "paper"
) -> tuple[list[int], float]:
    """Unsigned integers and the value of their scale: FP16, in the preset "exact" float32."""
    if mode != "fold":
        scores = [exact(u) for u in p]
    elif preset == "exact":
        scores = [exact(u) * exact(s) for u, s in zip(p, v_scale, strict=True)]
    else:
        scores = [exact(fp16.mul(u, s)) for u, s in zip(p, v_scale, strict=True)]
    top = Fraction(1) if mode == "fixed" else max(scores)
    largest = 2**bits - 1
    if top == 0:
        return [0] * len(p), 1.0
    scale = r32(top / largest)
    return [round_fraction(s * largest / top, "half_even") for s in scores], scale if preset == "exact" else f16(scale)
