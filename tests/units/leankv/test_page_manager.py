"""The memory manager: the paper's example cell by cell, its promises, its figures, and its errors."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refemu.arith.checks import Refused, RefusedType
from refemu.formats.leankv.hetero_kv import K4V2, K8V4
from refemu.formats.leankv.kv_page import UnifiedPage
from refemu.units.leankv import page_manager
from refemu.units.leankv.page_manager import OutOfPages, TableOverflow
from refemu.units.leankv.page_manager import compiled as page_manager_compiled
from refemu.units.leankv.page_manager.requests import memory
from tests.oracles.leankv import memory as oracle

MAKES = [page_manager.PageManager, page_manager_compiled.PageManager]
makes = pytest.mark.parametrize("make", MAKES, ids=["unit", "compiled"])
FIG5: dict[str, Any] = {"pages": 32, "layers": 1, "heads": 2, "high_tokens": 2, "low_tokens": 4, "max_len": 12}


def heads(*values: int) -> np.ndarray:
    """Of one sequence and one layer."""
    return np.array(values).reshape(1, 1, -1)


def plain(moved: Any) -> tuple[list[int], list[int], list[int]]:
    counts, prefix, ids = (np.array(x, np.int64).tolist() for x in (moved.counts, moved.prefix, moved.ids))
    return counts, prefix, ids


@makes
@pytest.mark.parametrize(
    ("reserve", "first", "surplus", "regions", "back", "end"),
    [(0, 4, [2, 1], [2, 3], [2, 3, 7], 2), (1, 5, [3, 2], [3, 5], [2, 3, 4, 8, 9], 4)],
    ids=["paper", "diffkv"],
)
def test_example_of_the_paper(
    make: Any, reserve: int, first: int, surplus: list[int], regions: list[int], back: list[int], end: int
) -> None:
    """[leankv §5.3, Fig. 5] four pages a head, 1 + 1 and 2 + 1 are used; D-leankv-35: with reserve_low five."""
    manager = make(**FIG5, reserve_low=reserve)
    assert plain(manager.prompt_allocate({0: 8})) == ([first] * 2, [first, 2 * first], list(range(2 * first)))
    went, came = manager.prompt_release([0], heads(2, 4), heads(4, 3))

    assert plain(went) == (surplus, regions, back)
    assert plain(came) == ([], [], [])
    cells, used = manager.cells([0])[0, 0], manager.used([0])[0, 0].tolist()
    assert used == [[1, 1], [2, 1]]
    assert (cells[0, [0, 6]].tolist(), cells[1, [0, 1, 6]].tolist()) == ([0, 1], [first, first + 1, first + 2])
    state = manager.snapshot()
    assert (state.list_start, state.list_end, state.free, state.ring[: len(back)]) == (2 * first, end, 27, tuple(back))
    assert (state.pruned, state.tokens) == (8 - 6 + 8 - 7, (2, 4, 4, 3, 0, 0, 0, 0))


@makes
def test_finishing_gives_every_page_back(make: Any) -> None:
    """[leankv §5.3] two requests in one call: high pages from the left, then low pages from the right, head by head."""
    manager = make(**FIG5)
    manager.prompt_allocate({3: 8, 5: 4})
    manager.prompt_release([3, 5], np.array([[[2, 4]], [[3, 4]]]), np.array([[[4, 3]], [[1, 0]]]))
    table = manager.cells([5, 3])[:, 0].tolist()
    counts, prefix, ids = plain(manager.finish([5, 3]))

    assert counts == [2, 1, 2, 0, 1, 1, 2, 1]
    assert ids == [
        *table[0][0][:2],
        table[0][0][-1],
        *table[0][1][:2],
        table[1][0][0],
        table[1][0][-1],
        *table[1][1][:2],
        table[1][1][-1],
    ]
    assert prefix[-1] - prefix[0] == 8 and manager.free == 32
    assert sorted(manager.free_ids()) == list(range(32))


@makes
@given(data=st.data())
@settings(deadline=None, max_examples=30)
def test_step_takes_one_page_per_head_at_most(make: Any, data: st.DataObject) -> None:
    """[leankv §5.3] D-leankv-34: lazily a page where a full section grows; eagerly one for every full section."""
    lazy = data.draw(st.booleans())
    manager, watch = (
        make(**{**FIG5, "pages": 200, "max_len": 60}, lazy_pages=lazy),
        oracle.Manager(200, 1, 2, 2, 4, 60, extra=1),
    )
    manager.prompt_allocate({0: 4})
    watch.prompt_allocate({0: 4})
    kept = data.draw(st.lists(st.sampled_from([(4, 0), (2, 2), (0, 4), (1, 0)]), min_size=2, max_size=2))
    manager.prompt_release([0], *(heads(*column) for column in zip(*kept, strict=True)))
    watch.prompt_release({(0, 0, h): kept[h] for h in (0, 1)})
    for _ in range(data.draw(st.integers(1, 12))):
        grow = data.draw(st.lists(st.sampled_from([(0, 0), (1, 0), (0, 1)]), min_size=2, max_size=2))
        counts, _, ids = plain(manager.step_allocate([0], *(heads(*column) for column in zip(*grow, strict=True))))
        expected = watch.step_allocate({(0, 0, h): grow[h] for h in (0, 1)}, lazy)
        assert [counts[0] + counts[1], counts[2] + counts[3]] == list(expected.values())
        assert all(count <= 1 for count in counts) and len(ids) == counts[0] + counts[1] + counts[2] + counts[3]
        assert not lazy or max(expected.values()) <= 1
    for h in (0, 1):
        cells = watch.cells((0, 0, h))
        assert {c: p for c, p in enumerate(manager.cells([0])[0, 0, h].tolist()) if c in cells} == cells
        assert manager.lengths([0])[0, 0, h].tolist() == list(watch.tokens[0, 0, h])
    assert manager.totals["step_pages"] <= (1 if lazy else 2)


@makes
def test_eager_heads_without_low_tokens_get_low_page(make: Any) -> None:
    """D-leankv-34: the published code looks before it decides, so the first step takes a page that may stay empty."""
    manager = make(**FIG5, lazy_pages=False)
    manager.prompt_allocate({0: 4})
    manager.prompt_release([0], heads(4, 3), heads(0, 0))

    assert plain(manager.step_allocate([0], heads(0, 1), heads(0, 0)))[0] == [1, 1, 0, 1]
    assert manager.used([0])[0, 0].tolist() == [[3, 1], [2, 1]]
    assert manager.totals["step_pages"] == 2


@makes
def test_prompt_may_lack_page_at_its_release(make: Any) -> None:
    """D-leankv-35: N = TH with one low token needs two pages of the one that Fig. 5 allocates."""
    manager = make(**FIG5)
    manager.prompt_allocate({0: 2})
    went, came = manager.prompt_release([0], heads(1, 2), heads(1, 0))

    assert plain(came) == ([1, 0], [3, 3], [2])
    assert plain(went) == ([0, 0], [0, 0], [])
    assert manager.cells([0])[0, 0, 0].tolist() == [0, 2, -1, -1, -1, -1, 2] and manager.totals["shortfall"] == 1


@makes
def test_heads_are_served_in_order(make: Any) -> None:
    """D-leankv-38: sequences as the call names them, layers, heads, high before low."""
    manager = make(**{**FIG5, "layers": 2, "slots": 2})
    manager.prompt_allocate({9: 2, 4: 4})
    assert manager.cells([9, 4])[..., 0].tolist() == [[[0, 1], [2, 3]], [[4, 6], [8, 10]]]
    both = np.ones((2, 2, 2), np.int64)
    manager.prompt_release([4, 9], both * np.array([4, 2]).reshape(2, 1, 1), 0 * both)
    counts, prefix, ids = plain(manager.step_allocate([4, 9], both, 0 * both))

    assert counts == [1, 0] * 8 and prefix == [12 + (i + 2) // 2 for i in range(16)]
    assert manager.cells([4])[0, :, :, 2].ravel().tolist() == ids[:4] == [12, 13, 14, 15]


@makes
def test_slots_are_used_again_in_turn(make: Any) -> None:
    manager = make(**FIG5, slots=3)
    manager.prompt_allocate({10: 1, 11: 1, 12: 1})
    manager.finish([12, 10])
    manager.prompt_allocate({13: 1})
    manager.prompt_allocate({14: 1})

    assert [manager.slot(name) for name in (11, 13, 14)] == [1, 2, 0]


def test_prefix_sums_are_counted() -> None:
    """Two heads: one level and one addition for the prompt and for its release; four counts in a step."""
    for make in MAKES:
        manager = make(**FIG5)
        manager.prompt_allocate({0: 8})
        manager.prompt_release([0], heads(2, 4), heads(4, 3))
        manager.step_allocate([0], heads(1, 0), heads(0, 1))
        state = manager.snapshot()
        sums = [oracle.prefix([0] * m) for m in (2, 2, 4)]

        assert (state.levels, state.adds) == (1 + 1 + 2, 1 + 1 + 5)
        assert (state.levels, state.adds) == tuple(sum(column) for column in zip(*(s[1:] for s in sums), strict=True))


def test_figures_of_the_paper() -> None:
    """[leankv §5.2] tables of 128 requests, 32 layers, 32 heads: 64 MB with max_len / TH cells, 64.5 with one more.

    D-leankv-36: diffkv counts 24 tokens of the shortest page and two cells more, 173 cells: 86.5 MiB. The cache of one
    request of 4,096 tokens in fp16 is 2 GB.
    """
    page = UnifiedPage(128, K8V4)
    for extra, tokens, cells, mib in ((0, None, 128, 64), (1, None, 129, 64.5), (2, 24, 173, 86.5)):
        shape = page_manager.Shape(
            pages=1,
            layers=32,
            heads=32,
            high_tokens=page.tokens,
            low_tokens=60,
            max_len=4096,
            slots=128,
            table_extra=extra,
            table_tokens=tokens,
        )
        found = memory(shape, 32 * 32 * 4096, (0, 0), 0, page, UnifiedPage(128, K4V2))
        assert (shape.length, found.table_bytes / 2**20) == (cells, mib)
        assert (found.length_bytes, found.count_bytes) == (2**20, 2**20)
        assert found.fp16_bytes == 2**31


@makes
def test_memory_of_what_is_stored(make: Any) -> None:
    """D-leankv-55: of codes, of tokens with their metadata, of whole pages, against fp16 for all tokens seen."""
    manager = make(pages=64, layers=2, heads=1, high_tokens=54, low_tokens=96, max_len=200, slots=2)
    manager.prompt_allocate({0: 150})
    manager.prompt_release([0], np.full((1, 2, 1), 100), np.full((1, 2, 1), 20))
    manager.step_allocate([0], np.array([[[1], [0]]]), np.array([[[0], [0]]]))
    found = manager.memory(UnifiedPage(64, K8V4), UnifiedPage(64, K4V2))

    assert (found.seen_tokens, found.high_tokens, found.low_tokens, found.pages) == (302, 201, 40, 6)
    assert found.payload_bits == 8 * (201 * 96 + 40 * 48)
    assert found.payload_ratio == (found.payload_bits, 8 * 302 * 256)
    assert found.token_ratio == (201 * 112 + 40 * 64, 302 * 256)
    assert found.page_ratio == (6 * 6144, 302 * 256)
    assert manager.totals["pruned"] == 302 - 241


BAD = [
    pytest.param(
        "prompt_allocate", [{9: 12, 8: 12}], OutOfPages, "pages must be at most 15, the free ones, got 24", id="pages"
    ),
    pytest.param("prompt_allocate", [{1: 2}], Refused, "sequence 1 is admitted already", id="twice"),
    pytest.param("prompt_allocate", [{9: 0}], Refused, "sequence 9 must have 1 to 12 tokens, got 0", id="empty"),
    pytest.param("prompt_allocate", [{9: 13}], Refused, "sequence 9 must have 1 to 12 tokens, got 13", id="long"),
    pytest.param(
        "prompt_allocate",
        [{7: 1, 8: 1, 9: 1}],
        Refused,
        "sequences must be at most 2, the free slots, got 3",
        id="slots",
    ),
    pytest.param("prompt_allocate", [{-1: 1}], Refused, "sequence must be in", id="negative name"),
    pytest.param("prompt_allocate", [{9: 1.5}], RefusedType, "prompt of sequence 9 must be an int", id="float"),
    pytest.param("prompt_release", [[9], heads(1, 1), heads(0, 0)], Refused, "sequence 9 is unknown", id="unknown"),
    pytest.param(
        "prompt_release",
        [[1], heads(1, 1), heads(0, 0)],
        Refused,
        "sequence 1 is compressed already",
        id="released twice",
    ),
    pytest.param(
        "prompt_release",
        [[2], heads(4, 3), heads(0, 2)],
        Refused,
        "head 1 of layer 0 of sequence 2 keeps 3 and 2 of 4 tokens",
        id="more than the prompt",
    ),
    pytest.param("prompt_release", [[2], heads(4, -1), heads(0, 2)], Refused, "keeps -1 and 2", id="negative"),
    pytest.param(
        "prompt_release",
        [[2], np.ones((1, 2, 1), np.int64), heads(0, 0)],
        RefusedType,
        r"high must be integers of shape \(1, 1, 2\)",
        id="shape",
    ),
    pytest.param("prompt_release", [[2], heads(1, 1) * 1.0, heads(0, 0)], RefusedType, "got float64", id="dtype"),
    pytest.param(
        "step_allocate",
        [[2], heads(1, 1), heads(0, 0)],
        Refused,
        "sequence 2 is not compressed yet",
        id="step too early",
    ),
    pytest.param(
        "step_allocate",
        [[1], heads(1, 1), heads(0, 1)],
        Refused,
        "must grow by at most one token in a step, got 1 and 1",
        id="two tokens",
    ),
    pytest.param(
        "step_allocate", [[1, 1], heads(1, 1), heads(0, 0)], Refused, "sequence 1 is named twice", id="named twice"
    ),
    pytest.param(
        "step_allocate",
        [[1], heads(1, 0), heads(0, 0)],
        TableOverflow,
        "head 0 of layer 0 needs 8 cells of 7",
        id="table",
    ),
    pytest.param("finish", [[1, 9]], Refused, "sequence 9 is unknown", id="finish unknown"),
    pytest.param("finish", [[2, 2]], Refused, "sequence 2 is named twice", id="finish twice"),
]


@makes
@pytest.mark.parametrize(("method", "arguments", "error", "message"), BAD)
def test_rejected_calls_change_nothing(
    make: Any, method: str, arguments: Any, error: type[Exception], message: str
) -> None:
    """D-leankv-53: too few pages, or too few cells, before anything has changed."""
    manager = make(**FIG5, slots=4)
    manager.prompt_allocate({1: 12, 2: 4})
    manager.prompt_release([1], heads(11, 12), heads(1, 0))
    manager.step_allocate([1], heads(1, 0), heads(0, 0))
    before = manager.snapshot()
    with pytest.raises(error, match=message):
        getattr(manager, method)(*arguments)

    assert manager.snapshot() == before
    assert issubclass(error, ValueError | TypeError)


@makes
def test_steps_need_pages(make: Any) -> None:
    manager = make(**{**FIG5, "pages": 4}, slots=1)
    manager.prompt_allocate({1: 4})
    manager.prompt_release([1], heads(4, 4), heads(0, 0))
    before = manager.snapshot()
    with pytest.raises(OutOfPages, match="pages must be at most 0, the free ones, got 2"):
        manager.step_allocate([1], heads(1, 1), heads(0, 0))

    assert manager.snapshot() == before
    assert plain(manager.step_allocate([1], heads(0, 0), heads(0, 0)))[2] == []


@makes
def test_one_precision_has_no_low_pages(make: Any) -> None:
    """[leankv Fig. 4] pruning alone: low_tokens None takes no reserve and rejects low tokens."""
    manager = make(**{**FIG5, "low_tokens": None}, reserve_low=1, lazy_pages=False)
    assert plain(manager.prompt_allocate({1: 4}))[0] == [2, 2]
    with pytest.raises(Refused, match="head 1 of layer 0 of sequence 1 has 1 low tokens without a low precision"):
        manager.prompt_release([1], heads(2, 2), heads(0, 1))
    manager.prompt_release([1], heads(4, 3), heads(0, 0))

    assert plain(manager.step_allocate([1], heads(1, 0), heads(0, 0)))[0] == [1, 0, 0, 0]


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        pytest.param({"high_tokens": 4, "low_tokens": 2}, Refused, "got 2 and 4", id="low page smaller"),
        pytest.param({"reserve_low": 2}, Refused, r"reserve_low must be in \[0, 1\], got 2", id="reserve"),
        pytest.param({"pages": 0}, Refused, "pages must be in", id="no page"),
        pytest.param({"lazy_pages": 1}, RefusedType, "lazy_pages must be a bool, got 1", id="flag"),
    ],
)
def test_rejected_sizes(parameters: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        page_manager.PageManager(**parameters)


def test_names_on_ports_must_differ() -> None:
    with pytest.raises(Refused, match=r"sequences must differ, got \[1, 1\]"):
        page_manager.PageManager().step(0, 2, [1, 1], [1, 1], [0] * 4, [0] * 4)


def test_unit_and_compiled_form_count_alike() -> None:
    states = []
    for make in MAKES:
        manager = make(**FIG5)
        manager.prompt_allocate({1: 5})
        manager.prompt_release([1], heads(2, 1), heads(2, 4))
        for _ in range(4):
            manager.step_allocate([1], heads(1, 0), heads(0, 1))
        states.append(manager.snapshot())

    assert states[0] == states[1]


def test_page_manager_repr() -> None:
    text = repr(page_manager.PageManager(**FIG5))

    assert text.startswith("PageManager(pages=32, layers=1, heads=2, high_tokens=2, low_tokens=4, max_len=12, slots=2")


def test_drawing_has_free_pages_and_table() -> None:
    """[leankv Fig. 5]"""
    manager = page_manager.PageManager(pages=6, slots=1, max_len=4)
    manager.prompt_allocate({7: 4})

    assert manager.draw(manager.state).splitlines() == [
        "free     4 5",
        "entry 0   0  1  .  tokens 4 high, 0 low",
        "entry 1   2  3  .  tokens 4 high, 0 low",
    ]
    fresh = page_manager.PageManager()
    assert fresh.draw(fresh.state).splitlines()[0].endswith(" 14 15 ... 32 pages")
