"""The lanes of the chip, in parallel: each is fed its columns, and all begin a tile in the same edge.

Paper: [kllm §IV-A, Fig. 6]. Composed of pe_lane.
"""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from refemu.units.declaration import DeclaredState, decides
from refemu.units.kllm.kllm_chip.plan import Operands, Pass
from refemu.units.kllm.kllm_chip.sizes import ChipSizes
from refemu.units.kllm.pe_lane import PHASES, Feeder, PeLane, Slab, Tile, slabs

IDLE, REDUCE, _, _, MERGE, SHIFT, BIAS = range(len(PHASES))


def columns_of(lane: int, task: Pass, macs: int) -> range:
    """Columns that a lane has in a pass."""
    first = task.first + lane * macs
    return range(first, max(first, min(first + macs, task.first + task.width)))


class LaneArray:
    """Lanes that multiply one product after another; an edge advances all of them."""

    def __init__(
        self,
        sizes: ChipSizes,
        a_bits: int,
        b_bits: int,
        integer: bool = False,
        counter_bits: int = 18,
        rate: Fraction | None = None,
    ) -> None:
        """Make the lanes; raises Refused if the sizes do not match.

        rate: bits that the memory's port moves into all Weight Buffers in an edge; None if weights are there.
        """
        self.sizes: ChipSizes = sizes
        self.lanes: list[PeLane] = [sizes.lane(a_bits, b_bits, integer, counter_bits) for _ in range(sizes.lanes)]
        self.feeders: list[Feeder] = []
        self.share: Fraction | None = None if rate is None else rate / sizes.lanes  #: of the port, for each lane
        self.levels: list[Fraction] = []  #: bits in each Weight Buffer
        self._needs: list[list[int]] = []
        self.plan: Sequence[Pass] = ()
        self.waiting: int = 0  #: number of the pass that no lane has begun
        self.y: np.ndarray = np.zeros((0, 0), np.uint16)

    def __repr__(self) -> str:
        return f"<LaneArray of {len(self.lanes)}>"

    def begin(self, operands: Operands, plan: Sequence[Pass]) -> None:
        """Take a product; its edges follow."""
        self.plan, self.waiting = plan, 0
        self.y = np.zeros((len(operands.a), len(operands.b)), np.uint16)
        self.levels = [Fraction(0)] * len(self.lanes)
        self._mine = [[task for task in plan if self.columns(at, task)] for at in range(len(self.lanes))]
        self.feeders = [
            Feeder(
                lane,
                [slab for task in mine for slab in _slabs(lane, operands, task, self.columns(at, task))],
                [_tile(operands, task, self.columns(at, task), lane.macs) for task in mine],
                operands.table,
            )
            for at, (lane, mine) in enumerate(zip(self.lanes, self._mine, strict=True))
        ]
        widths = [
            [_needs(lane, task, len(self.columns(at, task)), operands.b_bits) for task in mine]
            for at, (lane, mine) in enumerate(zip(self.lanes, self._mine, strict=True))
        ]
        self._needs = [[need for task in lane for need in task] for lane in widths]

    def resume(self, states: Sequence[DeclaredState], taken: Sequence[int], begun: Sequence[int], waiting: int) -> None:
        """Resume in the middle of the last product.

        states: of the lanes. taken, begun: slabs that each lane took, and tiles that it began before. waiting: number
        of the pass that no lane has begun.
        """
        self.waiting = waiting
        for lane, feeder, state, slabs_taken, first in zip(self.lanes, self.feeders, states, taken, begun, strict=True):
            lane.restore(state)
            feeder.taken, feeder.first = slabs_taken, first

    @property
    def busy(self) -> bool:
        """Whether edges of the product remain."""
        return self.waiting < len(self.plan) or any(lane.state.phase != IDLE for lane in self.lanes)

    def edge(self) -> list[DeclaredState]:
        """Execute one edge of every lane; return their States."""
        go = self._go()
        for at, (lane, feeder) in enumerate(zip(self.lanes, self.feeders, strict=True)):
            pick = feeder.pick(lane.state, self._filled(at, feeder.taken))
            self._drained(at, pick.slab)
            done = lane.step(**feeder.inputs(pick, int(self._begins(at, go))))
            if done.y_valid:
                task = self._mine[at][pick.work]
                columns = self.columns(at, task)
                self.y[task.row, _slice(columns)] = np.ravel(done.y)[: len(columns)]
        self.waiting += go
        return [lane.state for lane in self.lanes]

    @decides("D-kllm-66")
    def _filled(self, lane: int, slab: int) -> bool:
        """Whether the next slab of a lane is in its Weight Buffer when the port has moved the bits of this edge."""
        if self.share is None:
            return True
        self.levels[lane] += self.share
        return slab < len(self._needs[lane]) and self.levels[lane] >= self._needs[lane][slab]

    def _drained(self, lane: int, slab: int) -> None:
        """Remove a slab that was taken; the port waits while the buffer is full."""
        taken = self._needs[lane][slab] if slab >= 0 else 0
        self.levels[lane] = min(self.levels[lane] - taken, Fraction(self.sizes.buffers["weight"]))

    @decides("D-kllm-31")
    def columns(self, lane: int, task: Pass) -> range:
        """Columns that a lane has in a pass."""
        return columns_of(lane, task, self.sizes.macs)

    @decides("D-kllm-48")
    def _begins(self, lane: int, go: bool) -> bool:
        """Whether a lane begins; all begin together. go: whether the waiting pass begins."""
        return go and bool(self._columns(lane))

    def _columns(self, lane: int) -> range:
        """Columns of a lane in the waiting pass."""
        return self.columns(lane, self.plan[self.waiting])

    def _go(self) -> bool:
        """Whether the waiting pass begins: all its lanes have counted, and the MACs of the first are free."""
        if self.waiting == len(self.plan) or not _frees(self.lanes[0].state, self.lanes[0].entries):
            return False
        return all(bool(lane.state.full) or not self._columns(at) for at, lane in enumerate(self.lanes))


def _frees(state: DeclaredState, entries: int) -> bool:
    """Whether the next edge is the last of the tile under reduction, or no tile is under reduction."""
    last = {IDLE: 1, MERGE: not (state.work_shifts or state.work_biases), SHIFT: not state.work_biases, BIAS: 1}
    last[REDUCE] = state.address == entries - 1 and not state.work_closes
    return bool(last.get(state.phase, 0))


def _slice(columns: range) -> slice:
    return slice(columns.start, columns.stop, columns.step)


def _slabs(lane: PeLane, operands: Operands, task: Pass, columns: range) -> list[Slab]:
    """Slabs of a lane's columns in one pass."""
    n, k = _slice(columns), slice(task.low, task.high)
    mask = operands.a_mask[task.row, k]
    valid = np.broadcast_to(1 - mask, (len(columns), mask.size))
    if operands.b_mask.size:
        valid = valid & (1 - operands.b_mask[n, k])
    return list(slabs(lane, operands.a[task.row, k].astype(np.int64), operands.b[n, k].astype(np.int64), valid))


def _needs(lane: PeLane, task: Pass, columns: int, bits: int) -> list[int]:
    """Bits of the weights of every slab of a lane's columns in one pass."""
    together = lane.counters if lane.lane_mapping == "counter" else 1
    lows = range(task.low, max(task.high, task.low + 1), lane.positions)
    lengths = [min(low + lane.positions, task.high) - low for low in lows]
    return [
        length * min(together, columns - first) * bits for first in range(0, columns, together) for length in lengths
    ]


def _tile(operands: Operands, task: Pass, columns: range, macs: int) -> Tile:
    """Operands of a lane's columns in one pass; those of the sparse path stream if the pass closes."""
    n = _slice(columns)
    padding = [(0, 0), (0, macs - len(columns))]
    scale, row_sum, bias = np.pad(operands.columns[:, n], padding)
    outliers = task.outliers if task.closes else 0
    sparse = np.zeros((5, outliers, macs), np.int64)
    for j, column in enumerate(columns):
        for edge, k in enumerate(_positions(operands, task, column) if task.closes else ()):
            sparse[:, edge, j] = _factors(operands, task.row, column, int(k))
    used, x, w, x_coded, w_coded = sparse
    scale_a, shift = operands.rows[:, task.row].tolist()
    flags = {"opens": task.opens, "closes": task.closes}
    flags |= {"shifts": operands.shifts * task.closes, "biases": operands.biases * task.closes}
    return Tile(scale_a, scale, used, x, w, x_coded, w_coded, **flags, shift=shift, row_sum=row_sum, bias=bias)


def _positions(operands: Operands, task: Pass, column: int) -> np.ndarray:
    """Positions of a column that are excluded from the counts, ascending."""
    mask = operands.a_mask[task.row, : task.length]
    if operands.b_mask.size:
        mask = mask | operands.b_mask[column, : task.length]
    return np.flatnonzero(mask)


def _factors(operands: Operands, row: int, column: int, k: int) -> tuple[int, int, int, int, int]:
    """Operands of a sparse product: x, w, whether x is a centroid, whether w is."""
    x, x_coded = int(operands.a_words[row, k]), int(operands.a_coded[row, k])
    if operands.b_mask.size and operands.b_mask[column, k]:
        return 1, x, int(operands.b_words[column, k]), x_coded, 0
    centroids = operands.centroids[min(row, len(operands.centroids) - 1)]
    return 1, x, int(centroids[operands.b[column, k]]), x_coded, 1
