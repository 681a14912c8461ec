"""The memory manager under any interleaving of calls, and under many of them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

from refemu.arith import prng
from refemu.testing.machines import PageManagerMachine
from refemu.units.leankv import page_manager
from refemu.units.leankv.free_page_list import FreePageList
from refemu.units.leankv.page_manager import Shape
from refemu.units.leankv.page_manager import compiled as page_manager_compiled
from tests.oracles.leankv import memory


class CompiledForm(PageManagerMachine):
    """The compiled manager against the readable one."""


class Readable(PageManagerMachine):
    """The readable manager against itself, which leaves the invariants."""

    def make(self, shape: Shape) -> page_manager.PageManager:
        return page_manager.PageManager(**vars(shape))


few = settings(deadline=None, max_examples=40, stateful_step_count=25)
TestCompiledForm = CompiledForm.TestCase
TestCompiledForm.settings = few
TestReadable = Readable.TestCase
TestReadable.settings = settings(few, max_examples=10)


SIZES: dict[str, Any] = {
    "pages": 60,
    "layers": 2,
    "heads": 2,
    "high_tokens": 2,
    "low_tokens": 4,
    "max_len": 12,
    "slots": 3,
}


class Oracle:
    """The oracle's manager with the same calls."""

    def __init__(self) -> None:
        self.manager = memory.Manager(60, 2, 2, 2, 4, 12, slots=3)

    def heads(self, sequences: Sequence[int], high: np.ndarray, low: np.ndarray) -> dict[memory.Head, tuple[int, int]]:
        pairs = zip(high.ravel().tolist(), low.ravel().tolist(), strict=True)
        return dict(zip(self.manager.all_heads(sequences), pairs, strict=True))


def history(manager: page_manager.PageManager, operations: int, seed: int, watch: Oracle | None = None) -> int:
    """Make `operations` calls chosen by random words, also invalid ones; return the number of valid calls."""
    done = 0
    for count, word in enumerate(prng.words(seed, 0, operations).tolist()):
        done += one_call(manager, word, watch)
        owned = int(manager._used.sum()) if isinstance(manager, page_manager_compiled.PageManager) else manager.held
        assert owned + manager.free == manager.shape.pages
        if count % 500 == 0 or watch:
            everything(manager, watch)
    return done


def one_call(manager: page_manager.PageManager, word: int, watch: Oracle | None) -> bool:
    """One call of which every part comes from `word`; whether it was admitted."""
    table, shape = manager.requests.table, manager.shape
    bits = np.right_shift(np.uint64(word), np.arange(24, 24 + shape.layers * shape.heads, dtype=np.uint64))
    grow = (bits & np.uint64(3)).astype(np.int64).reshape(1, shape.layers, shape.heads)
    name, kind = word % 5, (word >> 8) % 16
    try:
        if name not in table:
            manager.prompt_allocate({name: 1 + (word >> 12) % shape.max_len})
            if watch:
                watch.manager.prompt_allocate({name: 1 + (word >> 12) % shape.max_len})
        elif not table[name].running:
            high = grow % (table[name].prompt + 1)
            low = np.minimum(grow[..., ::-1], table[name].prompt - high)
            manager.prompt_release([name], high, low)
            if watch:
                watch.manager.prompt_release(watch.heads([name], high, low))
        elif kind:
            high, low = (grow == 1).astype(np.int64), (grow == 2).astype(np.int64)
            manager.step_allocate([name], high, low)
            if watch:
                watch.manager.step_allocate(watch.heads([name], high, low))
        else:
            manager.finish([name])
            if watch:
                watch.manager.finish([name])
    except ValueError:
        return False
    return True


def everything(manager: page_manager.PageManager, watch: Oracle | None) -> None:
    """All pages once, in the free list or in one run; and as the oracle has them."""
    names = list(manager.requests.table)
    cells, used = manager.cells(names).reshape(-1, manager.shape.length), manager.used(names).reshape(-1, 2)
    runs = [[*row[:high], *row[::-1][:low]] for row, (high, low) in zip(cells.tolist(), used.tolist(), strict=True)]
    assert sorted([page for run in runs for page in run] + manager.free_ids()) == list(range(manager.shape.pages))
    if watch:
        held = [watch.manager.pages[head] for head in watch.manager.all_heads(names)]
        assert runs == [one.high + one.low for one in held]
        assert manager.free_ids() == list(watch.manager.list.free)


@pytest.mark.parametrize(
    "make", [page_manager.PageManager, page_manager_compiled.PageManager], ids=["unit", "compiled"]
)
def test_histories_are_those_of_the_oracle(make: type[page_manager.PageManager]) -> None:
    """D-leankv-38: page by page, in one order of sequences, layers, heads, sections."""
    manager = make(**SIZES)

    assert history(manager, 1000, 3, Oracle()) > 400
    assert manager.totals["step_pages"] == 1


def churn(operations: int) -> None:
    """That many calls of the manager; then all finish, and the list is whole."""
    manager = page_manager_compiled.PageManager(**{**SIZES, "slots": 4, "pages": 48})
    done = history(manager, operations, 7)
    manager.finish(list(manager.requests.table))

    assert done > operations // 3
    assert sorted(manager.free_ids()) == list(range(48)) and manager.held == 0
    first, last = manager._ends.tolist()
    assert last - first == 48 and first > 10 * 48


def test_ten_thousand_calls_keep_all_pages() -> None:
    churn(10_000)


@pytest.mark.slow
def test_a_million_calls_keep_all_pages() -> None:
    churn(1_000_000)


def list_history(operations: int) -> None:
    """That many allocations and recycles of a few pages each."""
    pages, owned = FreePageList(37), list[int]()
    for word in prng.words(5, 0, operations).tolist():
        count = (word >> 8) % 4
        if word & 1 and count <= pages.free:
            owned += pages.allocate(count)
        else:
            back, owned = owned[:count], owned[count:]
            pages.recycle(back)
        assert pages.free + len(owned) == 37
    assert sorted(pages.free_ids() + owned) == list(range(37))
    assert pages.snapshot().wraps > operations // 100


def test_a_hundred_thousand_operations_of_the_list() -> None:
    list_history(100_000)


@pytest.mark.slow
def test_a_million_operations_of_the_list() -> None:
    list_history(1_000_000)
