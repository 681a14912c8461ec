"""Edges of a product: when groups, passes, weights and tiles come."""

import numpy as np
import pytest

from refemu.units.harmonia.bfp_pe import M8M4, M8M8, M8W4
from refemu.units.harmonia.bfp_pe_array_clocked.product import Slot, edges, entries, idle, slots_of, tiles


def test_group_comes_once_previous_has_its_slots() -> None:
    """D-harmonia-42: [harmonia §IV-C] one cycle a group, two in M8M8."""
    mode = np.array([M8M8, M8M4, M8W4, M8M8])

    assert entries(mode, "by_slot") == [Slot(0, 0, 1, M8M8), Slot(2, 1, 1, M8M4), Slot(3, 2, 1, M8W4), Slot(4, 3, 1, 2)]
    assert slots_of(mode) == 6


def test_passes_hold_one_mode_and_four_slots() -> None:
    """D-harmonia-40, D-harmonia-21."""
    mode = np.array([M8M8] * 3 + [M8W4] * 6 + [M8M4])
    passes = [(0, 0, 2, M8M8), (4, 2, 1, M8M8), (6, 3, 4, M8W4), (10, 7, 2, M8W4), (12, 9, 1, M8M4)]

    assert entries(mode, "parallel") == passes


@pytest.mark.parametrize(("overlap", "starts"), [(False, [0, 19, 38, 57]), (True, [0, 16, 32, 48])])
def test_tiles(overlap: bool, starts: list[int]) -> None:
    """D-harmonia-22, D-harmonia-43: after the last column, or as soon as columns end one at a time."""
    places = list(tiles((9, 20), 3, 8, 16, overlap))

    assert [tile.edge for tile in places] == starts
    assert [tile[1:] for tile in places] == [(0, 0, 8, 16), (0, 16, 8, 4), (8, 0, 1, 16), (8, 16, 1, 4)]


def test_weights_of_column_come_later_by_its_number() -> None:
    rng = np.random.default_rng(0)
    fields = {"mode": np.array([M8W4, M8W4]), "a_exp": rng.integers(0, 31, (2, 2))}
    fields |= {name: rng.integers(0, 2, (2, 64)) for name in ("a_sign", "a_mag")}
    fields |= {name: rng.integers(0, 2, (3, 64)) for name in ("b", "b_sign")}
    fields |= {name: rng.integers(0, 31, (3, 2)) for name in ("b_exp", "w_scale")}

    ports = edges(fields, 2, 3)

    assert ports["b_valid"].tolist() == [[1, 0, 0], [1, 1, 0], [0, 1, 1], [0, 0, 1], [0, 0, 0]]
    assert ports["a_valid"].tolist() == [[1, 1]] * 2 + [[0, 0]] * 3
    assert (ports["clear"].tolist(), ports["last"].tolist()) == ([1, 0, 0, 0, 0], [0, 1, 0, 0, 0])
    for c in range(3):
        for g in range(2):
            some = slice(32 * g, 32 * g + 32)
            assert ports["b"][c + g, 32 * c : 32 * c + 32].tolist() == fields["b"][c, some].tolist()
            assert ports["w_scale"][c + g, c] == fields["w_scale"][c, g]


def test_nothing_enters_in_idle_edges() -> None:
    assert not any(values.any() for values in idle(2, 2, 3, "parallel").values())
    assert "groups" in idle(1, 1, 1, "parallel") and "groups" not in idle(1, 1, 1, "by_slot")
