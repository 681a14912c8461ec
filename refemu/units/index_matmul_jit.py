"""Compiled twin of index_matmul: same arguments, same Result. Read index_matmul.py first. [kllm §III-B, §III-D]

Counts are integers, so positions are counted group by group: first those where A has index 0, then 1, and so on, eight
rows of B at a time. The weighted sums of a whole row are one sequential product of the codebook with the counts.
"""

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from refemu.arith import float_jit, fp16, fp16_jit, integers
from refemu.arith.checks import RefusedType
from refemu.arith.fp16_jit import plain, ready
from refemu.arith.jit import kernel
from refemu.arith.orders import Sequential
from refemu.arith.panels import peak
from refemu.formats.codebook import Codebook
from refemu.formats.kllm_arith import KllmArith
from refemu.formats.kmeans_tensor import KMeansTensor
from refemu.units import weighted_sum_jit
from refemu.units.index_matmul import COUNTERS, IndexMatmul, Result, inputs_of
from refemu.units.index_matmul_arith_parts import dequantized, floats, joint_scale, marginals, merge, zero_terms
from refemu.units.index_matmul_parts import Norm, Scores, Vectors, columns_under, vectors_of
from refemu.units.index_matmul_problem_parts import Problem, column, problem
from refemu.units.unit import admit
from refemu.units.weighted_sum import units_of

WIDTH = 512  #: columns counted at once: sixteen rows of counters and eight of indices fit a first-level cache
BATCH = 2048  #: columns of rows that are reduced at once
OUT = 255  #: index of a position that is left out: no counter has it
MOST8 = 248  #: rows that a counter of eight bits takes


@dataclass(frozen=True, eq=False)
class Prepared:
    """The right operand laid out once, for many calls."""

    tensor: KMeansTensor | None  #: what it was made from; None between the ports
    integer: bool  #: for Scores: vectors lie across the sum
    vectors: Vectors
    index: np.ndarray  #: (K, N) uint8
    counted: np.ndarray  #: the same with OUT at outliers; `index` itself if there are none
    starts: np.ndarray  #: (K + 1,) int64: outliers of position k
    places: np.ndarray  #: int64: their columns, ascending
    values: np.ndarray  #: float32

    @property
    def nbytes(self) -> int:
        """Bytes held besides the tensor."""
        arrays = (self.index, self.counted, self.starts, self.places, self.values, self.vectors.value)
        return integers.total(np.array([array.nbytes for array in arrays])).item()

    def __repr__(self) -> str:
        return f"<Prepared {self.tensor!r}>"


def prepare(b: KMeansTensor, *, integer: bool = False) -> Prepared:
    """`b` as `run` takes it, or with `integer` as it takes it beside Scores, laid out for many calls."""
    return _lay_out(columns_under(b) if integer else vectors_of(b), b, integer)


def _lay_out(vectors: Vectors, tensor: KMeansTensor | None, integer: bool) -> Prepared:
    index, mask = (np.ascontiguousarray(part.T) for part in (vectors.index, vectors.mask))
    rows, places = np.nonzero(mask)
    starts = np.searchsorted(rows, np.arange(mask.shape[0] + 1)).astype(np.int64)
    values = np.ascontiguousarray(vectors.value.T[rows, places])
    counted = np.where(mask, np.uint8(OUT), index) if rows.size else index
    return Prepared(tensor, integer, vectors, index, counted, starts, places.astype(np.int64), values)


def run(a: KMeansTensor | Scores, b: KMeansTensor | Prepared, *, preset: str | KllmArith = "paper",
        products: Codebook | None = None, bias: Any = None, norm: Norm | None = None, seen: Any = None) -> Result:
    """As `index_matmul.run`; `b` may be prepared."""
    right = b if isinstance(b, Prepared) else prepare(b, integer=isinstance(a, Scores))
    if right.integer != isinstance(a, Scores) or right.tensor is None:
        raise RefusedType(f"{IndexMatmul.name}: B is prepared for {'Scores' if right.integer else 'a KMeansTensor'} "
                          f"as A, got {type(a).__name__}")
    return multiply(problem(a, right.tensor, preset, products, bias, norm, seen, right.vectors), right)


def multiply(task: Problem, b: Prepared) -> Result:
    """The Result of a checked MatMul."""
    ready()
    limits = _limits(task)
    counts = _Counts(task, b, limits)
    if task.arith.acc == "exact":
        y = _exact(task, b, limits, counts)
    else:
        inside = counts.sums()
        outside = _sparse(task, b, limits).astype(np.float64)
        y = merge(inside, _scales(task), outside, task.arith, task.bias, task.shift)
    seen = np.arange(y.shape[1]) < limits[:, 1:]
    words = fp16.bits(fp16.to_f16(np.where(seen, y, np.float32(0)))).reshape(task.shape)
    overflow = words & 0x7C00 == 0x7C00
    return Result(words.view(np.float16), overflow, **_counters(task, b, limits, int(np.count_nonzero(overflow))))


def _limits(task: Problem) -> np.ndarray:
    """Positions and columns that each row sees, int64 (M, 2)."""
    rows, (columns, k) = task.seen, task.b.index.shape
    whole = np.full(rows.shape, columns if task.integer else k, np.int64)
    return np.ascontiguousarray(np.stack([rows, whole] if task.integer else [whole, rows], axis=1))


def _scales(task: Problem) -> np.ndarray:
    """Scale of the dense part of every output, (M, N)."""
    a = np.array([task.divided(m)[0] for m in range(task.a.scale.size)]) if task.norm is not None else task.a.scale
    if task.integer:
        return np.broadcast_to(a[:, None], (a.size, task.b.scale.size))
    return joint_scale(a[:, None], task.b.scale, task.arith)


def _counters(task: Problem, b: Prepared, limits: np.ndarray, overflows: int) -> dict[str, int]:
    """The unit's counters in closed form."""
    outputs = int(integers.total(limits[:, 1]))
    positions = int(integers.total(limits[:, 0] * limits[:, 1]))
    left_out = 0
    for m, (k, n) in enumerate(limits.tolist()):
        mask = task.a.mask[m, :k]
        own = int(np.count_nonzero(mask)) * n
        low, high = 0, int(b.starts[k])
        if high:
            rows = np.repeat(np.arange(k), np.diff(b.starts[:k + 1]))
            own += int(np.count_nonzero((b.places[low:high] < n) & ~mask[rows]))
        left_out += own
    entries = task.table.size * outputs
    values = (0 if task.integer else positions, positions - left_out, entries, entries, left_out, left_out, outputs,
              outputs, positions, overflows)
    return dict(zip(COUNTERS, values, strict=True))


class _Counts:
    """Counts of every row of A by every column of B, a batch of rows at a time: (entries, rows * columns)."""

    def __init__(self, task: Problem, b: Prepared, limits: np.ndarray) -> None:
        self.task, self.b, self.limits = task, b, limits
        self.columns, self.entries = b.index.shape[1], task.table.size
        self.batch = max(1, BATCH // max(self.columns, 1))
        self.rows = limits.shape[0]

    def __iter__(self) -> Any:
        """(first row, one past the last, float32 counts (entries, rows, columns))."""
        buffer = np.zeros((self.entries, min(self.batch, max(self.rows, 1)), self.columns), np.float32)
        for low in range(0, self.rows, self.batch):
            high = min(low + self.batch, self.rows)
            for m in range(low, high):
                self._fill(m, buffer[:, m - low])
            yield low, high, buffer if high - low == buffer.shape[1] else plain(buffer[:, :high - low])

    def _fill(self, m: int, out: np.ndarray) -> None:
        k, n = self.limits[m]
        row = self.task.a.index[m, :k]
        if self.task.integer:
            _count_amounts(row, self.b.counted, n, out)
            return
        inliers = np.flatnonzero(~self.task.a.mask[m, :k])
        order = inliers[np.argsort(row[inliers], kind="stable")]
        groups = self.entries >> self.task.b_bits
        starts = np.searchsorted(row[order], np.arange(groups + 1)).astype(np.int64)
        _count_groups(order, starts, self.b.counted, n, out)

    def sums(self) -> np.ndarray:
        """The weighted sums with their terms of zero points, float64 (M, N)."""
        result = np.empty((self.rows, self.columns), np.float64)
        for low, high, counts in self:
            flat = counts.reshape(self.entries, -1)
            part = _reduce(flat, self.task.table, self.task.arith, self._most()).reshape(high - low, self.columns)
            result[low:high] = self._corrected(part, counts, low, high) if self.task.zeros else part
        return result

    def _most(self) -> int:
        """No count is larger."""
        amount = int(self.task.a.index.max(initial=1)) if self.task.integer else 1
        return self.task.a.index.shape[1] * amount

    def _corrected(self, part: np.ndarray, counts: np.ndarray, low: int, high: int) -> np.ndarray:
        task = self.task
        numbers = integers.from_float(np.moveaxis(counts, 0, -1))
        sums = [weighted_sum_jit.sums(by.reshape(-1, by.shape[-1]), np.broadcast_to(table, (part.size, table.size)),
                                      task.arith).reshape(part.shape).astype(np.float64)
                for by, table in zip(marginals(numbers, task.b_bits), task.centroids, strict=True)]
        counted = integers.total(numbers, axis=-1).astype(np.float64)
        za = np.zeros((high - low, 1)) if task.a.zero is None else task.a.zero[low:high, None]
        zb = np.zeros(self.columns) if task.b.zero is None else task.b.zero
        return zero_terms(part.astype(np.float64), (*sums, counted), za, zb, task.arith.acc)


def _reduce(counts: np.ndarray, table: np.ndarray, arith: KllmArith, most: int) -> np.ndarray:
    """Weighted sums (columns,) of float32 counts (entries, columns), none above `most`."""
    wide_table = arith.acc != "fp32" and not fp16_jit.holds_fp16(table)
    if wide_table or not isinstance(arith.order, Sequential):
        numbers = integers.from_float(plain(counts.T))
        return weighted_sum_jit.sums(numbers, np.broadcast_to(table, numbers.shape), arith)
    if most > 2048 and arith.acc != "fp32":
        counts = fp16_jit.round16(counts)
    wide, half = counts[None], np.empty((0, 0, 0), np.uint16)
    for array in (wide, half):
        array.flags.writeable = False  # as panels are: the kernels see one array type
    out = np.empty((1, counts.shape[1]), np.float32)
    tiles = -(-counts.shape[1] // float_jit.TILE)
    with np.errstate(all="ignore"):
        if arith.acc == "fp32":
            float_jit.matmul_fp32(plain(table[None]), wide, half, float_jit.TILE, out, 0, tiles)
        else:
            bounded = arith.acc == "fp16" and peak(table) * most < fp16.OVERFLOW
            float_jit.matmul_of(plain(table[None]), wide, half, float_jit.TILE, out, float_jit.ACCUMULATORS[arith.acc],
                                bounded, 0, tiles)
    return out[0]


def _operands(task: Problem, b: Prepared) -> tuple[np.ndarray, ...]:
    """What the kernels of the sparse path take."""
    rows = range(task.a.scale.size)
    scaled = task.norm is not None and task.arith.acc != "exact"
    centroids = np.stack([task.divided(m)[1] for m in rows]) if scaled and rows else task.centroids[1][None]
    mask = task.a.mask.view(np.uint8)
    scale = task.b.scale.astype(np.float32)
    return (plain(mask), plain(task.a.value), b.index, scale, plain(centroids), b.starts, b.places, b.values)


def _sparse(task: Problem, b: Prepared, limits: np.ndarray) -> np.ndarray:
    """Sums over what is left out of the counts, float32 (M, N)."""
    out = np.zeros((limits.shape[0], b.index.shape[1]), np.float32)
    if task.b.zero is not None:
        device = IndexMatmul(1, 1, 1, False, task.arith)
        for m, (_, columns) in enumerate(limits.tolist()):
            for n in range(columns):
                out[m, n] = device.sparse_sum(column(task, m, n))
        return out
    with np.errstate(all="ignore"):
        float_jit.kmeans_sparse(*_operands(task, b), limits, float_jit.ACCUMULATORS[task.arith.acc], out)
    return out


def _exact(task: Problem, b: Prepared, limits: np.ndarray, counts: _Counts) -> np.ndarray:
    """Bounds of the exact value in float64; where both round to one fp16 value that is it, else the unit decides."""
    shape = limits.shape[0], b.index.shape[1]
    if task.zeros:
        return _by_unit(task, limits, np.ones(shape, np.bool_), np.zeros(shape, np.float32))
    unit_bits = 24 if fp16.is_fp16(task.table).all() else 48
    entries = units_of(task.table, unit_bits)
    dense = np.empty(shape, np.float64)
    for low, high, part in counts:
        dense[low:high] = _integer_sums(entries, part).reshape(high - low, -1)
    scale = _scales(task)
    dense = np.ldexp(dense, -unit_bits) * scale
    sparse, size = np.zeros(shape, np.float64), np.zeros(shape, np.float64)
    float_jit.kmeans_sparse64(*_operands(task, b), limits, sparse, size)
    value = dense + sparse
    error = (np.abs(dense) + size * (b.index.shape[0] + 2)) * 2.0**-50
    ends = [fp16_jit.round16_of_f64(_finished(task, end)) for end in (value - error, value + error)]
    doubtful = ends[0].view(np.uint32) != ends[1].view(np.uint32)
    return _by_unit(task, limits, doubtful, ends[0])


def _integer_sums(entries: list[int], counts: np.ndarray) -> np.ndarray:
    """Sums of count * entry as float64, rounded once; counts (entries, ...)."""
    flat = integers.from_float(counts.reshape(len(entries), -1))
    bound = max(abs(entry) for entry in entries) * max(integers.peak(flat), 1) * len(entries)
    if bound < 1 << 62:
        return integers.matmul(np.array(entries, np.int64)[None], flat)[0].astype(np.float64)
    total = np.zeros(flat.shape[1], object)
    for entry, row in zip(entries, flat, strict=True):
        total = total + row.astype(object) * entry
    return total.astype(np.float64)


def _finished(task: Problem, v: np.ndarray) -> np.ndarray:
    """`finish_exact` up to the last rounding, on float64: never falls as v rises."""
    if task.norm is not None:
        mean, divisor = (0.0 if x is None else np.asarray(x, np.float64).reshape(-1, 1)
                         for x in (task.norm.mean, task.norm.divisor))
        row_sum = 0.0 if task.norm.row_sum is None else np.asarray(task.norm.row_sum, np.float64)
        v = (v - mean * row_sum) / divisor
    return v if task.bias is None else v + task.bias


def _by_unit(task: Problem, limits: np.ndarray, doubtful: np.ndarray, y: np.ndarray) -> np.ndarray:
    """`y` with the doubtful outputs computed by the unit."""
    bits = task.table.size.bit_length() - 1
    device = IndexMatmul(1, 8 if task.integer else bits - task.b_bits, task.b_bits, task.integer, task.arith)
    for m, n in zip(*np.nonzero(doubtful & (np.arange(y.shape[1]) < limits[:, 1:])), strict=True):
        y[m, n] = fp16.values(np.uint16(device.outputs(column(task, int(m), int(n))).y))
    return y


@kernel
def _count_groups(order, starts, index, width, out):  # type: ignore[no-untyped-def]
    """out (entries, N) <- counts of (group << bits) | index[k, n]; group g has the positions order[starts[g]:...]."""
    groups = starts.size - 1
    size = out.shape[0] // groups
    small, wide = np.empty((size, WIDTH), np.uint8), np.empty((size, WIDTH), np.int32)
    for n0 in range(0, width, WIDTH):
        n1 = min(n0 + WIDTH, width)
        for group in range(groups):
            wide[:] = 0
            for low in range(starts[group], starts[group + 1], MOST8):
                small[:] = 0
                _count_rows(order[low : min(low + MOST8, starts[group + 1])], index[:, n0:n1], small)
                for i in range(size):
                    _widen(small[i], wide[i], n1 - n0)
            for i in range(size):
                row, counts = out[group * size + i, n0:n1], wide[i]
                for n in range(n1 - n0):
                    row[n] = np.float32(counts[n])


@kernel
def _count_rows(order, index, small):  # type: ignore[no-untyped-def]
    """small (size, ...) += how often each column holds each index in the rows `order`, eight at a time."""
    width = index.shape[1]
    whole = order.size - order.size % 8
    for k in range(0, whole, 8):
        r0, r1, r2, r3 = index[order[k]], index[order[k + 1]], index[order[k + 2]], index[order[k + 3]]
        r4, r5, r6, r7 = index[order[k + 4]], index[order[k + 5]], index[order[k + 6]], index[order[k + 7]]
        for i in range(small.shape[0]):
            c, u = small[i], np.uint8(i)
            for n in range(width):
                s = np.uint8(np.uint8(r0[n] == u) + np.uint8(r1[n] == u))
                t = np.uint8(np.uint8(r2[n] == u) + np.uint8(r3[n] == u))
                v = np.uint8(np.uint8(r4[n] == u) + np.uint8(r5[n] == u))
                w = np.uint8(np.uint8(r6[n] == u) + np.uint8(r7[n] == u))
                c[n] = np.uint8(c[n] + np.uint8(np.uint8(s + t) + np.uint8(v + w)))
    for k in range(whole, order.size):
        row = index[order[k]]
        for i in range(small.shape[0]):
            c, u = small[i], np.uint8(i)
            for n in range(width):
                c[n] = np.uint8(c[n] + np.uint8(row[n] == u))


@kernel
def _widen(small, wide, width):  # type: ignore[no-untyped-def]
    for n in range(width):
        wide[n] += np.int32(small[n])


@kernel
def _count_amounts(amount, index, width, out):  # type: ignore[no-untyped-def]
    """out (entries, N) <- sums of amount[k] at index[k, n]; amounts of 0, most of them, are passed over."""
    wide = np.zeros((out.shape[0], width), np.int32)
    for k in range(amount.size):
        q = np.int32(amount[k])
        if q != 0:
            row = index[k]
            for i in range(wide.shape[0]):
                counts, u = wide[i], np.uint8(i)
                for n in range(width):
                    counts[n] += np.int32(q * np.int32(row[n] == u))
    for i in range(wide.shape[0]):
        for n in range(width):
            out[i, n] = np.float32(wide[i, n])


def run_ports(*, k: int = 16, a_bits: int = 4, b_bits: int = 4, integer: bool = False,
              preset: str | KllmArith = "paper", **inputs: Any) -> Result:
    """As `index_matmul.run_ports`."""
    device = IndexMatmul(k, a_bits, b_bits, integer, preset)
    names = inputs_of(device)
    arrays = admit(device.name, device.ports.inputs, [inputs[name] for name in names])
    shape = arrays[names.index("a_scale")].shape
    given = {port.name: array.reshape(prod(shape), port.lanes)
             for port, array in zip(device.ports.inputs, arrays, strict=True)}
    results = []
    for row in range(prod(shape)):
        task = _task(device, {name: array[row:row + 1] for name, array in given.items()})
        results.append(multiply(task, _lay_out(task.b, None, integer)))
    y = np.array([fp16.bits(result.y)[0] for result in results], np.uint16).reshape(shape)
    counters = {name: integers.total(np.array([getattr(result, name) for result in results], np.int64)).item()
                for name in COUNTERS}
    return Result(y, y & 0x7C00 == 0x7C00, **counters)


def _task(device: IndexMatmul, row: dict[str, np.ndarray]) -> Problem:
    """One row of A by one column of B, from words (1, lanes)."""
    k, integer = device.k, device.integer
    nothing = np.zeros((1, k), np.uint8)
    sides = []
    for side in "ab":
        index, mask, codes = (row.get(f"{side}_{name}", nothing) for name in ("index", "mask", "codebook"))
        one = integer and side == "b"
        scale = np.ones(1) if one else floats(row[f"{side}_scale"][:, 0]).astype(np.float64)
        value = (floats(row["a_outlier"]) if integer and side == "a" else
                 dequantized(index, mask, row[f"{side}_outlier"], floats(codes[0]), float(scale[0])))
        sides.append((Vectors(index, mask > 0, value, scale, None), floats(codes[0])))
    (a, a_codes), (b, b_codes) = sides
    products = row.get("products", row["b_codebook"])[0]
    table = products.view(np.float32) if products.dtype == np.uint32 else floats(products)
    seen = np.array([k if integer else 1])
    return Problem(a, b, table, device.arith, integer, device.b_bits, seen, (1,), None, None, (a_codes, b_codes), None)
