"""The clocked array of 16-input units: edges of a search, and pops of one tree."""

import numpy as np
import pytest

from refemu.arith.checks import Refused
from refemu.models.schemes.kllm.machine.options import KllmMachine
from refemu.models.schemes.kllm.machine.works import searched
from refemu.units.kllm.orizuru import pops
from refemu.units.kllm.orizuru.clocked_array import ClockedArray, Edge, Settling
from tests.units.kllm.orizuru.test_array import ties


def search_edges(x: np.ndarray, k: int, settling: Settling) -> list[Edge]:
    """Every edge of the search of one row."""
    return list(ClockedArray(len(x), k, settling).edges(x))


@pytest.mark.parametrize(("settling", "edges"), [("level", 12 + 21 * 13), ("unit", 3 + 21 * 4)])
def test_edges_of_a_search(settling: Settling, edges: int) -> None:
    """D-kllm-70: 285 and 87 edges for 4,096 values and 21 pops, as the cost has them."""
    x = (((np.arange(4096) * 1117) % 2003 - 1001) / 4).astype(np.float16)
    events = search_edges(x, 21, settling)
    single = pops(x, 21)

    assert len(events) == edges == searched(4096, 21, KllmMachine(search=settling)).cycles
    assert events[-1].max_index == tuple(single.max_index.tolist())
    assert events[-1].min_index == tuple(single.min_index.tolist())


@pytest.mark.parametrize("settling", ["level", "unit"])
@pytest.mark.parametrize(("n", "k"), [(1, 1), (2, 2), (5, 5), (16, 16), (17, 17), (40, 9), (257, 6), (300, 4)])
def test_pops_are_those_of_one_tree(n: int, k: int, settling: Settling) -> None:
    """Ties, zeros of both signs, infinities, drained trees, padding."""
    x = ties(n, n)
    events, single = search_edges(x, k, settling), pops(x, k)

    assert events[-1].max_index == tuple(single.max_index.tolist())
    assert events[-1].min_index == tuple(single.min_index.tolist())
    assert len(events) == searched(n, k, KllmMachine(search=settling)).cycles


def test_a_unit_settles_in_an_edge() -> None:
    """Two stages: the lower one, then the root's; a pop between repairs."""
    events = search_edges(ties(40, 1), 2, "unit")

    order = [("set", 1), ("set", 0), ("pop", -1), ("repair", 1), ("repair", 0), ("pop", -1), ("repair", 1)]
    assert [(edge.event, edge.stage) for edge in events[:7]] == order


def test_invalid_settling_is_rejected() -> None:
    with pytest.raises(Refused, match="settling"):
        ClockedArray(8, 1, "tree")  # type: ignore[arg-type]
    with pytest.raises(Refused, match="x must not be NaN"):
        list(ClockedArray(2, 1).edges(np.array([np.nan, 1], np.float16)))
