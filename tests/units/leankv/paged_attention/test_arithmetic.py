"""Parameters of paged attention: orders, places of accumulators, sizes of partitions, errors."""

from typing import Any

import pytest

from refemu.arith.checks import Refused, RefusedType
from refemu.arith.orders import Chunks, Halves, Lanes, Sequential, Tree
from refemu.formats.leankv.hetero_kv import K4V2, K8V4, K8V8
from refemu.formats.leankv.kv_page import UnifiedPage
from refemu.units.leankv.paged_attention.arithmetic import (
    DIFFKV,
    EPSILON,
    PAPER,
    Arithmetic,
    Pages,
    threads,
)

HIGH, LOW = UnifiedPage(128, K8V4), UnifiedPage(128, K4V2)


def test_presets() -> None:
    """D-leankv-41, D-leankv-42, D-leankv-43: equal in both. D-leankv-45, D-leankv-46, D-leankv-17: not."""
    assert Arithmetic("kernel", True, "div", 0.0, False, 0, False, False) == PAPER
    assert Arithmetic("kernel", True, "recip_mul", EPSILON, False, 4800, False, True) == DIFFKV
    assert EPSILON.hex() == "0x1.0c6f7a0000000p-20"  # the float32 nearest to 1e-6


def test_orders() -> None:
    """D-leankv-41: four threads of a key and a tree; 256 lanes; or one sum."""
    pages = Pages(HIGH, LOW)

    assert pages.key_order(PAPER) == Lanes(4, "blocked", Tree(4), "product")
    assert (pages.total_order(PAPER), pages.total_order(Arithmetic(order="sequential"))) == (threads(256), Sequential())
    assert threads(256) == Lanes(256, "strided", Chunks(32, Halves(32), Halves(8)))
    assert threads(8) == Lanes(8, "strided", Chunks(8, Halves(8), Halves(1)))


def test_accumulators_are_warps_times_rows() -> None:
    """[leankv §6.2] eight warps take pages in turn; of a page two slots of every eight meet in an accumulator."""
    pages = Pages(HIGH, LOW)
    places = [[pages.place(page, slot, PAPER) for slot in range(16)] for page in range(17)]

    assert pages.accumulators(PAPER) == 32
    assert places[0] == [0, 0, 1, 1, 2, 2, 3, 3] * 2
    assert places[8] == places[16] == places[0] and places[9] == [4 + place for place in places[0]]
    assert {place for row in places for place in row} == set(range(32))
    assert pages.place(5, 3, Arithmetic(order="sequential")) == 0


def test_a_block_of_other_threads() -> None:
    """D-leankv-56: two warps with two accumulators each, and one slot of a page after the other."""
    pages, narrow = Pages(HIGH, LOW), Arithmetic(warps=2, key_threads=2, value_rows=2, value_slots=1)

    assert pages.key_order(narrow) == Lanes(2, "blocked", Tree(2), "product")
    assert pages.accumulators(narrow) == 4
    assert [[pages.place(page, slot, narrow) for slot in range(4)] for page in range(3)] == [
        [0, 1, 0, 1],
        [2, 3, 2, 3],
        [0, 1, 0, 1],
    ]


@pytest.mark.parametrize(("low", "cells", "most"), [(LOW, 3, 2), (LOW, 98, 3), (None, 160, 1), (None, 161, 2)])
def test_most_partitions_of_a_head(low: UnifiedPage | None, cells: int, most: int) -> None:
    """180 high or 96 low pages make a partition, never both; 160 pages without a low precision."""
    pages = Pages(HIGH, low)

    assert pages.most_chunks(DIFFKV, cells) == most
    assert pages.most_chunks(PAPER, cells) == 1


def test_partitions_are_whole_pages_of_both_sections() -> None:
    """D-leankv-46."""
    assert Pages(HIGH, LOW).chunk(DIFFKV) == 5760 == 3 * 32 * 60
    assert Pages(HIGH, LOW).chunk(PAPER) == 0


BAD = [
    pytest.param({"order": "tree"}, Refused, "order must be one of 'kernel', 'sequential'", id="order"),
    pytest.param({"fma": 1}, RefusedType, "fma must be a bool, got 1", id="fma"),
    pytest.param({"softmax_eps": 1e-6}, Refused, "softmax_eps must be a float32 value", id="no float32"),
    pytest.param({"softmax_eps": -0.5}, Refused, r"in \[0, 1\), got -0.5", id="negative"),
    pytest.param({"softmax_div": "fast"}, Refused, "softmax_div must be one of", id="division"),
    pytest.param({"partition_tokens": -1}, Refused, "partition_tokens must be in", id="partition"),
    pytest.param({"warps": 3}, Refused, "warps must be a power of two, got 3", id="warps"),
    pytest.param({"value_rows": 6}, Refused, "value_rows must be a power of two or 0, got 6", id="rows"),
    pytest.param({"sum_threads": 0}, Refused, r"sum_threads must be in \[1, 1024\], got 0", id="threads"),
    pytest.param({"value_slots": -1}, Refused, "value_slots must be in", id="slots"),
    pytest.param({"key_threads": 2.0}, RefusedType, "key_threads must be an int, got 2.0", id="key threads"),
    pytest.param({"join": "pairs"}, Refused, "join must be one of 'tree', 'sequential'", id="join"),
    pytest.param(
        {"order": "sequential", "warps": 4}, Refused, "'sequential' has no block of threads, got warps=4", id="idle"
    ),
]


@pytest.mark.parametrize(("change", "error", "message"), BAD)
def test_rejected_parameters(change: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Arithmetic(**change)


@pytest.mark.parametrize(
    ("high", "low", "message"),
    [
        pytest.param(HIGH, UnifiedPage(64, K8V8), "one head_size, got 128 and 64", id="head size"),
        pytest.param(HIGH, UnifiedPage(128, K4V2, 3456), "one size, got 6784 and 3456", id="page size"),
        pytest.param(HIGH, UnifiedPage(128, K4V2, k_group=2), "one k_group, got 4 and 2", id="threads"),
    ],
)
def test_pages_of_one_pool_fit_each_other(high: UnifiedPage, low: UnifiedPage, message: str) -> None:
    with pytest.raises(Refused, match=message):
        Pages(high, low)


def test_accumulators_need_a_power_of_two() -> None:
    with pytest.raises(Refused, match="Vgroup must be a power of two up to 32, got 6"):
        Pages(UnifiedPage(96, K8V8, v_group=6))
    with pytest.raises(Refused, match="preset must be one of"):
        Pages(HIGH, LOW, "repo")


def test_arithmetic_repr() -> None:
    assert eval(repr(DIFFKV)) == DIFFKV
