"""The index MatMul: concatenate indices, count them, reduce by the product codebook, add what outliers contribute.

Paper: [kllm §III-B, §III-D, Fig. 3, Fig. 5]. K-Means x K-Means, and integer x K-Means with the integers as amounts.
Decisions: D-kllm-13 (outlier positions are left out of the counts), D-kllm-12 (outliers of either operand), D-kllm-14
(scales of V), D-kllm-33 (scales after the sum); more in the parts.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from refemu.arith import dot, fp16
from refemu.arith.checks import Refused, require_int
from refemu.formats.codebook import Codebook
from refemu.formats.kllm_arith import KllmArith
from refemu.formats.kmeans_tensor import KMeansTensor
from refemu.units import index_matmul_cases, unit
from refemu.units.index_counter import INPUTS, IndexCounter
from refemu.units.index_matmul_arith_parts import (
    UNIT_BITS,
    finish_exact,
    marginals,
    merge,
    zero_terms,
)
from refemu.units.index_matmul_parts import Norm, Scores
from refemu.units.index_matmul_problem_parts import Column, column, column_at_ports, problem
from refemu.units.unit import Cases, Config, Flag, Port, Ports, Stepped, Unit, admit, choices, collect, fields, lanes
from refemu.units.unit_cases import Seeds
from refemu.units.weighted_sum import exact_sum, sums

__all__ = ["UNIT", "IndexMatmul", "Norm", "Result", "Scores", "State", "run"]

COUNTERS = (
    "concats",
    "indices",
    "lookups",
    "macs_reduce",
    "macs_sparse",
    "weight_dequants",
    "mults_scale",
    "adds_merge",
    "macs_dense",
    "overflows",
)


@dataclass(frozen=True)
class State:
    """Ports and registers after one event, and what happened since reset."""

    event: str  #: "reset", "concat", "count", "reduce", "sparse" or "merge"
    index: int  #: number of the column, -1 for the reset
    a_index: tuple[int, ...]
    a_mask: tuple[int, ...]
    a_outlier: tuple[int, ...]
    a_scale: int
    a_codebook: tuple[int, ...]
    b_index: tuple[int, ...]
    b_mask: tuple[int, ...]
    b_outlier: tuple[int, ...]
    b_scale: int
    b_codebook: tuple[int, ...]
    products: tuple[int, ...]
    q: tuple[int, ...]  #: registers of the Concat units; with integers B's indices
    counted: int  #: positions that went through the counter
    count: tuple[int, ...]
    inside: int  #: the weighted sum, a float32 word; exact accumulator: in units of 2**-48
    outside: int  #: the sparse sum, likewise
    y: int
    overflow: int
    concats: int
    indices: int
    lookups: int
    macs_reduce: int
    macs_sparse: int
    weight_dequants: int
    mults_scale: int
    adds_merge: int
    macs_dense: int  #: what a dense MatMul would need
    overflows: int


@dataclass(frozen=True, eq=False)
class Result(unit.Result):
    """What leaves the unit; every counter over all outputs."""

    y: np.ndarray  #: float16, rows of A by columns of B; between the ports uint16 words
    overflow: np.ndarray  #: bool, the same shape: not finite
    concats: int
    indices: int  #: positions counted
    lookups: int  #: entries of the product codebook read
    macs_reduce: int
    macs_sparse: int
    weight_dequants: int
    mults_scale: int
    adds_merge: int
    macs_dense: int
    overflows: int


class IndexMatmul(Stepped):
    """One output column after the other on a lane: concat, count sixteen positions a cycle, reduce, sparse, merge."""

    name = "index_matmul"

    def __init__(
        self, k: int = 16, a_bits: int = 4, b_bits: int = 4, integer: bool = False, preset: str | KllmArith = "paper"
    ) -> None:
        """k: positions of a column. a_bits, b_bits: of the indices, 1 to 4; with `integer` a_bits is that of the
        amounts, 1 to 8. preset: of KLLM's arithmetic.
        """
        require_int(k, 1, 1 << 20, self.name, "k")
        require_int(a_bits, 1, 8 if integer else 4, self.name, "a_bits")
        require_int(b_bits, 1, 4, self.name, "b_bits")
        self.k, self.a_bits, self.b_bits, self.integer, self.preset = k, a_bits, b_bits, integer, preset
        self.arith = KllmArith.preset(preset)
        self.bits = b_bits if integer else a_bits + b_bits  #: of what is counted
        self.counter = IndexCounter(self.bits, a_bits if integer else 0, 62)
        self.ports = ports({"k": k, "a_bits": a_bits, "b_bits": b_bits, "integer": integer, "preset": preset})
        self.column: Column | None = None
        empty: tuple[int, ...] = ()
        lowest: dict[str, Any] = {port.name: lanes([max(port.limits[0], 0)] * port.lanes) for port in self.ports.inputs}
        blank = State(
            "reset", -1, *(empty,) * 3, 0x3C00, *(empty,) * 4, 0x3C00, *(empty,) * 3, 0, empty, 0, 0, 0, 0, *(0,) * 10
        )
        self.state = replace(blank, **lowest)

    @property
    def busy(self) -> bool:
        """Whether events of the column are left."""
        return self.state.event not in ("reset", "merge")

    def step(self, *inputs: Any) -> State:
        """With inputs, in the order of the ports: begin a column. Without: its next event.

        Refused: inputs while a column is on its way, none while there is none.
        """
        if bool(inputs) == self.busy:
            wanted = f"no inputs: {self.state.event} was the last event" if self.busy else "the inputs of a column"
            raise Refused(f"{self.name}: step takes {wanted}")
        if inputs:
            values = dict(zip((port.name for port in self.ports.inputs), self.accept(*inputs), strict=True))
            begun = replace(self.state, **values)
            return self._begin(begun, self._column(begun))
        if self.column is None:
            self.column = self._column(self.state)
        return self._next(self.state, self.column)

    def restore(self, state: Any) -> None:
        """As every unit; the column is read again from the registers."""
        super().restore(state)
        self.column = None

    def _column(self, state: State) -> Column:
        """The column that the ports show."""
        words = {
            port.name: np.array(
                getattr(state, port.name) if port.name.endswith("_scale") else fields(getattr(state, port.name)),
                port.dtype,
            )
            for port in self.ports.inputs
        }
        return column_at_ports(words, self.integer, self.arith)

    def outputs(self, column: Column) -> State:
        """All events of one column that did not come through the ports; the State after the last."""
        self._begin(self.state, column)
        while self.busy:
            self._next(self.state, column)
        return self.state

    def _begin(self, before: State, column: Column) -> State:
        """The first event: K Concat units at once; integers skip them, so they start to count."""
        self.column = column
        cleared = (0,) * (1 << self.bits)
        b = tuple(column.b.tolist())
        begun = replace(
            before,
            index=before.index + 1,
            q=b,
            counted=0,
            count=cleared,
            inside=0,
            outside=0,
            y=0,
            overflow=0,
            macs_dense=before.macs_dense + len(b),
        )
        if self.integer:
            return self._next(begun, column)
        q = tuple((i << self.b_bits) | j for i, j in zip(column.a.tolist(), b, strict=True))
        self.state = replace(begun, event="concat", q=q, concats=begun.concats + len(q))
        return self.state

    def _next(self, before: State, column: Column) -> State:
        if before.counted < column.a.size:
            event = self._count
        else:
            event = {"reduce": self._sparse, "sparse": self._merge}.get(before.event, self._reduce)
        self.state = event(before, column)
        return self.state

    def _count(self, before: State, column: Column) -> State:
        """Sixteen positions; what is left out is not valid, and neither are lanes past the end of K."""
        low = before.counted
        q, valid, amount = ([0] * INPUTS for _ in range(3))
        for lane, k in enumerate(range(low, min(low + INPUTS, column.a.size))):
            q[lane], valid[lane], amount[lane] = before.q[k], int(not column.left_out[k]), int(column.a[k])
        self.counter.state = replace(self.counter.state, count=before.count)
        after = self.counter.cycle(0, tuple(q), tuple(valid), *([tuple(amount)] if self.integer else []))
        return replace(
            before,
            event="count",
            counted=min(low + INPUTS, column.a.size),
            count=after.count,
            indices=before.indices + valid.count(1),
        )

    def _reduce(self, before: State, column: Column) -> State:
        """One lookup and one MAC for every counter, and the terms of zero points."""
        size = len(before.count)
        if self.arith.acc == "exact":
            inside = exact_sum(np.array(before.count), column.table, UNIT_BITS) + self._exact_zero_terms(before, column)
        else:
            inside = _word32(self._weighted(before, column))
        return replace(
            before, event="reduce", inside=inside, lookups=before.lookups + size, macs_reduce=before.macs_reduce + size
        )

    def _weighted(self, before: State, column: Column) -> np.ndarray:
        count = np.array(before.count)
        dense = sums(count, column.table, self.arith)
        if not column.centroids:
            return dense
        by_a, by_b = marginals(count, self.b_bits)
        parts = [
            sums(by_a, column.centroids[0], self.arith),
            sums(by_b, column.centroids[1], self.arith),
            np.array(_total(before.count)),
        ]
        za, zb = (np.asarray(z) for z in column.zeros)
        wide = tuple(np.asarray(part, np.float64) for part in parts)
        return zero_terms(np.asarray(dense, np.float64), wide, za, zb, self.arith.acc).astype(np.float32)

    def _exact_zero_terms(self, before: State, column: Column) -> int:
        """In units of 2**-48."""
        if not column.centroids:
            return 0
        za, zb = (int(z * (1 << 24)) for z in column.zeros)
        sum_a, sum_b = (
            exact_sum(by, centroids, 24)
            for by, centroids in zip(marginals(np.array(before.count), self.b_bits), column.centroids, strict=True)
        )
        return _total(before.count) * za * zb - zb * sum_a - za * sum_b

    def _sparse(self, before: State, column: Column) -> State:
        """The positions that were not counted, ascending, both operands as fp16."""
        total = self.sparse_sum(column)
        outside = int(Fraction(total) * (1 << UNIT_BITS)) if isinstance(total, Fraction) else _word32(total)
        done = int(np.count_nonzero(column.left_out))
        return replace(
            before,
            event="sparse",
            outside=outside,
            macs_sparse=before.macs_sparse + done,
            weight_dequants=before.weight_dequants + done,
        )

    def sparse_sum(self, column: Column) -> Any:
        """The sum over what is left out of the counts: float32, or a Fraction where the accumulator is exact."""
        ks = np.flatnonzero(column.left_out)
        x, y = column.a_value[ks], column.b_value[ks]
        if self.arith.acc != "exact":
            return dot.dot(x, y, order=dot.Sequential(), acc=self.arith.acc)
        return _total(Fraction(float(u)) * Fraction(float(v)) for u, v in zip(x, y, strict=True)) + Fraction(0)

    def _merge(self, before: State, column: Column) -> State:
        """Scales, the sparse part, what a norm leaves over, the bias; the last operation rounds to fp16."""
        if self.arith.acc == "exact":
            one = Fraction(1, 1 << UNIT_BITS)
            v = before.inside * one * Fraction(float(column.scale)) + before.outside * one
            y = np.asarray(finish_exact(v, column.bias, column.norm))
        else:
            bias, shift = (None if x is None else np.asarray(x) for x in (column.bias, column.shift))
            y = merge(
                _float32(before.inside), np.asarray(column.scale), _float32(before.outside), self.arith, bias, shift
            )
        word = int(fp16.bits(fp16.to_f16(y)))
        overflow = int(word & 0x7C00 == 0x7C00)
        return replace(
            before,
            event="merge",
            y=word,
            overflow=overflow,
            mults_scale=before.mults_scale + 1,
            adds_merge=before.adds_merge + 1,
            overflows=before.overflows + overflow,
        )

    def steps(self, **inputs: Any) -> Iterator[State]:
        """Yield the State after every event of every column, in C order; arguments by port, broadcast."""
        yield from self.operations(
            admit(self.name, self.ports.inputs, [inputs[port.name] for port in self.ports.inputs])
        )

    def __repr__(self) -> str:
        return (
            f"IndexMatmul(k={self.k}, a_bits={self.a_bits}, b_bits={self.b_bits}, integer={self.integer}, "
            f"preset={self.preset!r})"
        )


def _total(values: Any) -> int:
    total = 0
    for value in values:
        total += value
    return total


def _word32(value: np.ndarray) -> int:
    return int(fp16.canonical(np.asarray(value, np.float32)).view(np.uint32))


def _float32(word: int) -> np.ndarray:
    return np.asarray(np.array(word, np.uint32).view(np.float32), np.float64)


def run(
    a: KMeansTensor | Scores,
    b: KMeansTensor,
    *,
    preset: str | KllmArith = "paper",
    products: Codebook | None = None,
    bias: Any = None,
    norm: Norm | None = None,
    seen: Any = None,
) -> Result:
    """y = A x B, a row of A and a column of B at a time.

    a: vectors of length K (tokens). b: a matrix whose N vectors, of length K, are the columns (output channels of a
    weight, tokens of K^T). If `a` is Scores, `b` is a matrix (K, N) with vectors along its other axis (tokens of V).
    preset: of KLLM's arithmetic. products: entry (i << nB) | j for a_i * b_j; by default made from both codebooks.
    bias: float16 (N,). norm: of A's rows, whose division is delayed to here. seen: integers, one per row: the columns
    that the row sees, the rest stays 0; of Scores the positions.
    Returns the Result, y of the shape of A's vectors and N. Refuses operands that do not fit each other, outliers in B
    together with a norm, zero points with Scores. Paper: [kllm §III-B, §III-D].
    """
    task = problem(a, b, preset, products, bias, norm, seen)
    a_bits = 8 if isinstance(a, Scores) else a.codebook.bits
    device = IndexMatmul(task.a.index.shape[1], a_bits, task.b_bits, task.integer, task.arith)
    rows, columns = task.a.index.shape[0], task.b.index.shape[0]
    y = np.zeros((rows, columns), np.uint16)
    for m in range(rows):
        for n in range(columns if task.integer else int(task.seen[m])):
            y[m, n] = device.outputs(column(task, m, n)).y
    words = y.reshape(task.shape)
    return Result(words.view(np.float16), words & 0x7C00 == 0x7C00, **counters(device.state))


def counters(state: State) -> dict[str, int]:
    """The counters of `state`."""
    return {name: getattr(state, name) for name in COUNTERS}


def run_ports(
    *,
    k: int = 16,
    a_bits: int = 4,
    b_bits: int = 4,
    integer: bool = False,
    preset: str | KllmArith = "paper",
    **inputs: Any,
) -> Result:
    """Columns of any shape between the ports: words (..., lanes), by port name; `k` to `preset` as for IndexMatmul."""
    device = IndexMatmul(k, a_bits, b_bits, integer, preset)
    arrays = admit(device.name, device.ports.inputs, [inputs[port.name] for port in device.ports.inputs])
    states = [
        state for state in device.steps(**dict(zip(inputs_of(device), arrays, strict=True))) if state.event == "merge"
    ]
    shape = arrays[[port.lanes for port in device.ports.inputs].index(1)].shape
    outputs: dict[str, Any] = collect(states, device.ports.outputs, shape) | counters(device.state)
    return Result(**outputs)


def inputs_of(device: IndexMatmul) -> list[str]:
    """Names of the input ports."""
    return [port.name for port in device.ports.inputs]


def ports(config: Mapping[str, Any]) -> Ports:
    """Widths in one configuration. Scales are positive, codebooks and outliers finite."""
    k, a_bits, b_bits, integer = (config[name] for name in ("k", "a_bits", "b_bits", "integer"))
    wide = KllmArith.preset(config["preset"]).table == "fp32"

    def words(name: str, lanes: int, meaning: str) -> Port:
        return Port(name, 16, lanes, encoding="f16", meaning=meaning)

    def scale(name: str) -> Port:
        return Port(name, 16, encoding="f16", meaning=f"scale of {name[0].upper()}", least=1, most=0x7BFF)

    b = [
        Port("b_index", b_bits, k, meaning="indices of B"),
        Port("b_mask", 1, k, meaning="1 = an outlier of B"),
        words("b_outlier", k, "values of B's outliers"),
    ]
    if integer:
        a = [Port("a_index", a_bits, k, meaning="integers"), words("a_outlier", k, "unquantized scores")]
        return Ports(
            inputs=(*a, scale("a_scale"), *b, words("b_codebook", 1 << b_bits, "centroids of B")), outputs=OUTPUTS
        )
    a = [
        Port("a_index", a_bits, k, meaning="indices of A"),
        Port("a_mask", 1, k, meaning="1 = an outlier of A"),
        words("a_outlier", k, "values of A's outliers"),
        scale("a_scale"),
        words("a_codebook", 1 << a_bits, "centroids of A"),
    ]
    table = Port(
        "products",
        32 if wide else 16,
        1 << a_bits + b_bits,
        encoding="f32" if wide else "f16",
        meaning="product codebook",
    )
    return Ports(
        inputs=(*a, *b, scale("b_scale"), words("b_codebook", 1 << b_bits, "centroids of B"), table), outputs=OUTPUTS
    )


OUTPUTS = (Port("y", 16, encoding="f16", meaning="the output"), Port("overflow", 1, meaning="y is not finite"))


def cases(config: Config, kind: str, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind; see index_matmul_cases.py."""
    return index_matmul_cases.cases(config, ports(config).inputs, kind, seed)


UNIT = Unit(
    name="index_matmul",
    paper="kllm §III-B, §III-D, Fig. 3, Fig. 5",
    meaning="index MatMul, one output column",
    configs={
        "w4a4": Config(k=20, a_bits=4, b_bits=4, integer=False, preset="paper"),
        "example": Config(k=8, a_bits=1, b_bits=2, integer=False, preset="paper"),
        "exact": Config(k=20, a_bits=3, b_bits=3, integer=False, preset="exact"),
        "integer": Config(k=20, a_bits=4, b_bits=4, integer=True, preset="paper"),
    },
    ports=ports,
    run=run_ports,
    twin="refemu.units.index_matmul_ports_jit:run_ports",
    unit_class=IndexMatmul,
    cases=cases,
    mark=index_matmul_cases.mark,
    legal=index_matmul_cases.legal,
    alternatives=choices("D-kllm-1", "preset", "exact"),
    flags={
        "OVERFLOW": Flag(0, "the output, or something on the way to it, left fp16"),
        "OUTLIER": Flag(1, "some position is in the sparse path (D-kllm-13)"),
        "BOTH": Flag(2, "some position is an outlier of both operands (D-kllm-12)"),
    },
)
