"""The index MatMul: concatenate indices, count them, reduce by the product codebook, add the outliers' products.

Paper: [kllm §III-B, §III-D, Fig. 3, Fig. 5]. K-Means x K-Means, and integer x K-Means with the integers as amounts.
A column passes through units of its lane: a `Concat` for every position, an `IndexCounter`, the MACs of `accumulators`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith.checks import Refused, require_int
from refemu.formats import Codebook, KllmArith, KMeansTensor
from refemu.formats.kllm.kllm_arith import Preset
from refemu.formats.kllm.kmeans_norm import folds
from refemu.units import Changes, Combinational, Config, DeclaredState, Flag, Lanes, Unit, constant, decides, stepping
from refemu.units.kllm.concat import Concat
from refemu.units.kllm.index_counter import INPUTS, IndexCounter
from refemu.units.kllm.index_matmul.accumulators import Arrays, accumulator
from refemu.units.kllm.index_matmul.operands import Norm, Scores
from refemu.units.kllm.index_matmul.ports import MatmulOptions
from refemu.units.kllm.index_matmul.problem import Column, column, column_at_ports, require_exact, require_problem
from refemu.units.unit import RunFunction


@dataclass(frozen=True, eq=False, kw_only=True)
class Result(stepping.Result):
    """Outputs of a run; counters are totals over all outputs."""

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


class IndexMatmul(MatmulOptions, Combinational):
    """Index MatMul: one output column after the other on a lane.

    A column is concatenated, counted sixteen positions a cycle, reduced, joined by its sparse part, and merged. With
    `integer`, `a_index` holds the integers; A has no mask and no codebook; `b_scale` and `products` are missing.
    """

    name = "index_matmul"
    events: ClassVar[tuple[str, ...]] = ("concat", "count", "reduce", "sparse", "merge")
    counters: ClassVar[dict[str, str]] = {
        "concats": "pairs of indices concatenated",
        "indices": "positions counted, outliers excluded",
        "lookups": "entries of the product codebook read: every one for every column",
        "macs_reduce": "multiply-adds of a count and its codebook entry",
        "macs_sparse": "multiply-adds at outliers",
        "weight_dequants": "elements of B converted to fp16 for the sparse path, one for each outlier position",
        "mults_scale": "products of the scales of A and B, one for each column",
        "adds_merge": "additions of the dense and the sparse sum, one for each column",
        "macs_dense": "multiply-adds that a MatMul without indices would need",
        "overflows": "outputs with `overflow` set: not finite",
    }
    registers: ClassVar[dict[str, str]] = {
        "q": "registers of the Concat units, one for each position; where A holds integers, the indices of B",
        "counted": "positions of the column that passed the counter so far",
        "count": "counts of the column so far, by index",
        "inside": "sum of counts by codebook entries (the dense path): a float32 word; with the exact accumulator an "
        "integer in units of 2**-48",
        "outside": "sum of the products at outliers (the sparse path): a float32 word; with the exact accumulator an "
        "integer in units of 2**-48",
    }

    def check(self) -> None:
        """Check the parameters; reject a norm at the ports if nothing is divided in advance."""
        require_int(self.a_bits, 1, 8 if self.integer else 4, self.name, "a_bits")
        if self.norm != "none" and (self.integer or not folds(self.arith)):
            what = "integers" if self.integer else 'acc="exact", which divides its result'
            raise Refused(f"{self.name}: norm={self.norm!r} needs operands that a norm divides, got {what}")

    @constant
    def initial(self) -> Mapping[str, Any]:
        """Reset values, the least that each port admits, and nothing at missing ports."""
        absent = ("a_mask", "a_codebook", "b_mask", "b_outlier", "products", "q", "count")
        lowest = {port.name: port.filled(max(port.limits[0], 0)) for port in self.ports.inputs}
        return {**dict.fromkeys(absent, ()), "b_scale": 0x3C00, **lowest}

    @constant
    def accumulator(self) -> Arrays:
        """MACs of the reduction, of the sparse path and of the merge."""
        return accumulator(self.arith, self.b_bits)

    @constant
    def bits(self) -> int:
        """Width of the counted index."""
        return self.b_bits if self.integer else self.a_bits + self.b_bits

    @constant
    def counter(self) -> IndexCounter:
        """The Index Distribution Counter."""
        return IndexCounter(self.bits, self.a_bits if self.integer else 0, 62)

    @constant
    def concats(self) -> tuple[Concat, ...]:
        """The Concat units, one per position; their registers are q."""
        return tuple(Concat(self.a_bits, self.b_bits) for _ in range(self.k))

    @constant
    def column(self) -> Column | None:
        """Operands of the output under way."""
        return None

    def _require(self, *inputs: np.ndarray) -> None:
        """Reject operands that an exact sum cannot hold."""
        if self.arith.acc == "exact":
            words = {port.name: array for port, array in zip(self.ports.inputs, inputs, strict=True)}
            require_exact(column_at_ports(words, self.integer, self.arith))

    @property
    def busy(self) -> bool:
        """Whether events of the column remain."""
        return self.state.event not in ("reset", "merge")

    def opens(self, *inputs: int | Lanes) -> str:
        return "count" if self.integer else "concat"

    def follows(self) -> str:
        if self.state.counted < self._operands().a.size:
            return "count"
        return {"reduce": "sparse", "sparse": "merge"}.get(self.state.event, "reduce")

    def _open(self, *inputs: Any) -> DeclaredState:
        self.column = self._column(self.changed(**{name: inputs[at] for at, name in self._latches}))
        return super()._open(*inputs)

    def outputs(self, column: Column) -> DeclaredState:
        """Execute all events of one column whose operands did not come through the ports."""
        self.column, event = column, self.opens()
        self._commit(event, (), {**getattr(self, event)(), "index": self.state.index + 1})
        while self.busy:
            self._continue()
        return self.state

    def restore(self, state: DeclaredState) -> None:
        super().restore(state)
        self.column = None
        if state.count:
            self.counter.state = self.counter.changed(count=state.count)
        for unit, q in zip(self.concats, () if self.integer else state.q, strict=False):
            unit.state = unit.changed(q=q)

    def _operands(self) -> Column:
        """The column under way; after a restored State it is read from the ports again."""
        if self.column is None:
            self.column = self._column(self.state)
        return self.column

    @decides("D-kllm-12", "D-kllm-32")
    def _column(self, state: DeclaredState) -> Column:
        """The column that the ports show."""
        words = {port.name: np.array(getattr(state, port.name), port.dtype) for port in self.ports.inputs}
        return column_at_ports(words, self.integer, self.arith)

    def _begun(self, column: Column) -> dict[str, Any]:
        """Registers and counters at the start of a column."""
        b = tuple(column.b.tolist())
        cleared = dict.fromkeys(("counted", "inside", "outside", "y", "overflow"), 0)
        return {**cleared, "q": b, "count": (0,) * (1 << self.bits), "macs_dense": len(b)}

    def concat(self, *inputs: int | Lanes) -> Changes:
        """Concatenate the indices of A and of one column of B; skipped if A holds integers."""
        column = self._operands()
        begun = self._begun(column)
        pairs = zip(self.concats, column.a.tolist(), begun["q"], strict=False)
        q = tuple(unit.edge(i, j).q for unit, i, j in pairs)
        return {**begun, "q": q, "concats": len(q)}

    def count(self, *inputs: int | Lanes) -> Changes:
        """Count sixteen positions by index, outliers excluded."""
        column = self._operands()
        begun = {} if self.busy else self._begun(column)  # integers begin here
        q, low = begun.get("q", self.state.q), begun.get("counted", self.state.counted)
        part = slice(low, low + INPUTS)
        valid = self._counts(column)[part].astype(int).tolist()
        amount = [_padded(column.a[part].tolist())] if self.integer else []
        after = self.counter.cycle(int(low == 0), _padded(q[part]), _padded(valid), *amount)
        return {**begun, "counted": min(low + INPUTS, column.a.size), "count": after.count, "indices": valid.count(1)}

    @decides("D-kllm-13")
    def _counts(self, column: Column) -> np.ndarray:
        """Positions that are counted."""
        return ~column.left_out

    def reduce(self) -> Changes:
        """Multiply counts by their entries of the product codebook and sum them."""
        count = self.state.count
        return {"inside": self._dense(count, self._operands()), "lookups": len(count), "macs_reduce": len(count)}

    def sparse(self) -> Changes:
        """Sum the products at outliers, in ascending order."""
        column = self._operands()
        done = int(np.count_nonzero(column.left_out))
        return {"outside": self.accumulator.sparse(column), "macs_sparse": done, "weight_dequants": done}

    def merge(self) -> Changes:
        """Scale the sum of "reduce", add that of "sparse", then a norm's shift and the bias."""
        word = self._merged(self.state.inside, self.state.outside, self._operands())
        overflow = int(word & 0x7C00 == 0x7C00)
        return {"y": word, "overflow": overflow, "mults_scale": 1, "adds_merge": 1, "overflows": overflow}

    @decides("D-kllm-4", "D-kllm-33")
    def _dense(self, count: tuple[int, ...], column: Column) -> int:
        """The weighted sum: one lookup and one MAC for every counter, and the terms of zero points."""
        return self.accumulator.dense(count, column)

    @decides("D-kllm-3", "D-kllm-33", "D-kllm-40")
    def _merged(self, inside: int, outside: int, column: Column) -> int:
        """fp16 word of the output."""
        return self.accumulator.merged(inside, outside, column)


def _padded(values: Sequence[int]) -> tuple[int, ...]:
    """Values of the lanes of the counter; those past the end of K are not valid."""
    return (*values, *(0,) * (INPUTS - len(values)))


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
    """Multiply matrices, y = A x B, a row of A and a column of B at a time: y is float16. [kllm §III-B, §III-D]

    a: vectors of length K, the tokens. b: a matrix whose N vectors, of length K, are the columns (output channels of a
    weight, tokens of K^T); with Scores, a matrix (K, N) with vectors along its other axis (tokens of V). products:
    entry (i << nB) | j for a_i * b_j; by default computed from both codebooks. bias: float16 (N,), added to the
    outputs. norm: of A's rows, whose division is delayed to here. seen: columns that each row sees (the rest is 0); for
    Scores the positions. Raises Refused if the operands do not match, B has outliers with a norm, or zero points with
    Scores, RefusedType for a wrong type or dtype.
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
    counters = {name: getattr(device.state, name) for name in UNIT.counters}
    return Result(y=words.view(np.float16), overflow=words & 0x7C00 == 0x7C00, **counters)


UNIT: Unit[DeclaredState, Result] = Unit(
    unit_class=IndexMatmul,
    paper="kllm §III-B, §III-D, Fig. 3, Fig. 5",
    meaning="index MatMul, one output column",
    configs={
        "w4a4": Config(k=20, a_bits=4, b_bits=4, integer=False, preset="paper"),
        "w4a3": Config(k=20, a_bits=3, b_bits=4, integer=False, preset="paper"),
        "long": Config(k=600, a_bits=2, b_bits=2, integer=False, preset="paper"),
        "example": Config(k=8, a_bits=1, b_bits=2, integer=False, preset="paper"),
        "exact": Config(k=20, a_bits=3, b_bits=3, integer=False, preset="exact"),
        "integer": Config(k=20, a_bits=4, b_bits=4, integer=True, preset="paper"),
        "layer": Config(k=20, a_bits=2, b_bits=3, integer=False, preset="paper", biased=True, norm="layer"),
    },
    result=Result,
    flags={
        "OVERFLOW": Flag(0, "the output, or an intermediate result, exceeded fp16"),
        "OUTLIER": Flag(1, "a position is in the sparse path (D-kllm-13)"),
        "BOTH": Flag(2, "a position is an outlier of both operands (D-kllm-12)"),
    },
)
State: type[DeclaredState] = IndexMatmul.State
run: RunFunction[Result] = UNIT.run
