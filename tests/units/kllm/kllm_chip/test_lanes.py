"""Lanes side by side: which columns they have, when they begin a tile; lanes that do it wrong are seen."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from refemu.formats.kllm.kmeans_tensor import KMeansTensor
from refemu.units.declaration import DeclaredState
from refemu.units.kllm import kllm_chip
from refemu.units.kllm.index_matmul import require_problem
from refemu.units.kllm.kllm_chip import ChipSizes, Operands, Pass, Product, operands, passes, product
from refemu.units.kllm.kllm_chip.lanes import LaneArray, columns_of
from refemu.units.kllm.pe_lane import PeLane
from refemu.units.kllm.pe_lane.feed import Tile
from refemu.units.kllm.pe_lane.registers import SPARSE
from tests.units.kllm.chip_operands import PAIR, equal, expected, sizes
from tests.units.kllm.kmeans_operands import tensor

OPTIONS = [("column", "tree"), ("column", "serial"), ("counter", "tree")]


def multiply(monkeypatch: pytest.MonkeyPatch, array: type[LaneArray], chip: ChipSizes, *pair: KMeansTensor) -> Product:
    """A product on lanes of another kind, which must end."""

    class Bounded(array):  # type: ignore[misc, valid-type]
        """At most a thousand edges."""

        left = 1000

        def edge(self) -> list[DeclaredState]:
            self.left -= 1
            assert self.left
            return list(super().edge())

    monkeypatch.setattr(product, "LaneArray", Bounded)
    return kllm_chip.matmul(*(pair or PAIR), chip=chip)


def uneven() -> tuple[KMeansTensor, KMeansTensor]:
    """Two tiles of six columns by three lanes: in each another lane has outliers, and the last lane one column."""
    b, marked = tensor((11, 40), 2, 2), np.zeros((11, 40), np.bool_)
    marked[0, 3:30] = marked[8, 5:32] = True
    index = np.where(marked, 0, b.index).astype(np.uint8)
    words = np.full(np.count_nonzero(marked), 0x4000, np.uint16)
    return tensor((1, 40), 2, 1), KMeansTensor(b.codebook, index, b.scale, marked, words)


def test_columns_go_to_the_lanes_in_turn() -> None:
    """[kllm §IV-A] D-kllm-31: as many as a lane has MACs; the last tile is partial."""
    tile = Pass(0, 512, 70, 0, 1, 1, 1, 0, 1)

    assert [list(columns_of(lane, tile, 32)) for lane in range(4)] == [
        list(range(512, 544)),
        list(range(544, 576)),
        list(range(576, 582)),
        [],
    ]


def test_the_right_lanes_are_the_oracles(monkeypatch: pytest.MonkeyPatch) -> None:
    for mapping, merge in OPTIONS:
        chip = sizes(lane_mapping=mapping, merge=merge)
        for pair in (PAIR, uneven()):
            assert equal(multiply(monkeypatch, LaneArray, chip, *pair), expected(chip, *pair))


def test_all_lanes_begin_tile_in_same_edge() -> None:
    """D-kllm-48: a lane that has counted fewer columns waits for the others."""
    task = require_problem(*uneven(), "paper", None, None, None, None)
    array, waited = LaneArray(sizes(), 2, 2), 0
    array.begin(operands(task), passes(operands(task), sizes()))
    while array.busy:
        before = [lane.state for lane in array.lanes]
        states = array.edge()
        began = [after.tiles - earlier.tiles for earlier, after in zip(before, states, strict=True)]
        assert began in ([0, 0, 0], [1, 1, 1])
        waited += sum(state.full for state in before) in (1, 2)
        assert len({state.address for state in states if state.phase == 1}) <= 1

    assert waited > 0 and [state.tiles for state in states] == [2, 2, 2]


def test_products_of_outliers_wait_for_the_last_slab() -> None:
    """D-kllm-47: with carried sums, those of a column's first slabs too."""
    task, chip = require_problem(*uneven(), "paper", None, None, None, None), sizes(carry="sums")
    array, closing = LaneArray(chip, 2, 2), []
    array.begin(operands(task), passes(operands(task), chip))
    while array.busy:
        closing += [state.work_closes for state in array.edge() if state.phase == SPARSE]

    assert set(closing) == {1} and uneven()[1].mask[0, : chip.positions].any()


class Late(LaneArray):
    """Lane 1 does nothing in the first edge."""

    def edge(self) -> list[DeclaredState]:
        lane = self.lanes[1]
        if not any(each.state.cycles for each in self.lanes):
            before = lane.state
            states = super().edge()
            lane.restore(before)
            self.feeders[1].taken = 0
            return states
        return super().edge()


class Eager(LaneArray):
    """Lane 0 begins as soon as it is full."""

    def _begins(self, lane: int, go: bool) -> bool:
        return lane == 0 or super()._begins(lane, go)

    def _go(self) -> bool:
        if self.waiting == len(self.plan):
            return False
        began = self.lanes[0].state.tiles - self.feeders[0].first > self.waiting
        others = range(1, len(self.lanes))
        return began and all(self.lanes[at].state.full or not self._columns(at) for at in others)


def with_edges(tile: Tile, edges: int) -> Tile:
    """A tile with fewer sparse edges."""
    names = ("sparse", "x", "w", "x_coded", "w_coded")
    return tile._replace(**{name: getattr(tile, name)[:edges] for name in names})


class OneLane(LaneArray):
    """Outliers of the first lane are counted for all."""

    def begin(self, operands: Operands, plan: Sequence[Pass]) -> None:
        super().begin(operands, plan)
        counted = [int(tile.sparse.sum(axis=0).max(initial=0)) for tile in self.feeders[0]._tiles]
        for feeder in self.feeders:
            feeder._tiles = list(map(with_edges, feeder._tiles, counted))


class Apart(LaneArray):
    """Each lane begins a tile when it is full, with the outliers of its own columns."""

    def begin(self, operands: Operands, plan: Sequence[Pass]) -> None:
        super().begin(operands, plan)
        for feeder in self.feeders:
            feeder._tiles = [with_edges(tile, int(tile.sparse.sum(axis=0).max(initial=0))) for tile in feeder._tiles]

    def edge(self) -> list[DeclaredState]:
        for at, (lane, feeder) in enumerate(zip(self.lanes, self.feeders, strict=True)):
            pick = feeder.pick(lane.state)
            done = lane.step(**feeder.inputs(pick, 1))
            if done.y_valid:
                task = self._mine[at][pick.work]
                columns = self.columns(at, task)
                self.y[task.row, columns.start : columns.stop] = np.ravel(done.y)[: len(columns)]
        return [lane.state for lane in self.lanes]

    @property
    def busy(self) -> bool:
        return not all(feeder.done(lane.state) for lane, feeder in zip(self.lanes, self.feeders, strict=True))


class Unmerged(PeLane):
    """The histogram of the last counter is not merged."""

    def _histograms(self, before: DeclaredState, columns: int) -> Any:
        return super()._histograms(before, columns)[:-1]


@pytest.mark.parametrize(
    ("wrong", "pair"),
    [
        pytest.param(Late, lambda: PAIR, id="a lane off by one edge"),
        pytest.param(Eager, uneven, id="go is given to one lane too early"),
        pytest.param(OneLane, uneven, id="outliers of one lane for all"),
        pytest.param(Apart, uneven, id="each lane begins when it is full"),
    ],
)
def test_lanes_that_step_wrongly_are_seen(
    monkeypatch: pytest.MonkeyPatch, wrong: type[LaneArray], pair: Callable[[], tuple[KMeansTensor, KMeansTensor]]
) -> None:
    a, b = pair()

    assert not equal(multiply(monkeypatch, wrong, sizes(), a, b), expected(sizes(), a, b))


def test_a_histogram_that_is_not_merged_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def lane(self: ChipSizes, a_bits: int, b_bits: int, integer: bool = False, counter_bits: int = 18) -> PeLane:
        numbers = self.concat, self.counters, self.counter_inputs, self.macs
        return Unmerged(*numbers, a_bits, b_bits, integer, self.lane_mapping, self.merge, counter_bits)

    monkeypatch.setattr(ChipSizes, "lane", lane)
    for mapping, merge in OPTIONS:
        chip = sizes(lane_mapping=mapping, merge=merge)
        assert not equal(kllm_chip.matmul(*PAIR, chip=chip), expected(chip, *PAIR))


def test_lanes_that_begin_apart_give_same_bits_sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    """D-kllm-48: entries are broadcast, so tiles take the edges of the lane with most outliers."""
    together = kllm_chip.matmul(*uneven(), chip=sizes())
    alone = multiply(monkeypatch, Apart, sizes(), *uneven())

    assert alone.y.tobytes() == together.y.tobytes() and alone.cycles < together.cycles


def test_resumes_where_it_was() -> None:
    task = require_problem(*PAIR, "paper", None, None, None, None)
    words, plan = operands(task), passes(operands(task), sizes())
    array, other = LaneArray(sizes(), 2, 2), LaneArray(sizes(), 2, 2)
    array.begin(words, plan)
    first = [feeder.first for feeder in array.feeders]
    other.begin(words, plan)
    for _ in range(25):
        states = array.edge()
    other.resume(states, [feeder.taken for feeder in array.feeders], first, array.waiting)
    other.y[:] = array.y
    while array.busy:
        assert other.busy and array.edge() == other.edge()

    assert not other.busy and np.array_equal(array.y, other.y) and replace(states[0]) == states[0]
