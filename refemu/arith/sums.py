"""The readable engine of ordered sums, and the plain sums of float32 and float64.

`reduce` is the definition of every order of `orders.py`: it adds values that may be arrays, all outputs at once.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith import selftest
from refemu.arith.checks import RefusedType
from refemu.arith.fp16 import canonical
from refemu.arith.orders import Chunks, Halves, Lanes, Order, Sequential, Tree, require_order

Add = Callable[[Any, Any], Any]  #: two values into one
Step = Callable[[Any, Any], Any]  #: a value and a term into a value
Leaf = Callable[[Any], Any]  #: a term into a value


def reduce(
    order: Order, terms: Sequence[Any], start: Any, add: Add, step: Step | None = None, leaf: Leaf | None = None
) -> Any:
    """The sum of `terms` in `order`, from the scalar `start`, which is also what no terms give.

    A sequential part accumulates a term with `step`, a tree turns one into a value with `leaf`; without them terms
    are values.
    """
    step, leaf, zero = step or add, leaf or _same, type(start)(0)
    if not terms:
        return start
    match order:
        case Sequential():
            return _onto(start, terms, step)
        case Tree() | Halves():
            return _blocks(order, [leaf(term) for term in terms], start, add)
        case Lanes():
            lanes = [_lane(lane, order.first, zero, step, leaf) for lane in _deal(terms, order)]
            return reduce(order.across, lanes, start, add)
        case Chunks():
            chunks = [reduce(order.inner, chunk, zero, add, step, leaf) for chunk in cut(terms, order.width)]
            return reduce(order.outer, chunks, start, add)
    raise RefusedType(f"reduce: no order for floats: {order!r}")


def _same(value: Any) -> Any:
    return value


def cut(terms: Sequence[Any], width: int) -> list[Sequence[Any]]:
    """Consecutive blocks of `width` terms; the last may be short."""
    return [terms[low : low + width] for low in range(0, len(terms), width)]


def _onto(start: Any, terms: Iterable[Any], step: Step) -> Any:
    for term in terms:
        start = step(start, term)
    return start


def _blocks(order: Tree | Halves, values: list[Any], start: Any, add: Add) -> Any:
    """Each block folded, the results added to `start`; a single block on a zero start is the result itself."""
    if isinstance(order, Halves):
        values = values + [type(start)(0)] * (-len(values) % order.width)  # missing terms are +0
    fold = _halves if isinstance(order, Halves) else _tree
    blocks = [fold(list(block), add) for block in cut(values, order.width)]
    return blocks[0] if len(blocks) == 1 and start == 0 else _onto(start, blocks, add)


def _tree(values: list[Any], add: Add) -> Any:
    while len(values) > 1:
        odd = values[len(values) - len(values) % 2 :]
        values = [add(left, right) for left, right in zip(values[::2], values[1::2], strict=False)] + odd
    return values[0]


def _halves(values: list[Any], add: Add) -> Any:
    while len(values) > 1:
        half = len(values) // 2
        values = [add(left, right) for left, right in zip(values[:half], values[half:], strict=True)]
    return values[0]


def _deal(terms: Sequence[Any], order: Lanes) -> list[list[Any]]:
    lanes: list[list[Any]] = [[] for _ in range(order.count)]
    for k, term in enumerate(terms):
        lanes[order.lane(k, len(terms))].append(term)
    return lanes


def _lane(terms: list[Any], first: str, zero: Any, step: Step, leaf: Leaf) -> Any:
    if first == "product" and terms:
        return _onto(leaf(terms[0]), terms[1:], step)
    return _onto(zero, terms, step)


def total32(x: ArrayLike, *, order: Order) -> np.ndarray:
    """Sum float32 along the last axis, every addition rounded to float32.

    Parameters
    ----------
    x : array_like of float32 (..., K)
        Terms.
    order : Order
        Order of the sum.

    Returns
    -------
    ndarray of float32 (...)
        Sums, NaN canonical.

    Raises
    ------
    RefusedType
        Another dtype or shape.
    """
    return _total(x, np.dtype(np.float32), order, "total32")


def total64(x: ArrayLike, *, order: Order) -> np.ndarray:
    """Sum float64 along the last axis, for searches, statistics and calibration, never inside a unit.

    Parameters
    ----------
    x : array_like of float64 (..., K)
        Terms.
    order : Order
        Order of the sum.

    Returns
    -------
    ndarray of float64 (...)
        Sums, NaN canonical.

    Raises
    ------
    RefusedType
        Another dtype or shape.
    """
    return _total(x, np.dtype(np.float64), order, "total64")


def require_terms(x: ArrayLike, dtype: np.dtype, order: Order, thing: str) -> np.ndarray:
    """`x` as an array of `dtype` with at least one axis, its last one fit for `order`."""
    array = np.asarray(x)
    if array.dtype != dtype or array.ndim < 1:
        raise RefusedType(f"{thing}: {dtype} of at least one axis is needed, got {array.dtype} of shape {array.shape}")
    require_order(order, "fp32", array.shape[-1], thing)
    selftest.require_round_to_nearest()
    return array


def _total(x: ArrayLike, dtype: np.dtype, order: Order, thing: str) -> np.ndarray:
    array = require_terms(x, dtype, order, thing)
    outputs = array.shape[:-1]
    with np.errstate(all="ignore"):
        if isinstance(order, Sequential):
            zeros = np.zeros((*outputs, 1), dtype)
            return canonical(np.add.accumulate(np.concatenate([zeros, array], axis=-1), axis=-1)[..., -1])
        terms = list(np.moveaxis(array, -1, 0))
        return canonical(np.broadcast_to(reduce(order, terms, dtype.type(0), np.add), outputs))


def running32(x: np.ndarray, clear: np.ndarray) -> np.ndarray:
    """The float32 accumulator after every term of x (..., T), from +0 at the start and where `clear` is not 0."""
    sums, s = np.empty(x.shape, np.float32), np.zeros(x.shape[:-1], np.float32)
    with np.errstate(all="ignore"):
        for t in range(x.shape[-1]):
            s = np.where(clear[..., t] != 0, np.float32(0), s) + x[..., t]
            sums[..., t] = s
    return canonical(sums)
