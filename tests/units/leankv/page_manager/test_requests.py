"""Sizes and bookkeeping of a manager: cells of an entry, slots, order of entries."""

import pytest

from refemu.arith.checks import Refused
from refemu.formats.leankv.hetero_kv import K8V8
from refemu.formats.leankv.kv_page import UnifiedPage
from refemu.units.leankv.page_manager.requests import Requests, Shape, memory, up


@pytest.mark.parametrize(("max_len", "tokens", "extra", "cells"), [(12, None, 1, 7), (13, None, 0, 7), (40, 4, 2, 12)])
def test_cells_of_an_entry(max_len: int, tokens: int | None, extra: int, cells: int) -> None:
    """D-leankv-36."""
    assert Shape(max_len=max_len, table_tokens=tokens, table_extra=extra).length == cells


def test_entries_follow_slots_layers_heads() -> None:
    requests = Requests(Shape(layers=2, heads=3, slots=4))
    requests.admit({7: 1, 9: 2})

    assert requests.entries([9, 7]).tolist() == [[[6, 7, 8], [9, 10, 11]], [[0, 1, 2], [3, 4, 5]]]


def test_slots_leave_in_the_order_they_came_back() -> None:
    requests = Requests(Shape(slots=3))
    requests.admit({1: 1, 2: 1, 3: 1})
    requests.remove([2, 1])
    requests.admit({4: 1, 5: 1})

    assert [requests.table[name].slot for name in (3, 4, 5)] == [2, 1, 0]


def test_pages_are_rounded_up() -> None:
    assert [up(tokens, 4) for tokens in (0, 1, 4, 5)] == [0, 1, 1, 2]


def test_reserve_needs_two_precisions() -> None:
    assert (Shape(reserve_low=1).reserve, Shape(reserve_low=1, low_tokens=None).reserve) == (1, 0)


def test_ratios_have_one_denominator() -> None:
    """D-leankv-55: K8V8 without pruning is half of fp16 on codes."""
    found = memory(Shape(), 10, (10, 0), 1, UnifiedPage(64, K8V8), None)

    assert found.payload_ratio[0] * 2 == found.payload_ratio[1]
    assert found.token_ratio == (1440, 2560) and found.page_ratio == (6144, 2560)


def test_unknown_sequences_are_rejected() -> None:
    with pytest.raises(Refused, match="sequence 3 is unknown"):
        Requests(Shape()).require_known([3])
