"""KLLM's chip: lanes of Concat units, index counters and MACs over output columns, with cycles and buffers.

Paper: [kllm §IV-A, Fig. 6, Table I]. Composed of index_matmul. Decision: D-kllm-31 (which lane has which column, and
every cycle count: the paper gives sizes only). No claim about the authors' simulator.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith.checks import plain, require_int
from refemu.formats.kllm.codebook import Codebook
from refemu.formats.kllm.kllm_arith import KllmArith, Preset
from refemu.formats.kllm.kmeans_tensor import KMeansTensor
from refemu.units import stepped
from refemu.units.kllm import index_matmul
from refemu.units.kllm.cases import kllm_chip as kllm_chip_cases
from refemu.units.kllm.index_matmul import COUNTERS, IndexMatmul, Norm, Problem, Scores, require_problem
from refemu.units.kllm.kllm_chip.sizes import ChipSizes, LaneMapping
from refemu.units.ports import Lanes, Ports, fields, lanes
from refemu.units.stepped import Stepped
from refemu.units.unit import Config, Flag, RunFunction, Unit

TABLE_1 = (16, 32, 16, 32)  #: lanes, counters, counter inputs, MACs
CYCLES = ("tiles", "count_cycles", "mac_cycles", "cycles")


@dataclass(frozen=True)
class State:
    """Ports and registers after one slot of the pipeline, and what happened since reset."""

    event: str  #: "reset", "fill" (counting only), "overlap" or "drain" (reduction only)
    index: int  #: number of the row of A, -1 for the reset
    a_index: tuple[int, ...]
    a_mask: tuple[int, ...]
    a_outlier: tuple[int, ...]
    a_scale: int
    a_codebook: tuple[int, ...]  #: words of A's centroids
    b_index: tuple[int, ...]
    b_scale: tuple[int, ...]
    b_codebook: tuple[int, ...]
    products: tuple[int, ...]
    slot: int  #: of this row's pipeline
    counted: tuple[int, ...]  #: columns that the lanes counted in this slot
    reduced: tuple[int, ...]  #: columns that the MACs reduced
    y: Lanes
    overflow: Lanes
    concats: int
    indices: int
    lookups: int
    macs_reduce: int
    macs_sparse: int
    weight_dequants: int
    mults_scale: int
    adds_merge: int
    macs_dense: int
    overflows: int
    tiles: int  #: tiles counted since reset
    count_cycles: int  #: in which counters work
    mac_cycles: int  #: in which MACs work
    cycles: int  #: cycles since reset


@dataclass(frozen=True, eq=False)
class Result(stepped.Result):
    """Outputs of a run; counters over all rows, one row after the other."""

    y: np.ndarray  #: uint16 words from `run`, float16 from `matmul`
    overflow: np.ndarray  #: bool: y is not finite
    concats: int
    indices: int
    lookups: int
    macs_reduce: int
    macs_sparse: int
    weight_dequants: int
    mults_scale: int
    adds_merge: int
    macs_dense: int
    overflows: int
    tiles: int
    count_cycles: int
    mac_cycles: int
    cycles: int


class KllmChip(Stepped[State]):
    """KLLM's chip: a row of A by n columns; in a slot of the pipeline one tile is counted and the one before reduced.

    References
    ----------
    [kllm §IV-A, Fig. 6, Table I]
    """

    name = "kllm_chip"
    sizes: tuple[int, ...]

    def __init__(
        self,
        k: int = 8,
        n: int = 6,
        a_bits: int = 4,
        b_bits: int = 4,
        sizes: tuple[int, ...] = TABLE_1,
        lane_mapping: LaneMapping = "column",
        preset: Preset | KllmArith = "paper",
    ) -> None:
        """Configure the chip and the product.

        Parameters
        ----------
        k, n : int
            Positions of a column and columns of the MatMul.
        a_bits, b_bits : int
            Widths of the indices, 1 to 4.
        sizes : tuple of 4 int
            Lanes, counters, counter_inputs and macs of `ChipSizes`.
        lane_mapping : {"column", "counter"}
            Which columns the counters of a lane count (D-kllm-31).
        preset : str or KllmArith
            Arithmetic of the MatMul.

        Raises
        ------
        Refused
            A parameter is out of range or an option unknown.
        """
        self.n: int = require_int(n, 1, 1 << 12, self.name, "n")
        lane_count, counters, inputs, macs = self.sizes = plain(tuple(sizes))
        self.lane_mapping: LaneMapping = plain(lane_mapping)
        self.chip: ChipSizes = ChipSizes(
            lane_count, counters=counters, counter_inputs=inputs, macs=macs, lane_mapping=self.lane_mapping
        )
        self.matmul: IndexMatmul = IndexMatmul(k, a_bits, b_bits, False, preset)
        self._reset = self.matmul.state
        self.k: int = self.matmul.k
        self.preset: Preset | KllmArith = self.matmul.preset
        self.a_bits: int = self.matmul.a_bits
        self.b_bits: int = self.matmul.b_bits
        config = {"k": self.k, "n": self.n, "a_bits": self.a_bits, "b_bits": self.b_bits}
        self.ports: Ports = ports({**config, "preset": self.preset})
        lowest = {port.name: lanes([max(port.limits[0], 0)] * port.lanes) for port in self.ports.inputs}
        self.state: State = self.reset(State, counted=(), reduced=(), **lowest)

    @property
    def busy(self) -> bool:
        """Whether slots of the row are left."""
        return self.state.event in ("fill", "overlap")

    def step(
        self,
        a_index: Sequence[int] | int | None = None,
        a_mask: Sequence[int] | int | None = None,
        a_outlier: Sequence[int] | int | None = None,
        a_scale: int | None = None,
        a_codebook: Sequence[int] | None = None,
        b_index: Sequence[int] | int | None = None,
        b_scale: Sequence[int] | int | None = None,
        b_codebook: Sequence[int] | None = None,
        products: Sequence[int] | None = None,
    ) -> State:
        """Execute the first slot of a row; without inputs, the next one.

        Columns of B follow each other in `b_index`; `a_mask` is 1 at outliers; the other inputs are fp16 words, or of
        the products' format.
        """
        return self._stepped(
            a_index=a_index,
            a_mask=a_mask,
            a_outlier=a_outlier,
            a_scale=a_scale,
            a_codebook=a_codebook,
            b_index=b_index,
            b_scale=b_scale,
            b_codebook=b_codebook,
            products=products,
        )

    def _open(self, *inputs: Any) -> State:
        zeros = lanes([0] * self.n)
        self.state = self._slot(self.latched(*inputs, slot=0, y=zeros, overflow=zeros))
        return self.state

    def _continue(self) -> State:
        self.state = self._slot(replace(self.state, slot=self.state.slot + 1))
        return self.state

    def _slot(self, before: State) -> State:
        """Counting of tile `slot`, reduction of the tile before; the longer of the two takes the cycles."""
        tiles, entries = self.chip.tiles(self.n), 1 << self.matmul.bits
        counts, reduces = before.slot < tiles, before.slot > 0
        count = self.chip.count_cycles(self.k) * counts
        mac = self.chip.mac_cycles(entries, fields(before.a_mask).count(1)) * reduces
        event = "fill" if not reduces else "overlap" if counts else "drain"
        after = replace(
            before,
            event=event,
            counted=self._columns(before.slot),
            tiles=before.tiles + counts,
            reduced=self._columns(before.slot - 1),
            count_cycles=before.count_cycles + count,
            mac_cycles=before.mac_cycles + mac,
            cycles=before.cycles + max(count, mac),
        )
        for n in after.reduced:
            after = self._column(after, n)
        return after

    def _columns(self, tile: int) -> tuple[int, ...]:
        size = self.chip.lanes * self.chip.macs
        return tuple(range(max(tile, 0) * size, min((tile + 1) * size, self.n)))

    def _column(self, before: State, n: int) -> State:
        """Output n, by the lane that has its column."""
        none = lanes([0] * self.k)
        column = lanes(list(fields(before.b_index)[n * self.k : (n + 1) * self.k]))
        self.matmul.state = self._reset
        done = self.matmul.step(
            before.a_index,
            before.a_mask,
            before.a_outlier,
            before.a_scale,
            before.a_codebook,
            column,
            none,
            none,
            fields(before.b_scale)[n],
            before.b_codebook,
            before.products,
        )
        while self.matmul.busy:
            done = self.matmul.step()
        y, overflow = list(fields(before.y)), list(fields(before.overflow))
        y[n], overflow[n] = done.y, done.overflow
        sums = {name: getattr(before, name) + getattr(done, name) for name in COUNTERS}
        return replace(before, y=lanes(y), overflow=lanes(overflow), **sums)


def matmul(
    a: KMeansTensor | Scores,
    b: KMeansTensor,
    *,
    chip: ChipSizes | None = None,
    check_capacity: bool = False,
    preset: Preset | KllmArith = "paper",
    products: Codebook | None = None,
    bias: np.ndarray | None = None,
    norm: Norm | None = None,
    seen: ArrayLike | None = None,
) -> Result:
    """Multiply matrices as `index_matmul.matmul`, bit for bit, with the cycles of a chip, row after row.

    Parameters
    ----------
    a : KMeansTensor or Scores
        As for `index_matmul.matmul`, like the arguments without a description of their own.
    b : KMeansTensor
        Matrix of columns.
    chip : ChipSizes, optional
        By default that of [kllm Table I].
    check_capacity : bool
        Refuse a product that the buffers cannot hold at once.
    preset : str or KllmArith
        Arithmetic.
    products : Codebook, optional
        Product codebook.
    bias : ndarray of float16 (N,), optional
        Added to the outputs.
    norm : Norm, optional
        Norm of A's rows, applied afterwards.
    seen : array_like of integers, optional
        Columns that each row sees.

    Returns
    -------
    Result
        Outputs, counters and cycles.

    Raises
    ------
    Refused
        As `index_matmul.matmul` does; or a buffer is too small.

    References
    ----------
    [kllm §IV-A, Table I]
    """
    answer = index_matmul.matmul(a, b, preset=preset, products=products, bias=bias, norm=norm, seen=seen)
    task = require_problem(a, b, preset, products, bias, norm, seen)
    return on_chip(answer, task, chip or ChipSizes(), check_capacity)


def on_chip(answer: index_matmul.Result, task: Problem, chip: ChipSizes, check_capacity: bool) -> Result:
    """Add the cycles of a chip to the answer of a MatMul.

    Parameters
    ----------
    answer : Result
        Result of `index_matmul.matmul`.
    task : Problem
        The same MatMul, checked.
    chip : ChipSizes
        Sizes of the chip.
    check_capacity : bool
        Refuse a product that the buffers cannot hold at once.

    Returns
    -------
    Result
        Outputs, counters and cycles.

    Raises
    ------
    Refused
        A buffer is too small.

    References
    ----------
    [kllm §IV-A, Table I]
    """
    columns, k = task.b.index.shape
    entries = task.table.size
    if check_capacity:
        joint = entries.bit_length() - 1
        a_bits = max(1, int(task.a.index.max(initial=0)).bit_length()) if task.integer else joint - task.b_bits
        chip.require_capacity(
            task.a.index.shape[0],
            k,
            columns,
            a_bits,
            task.b_bits,
            32 if task.arith.table == "fp32" else 16,
            task.integer,
        )
    totals = dict.fromkeys(CYCLES, 0)
    for m, seen in enumerate(task.seen.tolist()):
        length, width = (seen, columns) if task.integer else (k, seen)
        masks = task.b.mask[:width, :length] | task.a.mask[m, :length]
        left_out = int(np.count_nonzero(masks, axis=1).max(initial=0))
        tiles = chip.tiles(width)
        row = {
            "tiles": tiles,
            "count_cycles": tiles * chip.count_cycles(length),
            "mac_cycles": tiles * chip.mac_cycles(entries, left_out),
            "cycles": chip.cycles(length, width, entries, left_out),
        }
        totals = {name: totals[name] + value for name, value in row.items()}
    return Result(answer.y, answer.overflow, **{name: getattr(answer, name) for name in COUNTERS}, **totals)


def ports(config: Mapping[str, Any]) -> Ports:
    """Widths in one configuration: those of index_matmul, B with n columns and no outliers."""
    n, k = config["n"], config["k"]
    column = index_matmul.ports({"integer": False, **config})
    inputs = []
    for port in column.inputs:
        if port.name == "b_index":
            inputs.append(replace(port, lanes=n * k, meaning="indices of B, column by column"))
        elif port.name == "b_scale":
            inputs.append(replace(port, lanes=n, meaning="scale of every column of B"))
        elif port.name not in ("b_mask", "b_outlier"):
            inputs.append(port)
    return Ports(tuple(inputs), tuple(replace(port, lanes=n) for port in column.outputs))


SMALL: dict[str, int | str | tuple[int, ...]] = {
    "k": 20,
    "n": 10,
    "a_bits": 2,
    "b_bits": 3,
    "sizes": (2, 2, 4, 2),
    "preset": "paper",
}  #: three tiles

UNIT: Unit[State, Result] = Unit(
    name="kllm_chip",
    paper="kllm §IV-A, Fig. 6, Table I",
    meaning="lanes over output columns, with cycles",
    configs={"column": Config(**SMALL, lane_mapping="column"), "counter": Config(**SMALL, lane_mapping="counter")},
    ports=ports,
    unit_class=KllmChip,
    cases=kllm_chip_cases.cases,
    counters=(*COUNTERS, *CYCLES),
    result=Result,
    mark=kllm_chip_cases.mark,
    legal=kllm_chip_cases.legal,
    flags={"OVERFLOW": Flag(0, "some output left fp16"), "OUTLIER": Flag(1, "some position is in the sparse path")},
)
run: RunFunction[Result] = UNIT.run
