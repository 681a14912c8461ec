"""Checks shared by the readable sums and their compiled forms: accumulators, the orders they take, shapes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith import fp16, integers, selftest
from refemu.arith.checks import Refused, RefusedType, as_array, require_choice, require_integers
from refemu.arith.integers import Overflow
from refemu.arith.orders import Order, require_order

Accumulator: TypeAlias = Literal["fp32", "fp32_fma", "fp16", "fp16_fma", "exact", "int"]  #: one step, as in dot.py
Precision: TypeAlias = Literal["fp16", "fp32"]  #: Width that a value is rounded to, once

#: Accumulators of a sum of products; `arith.dot` says what each computes
ACCUMULATORS: tuple[Accumulator, ...] = get_args(Accumulator)
PRECISIONS: tuple[Precision, ...] = get_args(Precision)  #: The choices of `Precision`


@dataclass(frozen=True)
class Request:
    """The keywords of a sum of products, checked by `require`."""

    thing: str
    order: Order
    acc: Accumulator
    start: Any = 0.0
    out: Precision | None = None
    bits: int | None = None
    overflow: Overflow | None = None
    require_fp16: Callable[[ArrayLike, str, str], np.ndarray] = fp16.require_fp16  #: or its compiled form

    @property
    def is_int(self) -> bool:
        """Whether operands are integers."""
        return self.acc == "int"

    @property
    def needs_fp16(self) -> bool:
        """Whether operands must be fp16 values."""
        return self.acc in ("fp16", "fp16_fma", "exact")

    @property
    def rounded_to(self) -> Precision:
        """Final rounding of an exact sum: `out`, which `require` demands of it."""
        assert self.out is not None
        return self.out

    def require(self, terms: int) -> None:
        """Reject keywords that do not go together, or an order that does not fit `terms` terms."""
        require_choice(self.acc, ACCUMULATORS, self.thing, "acc")
        require_order(self.order, self.acc, terms, self.thing)
        if self.acc == "exact":
            require_choice(self.out, PRECISIONS, self.thing, "out")
        elif self.out is not None:
            raise Refused(f'{self.thing}: out goes with acc="exact" only, got acc={self.acc!r}, out={self.out!r}')
        if (self.bits is not None and not self.is_int) or (self.bits is None and self.overflow is not None):
            options = f"acc={self.acc!r}, bits={self.bits}, overflow={self.overflow!r}"
            raise Refused(f'{self.thing}: bits goes with acc="int" only, and overflow with bits, got {options}')
        self.first()

    def operand(self, x: ArrayLike, name: str) -> np.ndarray:
        """`x` as int64, or as float32 that holds fp16 values where `acc` needs them."""
        if self.is_int:
            return require_integers(x, self.thing).astype(np.int64)
        selftest.require_round_to_nearest()
        array = as_array(x)
        if self.needs_fp16:
            return self.require_fp16(array, self.thing, name)
        if array.dtype not in (np.float32, np.float16):
            raise RefusedType(f"{self.thing}: {name} must be float16 or float32, got dtype {array.dtype}")
        return array.astype(np.float32, copy=False)

    def first(self) -> Any:
        """The start as a scalar of the accumulator."""
        if self.is_int:
            if self.start != int(self.start):
                raise Refused(f"{self.thing}: start must be an integer, got {self.start!r}")
            return int(self.start)
        if self.start == 0:  # an fp16 value, of either sign
            return np.float32(self.start)
        with np.errstate(over="ignore"):
            start = np.float32(self.start)
        if float(start) != float(self.start) and start == start:
            raise Refused(f"{self.thing}: start must be a float32 value, got {self.start!r}")
        if self.needs_fp16:
            fp16.require_fp16(start, self.thing, "start")
        return start

    def limit(self, s: np.ndarray) -> np.ndarray:
        """An int64 accumulator after one step."""
        if self.bits is None:
            return s
        return integers.limit(s, self.bits, True, self.overflow or "refuse", self.thing)


def require_product(a: np.ndarray, b: np.ndarray, request: Request) -> None:
    """Reject integers whose sum of products could leave int64."""
    bound = integers.peak(a) * integers.peak(b) * a.shape[-1] + abs(int(request.start)) if request.is_int else 0
    if bound >= 1 << 63:
        raise Refused(f"{request.thing}: a sum can reach {bound}, which is outside int64")


def require_matrices(a: np.ndarray, b: np.ndarray, thing: str) -> None:
    """Reject shapes other than (M, K) and (K, N)."""
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
        raise RefusedType(f"{thing}: (M, K) and (K, N) are needed, got {a.shape} and {b.shape}")


def require_attention(
    q: ArrayLike, k: ArrayLike, v: ArrayLike, start: int, require_fp16: Callable[..., np.ndarray] = fp16.require_fp16
) -> list[np.ndarray]:
    """q (T, H, D), k and v (S, KV, D) as fp16-valued float32 with S >= start + T and H a multiple of KV."""
    selftest.require_round_to_nearest()
    arrays = [require_fp16(x, "attention", name) for x, name in ((q, "q"), (k, "k"), (v, "v"))]
    query, key, value = arrays
    fits = query.ndim == key.ndim == 3 and key.shape == value.shape and query.shape[2] == key.shape[2]
    if not fits or not key.shape[1] or query.shape[1] % key.shape[1]:
        raise RefusedType(
            f"attention: q (T, H, D), k and v (S, KV, D) with H a multiple of KV are needed, "
            f"got {query.shape}, {key.shape}, {value.shape}"
        )
    if start < 0 or start + query.shape[0] > key.shape[0]:
        raise Refused(
            f"attention: queries at {start} to {start + query.shape[0] - 1} need as many keys, got {key.shape[0]}"
        )
    return arrays


@dataclass(frozen=True)
class Grouped:
    """The operands of a grouped matmul, checked: see `dot.grouped_matmul`."""

    a: np.ndarray  #: (M, K) int64
    b: np.ndarray  #: (K, N) int64
    exponents: tuple[np.ndarray, np.ndarray]  #: (M, G) and (G, N) int64
    scale: np.ndarray | None  #: (G, N) fp16-valued float32
    group: int

    @property
    def groups(self) -> int:
        """G."""
        return self.a.shape[1] // self.group

    @property
    def bound(self) -> int:
        """No sum inside a group is larger."""
        return integers.peak(self.a) * integers.peak(self.b) * self.group


def require_grouped(
    a: ArrayLike, b: ArrayLike, group: int, a_exp: ArrayLike, b_exp: ArrayLike | None, b_scale: ArrayLike | None
) -> Grouped:
    """The arrays of `dot.grouped_matmul` as a `Grouped`; rejects shapes or ranges that do not match."""
    thing = "grouped_matmul"
    left, right = require_integers(a, thing), require_integers(b, thing)
    require_matrices(left, right, thing)
    if group < 1 or left.shape[1] % group:
        raise Refused(f"{thing}: K must be a multiple of group, got K={left.shape[1]}, group={group}")
    groups = left.shape[1] // group
    shapes = (left.shape[0], groups), (groups, right.shape[1])
    zeros = np.zeros(shapes[1], np.int64)
    right_exp = zeros if b_exp is None else b_exp
    exponents = _exponents(a_exp, shapes[0], "a_exp"), _exponents(right_exp, shapes[1], "b_exp")
    scale = None if b_scale is None else fp16.require_fp16(b_scale, thing, "b_scale")
    if scale is not None and scale.shape != shapes[1]:
        raise RefusedType(f"{thing}: b_scale must have shape {shapes[1]}, got {scale.shape}")
    selftest.require_round_to_nearest()
    result = Grouped(left.astype(np.int64), right.astype(np.int64), exponents, scale, int(group))
    if result.bound >= 1 << 53:
        raise Refused(f"{thing}: a sum inside a group can reach {result.bound}, which is not below 2**53")
    return result


def _exponents(values: ArrayLike, shape: tuple[int, ...], name: str) -> np.ndarray:
    array = require_integers(values, "grouped_matmul").astype(np.int64)
    if array.shape != shape:
        raise RefusedType(f"grouped_matmul: {name} must have shape {shape}, got {array.shape}")
    if integers.peak(array) > 400:  # so that float64 holds every power and every scaled sum
        raise Refused(f"grouped_matmul: {name} must be in [-400, 400], got {integers.peak(array)} in magnitude")
    return array


def require_roundings(partial: Precision, product: Precision | None, acc: Precision, scaled: bool) -> None:
    """Reject what is not a rounding, and an fp16 accumulator over terms that are not fp16 values."""
    require_choice(partial, PRECISIONS, "grouped_matmul", "partial")
    require_choice(acc, PRECISIONS, "grouped_matmul", "acc")
    if scaled:
        require_choice(product, PRECISIONS, "grouped_matmul", "product")
    last = product if scaled else partial
    if acc == "fp16" and last != "fp16":
        raise Refused(f'grouped_matmul: acc="fp16" adds fp16 values, got {"product" if scaled else "partial"}={last!r}')
