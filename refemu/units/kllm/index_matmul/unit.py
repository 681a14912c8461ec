"""The index MatMul: concatenate indices, count them, reduce by the product codebook, add the outliers' products.

Paper: [kllm §III-B, §III-D, Fig. 3, Fig. 5]. K-Means x K-Means, and integer x K-Means with the integers as amounts.
A column goes through units of its lane: a `Concat` for every position, an `IndexCounter`, the MACs of `accumulators`.
Decisions: D-kllm-13 (outlier positions are left out of the counts), D-kllm-12 (outliers of either operand), D-kllm-14
(scales of V), D-kllm-33 (scales after the sum); more in the parts.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, get_args

import numpy as np

from refemu.arith.checks import Refused, plain, require_choice, require_int
from refemu.formats.kllm.kllm_arith import KllmArith, Preset
from refemu.formats.kllm.kmeans_norm import folds
from refemu.units import stepped
from refemu.units.kllm.cases import index_matmul as index_matmul_cases
from refemu.units.kllm.concat import Concat
from refemu.units.kllm.index_counter import INPUTS, IndexCounter
from refemu.units.kllm.index_matmul.accumulators import Arrays, ExactSums, accumulator
from refemu.units.kllm.index_matmul.ports import NormPorts, ports
from refemu.units.kllm.index_matmul.problem import SINGLE, Column, column_at_ports, require_exact
from refemu.units.ports import Ports, fields, lanes
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

    #: "reset": no column yet; "concat": the indices of A and of one column of B are concatenated, skipped where A holds
    #: integers; "count": sixteen positions are counted by index, outliers left out; "reduce": counts are multiplied by
    #: their entries of the product codebook and added up; "sparse": the products at outliers are added up; "merge": the
    #: sum of "reduce" is scaled, that of "sparse" added, then a norm's shift and the bias
    event: str
    index: int  #: number of the output column since reset, from 0; all its events have it; -1 at reset
    a_index: tuple[int, ...]  #: indices of A's row, or the integers
    a_mask: tuple[int, ...]  #: 1 at every outlier of A
    a_outlier: tuple[int, ...]
    a_scale: int
    a_codebook: tuple[int, ...]  #: centroids of A, fp16 words
    b_index: tuple[int, ...]
    b_mask: tuple[int, ...]  #: 1 at every outlier of the column of B
    b_outlier: tuple[int, ...]  #: values of the outliers of the column of B, fp16 words
    b_scale: int  #: scale of the column of B
    b_codebook: tuple[int, ...]
    products: tuple[int, ...]  #: product codebook: the products of all pairs of centroids of A and B
    shift: int  #: h of LayerNorm, mean over standard deviation, which the merge subtracts
    row_sum: int  #: R_n of LayerNorm, the sum of the column's weights, which h multiplies
    bias: int  #: bias of the column, the last term
    #: registers of the Concat units, one for each position; where A holds integers, the indices of B
    q: tuple[int, ...]
    counted: int  #: positions of the column that went through the counter so far
    count: tuple[int, ...]  #: counts of the column so far, by index
    #: sum of counts by codebook entries (the dense path): a float32 word; with the exact accumulator an integer in
    #: units of 2**-48
    inside: int
    #: sum of the products at outliers (the sparse path): a float32 word; with the exact accumulator an integer in units
    #: of 2**-48
    outside: int
    y: int
    overflow: int
    concats: int  #: pairs of indices concatenated
    indices: int  #: positions counted, outliers left out
    lookups: int  #: entries of the product codebook read: every one for every column
    macs_reduce: int  #: multiply-adds of a count and its codebook entry
    macs_sparse: int  #: multiply-adds at outliers
    weight_dequants: int  #: elements of B turned into fp16 for the sparse path, one for each outlier position
    mults_scale: int  #: products of the scales of A and B, one for each column
    adds_merge: int  #: additions of the dense and the sparse sum, one for each column
    macs_dense: int  #: multiply-adds that a MatMul without indices would need
    overflows: int  #: outputs with `overflow` set: not finite


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
        self,
        k: int = 16,
        a_bits: int = 4,
        b_bits: int = 4,
        integer: bool = False,
        preset: Preset | KllmArith = "paper",
        biased: bool = False,
        norm: NormPorts = "none",
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
            Arithmetic; its accumulator says which MACs there are, see `accumulators`.
        biased : bool
            Whether there is a port for a bias (D-kllm-40).
        norm : {"none", "rms", "layer"}
            Norm before the MatMul: then operands come in as index_norm divided them (D-kllm-37), and B has no outliers;
            with "layer" its shift too.

        Raises
        ------
        Refused
            A width is out of range, an option unknown, or a norm does not suit the other options.
        """
        self.k: int = require_int(k, 1, 1 << 20, self.name, "k")
        self.a_bits: int = require_int(a_bits, 1, 8 if integer else 4, self.name, "a_bits")
        self.b_bits: int = require_int(b_bits, 1, 4, self.name, "b_bits")
        self.integer: bool = bool(integer)
        self.preset: Preset | KllmArith = plain(preset)
        self.arith: KllmArith = KllmArith.preset(self.preset)
        self.biased: bool = bool(biased)
        self.norm = require_choice(norm, get_args(NormPorts), self.name, "norm")
        self._require_foldable()
        self.accumulator: Arrays | ExactSums = accumulator(self.arith, self.b_bits)
        self.bits: int = self.b_bits if integer else self.a_bits + self.b_bits  #: of what is counted
        self.counter: IndexCounter = IndexCounter(self.bits, self.a_bits if integer else 0, 62)
        config = {"k": self.k, "a_bits": self.a_bits, "b_bits": self.b_bits}
        options = {"integer": self.integer, "preset": self.preset, "biased": self.biased, "norm": self.norm}
        self.ports: Ports = ports({**config, **options})
        self.column: Column | None = None
        absent = ("a_mask", "a_codebook", "b_mask", "b_outlier", "products", "q", "count")
        empty = dict.fromkeys(absent, ()) | {"b_scale": 0x3C00}
        lowest = {port.name: lanes([max(port.limits[0], 0)] * port.lanes) for port in self.ports.inputs}
        self.state: State = self.reset(State, **{**empty, **lowest})

    def _require_foldable(self) -> None:
        """Refuse a norm at the ports where nothing is divided beforehand."""
        if self.norm != "none" and (self.integer or not folds(self.arith)):
            what = "integers" if self.integer else 'acc="exact", which divides its result'
            raise Refused(f"{self.name}: norm={self.norm!r} needs operands that a norm divides, got {what}")

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
        shift: int | None = None,
        row_sum: int | None = None,
        bias: int | None = None,
    ) -> State:
        """Begin a column with the inputs of the configuration's ports; without inputs, execute its next event.

        With `integer`, `a_index` holds the integers, and A has no mask and codebook, nor are there `b_scale` and
        `products`. Behind a norm B has no `b_mask` and `b_outlier`.
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
            shift=shift,
            row_sum=row_sum,
            bias=bias,
        )

    def _require(self, *inputs: np.ndarray) -> None:
        """Refuse what an exact sum cannot hold."""
        if self.arith.acc == "exact":
            words = {port.name: array for port, array in zip(self.ports.inputs, inputs, strict=True)}
            require_exact(column_at_ports(words, self.integer, self.arith))

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
        if state.count:
            self.counter.state = replace(self.counter.state, count=state.count)
        for unit, q in zip(self.concats, () if self.integer else state.q, strict=False):
            unit.state = replace(unit.state, q=q)

    def _column(self, state: State) -> Column:
        """The column that the ports show."""
        words = {
            port.name: np.array(
                getattr(state, port.name) if port.name in SINGLE else fields(getattr(state, port.name)), port.dtype
            )
            for port in self.ports.inputs
        }
        return column_at_ports(words, self.integer, self.arith)

    @cached_property
    def concats(self) -> tuple[Concat, ...]:
        """The Concat units, one per position; their registers are q."""
        return tuple(Concat(self.a_bits, self.b_bits) for _ in range(self.k))

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
        q = tuple(unit.edge(i, j).q for unit, i, j in zip(self.concats, column.a.tolist(), b, strict=False))
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
        self.counter.state = replace(self.counter.state, count=before.count)  # of before: an alternative may change it
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
        inside = self.accumulator.dense(before.count, column)
        return replace(
            before, event="reduce", inside=inside, lookups=before.lookups + size, macs_reduce=before.macs_reduce + size
        )

    def _sparse(self, before: State, column: Column) -> State:
        """The positions that were not counted, ascending, both operands as fp16: one MAC each."""
        outside = self.accumulator.sparse(column)
        done = int(np.count_nonzero(column.left_out))
        return replace(
            before,
            event="sparse",
            outside=outside,
            macs_sparse=before.macs_sparse + done,
            weight_dequants=before.weight_dequants + done,
        )

    def _merge(self, before: State, column: Column) -> State:
        """Scales, the sparse part, what a norm leaves over, the bias; the last operation rounds to fp16."""
        word = self.accumulator.merged(before.inside, before.outside, column)
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
        "layer": Config(k=20, a_bits=2, b_bits=3, integer=False, preset="paper", biased=True, norm="layer"),
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
