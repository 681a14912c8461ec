"""The chip: lanes of Concat units, index counters and MACs over output columns, with cycles and what buffers hold.

Paper: [kllm §IV-A, Fig. 6, Table I]. Composed of index_matmul. Decision: D-kllm-31 (which lane has which column, and
every cycle count: the paper gives sizes only). No claim about the authors' simulator.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from refemu.arith.checks import Refused, require_int
from refemu.formats.codebook import Codebook
from refemu.formats.kllm_arith import KllmArith
from refemu.formats.kmeans_tensor import KMeansTensor
from refemu.units import index_matmul, kllm_chip_cases, unit
from refemu.units.index_matmul import COUNTERS, IndexMatmul
from refemu.units.index_matmul_parts import Norm, Scores
from refemu.units.index_matmul_problem_parts import Problem, problem
from refemu.units.kllm_chip_parts import KllmChip
from refemu.units.unit import Cases, Config, Flag, Ports, Stepped, Unit, admit, collect, fields, lanes
from refemu.units.unit_cases import Seeds

TABLE_1 = (16, 32, 16, 32)  #: lanes, counters, counter inputs, MACs
TOTALS = (*COUNTERS, "tiles", "count_cycles", "mac_cycles", "cycles")


@dataclass(frozen=True)
class State:
    """Ports and registers after one slot of the pipeline, and what happened since reset."""

    event: str  #: "reset", "fill" (counting only), "overlap" or "drain" (reduction only)
    index: int  #: number of the row of A, -1 for the reset
    a_index: tuple[int, ...]
    a_mask: tuple[int, ...]
    a_outlier: tuple[int, ...]
    a_scale: int
    a_codebook: tuple[int, ...]
    b_index: tuple[int, ...]
    b_scale: tuple[int, ...]
    b_codebook: tuple[int, ...]
    products: tuple[int, ...]
    slot: int  #: of this row's pipeline
    counted: tuple[int, ...]  #: columns that the lanes counted in this slot
    reduced: tuple[int, ...]  #: columns that the MACs reduced
    y: tuple[int, ...]
    overflow: tuple[int, ...]
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
    count_cycles: int  #: in which counters work
    mac_cycles: int  #: in which MACs work
    cycles: int


@dataclass(frozen=True, eq=False)
class Result(unit.Result):
    """What leaves the chip; counters over all rows, one row after the other."""

    y: np.ndarray  #: as of index_matmul
    overflow: np.ndarray
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


class ChipUnit(Stepped):
    """A row of A by n columns; one event is one slot of the pipeline: a tile is counted, the one before reduced."""

    name = "kllm_chip"

    def __init__(
        self,
        k: int = 8,
        n: int = 6,
        a_bits: int = 4,
        b_bits: int = 4,
        sizes: tuple[int, ...] = TABLE_1,
        lane_mapping: str = "column",
        preset: str | KllmArith = "paper",
    ) -> None:
        """k, n: of the MatMul. a_bits, b_bits: of the indices. sizes: lanes, counters, counter_inputs, macs."""
        require_int(n, 1, 1 << 12, self.name, "n")
        lane_count, counters, inputs, macs = sizes
        self.chip = KllmChip(lane_count, counters=counters, counter_inputs=inputs, macs=macs, lane_mapping=lane_mapping)
        self.matmul = IndexMatmul(k, a_bits, b_bits, False, preset)
        self.k, self.n, self.sizes, self.preset = k, n, tuple(sizes), preset
        self.ports = ports({"k": k, "n": n, "a_bits": a_bits, "b_bits": b_bits, "preset": preset})
        registers: dict[str, Any] = dict.fromkeys(TOTALS, 0) | {"y": lanes([0] * n), "overflow": lanes([0] * n)}
        for port in self.ports.inputs:
            registers[port.name] = lanes([max(port.limits[0], 0)] * port.lanes)
        self._reset = self.matmul.state
        self.state = State("reset", -1, slot=0, counted=(), reduced=(), **registers)

    @property
    def busy(self) -> bool:
        """Whether slots of the row are left."""
        return self.state.event in ("fill", "overlap")

    def step(self, *inputs: Any) -> State:
        """With inputs, in the order of the ports: the first slot of a row. Without: the next one.

        Refused: inputs while a row is on its way, none while there is none.
        """
        if bool(inputs) == self.busy:
            wanted = f"no inputs: slot {self.state.slot} came last" if self.busy else "the inputs of a row"
            raise Refused(f"{self.name}: step takes {wanted}")
        before = replace(self.state, slot=self.state.slot + 1)
        if inputs:
            values = dict(zip((port.name for port in self.ports.inputs), self.accept(*inputs), strict=True))
            zeros = lanes([0] * self.n)
            before = replace(before, index=before.index + 1, slot=0, y=zeros, overflow=zeros, **values)
        self.state = self._slot(before)
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

    def steps(self, **inputs: Any) -> Iterator[State]:
        """Yield the State after every slot of every row, in C order; arguments by port, broadcast."""
        yield from self.operations(
            admit(self.name, self.ports.inputs, [inputs[port.name] for port in self.ports.inputs])
        )

    def __repr__(self) -> str:
        return (
            f"ChipUnit(k={self.k}, n={self.n}, a_bits={self.matmul.a_bits}, b_bits={self.matmul.b_bits}, "
            f"sizes={self.sizes}, lane_mapping={self.chip.lane_mapping!r}, preset={self.preset!r})"
        )


def run(
    a: KMeansTensor | Scores,
    b: KMeansTensor,
    *,
    chip: KllmChip | None = None,
    check_capacity: bool = False,
    preset: str | KllmArith = "paper",
    products: Codebook | None = None,
    bias: Any = None,
    norm: Norm | None = None,
    seen: Any = None,
) -> Result:
    """y = A x B as `index_matmul.run`, bit for bit, with the cycles of a chip, row after row.

    chip: by default that of [kllm Table I]. check_capacity: refuse what its buffers cannot hold at once. The other
    arguments and refusals are those of `index_matmul.run`.
    """
    answer = index_matmul.run(a, b, preset=preset, products=products, bias=bias, norm=norm, seen=seen)
    task = problem(a, b, preset, products, bias, norm, seen)
    return on_chip(answer, task, chip or KllmChip(), check_capacity)


def on_chip(answer: index_matmul.Result, task: Problem, chip: KllmChip, check_capacity: bool) -> Result:
    """`answer` with the cycles of `chip`."""
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
    totals = dict.fromkeys(TOTALS[len(COUNTERS) :], 0)
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


def run_ports(
    *,
    k: int = 8,
    n: int = 6,
    a_bits: int = 4,
    b_bits: int = 4,
    sizes: tuple[int, ...] = TABLE_1,
    lane_mapping: str = "column",
    preset: str | KllmArith = "paper",
    **inputs: Any,
) -> Result:
    """Rows of any shape between the ports: words (..., lanes), by port name; `k` to `preset` as for ChipUnit."""
    device = ChipUnit(k, n, a_bits, b_bits, sizes, lane_mapping, preset)
    names = [port.name for port in device.ports.inputs]
    arrays = admit(device.name, device.ports.inputs, [inputs[name] for name in names])
    states = [s for s in device.steps(**dict(zip(names, arrays, strict=True))) if s.event == "drain"]
    outputs = collect(states, device.ports.outputs, arrays[names.index("a_scale")].shape)
    return Result(**outputs | {name: getattr(device.state, name) for name in TOTALS})


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


def cases(config: Config, kind: str, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind; see kllm_chip_cases.py."""
    return kllm_chip_cases.cases(config, ports(config).inputs, kind, seed)


SMALL = {"k": 20, "n": 10, "a_bits": 2, "b_bits": 3, "sizes": (2, 2, 4, 2), "preset": "paper"}  #: three tiles

UNIT = Unit(
    name="kllm_chip",
    paper="kllm §IV-A, Fig. 6, Table I",
    meaning="lanes over output columns, with cycles",
    configs={"column": Config(**SMALL, lane_mapping="column"), "counter": Config(**SMALL, lane_mapping="counter")},
    ports=ports,
    run=run_ports,
    twin="refemu.units.kllm_chip_jit:run_ports",
    unit_class=ChipUnit,
    cases=cases,
    mark=kllm_chip_cases.mark,
    legal=kllm_chip_cases.legal,
    flags={"OVERFLOW": Flag(0, "some output left fp16"), "OUTLIER": Flag(1, "some position is in the sparse path")},
)
