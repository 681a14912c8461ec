"""Edges of a tile: skew, as many edges as the paper's array takes, and nothing that a line does not take."""

import numpy as np
import pytest

from refemu.units.olive.olive_systolic_clocked.product import idle, joined, tile


@pytest.mark.parametrize(("wide", "grid"), [(0, (4, 6)), (1, (2, 3))])
def test_lines_begin_an_edge_apart(wide: int, grid: tuple[int, int]) -> None:
    a, b = (np.arange(lines * 3).reshape(lines, 3) + 1 for lines in grid)
    edges = tile(a, b, (1, 2), 4, 6, wide)

    assert len(edges["wide"]) == 6 + sum(grid) - 2 + grid[0]
    assert edges["drain"].tolist() == [0] * (6 + sum(grid) - 2) + [1] * grid[0]
    for side, pairs in (("west", a), ("north", b)):
        for line, words in enumerate(pairs):
            at = np.flatnonzero(edges[f"{side}_valid"][:, line])
            assert at.tolist() == [line, line + 2, line + 4]
            assert edges[side][at, line].tolist() == words.tolist()
        assert not edges[f"{side}_valid"][:, len(pairs) :].any()


def test_edges_follow_each_other() -> None:
    both = joined(idle(2, 2, 4), idle(3, 2, 4, wide=1))

    assert both["wide"].tolist() == [0, 0, 1, 1, 1]
    assert both["north_valid"].shape == (5, 4)
