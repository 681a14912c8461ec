"""Compiled form of index_matmul over whole matrices; ports.py has the one between the ports. [kllm §III-B, §III-D]

Counts are integers, so positions are counted group by group, first those where A has index 0, then 1, and so on; when a
group is counted, its entries of the codebook are due in the sequential sum. Kernels: `kernels`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith import fp16, fp16_compiled, integers, kernels
from refemu.arith.checks import RefusedType
from refemu.arith.fp16_compiled import plain, ready
from refemu.arith.orders import Sequential
from refemu.arith.scalar32 import value32
from refemu.arith.threads import share_out
from refemu.formats.kllm.codebook import Codebook
from refemu.formats.kllm.compiled.kmeans import dequantized as dequantized_fast
from refemu.formats.kllm.kllm_arith import KllmArith, Preset
from refemu.formats.kllm.kmeans_tensor import KMeansTensor
from refemu.units.kllm.index_matmul import UNIT, IndexMatmul, Result
from refemu.units.kllm.index_matmul.arithmetic import joint_scale, marginals, mean_term, zero_terms
from refemu.units.kllm.index_matmul.operands import Norm, Scores, Vectors, columns_under, vectors_of
from refemu.units.kllm.index_matmul.problem import Problem, column, require_problem
from refemu.units.kllm.kernels import index_matmul as index_kernels
from refemu.units.kllm.weighted_sum import compiled as weighted_sum_compiled
from refemu.units.kllm.weighted_sum.weighted_sum import units_of

BATCH = 4096  #: columns of rows whose counts are in memory at once
LEAST = 8  #: least number of rows of A for a thread
SLACK = 1 / (1 << 50)  #: upper bound of the relative error of a float64 operation


@dataclass(frozen=True, eq=False)
class Prepared:
    """The right operand laid out once, for many calls."""

    tensor: KMeansTensor  #: the tensor it was made from
    integer: bool  #: for Scores: vectors run across the sum
    vectors: Vectors
    index: np.ndarray  #: (K + 1, N) uint8, zeros last
    starts: np.ndarray  #: (K + 1,) int64: outliers of position k
    places: np.ndarray  #: int64: columns of the outliers, ascending
    values: np.ndarray  #: float32

    @property
    def nbytes(self) -> int:
        """Bytes of the layout."""
        arrays = (self.index, self.starts, self.places, self.values)
        return integers.total(np.array([array.nbytes for array in arrays])).item()

    def __repr__(self) -> str:
        return f"<Prepared {self.tensor!r}>"


def prepare(b: KMeansTensor, *, integer: bool = False) -> Prepared:
    """Lay out `b` for many calls of `matmul`; integer: for Scores."""
    vectors = columns_under(b, dequantized_fast) if integer else vectors_of(b, dequantized_fast)
    index = np.zeros((vectors.index.shape[1] + 1, vectors.index.shape[0]), np.uint8)
    index[:-1] = vectors.index.T
    rows, places, values = _outliers(vectors, b, integer)
    starts = np.searchsorted(rows, np.arange(index.shape[0])).astype(np.int64)
    return Prepared(b, integer, vectors, index, starts, places.astype(np.int64), values)


def _outliers(vectors: Vectors, tensor: KMeansTensor, integer: bool) -> tuple[np.ndarray, ...]:
    """Positions, columns and values (float32) of B's outliers, by ascending position, then column."""
    values = fp16.to_f32(fp16.values(tensor.outlier))  # vector by vector
    if integer:  # vectors run across the sum
        return *np.nonzero(vectors.mask.T), values
    places, rows = np.nonzero(vectors.mask)
    order = np.argsort(rows, kind="stable")
    return rows[order], places[order], values[order]


def matmul(
    a: KMeansTensor | Scores,
    b: KMeansTensor | Prepared,
    *,
    preset: Preset | KllmArith = "paper",
    products: Codebook | None = None,
    bias: np.ndarray | None = None,
    norm: Norm | None = None,
    seen: ArrayLike | None = None,
) -> Result:
    """`index_matmul.matmul`, compiled; `b` may be prepared."""
    return multiply(*_problem(a, b, preset, products, bias, norm, seen))


def outputs(
    a: KMeansTensor | Scores,
    b: KMeansTensor | Prepared,
    *,
    preset: Preset | KllmArith = "paper",
    bias: np.ndarray | None = None,
    norm: Norm | None = None,
    seen: ArrayLike | None = None,
) -> np.ndarray:
    """The field y of what `matmul` returns, without counters."""
    task, right = _problem(a, b, preset, None, bias, norm, seen)
    return fp16_compiled.to_f16(_values(task, right, task.limits)).reshape(task.shape)


def _problem(
    a: KMeansTensor | Scores,
    b: KMeansTensor | Prepared,
    preset: Preset | KllmArith,
    products: Codebook | None,
    bias: np.ndarray | None,
    norm: Norm | None,
    seen: ArrayLike | None,
) -> tuple[Problem, Prepared]:
    right = b if isinstance(b, Prepared) else prepare(b, integer=isinstance(a, Scores))
    if right.integer != isinstance(a, Scores):
        raise RefusedType(
            f"{IndexMatmul.name}: B is prepared for {'Scores' if right.integer else 'a KMeansTensor'} "
            f"as A, got {type(a).__name__}"
        )
    return require_problem(a, right.tensor, preset, products, bias, norm, seen, right.vectors, dequantized_fast), right


def distribution(a: KMeansTensor, b: KMeansTensor | Prepared) -> np.ndarray:
    """Counts of the joint indices of every output, int32 (M, 2**(nA + nB), N), as in the counters after a column."""
    right = b if isinstance(b, Prepared) else prepare(b)
    task = require_problem(a, right.tensor, "paper", None, None, None, None, right.vectors)
    limits = task.limits
    counts = np.zeros((limits.shape[0], task.table.size, right.index.shape[1]), np.int32)
    _dense(task, right, limits, counts=counts)
    return counts


def multiply(task: Problem, b: Prepared) -> Result:
    """The Result of a checked MatMul."""
    limits = task.limits
    words = fp16.bits(fp16_compiled.to_f16(_values(task, b, limits))).reshape(task.shape)
    overflow = words & 0x7C00 == 0x7C00
    counters = _counters(task, b, limits, int(np.count_nonzero(overflow)))
    return Result(y=words.view(np.float16), overflow=overflow, **counters)


def _values(task: Problem, b: Prepared, limits: np.ndarray) -> np.ndarray:
    """Y, float32 (M, N), fp16 values; 0 where nothing is seen."""
    ready()
    if task.arith.acc == "exact":
        return np.where(np.arange(b.index.shape[1]) < limits[:, 1:], _exact(task, b, limits), np.float32(0))
    return _rounded(task, b, limits)


def _rounded(task: Problem, b: Prepared, limits: np.ndarray) -> np.ndarray:
    """Y of a rounding accumulator, float32 (M, N), 0 where nothing is seen; threads share the rows of A."""
    out = np.zeros((limits.shape[0], b.index.shape[1]), np.float32)
    plainly, (a_scale, centroids) = _is_plain(task), task.divided
    operands, scale = _operands(task, b, centroids), plain(a_scale)
    b_scale = np.ones(out.shape[1]) if task.integer else task.b.scale
    shift = np.zeros((0, 0)) if task.shift is None else plain(mean_term(task.shift[0][:, None], task.shift[1]))
    bias = np.zeros(0) if task.bias is None else task.bias
    roundings = task.arith.acc != "fp32", task.arith.scale_y == "fp16" and not task.integer

    def rows(first: int, last: int) -> None:
        part = slice(first, last)
        inside = _fused(task, b, limits[part], first) if plainly else _general(task, b, limits)
        outside = _sparse(task, operands, limits[part], part, out.shape[1])
        dense, sparse = (inside, scale[part], b_scale), (outside, shift[part], bias)
        index_kernels.kmeans_merge(*dense, *sparse, *roundings, limits[part], out[part])

    with np.errstate(all="ignore"):
        share_out(rows, limits.shape[0], threads=None if plainly else 1, least=LEAST)
    return out


def _scales(task: Problem) -> np.ndarray:
    """Scale of the dense part of every output, (M, N)."""
    a = task.divided[0]
    if task.integer:
        return np.broadcast_to(a[:, None], (a.size, task.b.scale.size))
    return joint_scale(a[:, None], task.b.scale, task.arith)


def _counters(task: Problem, b: Prepared, limits: np.ndarray, overflows: int) -> dict[str, int]:
    """The unit's counters in closed form."""
    outputs = int(integers.total(limits[:, 1]))
    positions = int(integers.total(limits[:, 0] * limits[:, 1]))
    if task.integer:  # A has no outliers, and its rows see the first positions
        left_out = int(integers.total(b.starts[limits[:, 0]]))
    else:
        rows = np.repeat(np.arange(b.index.shape[0] - 1), np.diff(b.starts))
        only_b = (b.places < limits[:, 1:]) & ~task.a.mask[:, rows]
        left_out = int(integers.total(np.count_nonzero(task.a.mask, axis=1) * limits[:, 1]))
        left_out += int(np.count_nonzero(only_b))
    return totals(task.integer, outputs, positions, left_out, task.table.size, overflows)


def totals(integer: bool, outputs: int, positions: int, left_out: int, entries: int, overflows: int) -> dict[str, int]:
    """The unit's counters after some outputs over some positions, some of them excluded from the counts."""
    counted = 0 if integer else positions, positions - left_out, entries * outputs, entries * outputs
    values = *counted, left_out, left_out, outputs, outputs, positions, overflows
    return dict(zip(UNIT.counters, values, strict=True))


def _is_plain(task: Problem) -> bool:
    """Whether the weighted sums are sequential, over entries that the accumulator's MAC takes, and final."""
    return (
        isinstance(task.arith.order, Sequential)
        and not task.zeros
        and (task.arith.acc == "fp32" or fp16_compiled.holds_fp16(task.table))
    )


def _most(task: Problem) -> int:
    """Upper bound of a count."""
    return task.a.index.shape[1] * (integers.peak(task.a.index) if task.integer else 1)


def _dense(
    task: Problem,
    b: Prepared,
    limits: np.ndarray,
    *,
    sums: np.ndarray | None = None,
    counts: np.ndarray | None = None,
    totals: np.ndarray | None = None,
    units: np.ndarray | None = None,
    first: int = 0,
) -> None:
    """Run the kernel on the rows of A from `first` on, one for each of `limits`; fills its arguments."""
    index, mask = (plain(side[first : first + len(limits)]) for side in (task.a.index, task.a.mask))
    acc, most = task.arith.acc, _most(task)
    bounded = acc == "fp16" and most <= index_kernels.EXACT and index_kernels.is_bounded(task.table, most)
    skip = acc != "fp16_fma" and bool(np.isfinite(task.table).all())  # a fused step may see the sign of a zero
    kinds = ((2, np.float32), (3, np.int32), (1, np.int64), (2, np.int64))  #: axes and numbers of arrays without rows
    asked = zip((sums, counts, units, totals), kinds, strict=True)
    wanted = [np.zeros((0,) * axes, kind) if array is None else array for array, (axes, kind) in asked]
    with np.errstate(all="ignore"):
        left, right = (index, mask.view(np.uint8), int(task.integer)), (b.index, b.starts, b.places)
        table, steps = (plain(task.table), 1 << task.b_bits), (kernels.ACCUMULATORS.get(acc, 0), bounded)
        index_kernels.kmeans_dense(*left, *right, plain(limits), *table, *steps, skip, *wanted)


def _fused(task: Problem, b: Prepared, limits: np.ndarray, first: int) -> np.ndarray:
    """The weighted sums, counted and reduced in one kernel, float32 (M, N), of the rows from `first` on."""
    sums = np.zeros((limits.shape[0], b.index.shape[1]), np.float32)
    _dense(task, b, limits, sums=sums, first=first)
    return sums


def _batches(task: Problem, b: Prepared, limits: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
    """Rows of A, and their counts, int64 (rows, entries, columns)."""
    rows, columns = limits.shape[0], b.index.shape[1]
    step = max(1, BATCH // max(columns, 1))
    for low in range(0, rows, step):
        part = limits[low : low + step]
        counts = np.zeros((part.shape[0], task.table.size, columns), np.int32)
        _dense(task, b, part, counts=counts, first=low)
        yield slice(low, low + part.shape[0]), counts.astype(np.int64)


def _general(task: Problem, b: Prepared, limits: np.ndarray) -> np.ndarray:
    """The weighted sums of any order, table and zero points, from counts, float32 (M, N)."""
    sums = np.empty((limits.shape[0], b.index.shape[1]), np.float32)
    for rows, counts in _batches(task, b, limits):
        by_column = np.moveaxis(counts, 1, -1)
        part = _weighted(by_column, task.table, task.arith)
        sums[rows] = _corrected(task, part, by_column, rows) if task.zeros else part
    return sums


def _weighted(counts: np.ndarray, table: np.ndarray, arith: KllmArith) -> np.ndarray:
    """Weighted sums, float64 (rows, columns), of counts (rows, columns, entries)."""
    flat = counts.reshape(-1, table.size)
    return (
        weighted_sum_compiled.sums(flat, np.broadcast_to(table, flat.shape), arith)
        .reshape(counts.shape[:-1])
        .astype(np.float64)
    )


def _corrected(task: Problem, part: np.ndarray, counts: np.ndarray, rows: slice) -> np.ndarray:
    """Add the terms of zero points."""
    sum_a, sum_b = (
        _weighted(by, table, task.arith)
        for by, table in zip(marginals(counts, task.b_bits), task.centroids, strict=True)
    )
    counted = integers.total(counts, axis=-1).astype(np.float64)
    za = np.zeros((part.shape[0], 1)) if task.a.zero is None else task.a.zero[rows, None]
    zb = np.zeros(part.shape[1]) if task.b.zero is None else task.b.zero
    return zero_terms(part, (sum_a, sum_b, counted), za, zb, task.arith.acc)


def _operands(task: Problem, b: Prepared, centroids: np.ndarray) -> tuple[np.ndarray, ...]:
    """Operands of the kernels of the sparse path; centroids: those of B, divided."""
    mask = plain(task.a.mask).view(np.uint8)
    scale = task.b.scale.astype(np.float32)
    return (mask, plain(task.a.value), b.index, scale, plain(centroids), b.starts, b.places, b.values)


def _sparse(
    task: Problem, operands: tuple[np.ndarray, ...], limits: np.ndarray, rows: slice, columns: int
) -> np.ndarray:
    """Sums over the excluded positions, float32 (M, N), of some rows, or of all if B has zero points."""
    out = np.zeros((limits.shape[0], columns), np.float32)
    if task.b.zero is not None:
        device = IndexMatmul(1, 1, 1, False, task.arith)
        for m, (_, seen) in enumerate(limits.tolist()):
            for n in range(seen):
                out[m, n] = value32(device.accumulator.sparse(column(task, m, n)))
        return out
    mask, value, index, scale, centroids, *outliers = operands
    if not (operands[-1].size or mask[rows].any()):
        return out  # compiles no kernel
    table = centroids[rows] if centroids.shape[0] > 1 else centroids
    index_kernels.kmeans_sparse(
        mask[rows], value[rows], index, scale, table, *outliers, limits, kernels.ACCUMULATORS[task.arith.acc], out
    )
    return out


def _exact(task: Problem, b: Prepared, limits: np.ndarray) -> np.ndarray:
    """Bound the exact value in float64; if both bounds round to one fp16 value, take it, else run the unit."""
    shape = limits.shape[0], b.index.shape[1]
    if task.zeros:
        return _by_unit(task, limits, np.ones(shape, np.bool_), np.zeros(shape, np.float32))
    unit_bits = 24 if fp16.is_fp16(task.table).all() else 48
    entries = units_of(task.table, unit_bits)
    largest = max(abs(entry) for entry in entries) * _most(task)
    if largest < 1 << 62:
        totals = np.zeros(shape, np.int64)
        _dense(task, b, limits, totals=totals, units=np.array(entries, np.int64))
        dense = totals.astype(np.float64)
    else:
        dense = np.concatenate([_wide_sums(entries, counts) for _, counts in _batches(task, b, limits)])
    scale = _scales(task)
    dense = np.ldexp(dense, -unit_bits) * scale
    sparse, size = np.zeros(shape, np.float64), np.zeros(shape, np.float64)
    with np.errstate(all="ignore"):  # interpreted kernels wrap on purpose
        index_kernels.kmeans_sparse64(*_operands(task, b, task.divided[1]), limits, sparse, size)
    ends = biased(sparse, size, None if task.norm is not None else task.bias, b.index.shape[0] + 1)
    y, doubtful = between(dense, *ends, partial(_finished, task))
    return _by_unit(task, limits, doubtful, y)


def between(
    dense: np.ndarray, sparse: np.ndarray, size: np.ndarray, finished: Callable[[np.ndarray], np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Y, fp16 values as float32, and where it is in doubt, from float64 sums; the dense ones are rounded.

    size: sums of magnitudes of the sparse terms, times their number. finished: the remaining
    steps except the last rounding, monotonic in the sum.
    """
    value, error = dense + sparse, (np.abs(dense) + size) * SLACK
    low, high = (fp16_compiled.round16_of_f64(finished(end)) for end in (value - error, value + error))
    return low, low.view(np.uint32) != high.view(np.uint32)


def biased(sparse: np.ndarray, size: np.ndarray, bias: np.ndarray | None, terms: int) -> tuple[np.ndarray, np.ndarray]:
    """`sparse` and `size` of `between` from float64 sums of some terms, with a bias as one more term.

    A bias far above the sum hides it in float64; in the size it widens the bounds. size: sums of magnitudes.
    """
    if bias is None:
        return sparse, size * terms
    return sparse + bias, (size + np.abs(bias)) * (terms + 1)


def _wide_sums(entries: list[int], counts: np.ndarray) -> np.ndarray:
    """Sums of count * entry as float64 (rows, columns), rounded once; counts (rows, entries, columns)."""
    total = np.zeros((counts.shape[0], counts.shape[2]), object)
    for i, entry in enumerate(entries):
        total = total + counts[:, i].astype(object) * entry
    return total.astype(np.float64)


def _finished(task: Problem, v: np.ndarray) -> np.ndarray:
    """`finish_exact` up to the last rounding, in float64: monotonic in v."""
    if task.norm is None:
        return v  # with the bias
    mean, divisor = (
        0.0 if x is None else np.asarray(x, np.float64).reshape(-1, 1) for x in (task.norm.mean, task.norm.divisor)
    )
    row_sum = 0.0 if task.norm.row_sum is None else np.asarray(task.norm.row_sum, np.float64)
    v = (v - mean * row_sum) / divisor
    return v if task.bias is None else v + task.bias


def _by_unit(task: Problem, limits: np.ndarray, doubtful: np.ndarray, y: np.ndarray) -> np.ndarray:
    """`y` with doubtful outputs replaced by those of the unit."""
    bits = task.table.size.bit_length() - 1
    k, a_bits = task.a.index.shape[1], 8 if task.integer else bits - task.b_bits
    device = IndexMatmul(max(k, 1), a_bits, task.b_bits, task.integer, task.arith)
    for m, n in zip(*np.nonzero(doubtful & (np.arange(y.shape[1]) < limits[:, 1:])), strict=True):
        y[m, n] = fp16.values(np.uint16(device.outputs(column(task, int(m), int(n))).y))
    return y
