"""Steps in blocks of known classes equal calls of `step_allocate` of the readable manager."""

from typing import Any

import numpy as np
import pytest

from refemu.arith import prng
from refemu.arith.checks import Refused
from refemu.units.leankv import page_manager
from refemu.units.leankv.page_manager import TableOverflow
from refemu.units.leankv.page_manager.compiled import PageManager

SIZES: dict[str, Any] = {
    "pages": 200,
    "layers": 1,
    "heads": 3,
    "high_tokens": 2,
    "low_tokens": 5,
    "max_len": 150,
    "slots": 3,
    "lazy_pages": True,
}
PROMPTS = {7: 5, 4: 9}
REGISTERS = (
    *("requests", "slots", "ring", "head", "tail", "used", "tokens", "cells"),
    *("allocated", "recycled", "levels", "adds", "step_pages", "pruned"),
)


def managers(**more: Any) -> tuple[page_manager.PageManager, PageManager]:
    """The readable and the compiled one, with two compressed prompts."""
    pair = page_manager.PageManager(**SIZES | more), PageManager(**SIZES | more)
    for manager in pair:
        manager.prompt_allocate(PROMPTS)
        manager.prompt_release(list(PROMPTS), np.full((2, 1, 3), 3), np.array([[[2, 1, 0]], [[4, 3, 6]]]))
    return pair


def registers(manager: page_manager.PageManager) -> dict[str, Any]:
    """All but the outputs of the last call."""
    state = manager.snapshot()
    return {name: getattr(state, name) for name in REGISTERS}


def classes(seed: int, count: int = 2) -> np.ndarray:
    """Stored and high tokens of two heads by chance; the third stores all at the high precision."""
    words = prng.words(prng.stream("growth", seed), 0, 6 * count).reshape(count, 2, 3)
    words[..., 2] = ~np.uint64(0)
    return words


def deltas(blocks: np.ndarray, step: int) -> list[np.ndarray]:
    stored, high = ((blocks[:, part] >> np.uint64(step) & np.uint64(1)).astype(np.int64) for part in range(2))
    return [part.reshape(len(blocks), 1, 3) for part in (stored & high, stored & ~high)]


def test_blocks_of_steps_equal_step_allocate() -> None:
    """D-leankv-38: every register at some steps of two blocks, pages and tokens by slot, and a call in between."""
    readable, compiled = managers()
    held = np.zeros((3, 4), np.int64)
    steps = compiled.growing([4, 7])
    for block in range(2):
        pages, due = compiled.needed(steps)
        assert due is not None and due.tolist() == steps.slots.tolist()
        blocks = classes(block)
        compiled.foresee(due, blocks)
        for step in range(64 if block == 0 else 10):
            pages, due = compiled.needed(steps)
            before = readable.free
            readable.step_allocate([4, 7], *deltas(blocks, step))
            gained = compiled.grow(steps, held)
            assert (
                due is None and pages == before - readable.free == gained[2:].sum() and compiled.free == readable.free
            )
            if step in (0, 5, 63):
                assert registers(compiled) == registers(readable), step
                assert registers(compiled.fork()) == registers(readable)
    for manager in (readable, compiled):
        manager.step_allocate([7], np.ones((1, 1, 3), np.int64), np.zeros((1, 1, 3), np.int64))
        manager.finish([4])
        manager.prompt_allocate({9: 3})
    assert registers(compiled) == registers(readable)
    due = compiled.needed(compiled.growing([7]))[1]
    assert due is not None and due.tolist() == [0]
    stored = readable.lengths([7]).reshape(-1, 2).sum(axis=0) - [9 + 3, 3]
    assert held[0, :2].tolist() == stored.tolist()


def test_full_table_stops_at_the_step_that_overflows() -> None:
    readable, compiled = managers(max_len=20)
    steps, blocks, held = compiled.growing([7, 4]), classes(3), np.zeros((3, 4), np.int64)
    compiled.foresee(steps.slots, blocks)
    for step in range(64):
        state = registers(readable)
        try:
            readable.step_allocate([7, 4], *deltas(blocks, step))
        except TableOverflow as error:
            with pytest.raises(TableOverflow, match=str(error)):
                compiled.grow(steps, held)
            assert registers(compiled) == state and 0 < step < 20
            return
        compiled.grow(steps, held)
    raise AssertionError("the table never overflows")


def test_low_token_without_low_precision_is_rejected() -> None:
    manager = PageManager(**SIZES | {"low_tokens": None})
    manager.prompt_allocate({1: 2})
    manager.prompt_release([1], np.full((1, 1, 3), 2), np.zeros((1, 1, 3), np.int64))
    before, blocks = registers(manager), np.zeros((1, 2, 3), np.uint64)
    blocks[0, 0, 1] = 1 << 63
    with pytest.raises(Refused, match="low without a low precision"):
        manager.foresee(manager.growing([1]).slots, blocks)
    assert registers(manager) == before
