"""How a product is laid into slabs, and what each edge is given."""

from typing import Any

import numpy as np
import pytest

from refemu.units.kllm.pe_lane import PHASES, PeLane
from refemu.units.kllm.pe_lane.feed import Feeder, Pick, Tile, edges, picks, slabs

SIZES: dict[str, Any] = {"concat": 8, "counters": 2, "inputs": 2, "macs": 2, "a_bits": 2, "b_bits": 1}
ONE = 0x3C00


def tile(outliers: int = 0, word: int = ONE) -> Tile:
    none = np.zeros((outliers, 2), np.int64)
    return Tile(word, np.full(2, word), none + 1, none + word, none + word, none, none)


@pytest.mark.parametrize(("k", "turns"), [(1, [1]), (4, [1]), (5, [2]), (8, [2]), (9, [2, 1]), (19, [2, 2, 1])])
def test_a_column_is_cut_into_slabs(k: int, turns: list[int]) -> None:
    """Eight positions each, the last with as many counting edges as it needs; padding does not count."""
    a, b = np.arange(k) % 4, np.arange(2 * k).reshape(2, k) % 2
    stream = list(slabs(PeLane(**SIZES), a, b, np.ones_like(b)))

    assert [slab.turns for slab in stream] == turns * 2
    assert [slab.last for slab in stream] == ([0] * (len(turns) - 1) + [1]) * 2
    assert [slab.tile_end for slab in stream] == [0] * (2 * len(turns) - 1) + [1]
    for column in range(2):
        part = stream[column * len(turns) : (column + 1) * len(turns)]
        used = np.concatenate([slab.valid for slab in part]).astype(bool)
        assert used.tolist() == [True] * k + [False] * (8 * len(turns) - k)
        assert np.concatenate([slab.b for slab in part])[used].tolist() == b[column].tolist()
        assert np.concatenate([slab.a for slab in part])[used].tolist() == a.tolist()


def test_separate_columns_take_both_kinds_at_once() -> None:
    """D-kllm-31: registers 0 to 3 hold column 0, 4 to 7 column 1; one that is missing counts nothing."""
    lane = PeLane(**SIZES, lane_mapping="counter")
    b = np.array([[0, 1, 1], [1, 0, 0], [1, 1, 1]])
    first, second = slabs(lane, np.array([3, 2, 1]), b, np.ones_like(b))

    assert first.a.tolist() == second.a.tolist() == [3, 2, 1, 0]
    assert first.b.tolist() == [0, 1, 1, 0, 1, 0, 0, 0] and first.valid.tolist() == [1, 1, 1, 0] * 2
    assert second.b.tolist() == [1, 1, 1, 0, 0, 0, 0, 0] and second.valid.tolist() == [1, 1, 1, 0] + [0] * 4
    assert (first.tile_end, second.tile_end) == (0, 1) and first.turns == second.turns == 2


def test_continued_tile_has_no_end() -> None:
    b = np.zeros((1, 3), np.int64)
    (slab,) = slabs(PeLane(**SIZES), np.zeros(3, np.int64), b, b, closing=False)
    assert (slab.last, slab.tile_end) == (1, 0)


def laid(waits: Any = ()) -> tuple[list[Pick], dict[str, np.ndarray]]:
    """A product of two tiles, the second with two outliers."""
    lane, a, b = PeLane(**SIZES), np.arange(8) % 4, np.arange(16).reshape(2, 8) % 2
    stream = [*slabs(lane, a, b, np.ones_like(b)), *slabs(lane, a, b[:1], np.ones_like(b[:1]))]
    tiles, table = [tile(), tile(2, 0x4000)], np.arange(8) + 0x3000
    found = picks(lane, stream, tiles, waits)
    return found, edges(PeLane(**SIZES), found, stream, tiles, table, waits)


def test_every_slab_tile_entry_and_outlier_comes_once() -> None:
    found, inputs = laid()

    assert [pick.slab for pick in found if pick.slab >= 0] == [0, 1, 2]
    assert inputs["load"].tolist() == [int(pick.slab >= 0) for pick in found]
    assert [pick.outlier for pick in found if pick.outlier >= 0] == [0, 1]
    assert {pick.work for pick in found if pick.outlier >= 0} == {1}
    assert sorted({pick.entry for pick in found}) == list(range(8))
    assert inputs["entry"].tolist() == [0x3000 + pick.entry for pick in found]
    assert inputs["x"][[pick.outlier >= 0 for pick in found]].tolist() == [[0x4000] * 2] * 2
    assert not inputs["x"][[pick.outlier < 0 for pick in found]].any()


def test_a_product_ends_with_its_last_output() -> None:
    _, inputs = laid()
    lane = PeLane(**SIZES)
    *_, last = lane.steps(**inputs)

    assert (last.y_valid, last.tiles, PHASES[last.phase]) == (1, 2, "idle")


def test_waits_hold_the_tile_up() -> None:
    """Without `go` the operands of the tile stay at the ports."""
    (straight, _), (held, inputs) = laid(), laid(range(3, 20))

    assert len(held) > len(straight)
    assert inputs["go"].tolist() == [int(edge not in range(3, 20)) for edge in range(len(held))]
    assert {pick.tile for pick in held[:20]} == {0}


def test_a_feeder_counts_from_where_the_lane_is() -> None:
    """A second product on the same lane."""
    lane, b = PeLane(**SIZES), np.ones((1, 3), np.int64)
    for _ in range(2):
        stream = list(slabs(lane, np.ones(3, np.int64), b, b))
        feeder = Feeder(lane, stream, [tile()], np.full(8, ONE))
        assert repr(feeder) == "<Feeder of 1 slabs, 1 tiles>"
        while not feeder.done(lane.state):
            lane.step(**feeder.inputs(feeder.pick(lane.state)))
    assert lane.state.tiles == 2 and lane.state.y == (0x4200, 0)
