"""Compiled forms of `dot`: same names, same arguments, same bits. Kernels: refemu.arith.kernels.

A sequential matmul runs in tiles over prepared panels; every other order is lowered to a program of additions that one
kernel runs for all outputs. `threads` (module `threads`; None: the process's number) share out independent outputs, so
no bit depends on their number.
"""

import functools
import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith import dot as readable
from refemu.arith import exact, fp16, integers, kernels
from refemu.arith.attention.scores import PLAIN, ScoreRule
from refemu.arith.checks import Refused, RefusedType, require_integers
from refemu.arith.fp16_compiled import holds_fp16, plain, ready, require_fp16
from refemu.arith.group_panels import EXPONENT, GroupPanels, fits, group_panels, pack
from refemu.arith.integers import Overflow
from refemu.arith.jit import FUSES, quiet
from refemu.arith.jit.tiers import early
from refemu.arith.operands import Accumulator, Precision, Request, require_attention, require_grouped, require_roundings
from refemu.arith.orders import Order, Sequential, lower, require_order
from refemu.arith.panels import Panels, panels, peak
from refemu.arith.sums_compiled import rows, total32, total64
from refemu.arith.threads import share_out, workers, worth

__all__ = [
    "GroupPanels",
    "Panels",
    "attention",
    "dot",
    "group_panels",
    "group_sums",
    "grouped_matmul",
    "matmul",
    "panels",
    "total32",
    "total64",
]

GRAIN = 64  #: columns of a vector's unit of work
FEW_QUERIES = 16  #: of a block of an attention: its keys and values are copied for so many
NO_FLOATS, NO_WORDS = np.empty((0, 0, 0), np.float32), np.empty((0, 0, 0), np.uint16)
NO_FLOATS.flags.writeable = NO_WORDS.flags.writeable = False  # as panels are: a kernel sees one array type
EVEN = 4  #: tiles of a thread, so that all end at about the same time


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
    """`dot.dot`; integers take the readable form."""
    request = Request("dot", order, acc, start, out, bits, overflow, require_fp16)
    if request.is_int:
        return readable.dot(a, b, order=order, acc=acc, start=start, out=out, bits=bits, overflow=overflow)
    x, y = np.broadcast_arrays(*readable.dot_operands(a, b, request))
    return _in_order(rows(x).T[None], rows(y).T, request).reshape(x.shape[:-1])


def matmul(
    a: ArrayLike,
    b: ArrayLike | Panels,
    *,
    order: Order,
    acc: Accumulator,
    out: Precision | None = None,
    bits: int | None = None,
    overflow: Overflow | None = None,
    threads: int | None = None,
) -> np.ndarray:
    """`dot.matmul`; `b` may be `panels(w)`, for the right factor w.T. threads: of `threads`, share out the outputs."""
    request = Request("matmul", order, acc, 0.0, out, bits, overflow, require_fp16)
    if request.is_int:
        return _integer_matmul(a, b, request)
    x, right = _factors(a, b, request)
    if not isinstance(order, Sequential):
        return _in_order(x[:, :, None], right.matrix() if isinstance(right, Panels) else right, request, threads)
    return by_panels(plain(x), right if isinstance(right, Panels) else panels(right.T), acc, threads)


def _factors(a: ArrayLike, b: ArrayLike | Panels, request: Request) -> tuple[np.ndarray, np.ndarray | Panels]:
    """The operands, checked as `dot.matmul_operands` does."""
    if not isinstance(b, Panels):
        return readable.matmul_operands(a, b, request)
    if np.ndim(a) != 2 or np.shape(a)[1] != b.shape[1]:
        raise RefusedType(f"matmul: (M, K) and (K, N) are needed, got {np.shape(a)} and {b.shape[::-1]}")
    request.require(b.shape[1])
    if request.needs_fp16 and not b.holds_fp16:
        fp16.require_fp16(b.matrix(), "matmul", "b")
    return request.operand(a, "a"), b


def by_panels(x: np.ndarray, b: Panels, acc: Accumulator, threads: int | None = None) -> np.ndarray:
    """`matmul` in sequence, of contiguous float32 that is not checked: tiles, or for one row panels from end to end."""
    form = functools.partial(_read, x, b, acc)
    acc = _equal(acc, x, b)
    kernel = _of_tiles(acc) if x.shape[0] > 1 or acc == "fp16_fma" else _of_row(acc)
    if (product := early(kernel, x.shape[0] * b.shape[0] * b.shape[1], form, 0.8)) is not None:
        return product
    ready()
    out = np.empty((x.shape[0], b.shape[0]), np.float32)
    wide, half = (NO_FLOATS, b.values) if b.half else (b.values, NO_WORDS)
    count, _, span = b.values.shape
    if x.shape[0] == 1 and acc != "fp16_fma":
        share_out(
            functools.partial(_vector, acc, x, b, wide, half, out[0]),
            -(-count * span // GRAIN),
            threads,
            worth(x.shape[1] * GRAIN),
        )
        return out
    across = -(-span // kernels.TILE)
    tile = -(-span // (across * kernels.PAD)) * kernels.PAD
    rows = _rows_of_tiles(x.shape[0], count * across, workers(threads))
    run = functools.partial(_tiles, acc, x, b, wide, half, rows, tile, out)
    share_out(run, count * across * -(-x.shape[0] // rows), threads, worth(x.shape[1] * tile * min(x.shape[0], rows)))
    return out


def _read(x: np.ndarray, b: Panels, acc: Accumulator) -> np.ndarray:
    return readable.matmul(x, b.matrix(), order=Sequential(), acc=acc)


def _rows_of_tiles(rows: int, across: int, parts: int) -> int:
    """The most rows of a tile with which there are EVEN tiles for each of `parts` threads, or as few as it may have."""
    size = kernels.ROWS
    while parts > 1 and size > kernels.FEW and across * -(-rows // size) < EVEN * parts:
        size //= 2
    return size


def _equal(acc: Accumulator, x: np.ndarray, b: Panels) -> Accumulator:
    """The faster accumulator with the same bits: a product of two fp16 values is exact, fused or not."""
    either = acc == "fp32_fma" or (acc == "fp32" and FUSES and x.shape[0] > 1)
    return ("fp32_fma" if FUSES else "fp32") if either and b.holds_fp16 and holds_fp16(x) else acc


def _of_row(acc: Accumulator) -> Any:
    return {"fp32": kernels.vector_fp32, "fp32_fma": kernels.vector_fma32, "fp16": kernels.vector_fp16}[acc]


def _of_tiles(acc: Accumulator) -> Any:
    return {
        "fp32": kernels.matmul_fp32,
        "fp32_fma": kernels.matmul_fma32,
        "fp16": kernels.matmul_fp16,
        "fp16_fma": kernels.matmul_fma16,
    }[acc]


def _vector(acc: Accumulator, x: np.ndarray, b: Panels, *arguments: Any) -> None:
    *operands, first, last = arguments
    columns = min(GRAIN * last, b.values.shape[0] * b.values.shape[2])
    with quiet():
        _of_row(acc)(x[0], *_options(acc, x, b), *operands, GRAIN * first, columns)


def _tiles(acc: Accumulator, x: np.ndarray, b: Panels, *arguments: Any) -> None:
    with quiet():
        _of_tiles(acc)(x, *_options(acc, x, b), *arguments)


def _options(acc: Accumulator, x: np.ndarray, b: Panels) -> list[bool]:
    """Whether products stay below the overflow of fp16; a sum that starts at +0 does not see the sign of a zero."""
    return [peak(x) * b.peak < fp16.OVERFLOW] if acc == "fp16" else []


def _integer_matmul(a: ArrayLike, b: ArrayLike | Panels, request: Request) -> np.ndarray:
    """Exact at once where no step can leave the register, or wrapping makes a ring of it; else stepped."""
    if isinstance(b, Panels):
        raise RefusedType('matmul: panels hold floats, which acc="int" does not take')
    x, y = readable.matmul_operands(a, b, request)
    top = None if request.bits is None else 1 << (request.bits - 1)
    safe = top is None or integers.peak(x) * integers.peak(y) * max(x.shape[1], 1) < top
    if not safe and request.overflow != "wrap":
        return readable.matmul(x, y, order=request.order, acc="int", bits=request.bits, overflow=request.overflow)
    return request.limit(integers.matmul(x, y))


def _in_order(a: np.ndarray, b: np.ndarray, request: Request, threads: int | None = None) -> np.ndarray:
    """(M, N) by a program of additions; a (M, K, N or 1), b (K, N). `threads` share out the rows."""
    ready()
    start = request.first()
    if request.acc == "exact":
        return _exact(a, b, start, request.rounded_to, threads)
    program, slots = lower(request.order, b.shape[0], bool(start == 0))
    out = np.empty((a.shape[0], b.shape[1]), np.float32)
    left, right, acc = plain(a), plain(b), kernels.ACCUMULATORS[request.acc]

    def run(first: int, last: int) -> None:
        work = np.empty((slots, kernels.STRIP), np.float32)
        with quiet():
            kernels.run_program(program, left[first:last], right, out[first:last], work, acc, start)

    share_out(run, a.shape[0], threads, worth(b.size))
    return out


def _exact(a: np.ndarray, b: np.ndarray, start: np.float32, out: Precision, threads: int | None) -> np.ndarray:
    """Three limbs an output; where something is not finite, the limbs are those of the finite terms."""
    if not b.shape[0]:
        return np.full((a.shape[0], b.shape[1]), start)
    limbs, strange = _limbs(a, b, start, threads)
    extremes = np.zeros(limbs.shape[1:], np.float32)
    if strange:
        left, right, first = (np.where(np.isfinite(x), x, np.float32(0)) for x in (a, b, start))
        limbs, _ = _limbs(left, right, np.float32(first), threads)
        extremes = exact.special([a[:, k] for k in range(a.shape[1])], list(b), start)
    return exact.finish(limbs, extremes, out, exact.round_limbs)


def _limbs(a: np.ndarray, b: np.ndarray, start: np.float32, threads: int | None) -> tuple[np.ndarray, bool]:
    """int64 (3, M, N) as `exact.round_limbs` takes them, and whether a sum was not finite."""
    limbs, left, right = np.zeros((3, a.shape[0], b.shape[1]), np.int64), plain(a), plain(b)
    strange: list[bool] = []

    def run(first: int, last: int) -> None:
        low, middle, high = limbs[:, first:last]
        with quiet():
            strange.append(kernels.exact_limbs(left[first:last], right, np.float32(start), low, middle, high))

    share_out(run, a.shape[0], threads, worth(b.size))
    return limbs, any(strange)


def grouped_matmul(
    a: ArrayLike,
    b: ArrayLike | GroupPanels,
    *,
    group: int,
    a_exp: ArrayLike,
    b_exp: ArrayLike | None = None,
    b_scale: ArrayLike | None = None,
    partial: Precision,
    product: Precision | None = None,
    order: Order,
    acc: Precision,
    threads: int | None = None,
) -> np.ndarray:
    """`dot.grouped_matmul`; compiled where no sum inside a group can reach 2**24.

    b may be `group_panels(...)`, which has its exponents and scales. threads: of `threads`, share out the outputs.
    """
    rounding: Any = {"partial": partial, "product": product, "order": order, "acc": acc}
    if isinstance(b, GroupPanels):
        if b_exp is not None or b_scale is not None or group != b.group:
            raise Refused(
                f"grouped_matmul: panels have their own exponents, scales and groups of {b.group}, got group={group}"
            )
        left = _left_of(a, a_exp, b)
        if _is_plain(partial, product, order, acc) and left is not None:
            require_roundings(partial, product, acc, b.scaled)
            return _grouped(*left, b, partial, product, threads)
        return grouped_matmul(a, group=group, a_exp=a_exp, threads=threads, **rounding, **b.arrays())
    operands = require_grouped(a, b, group, a_exp, b_exp, b_scale)
    require_roundings(partial, product, acc, operands.scale is not None)
    require_order(order, acc, operands.groups, "grouped_matmul")
    if operands.bound >= 1 << 24 or not operands.groups:  # beyond what float32 holds exactly
        return readable.grouped_matmul(a, b, group=group, a_exp=a_exp, b_exp=b_exp, b_scale=b_scale, **rounding)
    if _is_plain(partial, product, order, acc) and fits(operands):
        largest = integers.peak(operands.a)
        return _grouped(operands.a, operands.exponents[0], largest, pack(operands), partial, product, threads)
    powers = [np.ascontiguousarray(np.ldexp(1.0, exponent.astype(np.int32))) for exponent in operands.exponents]
    scale = np.empty((0, 0), np.float32) if operands.scale is None else plain(operands.scale)
    wide, right = (plain(side.astype(np.float32)) for side in (operands.a, operands.b))
    terms = np.empty((operands.groups, wide.shape[0], right.shape[1]), np.float32)
    ready()
    with quiet():
        kernels.group_terms(wide, right, *powers, scale, partial == "fp16", product == "fp16", terms)
    ones = np.ones((1, operands.groups, 1), np.float32)
    flat = terms.reshape(operands.groups, -1)
    return _in_order(ones, flat, Request("grouped_matmul", order, acc)).reshape(terms.shape[1:])


def _is_plain(partial: Precision, product: Precision | None, order: Order, acc: Precision) -> bool:
    """Whether tiles do it: groups in sequence into float32, and no rounding after one that is not exact."""
    return isinstance(order, Sequential) and acc == "fp32" and (partial, product) != ("fp32", "fp16")


def _left_of(a: ArrayLike, a_exp: ArrayLike, b: GroupPanels) -> tuple[np.ndarray, np.ndarray, int] | None:
    """The left operand, its exponents, checked, and its peak; None where sums, scaled or not, may not fit float32."""
    left, exponents = (require_integers(x, "grouped_matmul") for x in (a, a_exp))
    groups = b.shape[0] // b.group
    if left.ndim != 2 or left.shape[1] != b.shape[0] or exponents.shape != (left.shape[0], groups):
        raise RefusedType(
            f"grouped_matmul: (M, {b.shape[0]}) and a_exp (M, {groups}) are needed, "
            f"got {left.shape} and {exponents.shape}"
        )
    largest = integers.peak(left)
    exact = largest * b.peak * b.group < 1 << 24 and integers.peak(exponents) <= EXPONENT
    return (left, exponents, largest) if exact and groups else None


def _grouped(
    a: np.ndarray,
    a_exp: np.ndarray,
    largest: int,
    b: GroupPanels,
    partial: Precision,
    product: Precision | None,
    threads: int | None,
) -> np.ndarray:
    left, powers = plain(a.astype(np.float32)), plain(np.ldexp(np.float32(1), a_exp.astype(np.int32)))
    return group_sums(left, powers, largest, b, partial, product, threads)


def group_sums(
    left: np.ndarray,
    powers: np.ndarray,
    largest: int,
    b: GroupPanels,
    partial: Precision,
    product: Precision | None = None,
    threads: int | None = None,
) -> np.ndarray:
    """`grouped_matmul` in sequence into float32, of operands that are as the kernel reads them and are not checked.

    left: float32 integers (M, K), contiguous, of magnitudes up to `largest`, whose product with b.peak times the group
    is below 2**24. powers: float32 powers of two (M, G). By tiles: 64 rows by a panel, in 16-bit integers for as many
    terms as surely fit.
    """

    def form() -> np.ndarray:
        rounding: Any = {"partial": partial, "product": product, "order": Sequential(), "acc": "fp32"}
        exponents = np.frexp(powers)[1] - 1
        return readable.grouped_matmul(left.astype(np.int64), group=b.group, a_exp=exponents, **rounding, **b.arrays())

    if (sums := early(kernels.grouped_tiles, left.size * b.shape[1], form, 1.5)) is not None:
        return sums
    ready()
    out = np.empty((left.shape[0], b.shape[1]), np.float32)
    terms = ((1 << 15) - 1) // max(largest * b.peak, 1) if b.nibbles.size or b.narrow.size else 0
    depth = next((n for n in (kernels.DEPTH, 8) if n <= terms and b.group % n == 0), 0)
    if len(left) == 1 and b.nibbles.size and not b.powers.size and depth == kernels.DEPTH:
        _grouped_row(left[0], powers[0], b, partial, product, out[0], threads)
        return out
    right = b.nibbles, b.narrow, b.wide, b.powers, b.scales
    roundings = partial == "fp16", b.scaled and product == "fp16"

    def run(first: int, last: int) -> None:
        with quiet():
            kernels.grouped_tiles(left, powers, *right, *roundings, depth, out, first, last)

    rows_of_unit = min(left.shape[0], kernels.GROUP_ROWS)
    pieces = b.scales.shape[0] * -(-left.shape[0] // kernels.GROUP_ROWS)
    share_out(run, pieces, threads, worth(rows_of_unit * left.shape[1] * b.scales.shape[2]))
    return out


def _grouped_row(
    left: np.ndarray,
    powers: np.ndarray,
    b: GroupPanels,
    partial: Precision,
    product: Precision | None,
    out: np.ndarray,
    threads: int | None,
) -> None:
    """`group_sums` of one row: threads share out columns."""
    columns, roundings = b.scales.shape[0] * b.scales.shape[2], (partial == "fp16", b.scaled and product == "fp16")

    def run(first: int, last: int) -> None:
        with quiet():
            kernels.grouped_row(
                left, powers, b.nibbles, b.scales, *roundings, out, GRAIN * first, min(GRAIN * last, columns)
            )

    share_out(run, -(-columns // GRAIN), threads, worth(len(left) * GRAIN))


def attention(
    q: ArrayLike,
    k: ArrayLike,
    v: ArrayLike,
    *,
    scale: np.float32,
    start: int,
    rule: ScoreRule = PLAIN,
    threads: int | None = None,
) -> np.ndarray:
    """`dot.attention`, fused; threads share out the key heads."""
    query, key, value = require_attention(q, k, v, start, require_fp16)
    return attend(query, key, value, scale, start, rule, threads)


def attend(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    scale: np.float32,
    start: int,
    rule: ScoreRule = PLAIN,
    threads: int | None = None,
) -> np.ndarray:
    """`attention` of fp16 values in float32 that are not checked: a decoder's cache was, token by token."""
    form = functools.partial(readable.attention, q, k, v, scale=np.float32(scale), start=start, rule=rule)
    if (attended := early(kernels.attention_heads, q.size * k.shape[0], form, 0.8)) is not None:
        return attended
    query, key, value = plain(q), plain(k), plain(v)
    ready()
    out, paid, counting = np.empty_like(query), np.empty((0, 0, 0), np.float32), np.empty(0, np.int64)
    fields = rule.fields(query.shape[1])

    edges = _even_edges(len(query), start, workers(threads))
    blocks = len(edges) - 1

    def run(first: int, last: int) -> None:
        units = [(unit // blocks, unit // blocks + 1, unit % blocks) for unit in range(first, last)]
        for head, end, block in [(first, last, 0)] if blocks == 1 else units:
            part, seen = slice(edges[block], edges[block + 1]), start + edges[block + 1]
            right, places = (key[:seen], value[:seen], np.float32(scale)), (start + part.start, out[part], paid)
            with quiet():
                kernels.attention_heads(query[part], *right, *places, counting, *fields, head, end)

    share_out(run, key.shape[1] * blocks, threads, worth(2 * query.size // key.shape[1] // blocks * key.shape[0]))
    if np.isnan(out).any():  # from infinities: the readable form raises if it must
        return readable.attention(query, key, value, scale=scale, start=start, rule=rule)
    return out


def _even_edges(queries: int, start: int, blocks: int) -> list[int]:
    """Edges of blocks of queries that see about equally many keys; one block of few queries."""
    if blocks * FEW_QUERIES > queries:
        return [0, queries]
    keys = [queries * (2 * start + queries) * block // blocks for block in range(blocks)]  # doubled
    return [*(math.isqrt(start * start + part) - start for part in keys), queries]
