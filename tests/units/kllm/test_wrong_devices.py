"""Faulty devices of KLLM that earlier golden sets missed, each detected by rows of the present ones."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from refemu import units
from refemu.golden.faults import use
from refemu.golden.grade import device
from refemu.golden.grade.answers import Answers
from refemu.units.declaration import DeclaredState
from refemu.units.kllm.index_matmul.index_matmul import IndexMatmul
from refemu.units.kllm.index_matmul.problem import Column
from refemu.units.kllm.kllm_chip import KllmChip, LaneArray, Operands, Pass
from refemu.units.kllm.orizuru import Orizuru
from refemu.units.kllm.pe_lane import PeLane
from refemu.units.kllm.pe_lane.macs import Changes
from refemu.units.kllm.pe_lane.registers import MERGE
from refemu.units.ports import Lanes
from refemu.units.stepping import Stepped
from refemu.units.variant import Variant
from tests.golden import detecting

pytestmark = pytest.mark.committed

COUNTERS = [f"index_counter-{config}" for config in units.find("index_counter").configs]
MATMULS = [
    f"index_matmul-{name}" for name, config in units.find("index_matmul").configs.items() if config["preset"] == "paper"
]
#: sets of long columns; those of a function have short ones, tests/units/kllm/kllm_chip/test_state.py breaks it
CHIPS = [
    f"kllm_chip-{name}" for name, config in units.find("kllm_chip").configs.items() if config["function"] == "none"
]
TREES = ["orizuru-n8", "orizuru-n16", "orizuru-n16_total_order"]
Change = Callable[[int], int]
Values = tuple[int, ...]


def variant(name: str, says: str) -> Variant:
    (chosen,) = (each for each in units.find(name).variants if each.says == says)
    return chosen


def counting(change: Change) -> type[IndexMatmul]:
    """index_matmul whose counters have changed before they are reduced."""

    class Changed(IndexMatmul):
        def _dense(self, count: Values, column: Column) -> int:
            return super()._dense(tuple(map(change, count)), column)

    return Changed


def chip_of(change: Change) -> type[Stepped[Any]]:
    """A chip whose histograms have changed before they are reduced."""

    class Lane(PeLane):
        def _words(self, counts: Values) -> list[int]:
            return super()._words(tuple(map(change, counts)))

    return chip_with(lambda array: exchange(array, Lane))


def chip_with(change: Callable[[LaneArray], None]) -> type[Stepped[Any]]:
    """A chip of other lanes."""

    class Changed(KllmChip):
        def __init__(self, **parameters: Any) -> None:
            super().__init__(**parameters)
            change(self.array)

    return Changed


def exchange(array: LaneArray, lane: type[PeLane]) -> None:
    """Lanes of another class, with the sizes of the right ones."""
    array.lanes = [
        lane(**{name: getattr(each, name) for name in inspect.signature(PeLane).parameters}) for each in array.lanes
    ]


@pytest.mark.parametrize("name", [*COUNTERS, *MATMULS, "orizuru-n8", "orizuru-n64"])
def test_the_right_device_passes(name: str) -> None:
    assert detecting.right(detecting.rows_of(name))


@pytest.mark.parametrize("name", CHIPS)
def test_the_right_chip_passes(name: str) -> None:
    assert detecting.right(detecting.drawn(name))


def narrow(answers: Answers, bits: int) -> np.ndarray:
    return answers.differs("out.count", answers.outputs["out.count"] & ((1 << bits) - 1))


@pytest.mark.parametrize("name", COUNTERS)
def test_counter_of_fewer_bits_is_detected(name: str) -> None:
    """AUD-kllm-1: 6 bits passed for 13."""
    answers = detecting.drawn(name)
    bits, count = answers.config["counter_bits"], answers.outputs["out.count"]
    for fewer in range(1, bits):
        assert "edge/one-index-at-4-112-positions" in detecting.ids(answers, narrow(answers, fewer)), fewer
    assert answers.differs("out.count", np.minimum(count, (1 << (bits - 1)) - 1)).any()


@pytest.mark.parametrize("name", COUNTERS)
def test_counter_without_reset_is_detected(name: str) -> None:
    """AUD-vec-2: every case began with `clear`."""
    answers = detecting.rows_of(name)
    assert "edge/a-column-after-reset-without-clear" in detecting.ids(answers, device.kept(answers))


@pytest.mark.parametrize("name", COUNTERS)
def test_every_counter_passes_seven(name: str) -> None:
    """AUD-vec-3: 28 of 256 counters stayed 0, and 144 never passed 1, so that 3 bits were enough for most."""
    assert (detecting.rows_of(name).outputs["out.count"].max(axis=0) > 7).all()


@pytest.mark.parametrize("name", COUNTERS)
def test_counter_with_unconnected_input_is_detected(name: str) -> None:
    answers = detecting.rows_of(name)
    faults = [each for each in use.faults(answers) if each.id.startswith("unconnected/")]
    assert faults and all(each.wrong(answers).any() for each in faults)


@pytest.mark.parametrize("name", MATMULS)
def test_counts_of_three_bits_are_detected(name: str) -> None:
    """AUD-kllm-2: they passed all 72 rows."""
    assert detecting.by(detecting.rows_of(name), counting(lambda count: count & 7))


@pytest.mark.parametrize("name", MATMULS)
def test_counts_that_saturate_are_detected(name: str) -> None:
    """AUD-kllm-2: one row in 72 of those at 2 detected it."""
    rows = detecting.rows_of(name)
    assert detecting.by(rows, counting(lambda count: min(count, 2)))
    assert detecting.by(rows, counting(lambda count: min(count, 7)))


@pytest.mark.parametrize("name", MATMULS)
def test_counts_one_bit_short_are_detected(name: str) -> None:
    """AUD-kllm-2: of columns of 512 positions, counts of nine bits."""
    rows = detecting.rows_of(name)
    bits = int(rows.config["k"]).bit_length() - 1
    assert detecting.by(rows, counting(lambda count: count & ((1 << bits) - 1)))


@pytest.mark.parametrize("name", MATMULS)
def test_fused_reduction_is_detected(name: str) -> None:
    """AUD-kllm-2: it passed all 72 rows."""
    fused = variant("index_matmul", "a MAC rounds once")
    assert detecting.by(detecting.rows_of(name), fused)


@pytest.mark.parametrize("name", CHIPS)
@pytest.mark.parametrize("bits", [3, 4])
def test_chip_with_narrow_counts_is_detected(name: str, bits: int) -> None:
    """AUD-kllm-2: three bits passed 240 of 240 outputs; a column has twenty positions."""
    assert detecting.by(detecting.drawn(name), chip_of(lambda count: count & ((1 << bits) - 1)))


class Neighbour(LaneArray):
    """The second column of a lane is reduced with the scale of the first."""

    def begin(self, operands: Operands, plan: Sequence[Pass]) -> None:
        columns = operands.columns.copy()
        columns[0, 1::2] = columns[0, : columns.shape[1] // 2 * 2 : 2]
        super().begin(replace(operands, columns=columns), plan)


class LastTile(LaneArray):
    """Columns of the last tile, which is not full, stay 0."""

    def edge(self) -> list[DeclaredState]:
        states = super().edge()
        width = self.y.shape[1]
        self.y[:, width - (width % self.sizes.tile or self.sizes.tile) :] = 0
        return states


class Idle(LaneArray):
    """The last lane answers zeros."""

    def edge(self) -> list[DeclaredState]:
        states = super().edge()
        columns = np.arange(self.y.shape[1])
        self.y[:, columns // self.sizes.macs % self.sizes.lanes == self.sizes.lanes - 1] = 0
        return states


class OneLate(LaneArray):
    """All lanes begin a tile an edge late."""

    def _go(self) -> bool:
        ready, self.before = super()._go(), getattr(self, "before", False)
        late, self.before = ready and self.before, ready
        return late


class Searchless(KllmChip):
    """Cycles ignore the search."""

    def search(self, *inputs: Any) -> Changes:
        return {**super().search(*inputs), "cycles_taken": 0}


class FirstInliers(KllmChip):
    """Fifteen inliers a cycle get their index, the sixteenth stays 0."""

    def cluster(self) -> Changes:
        before, after = self.state, super().cluster()
        places = [place for place, outlier in enumerate(before.a_mask) if not outlier]
        index = list(after["a_index"])
        for place in places[before.clustered + 15 : before.clustered + 16]:
            index[place] = 0
        return {**after, "a_index": tuple(index)}


class Unmerged(PeLane):
    """The histogram of the last counter is not merged."""

    def _histograms(self, before: Any, columns: int) -> list[tuple[int, Values]]:
        histograms = super()._histograms(before, columns)
        return histograms[:-1] if before.merging == 1 else histograms


@pytest.mark.parametrize("name", CHIPS)
@pytest.mark.parametrize("wrong", [Neighbour, LastTile, Idle, OneLate])
def test_chip_of_faulty_lanes_is_detected(name: str, wrong: type[LaneArray]) -> None:
    """AUD-kllm-12: outputs that stayed 0 passed all tests of the chip alone."""
    chip = type("Changed", (KllmChip,), {"lane_array": wrong})
    assert detecting.by(detecting.drawn(name), chip)


@pytest.mark.parametrize("name", CHIPS)
@pytest.mark.parametrize("wrong", [Searchless, FirstInliers, chip_with(lambda array: exchange(array, Unmerged))])
def test_miswired_chip_is_detected(name: str, wrong: type[Stepped[Any]]) -> None:
    assert detecting.by(detecting.drawn(name), wrong)


def test_sizes_of_the_paper_are_ready() -> None:
    """AUD-kllm-5, AUD-kllm-7: activations of 3 bits by weights of 4, and a unit of 16 inputs by the paper's rule."""
    w4a3, n16 = units.find("index_matmul").configs["w4a3"], units.find("orizuru").configs["n16"]
    assert (w4a3["a_bits"], w4a3["b_bits"]) == (3, 4)
    assert (n16["n"], n16["total_order"], n16["min_leaf"]) == (16, False, "not_max")


class Swapped(IndexMatmul):
    """The index of a pair is b followed by a: the table is read with the halves exchanged."""

    def concat(self, *inputs: Any) -> Changes:
        column = self._operands()
        q = tuple((j << self.a_bits) | i for i, j in zip(column.a.tolist(), column.b.tolist(), strict=True))
        return {**super().concat(*inputs), "q": q}


def test_exchanged_index_halves_are_detected() -> None:
    """AUD-kllm-5: 3 by 4 bits, where the halves differ in width."""
    assert detecting.by(detecting.rows_of("index_matmul-w4a3"), Swapped)


@pytest.mark.parametrize("name", TREES)
def test_registers_of_both_trees_are_seen_both_ways(name: str) -> None:
    """AUD-kllm-6: no bit of P and Q and of their masks is constant."""
    blocks = detecting.drawn(name).blocks
    for register in ("st.p", "st.q", "st.p_mask", "st.q_mask"):
        bits = np.concatenate([block.arrays[register][:, 0] for block in blocks])
        assert np.flatnonzero(bits.min(axis=0) == bits.max(axis=0)).tolist() == [], register


class Stuck(Orizuru):
    """The mask of leaf 42 is 0 in the tree of the largest."""

    def _load(self, x: Lanes, k: int) -> DeclaredState:
        mask = list(super()._load(x, k).p_mask)
        mask[42] = 0
        self.state = self.changed(p_mask=tuple(mask))
        return self.state


def test_leaf_that_is_never_popped_is_detected() -> None:
    """Of 64 leaves the tree of the largest never popped 32, 42, 43 and 49, that of the smallest seven others."""
    answers = detecting.drawn("orizuru-n64")
    assert "edge/the-largest-values-and-the-smallest" in detecting.by(answers, Stuck)
    for port in ("out.max_index", "out.min_index"):
        assert np.unique(answers.outputs[port]).tolist() == list(range(64))


LANES = [f"pe_lane-{config}" for config in units.find("pe_lane").configs]


class LastLeftOut(PeLane):
    """The last counter is left out of the merge."""

    def _histograms(self, before: DeclaredState, columns: int) -> list[tuple[int, tuple[int, ...]]]:
        parts = super()._histograms(before, columns)
        left = len(parts) > 1 or (before.merging == 1 and self.merge == "serial")
        return parts[:-1] if left else parts


class LastTurn(PeLane):
    """Counters take the positions of the turn after, the last those of the first."""

    def _place(self, turn: int, counter: int) -> int:
        return super()._place((turn + 1) % (self.concat // (self.counters * self.inputs)), counter)


class Before(PeLane):
    """MACs reduce the histograms of the tile before."""

    def _swapped(self, before: DeclaredState) -> Changes:
        bank = getattr(self, "_bank", (0,) * (self.macs * self.entries))
        self._bank = before.counted
        return super()._swapped(before) | {"reducing": bank}


class Unscaled(PeLane):
    """Centroids enter the sparse path without their scale."""

    def _factor(self, j: int, scale: int, word: int, coded: int) -> int:
        return word


class ScaledByA(PeLane):
    """Centroids of B are multiplied by the scale of A."""

    def _factor(self, j: int, scale: int, word: int, coded: int) -> int:
        return super()._factor(j, self.state.work_a_scale, word, coded)


class Uncleared(PeLane):
    """The bank keeps the histograms that have gone to the MACs."""

    def _swapped(self, before: DeclaredState) -> Changes:
        return {name: value for name, value in super()._swapped(before).items() if name != "counted"}

    def _fitting(self, count: int) -> int:
        return count & ((1 << self.counter_bits) - 1)


class Unfresh(PeLane):
    """Counters continue from column to column."""

    def count(self, before: DeclaredState) -> Changes:
        kept = {name: 0 for name in ("fresh",) if before.count_cycles}
        wide = replace(before, **kept)  # type: ignore[arg-type]
        for counter in self.index_counters:
            counter.counter_bits = 62
        return super().count(wide)

    def _fitting(self, count: int) -> int:
        return count & ((1 << self.counter_bits) - 1)


class BiasAtOnce(PeLane):
    """The bias is added to what the tile before left in y."""

    def merge_(self, before: DeclaredState) -> Changes:
        after = super().merge_(before)
        return after | ({"y": before.y} if before.work_biases else {})


class NoShift(PeLane):
    """The shift is added."""

    def shift(self, before: DeclaredState) -> Changes:
        return super().shift(replace(before, work_shift=before.work_shift ^ 0x8000))


class Opened(PeLane):
    """Sums always start from 0."""

    def _swapped(self, before: DeclaredState) -> Changes:
        return super()._swapped(replace(before, opens=1))


class Carried(PeLane):
    """The sparse sums of a tile continue into the next."""

    def _swapped(self, before: DeclaredState) -> Changes:
        after = super()._swapped(before)
        return {name: value for name, value in after.items() if name != "outside"}


class Absent(PeLane):
    """MACs without a column show what they did before."""

    def _outputs(self, before: DeclaredState, y: list[int], following: int) -> Changes:
        after = super()._outputs(before, y, following)
        return after | {"y": (*y, *before.y[len(y) :])}


class Eager(PeLane):
    """`ready` waits for the counters only, not for the merge."""

    def _ready(self, after: DeclaredState) -> int:
        return int(after.left_turns <= 1)


class Late(PeLane):
    """`y_valid` comes with the merge, whatever follows."""

    def _outputs(self, before: DeclaredState, y: list[int], following: int) -> Changes:
        after = super()._outputs(before, y, following)
        return after | {"y_valid": int(before.phase == MERGE)}


@pytest.mark.parametrize("name", LANES)
def test_the_right_lane_passes(name: str) -> None:
    assert detecting.right(detecting.drawn(name))


@pytest.mark.parametrize(
    "wrong",
    [
        LastTurn,
        Before,
        Unscaled,
        ScaledByA,
        Uncleared,
        Unfresh,
        BiasAtOnce,
        NoShift,
        Opened,
        Carried,
        Late,
    ],
)
@pytest.mark.parametrize("name", LANES)
def test_faulty_lane_is_detected(name: str, wrong: type[PeLane]) -> None:
    """A turn off, the tile before, no scale, another's scale, nothing cleared, parts out of order or out of place."""
    assert detecting.by(detecting.drawn(name), wrong)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("pe_lane-column", LastLeftOut),
        ("pe_lane-integer", LastLeftOut),
        ("pe_lane-column", Absent),
        ("pe_lane-integer", Absent),
        ("pe_lane-column", Eager),
        ("pe_lane-integer", Eager),
    ],
)
def test_faulty_lane_with_shared_columns_is_detected(name: str, wrong: type[PeLane]) -> None:
    """A counter that is not merged, MACs without a column, a slab over one that waits for the merge."""
    assert detecting.by(detecting.drawn(name), wrong)
