"""The index MatMul: concatenate indices, count them, reduce by the product codebook, add the outliers' products.

Paper: [kllm §III-B, §III-D, Fig. 3, Fig. 5]. K-Means x K-Means, and integer x K-Means with the integers as amounts.
Decisions: D-kllm-13 (outlier positions are left out of the counts), D-kllm-12 (outliers of either operand), D-kllm-14
(scales of V), D-kllm-33 (scales after the sum); more in the parts.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith import dot, fp16
from refemu.arith.checks import plain, require_int
from refemu.formats.kllm.codebook import Codebook
from refemu.formats.kllm.kllm_arith import KllmArith, Preset
from refemu.formats.kllm.kmeans_tensor import KMeansTensor
from refemu.units import stepped
from refemu.units.kllm.cases import index_matmul as index_matmul_cases
from refemu.units.kllm.index_counter import INPUTS, IndexCounter
from refemu.units.kllm.index_matmul.arithmetic import UNIT_BITS, finish_exact, marginals, merge, zero_terms
from refemu.units.kllm.index_matmul.operands import Norm, Scores
from refemu.units.kllm.index_matmul.problem import Column, column, column_at_ports, require_problem
from refemu.units.kllm.weighted_sum import exact_sum, sums
from refemu.units.ports import Port, Ports, fields, lanes
from refemu.units.stepped import Stepped
from refemu.units.unit import Config, Flag, RunFunction, Unit

#: Counters of a MatMul
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
    a_index: tuple[int, ...]  #: indices of A's row, or the integers
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
    count: tuple[int, ...]  #: counts of the indices
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
class Result(stepped.Result):
    """Outputs of a run; every counter over all outputs."""

    y: np.ndarray  #: uint16 words; from `matmul` float16, rows of A by columns of B
    overflow: np.ndarray  #: bool, the same shape: not finite
    concats: int
    indices: int  #: positions counted
    lookups: int  #: entries of the product codebook read
    macs_reduce: int
    macs_sparse: int
    weight_dequants: int
    mults_scale: int
    adds_merge: int
    macs_dense: int  #: products that a dense MatMul would need
    overflows: int


class IndexMatmul(Stepped[State]):
    """Index MatMul: one output column after the other on a lane.

    A column is concatenated, counted sixteen positions a cycle, reduced, joined by its sparse part, and merged.

    References
    ----------
    [kllm §III-B, §III-D, Fig. 3, Fig. 5]
    """

    name = "index_matmul"

    def __init__(
        self, k: int = 16, a_bits: int = 4, b_bits: int = 4, integer: bool = False, preset: Preset | KllmArith = "paper"
    ) -> None:
        """Configure the lane.

        Parameters
        ----------
        k : int
            Positions of a column, 1 to 2**20.
        a_bits : int
            Width of an index of A, 1 to 4; with `integer` of an amount, 1 to 8.
        b_bits : int
            Width of an index of B, 1 to 4.
        integer : bool
            Whether A holds integers, which are amounts.
        preset : str or KllmArith
            Arithmetic.

        Raises
        ------
        Refused
            A width is out of range or the preset unknown.
        """
        self.k: int = require_int(k, 1, 1 << 20, self.name, "k")
        self.a_bits: int = require_int(a_bits, 1, 8 if integer else 4, self.name, "a_bits")
        self.b_bits: int = require_int(b_bits, 1, 4, self.name, "b_bits")
        self.integer: bool = bool(integer)
        self.preset: Preset | KllmArith = plain(preset)
        self.arith: KllmArith = KllmArith.preset(self.preset)
        self.bits: int = self.b_bits if integer else self.a_bits + self.b_bits  #: of what is counted
        self.counter: IndexCounter = IndexCounter(self.bits, self.a_bits if integer else 0, 62)
        config = {"k": self.k, "a_bits": self.a_bits, "b_bits": self.b_bits}
        self.ports: Ports = ports({**config, "integer": self.integer, "preset": self.preset})
        self.column: Column | None = None
        empty = dict.fromkeys(("a_mask", "a_codebook", "products", "q", "count"), ()) | {"b_scale": 0x3C00}
        lowest = {port.name: lanes([max(port.limits[0], 0)] * port.lanes) for port in self.ports.inputs}
        self.state: State = self.reset(State, **{**empty, **lowest})

    @property
    def busy(self) -> bool:
        """Whether events of the column are left."""
        return self.state.event not in ("reset", "merge")

    def step(
        self,
        a_index: Sequence[int] | int | None = None,
        a_mask: Sequence[int] | int | None = None,
        a_outlier: Sequence[int] | int | None = None,
        a_scale: int | None = None,
        a_codebook: Sequence[int] | None = None,
        b_index: Sequence[int] | int | None = None,
        b_mask: Sequence[int] | int | None = None,
        b_outlier: Sequence[int] | int | None = None,
        b_scale: int | None = None,
        b_codebook: Sequence[int] | None = None,
        products: Sequence[int] | None = None,
    ) -> State:
        """Begin a column with the inputs of the configuration's ports; without inputs, execute its next event.

        With `integer`, `a_index` holds the integers, and A has no mask and codebook, nor are there `b_scale` and
        `products`.
        """
        return self._stepped(
            a_index=a_index,
            a_mask=a_mask,
            a_outlier=a_outlier,
            a_scale=a_scale,
            a_codebook=a_codebook,
            b_index=b_index,
            b_mask=b_mask,
            b_outlier=b_outlier,
            b_scale=b_scale,
            b_codebook=b_codebook,
            products=products,
        )

    def _open(self, *inputs: Any) -> State:
        begun = self.latched(*inputs)
        return self._begin(begun, self._column(begun))

    def _continue(self) -> State:
        if self.column is None:
            self.column = self._column(self.state)
        return self._next(self.state, self.column)

    def restore(self, state: State) -> None:
        """Restore every register; the column is read again from them.

        Parameters
        ----------
        state : State
            A State of this unit.

        Raises
        ------
        Refused
            A port of the State is out of range.
        RefusedType
            The State is not this unit's.
        """
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
        """Execute all events of one column whose operands did not come through the ports.

        Parameters
        ----------
        column : Column
            Operands of the output.

        Returns
        -------
        State
            Registers after the last event.
        """
        self._begin(replace(self.state, index=self.state.index + 1), column)
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

    def sparse_sum(self, column: Column) -> np.ndarray | Fraction:
        """Sum the products of the positions that are left out of the counts.

        Parameters
        ----------
        column : Column
            Operands of the output.

        Returns
        -------
        float32 or Fraction
            The sum; a Fraction where the accumulator is exact.
        """
        ks = np.flatnonzero(column.left_out)
        x, y = column.a_value[ks], column.b_value[ks]
        if self.arith.acc != "exact":
            return dot.dot(x, y, order=dot.Sequential(), acc=self.arith.acc)
        return _total(Fraction(float(u)) * Fraction(float(v)) for u, v in zip(x, y, strict=True)) + Fraction(0)

    def _merge(self, before: State, column: Column) -> State:
        """Scales, the sparse part, what a norm leaves over, the bias; the last operation rounds to fp16."""
        if self.arith.acc == "exact":
            unit = Fraction(1, 1 << UNIT_BITS)
            v = before.inside * unit * Fraction(float(column.scale)) + before.outside * unit
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


def _total(values: Iterable[Any]) -> Any:
    total = 0
    for value in values:
        total += value
    return total


def _word32(value: np.ndarray) -> int:
    return int(fp16.canonical(np.asarray(value, np.float32)).view(np.uint32))


def _float32(word: int) -> np.ndarray:
    return np.asarray(np.array(word, np.uint32).view(np.float32), np.float64)


def matmul(
    a: KMeansTensor | Scores,
    b: KMeansTensor,
    *,
    preset: Preset | KllmArith = "paper",
    products: Codebook | None = None,
    bias: np.ndarray | None = None,
    norm: Norm | None = None,
    seen: ArrayLike | None = None,
) -> Result:
    """Multiply matrices, y = A x B, a row of A and a column of B at a time.

    Parameters
    ----------
    a : KMeansTensor or Scores
        Vectors of length K, the tokens.
    b : KMeansTensor
        Matrix whose N vectors, of length K, are the columns (output channels of a weight, tokens of K^T). Beside
        Scores, a matrix (K, N) with vectors along its other axis (tokens of V).
    preset : str or KllmArith
        Arithmetic.
    products : Codebook, optional
        Entry (i << nB) | j for a_i * b_j; by default made from both codebooks.
    bias : ndarray of float16 (N,), optional
        Added to the outputs.
    norm : Norm, optional
        Norm of A's rows, whose division is delayed to here.
    seen : array_like of integers, optional
        Columns that each row sees, the rest stays 0; of Scores the positions.

    Returns
    -------
    Result
        `y` float16 of the shape of A's vectors and N, and the counters.

    Raises
    ------
    Refused
        The operands do not fit each other, B has outliers beside a norm, or zero points beside Scores.
    RefusedType
        An operand has a wrong type or dtype.

    References
    ----------
    [kllm §III-B, §III-D]
    """
    task = require_problem(a, b, preset, products, bias, norm, seen)
    a_bits = 8 if isinstance(a, Scores) else a.codebook.bits
    device = IndexMatmul(task.a.index.shape[1], a_bits, task.b_bits, task.integer, task.arith)
    rows, columns = task.a.index.shape[0], task.b.index.shape[0]
    y = np.zeros((rows, columns), np.uint16)
    for m in range(rows):
        for n in range(columns if task.integer else int(task.seen[m])):
            y[m, n] = device.outputs(column(task, m, n)).y
    words = y.reshape(task.shape)
    counters = {name: getattr(device.state, name) for name in COUNTERS}
    return Result(words.view(np.float16), words & 0x7C00 == 0x7C00, **counters)


def ports(config: Mapping[str, Any]) -> Ports:
    """Ports in one configuration.

    Parameters
    ----------
    config : mapping
        `k`, `a_bits`, `b_bits`, `integer` and `preset`, as for `IndexMatmul`.

    Returns
    -------
    Ports
        Inputs and outputs.

    References
    ----------
    [kllm §III-B]
    """
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


UNIT: Unit[State, Result] = Unit(
    name="index_matmul",
    paper="kllm §III-B, §III-D, Fig. 3, Fig. 5",
    meaning="index MatMul, one output column",
    configs={
        "w4a4": Config(k=20, a_bits=4, b_bits=4, integer=False, preset="paper"),
        "w4a3": Config(k=20, a_bits=3, b_bits=4, integer=False, preset="paper"),
        "long": Config(k=600, a_bits=2, b_bits=2, integer=False, preset="paper"),
        "example": Config(k=8, a_bits=1, b_bits=2, integer=False, preset="paper"),
        "exact": Config(k=20, a_bits=3, b_bits=3, integer=False, preset="exact"),
        "integer": Config(k=20, a_bits=4, b_bits=4, integer=True, preset="paper"),
    },
    ports=ports,
    unit_class=IndexMatmul,
    cases=index_matmul_cases.cases,
    counters=COUNTERS,
    result=Result,
    mark=index_matmul_cases.mark,
    legal=index_matmul_cases.legal,
    flags={
        "OVERFLOW": Flag(0, "the output, or something on the way to it, left fp16"),
        "OUTLIER": Flag(1, "some position is in the sparse path (D-kllm-13)"),
        "BOTH": Flag(2, "some position is an outlier of both operands (D-kllm-12)"),
    },
)
run: RunFunction[Result] = UNIT.run
