"""The list of free pages against a queue, at every place of its ring; and its errors."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refemu.arith.checks import Refused, RefusedType
from refemu.units.leankv import free_page_list
from refemu.units.leankv.free_page_list import FreePageList, OutOfPages
from tests.oracles.leankv import memory

IMPLEMENTATIONS = [
    pytest.param(free_page_list.run, id="unit"),
    pytest.param(free_page_list.UNIT.run_compiled, id="compiled"),
]


def events(*given: tuple[int, list[int]], pages: int) -> tuple[list[int], list[int], list[list[int]]]:
    """Allocations as (count, []), recycles as (0, ids)."""
    op = [int(not count and bool(ids)) for count, ids in given]
    return (op, [count or len(ids) for count, ids in given], [[*ids, *[0] * (pages - len(ids))] for _, ids in given])


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_example_of_the_paper(run: Any) -> None:
    """[leankv Fig. 5] 32 pages: two heads take 0 to 3 and 4 to 7, then 2, 3 and 7 come back."""
    result = run(*events((8, []), (0, [2, 3, 7]), pages=32), pages=32)

    assert result.taken[0].tolist() == [*range(8), *[-1] * 24]
    assert result.ring[1][:3].tolist() == [2, 3, 7]
    assert list(zip(result.list_start.tolist(), result.list_end.tolist(), result.free.tolist(), strict=True)) == [
        (8, 31, 24),
        (8, 2, 27),
    ]
    assert (result.allocated, result.recycled, result.wraps) == (8, 3, 0)


@settings(deadline=None)
@given(pages=st.integers(1, 12), data=st.data())
def test_any_history_is_that_of_a_queue(pages: int, data: st.DataObject) -> None:
    """Ids that leave, the ring and its bounds; D-leankv-37: `free` distinguishes an empty list from a full one."""
    mine, queue, owned = FreePageList(pages), memory.FreeList(pages), list[int]()
    for _ in range(data.draw(st.integers(1, 20))):
        if data.draw(st.booleans()):
            count = data.draw(st.integers(0, mine.free))
            (ids,) = queue.allocate([count])
            assert mine.allocate(count) == ids
            owned += ids
        else:
            back = data.draw(st.permutations(owned))[: data.draw(st.integers(0, len(owned)))]
            mine.recycle(back)
            queue.recycle([back])
            owned = [page for page in owned if page not in back]
        assert (mine.free_ids(), mine.ring, (mine.start, mine.end)) == (list(queue.free), queue.ring, queue.bounds)
        assert sorted(mine.free_ids() + owned) == list(range(pages))
        assert (mine.free, mine.head, mine.tail) == (len(queue.free), queue.head, queue.tail)


@pytest.mark.parametrize("start", range(5))
def test_ids_do_not_depend_on_the_starting_place(start: int) -> None:
    turned, plain = FreePageList(5), FreePageList(5)
    turned.recycle(turned.allocate(start))
    names = turned.free_ids()
    for model, name in ((turned, names), (plain, list(range(5)))):
        assert model.allocate(3) == name[:3]
        model.recycle(name[1:3])
        assert model.allocate(4) == [name[3], name[4], name[1], name[2]]


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_head_and_tail_wrap_at_every_place(run: Any) -> None:
    pages = 3
    history = [event for page in range(pages) for event in ((1, []), (0, [page]))]
    result = run(*events(*history, pages=pages), pages=pages)

    assert result.head.tolist() == [1, 1, 2, 2, 3, 3] and result.tail.tolist() == [3, 4, 4, 5, 5, 6]
    assert result.wraps == 2
    assert result.list_start[-1] == 0 and result.list_end[-1] == 2 and result.ring[-1].tolist() == [0, 1, 2]


def test_numpy_integers_are_taken() -> None:
    model = FreePageList(4)

    assert model.allocate(np.int64(2)) == [0, 1]
    model.recycle(np.array([1, 0]))
    assert model.free_ids() == [2, 3, 1, 0]


BAD = [
    pytest.param(
        lambda m: m.allocate(10), OutOfPages, "count must be at most 9, the free pages, got 10", id="too many"
    ),
    pytest.param(lambda m: m.allocate(-1), Refused, "count must be at least 0, got -1", id="negative"),
    pytest.param(lambda m: m.allocate(1.0), RefusedType, "count must be an int, got 1.0", id="float count"),
    pytest.param(lambda m: m.allocate(True), RefusedType, "count must be an int, got True", id="bool"),
    pytest.param(lambda m: m.recycle([7]), Refused, "page 7 is already free", id="free"),
    pytest.param(lambda m: m.recycle([1, 0, 1]), Refused, "page 1 is already free", id="twice in one call"),
    pytest.param(lambda m: m.recycle([0, 14]), Refused, r"page must be in \[0, 14\), got 14", id="too large"),
    pytest.param(lambda m: m.recycle([-1]), Refused, r"page must be in \[0, 14\), got -1", id="negative id"),
    pytest.param(lambda m: m.recycle(["1"]), RefusedType, "id must be an int, got '1'", id="no id"),
]


@pytest.mark.parametrize(("call", "error", "message"), BAD)
def test_rejected_calls_change_nothing(call: Any, error: type[Exception], message: str) -> None:
    """D-leankv-53: too few pages are a ValueError before anything has changed."""
    model = FreePageList(14)
    model.allocate(5)
    before = model.snapshot()
    with pytest.raises(error, match=message):
        call(model)

    assert model.snapshot() == before
    assert issubclass(OutOfPages, ValueError)


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_run_rejects_double_frees_and_empty_lists(run: Any) -> None:
    with pytest.raises(Refused, match="page 1 is already free"):
        run(*events((2, []), (0, [1]), (0, [1]), pages=4), pages=4)
    with pytest.raises(OutOfPages, match="count must be at most 2, the free pages, got 3"):
        run(*events((2, []), (3, []), pages=4), pages=4)
    with pytest.raises(Refused, match="inputs of steps must be one sequence"):
        next(FreePageList(4).steps([[0]], 0, [0] * 4))


@pytest.mark.parametrize("pages", [0, 1 << 25])
def test_rejected_sizes(pages: int) -> None:
    with pytest.raises(Refused, match="free_page_list: pages must be in"):
        FreePageList(pages)


def test_free_page_list_repr() -> None:
    assert repr(FreePageList(14)) == "FreePageList(pages=14)"
