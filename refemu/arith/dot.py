"""Ordered sums of products: the readable forms. Order and accumulator are mandatory arguments.

A loop over k with NumPy vectorised over the outputs, never a reduction of NumPy's; `dot_compiled` has the compiled
forms, of the same names and bits. Decisions: D-arith-3 (fused or not is part of `acc`), D-arith-4 (order), D-arith-5
(start +0), D-arith-10 (integer overflow). `acc` is one step s <- s + a*b:

"fp32": f32(s + f32(a*b)); "fp32_fma": the same fused; any float32.
"fp16": round16(s + round16(a*b)); "fp16_fma": the same fused; fp16 values.
"exact": nothing rounded before the end, then once to `out`, "fp16" or "fp32"; fp16 values; order=Exact().
"int": int64; with `bits`, limited to that many signed bits after every step as `overflow` says.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith import exact, fp16, integers
from refemu.arith.attention.scores import PLAIN, ScoreRule
from refemu.arith.checks import RefusedType
from refemu.arith.fp32 import fused32, softmax32
from refemu.arith.integers import Overflow
from refemu.arith.operands import (
    ACCUMULATORS,
    Accumulator,
    Grouped,
    Precision,
    Request,
    require_attention,
    require_grouped,
    require_matrices,
    require_product,
    require_roundings,
)
from refemu.arith.orders import Chunks, Exact, Halves, Lanes, Order, Sequential, Tree, require_order
from refemu.arith.sums import reduce, total32, total64

__all__ = [
    "ACCUMULATORS",
    "Chunks",
    "Exact",
    "Halves",
    "Lanes",
    "Order",
    "Sequential",
    "Tree",
    "attention",
    "dot",
    "grouped_matmul",
    "matmul",
    "total32",
    "total64",
]

BLOCK = 256  #: queries that attention computes at a time

Term = tuple[np.ndarray, np.ndarray]  #: the factors of one product, for all outputs


def dot(
    a: ArrayLike,
    b: ArrayLike,
    *,
    order: Order,
    acc: Accumulator,
    start: Any = 0.0,
    out: Precision | None = None,
    bits: int | None = None,
    overflow: Overflow | None = None,
) -> np.ndarray:
    """Sum products along the last axis, in a stated order and accumulator.

    Parameters
    ----------
    a, b : array_like of float16, float32 or integers (..., K)
        Factors; their other axes broadcast.
    order : Order
        Order of the sum.
    acc : {"fp32", "fp32_fma", "fp16", "fp16_fma", "exact", "int"}
        Accumulator; the module says what each computes.
    start : float or int
        Value of the accumulator before the sum.
    out : {"fp16", "fp32"}, optional
        Final rounding of "exact".
    bits : int, optional
        Signed bits that limit "int" after every step.
    overflow : {"refuse", "wrap", "saturate"}, optional
        Rule for a value beyond `bits`.

    Returns
    -------
    ndarray of float32, int64 for "int"
        Sums, fp16 values for the fp16 accumulators; without terms `start`. NaN is canonical.

    Raises
    ------
    Refused
        A value is not fp16 where `acc` needs it, the order does not go with `acc`, or an integer does not fit `bits`.
    RefusedType
        Another dtype or shape.
    """
    request = Request("dot", order, acc, start, out, bits, overflow)
    x, y = dot_operands(a, b, request)
    outputs = np.broadcast_shapes(x.shape[:-1], y.shape[:-1])
    terms = list(zip(np.moveaxis(x, -1, 0), np.moveaxis(y, -1, 0), strict=True))
    return np.broadcast_to(sum_products(terms, request), outputs).copy()


def dot_operands(a: ArrayLike, b: ArrayLike, request: Request) -> tuple[np.ndarray, np.ndarray]:
    """The operands of `dot`, checked together with the keywords."""
    shapes = np.shape(a), np.shape(b)
    if not all(shapes) or shapes[0][-1] != shapes[1][-1]:
        raise RefusedType(f"dot: last axes of one length are needed, got shapes {shapes[0]} and {shapes[1]}")
    request.require(shapes[0][-1])
    x, y = request.operand(a, "a"), request.operand(b, "b")
    require_product(x, y, request)
    return x, y


def matmul(
    a: ArrayLike,
    b: ArrayLike,
    *,
    order: Order,
    acc: Accumulator,
    out: Precision | None = None,
    bits: int | None = None,
    overflow: Overflow | None = None,
) -> np.ndarray:
    """Multiply matrices; every output is the `dot` of a row and a column, from +0.

    Parameters
    ----------
    a : array_like of float16, float32 or integers (M, K)
        Left factor.
    b : array_like of float16, float32 or integers (K, N)
        Right factor.
    order : Order
        Order of the sums.
    acc : {"fp32", "fp32_fma", "fp16", "fp16_fma", "exact", "int"}
        Accumulator.
    out : {"fp16", "fp32"}, optional
        Final rounding of "exact".
    bits : int, optional
        Signed bits that limit "int" after every step.
    overflow : {"refuse", "wrap", "saturate"}, optional
        Rule for a value beyond `bits`.

    Returns
    -------
    ndarray of float32, int64 for "int" (M, N)
        Product.

    Raises
    ------
    Refused
        As `dot` does.
    RefusedType
        Another dtype or shape.
    """
    request = Request("matmul", order, acc, 0.0, out, bits, overflow)
    x, y = matmul_operands(a, b, request)
    terms = [(x[:, k, None], y[k]) for k in range(y.shape[0])]
    return np.broadcast_to(sum_products(terms, request), (x.shape[0], y.shape[1])).copy()


def matmul_operands(a: ArrayLike, b: ArrayLike, request: Request) -> tuple[np.ndarray, np.ndarray]:
    """The operands of `matmul`, checked together with the keywords."""
    require_matrices(np.asarray(a), np.asarray(b), request.thing)
    request.require(np.shape(a)[1])
    x, y = request.operand(a, "a"), request.operand(b, "b")
    require_product(x, y, request)
    return x, y


def sum_products(terms: list[Term], request: Request) -> np.ndarray:
    """The sum of the products of `terms` that `request` describes."""
    start = request.first()
    if request.acc == "exact":
        if not terms:
            return np.asarray(start)
        left, right = zip(*terms, strict=True)
        return exact.sum_products(list(left), list(right), start, request.rounded_to)
    with np.errstate(all="ignore"):
        add, step, leaf = _arithmetic(request)
        result = np.asarray(reduce(request.order, terms, start, add, step, leaf))
    return result.astype(np.int64) if request.is_int else fp16.canonical(result)


def _arithmetic(request: Request) -> tuple[Any, Any, Any]:
    """(add two values, accumulate a product, turn a product into a value) of the accumulator."""
    if request.acc == "int":
        return _with_products(lambda s, x: request.limit(np.asarray(s + x)), lambda x: request.limit(np.asarray(x)))
    if request.acc == "fp32":
        return _with_products(np.add, _same)
    add, _, leaf = _with_products(np.add, _same) if request.acc == "fp32_fma" else _with_products(_add16, fp16.round16)
    if request.acc == "fp16":
        return _with_products(_add16, fp16.round16)
    fused = fused32 if request.acc == "fp32_fma" else _fma16
    return add, lambda s, term: fused(term[0], term[1], s), leaf


def _with_products(add: Any, rounded: Any) -> tuple[Any, Any, Any]:
    return add, lambda s, term: add(s, rounded(term[0] * term[1])), lambda term: rounded(term[0] * term[1])


def _same(x: np.ndarray) -> np.ndarray:
    return x


def _add16(s: np.ndarray, x: np.ndarray) -> np.ndarray:
    return fp16.round16(s + x)


def _fma16(a: np.ndarray, b: np.ndarray, s: np.ndarray) -> np.ndarray:
    """`fp16.fma16` without its checks of the operands: they are done."""
    return fp16.round16_of_f64(a.astype(np.float64) * b + s)


def grouped_matmul(
    a: ArrayLike,
    b: ArrayLike,
    *,
    group: int,
    a_exp: ArrayLike,
    b_exp: ArrayLike | None = None,
    b_scale: ArrayLike | None = None,
    partial: Precision,
    product: Precision | None = None,
    order: Order,
    acc: Precision,
) -> np.ndarray:
    """Multiply integer matrices in G = K / group groups, each with its power of two and its scale.

    Per group: exact integer sum P; P * 2**(a_exp + b_exp) rounded once to `partial`; times b_scale rounded once to
    `product`; added to the accumulator by `acc` in `order` over groups.

    Parameters
    ----------
    a : array_like of integers (M, K)
        Left factor.
    b : array_like of integers (K, N)
        Right factor.
    group : int
        Elements of a group, a divisor of K.
    a_exp : array_like of integers (M, G)
        Exponents of the left factor.
    b_exp : array_like of integers (G, N), optional
        Exponents of the right factor; by default 0.
    b_scale : array_like of fp16 values (G, N), optional
        Scales of the right factor.
    partial : {"fp16", "fp32"}
        Rounding of a group's sum.
    product : {"fp16", "fp32"}, optional
        Rounding of the product with the scale; needed with `b_scale`.
    order : Order
        Order over groups.
    acc : {"fp16", "fp32"}
        Accumulator.

    Returns
    -------
    ndarray of float32 (M, N)
        Product.

    Raises
    ------
    Refused
        K is not a multiple of `group`, |P| could reach 2**53, or acc is "fp16" with terms that are not fp16.
    RefusedType
        Another dtype or shape.
    """
    operands = require_grouped(a, b, group, a_exp, b_exp, b_scale)
    require_roundings(partial, product, acc, operands.scale is not None)
    require_order(order, acc, operands.groups, "grouped_matmul")
    with np.errstate(all="ignore"):
        terms = [_group_term(operands, g, partial, product) for g in range(operands.groups)]
        total = reduce(order, terms, np.float32(0), _add16 if acc == "fp16" else np.add)
    return fp16.canonical(np.broadcast_to(total, (operands.a.shape[0], operands.b.shape[1])))


def _group_term(operands: Grouped, g: int, partial: Precision, product: Precision | None) -> np.ndarray:
    part = slice(g * operands.group, (g + 1) * operands.group)
    exponent = operands.exponents[0][:, g, None] + operands.exponents[1][g]
    total = integers.matmul(operands.a[:, part], operands.b[part]).astype(np.float64)
    value = _rounded(np.ldexp(total, exponent), partial)
    if operands.scale is None:
        return value
    assert product is not None  # `require_roundings` requires it with scales
    return _rounded(value.astype(np.float64) * operands.scale[g], product)  # 24 + 11 bits: exact before rounding


def _rounded(x: np.ndarray, to: Precision) -> np.ndarray:
    return fp16.round16_of_f64(x) if to == "fp16" else x.astype(np.float32)


def attention(
    q: ArrayLike, k: ArrayLike, v: ArrayLike, *, scale: np.float32, start: int, rule: ScoreRule = PLAIN
) -> np.ndarray:
    """Compute causal grouped-query attention: `matmul`, `softmax32`, `matmul`, all sequential, then one round16.

    Query head h reads key head h * KV // H, keys 0 to start + t. logit = f32(dot(q, k) * scale); probabilities stay
    float32.

    Parameters
    ----------
    q : array_like of fp16 values (T, H, D)
        Queries, query t at position start + t.
    k, v : array_like of fp16 values (S, KV, D)
        Keys and values, S >= start + T.
    scale : float32
        Factor of the logits.
    start : int
        Position of the first query.
    rule : ScoreRule
        Sliding window, soft cap and ALiBi; by default none of them.

    Returns
    -------
    ndarray of float32 (T, H, D)
        fp16 values.

    Raises
    ------
    Refused
        A value is not fp16.
    RefusedType
        Another dtype or shape.
    """
    query, key, value = require_attention(q, k, v, start)
    result = np.empty_like(query)
    together = BLOCK if rule == PLAIN and np.isfinite(value).all() else 1  # +0 times an infinity would be NaN
    for t in range(0, query.shape[0], together):
        block = query[t : t + together]
        end = start + t + len(block)
        seen = slice(rule.first(end), end)
        hidden = np.arange(end)[seen] > np.arange(start + t, end)[:, None]
        for h in range(query.shape[1]):
            shared = h * key.shape[1] // query.shape[1]
            logits = rule.apply(_logits(block[:, h], key[seen, shared], np.float32(scale)), rule.slope(h))
            result[t : t + together, h] = _mix(np.where(hidden, np.float32(-np.inf), logits), value[seen, shared])
    return fp16.canonical(fp16.round16(result))


def _logits(q: np.ndarray, k: np.ndarray, scale: np.float32) -> np.ndarray:
    """Logits of queries (T, D) and keys (S, D), (T, S)."""
    with np.errstate(all="ignore"):
        return matmul(q, k.T, order=Sequential(), acc="fp32") * scale


def _mix(logits: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Softmax of the logits (T, S), and the weighted sums of the values (S, D)."""
    return matmul(softmax32(logits, Sequential()), v, order=Sequential(), acc="fp32")
