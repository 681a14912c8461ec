"""DiffKV's memory manager, 87 operations on a pool of 137 pages and the example of [leankv Fig. 5], state by state.

There a step first takes pages and then learns the lengths; here one call does both, so that the lengths of the
operation `set_kv_len` that follows are handed to it. Table cells are compared inside the runs.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from refemu.units.leankv import page_manager
from refemu.units.leankv.page_manager import compiled as page_manager_compiled

makes = pytest.mark.parametrize(
    "make", [page_manager.PageManager, page_manager_compiled.PageManager], ids=["unit", "compiled"]
)


class Replay:
    """A trace, and a manager that follows it."""

    def __init__(self, data: Mapping[str, np.ndarray], make: Any, max_len: int, extra: int) -> None:
        pages, slots, layers, heads, cells, t_high, t_low = data["cfg"].tolist()
        self.data, self.ops = data, data["ops"].tolist()
        self.manager = make(
            pages=pages,
            layers=layers,
            heads=heads,
            high_tokens=t_high,
            low_tokens=t_low,
            max_len=max_len,
            slots=slots,
            reserve_low=1,
            table_extra=extra,
            lazy_pages=False,
        )
        assert self.manager.shape.length == cells
        self.names: dict[int, int] = {}  # slot -> sequence

    def at(self, step: int, name: str) -> Any:
        return self.data[f"{step:03d}_{name}"]

    def grown(self, step: int, sequences: list[int]) -> np.ndarray:
        """By how much the tokens grow until the operation `set_kv_len` that follows: (S, layers, heads, 2)."""
        after = self.at(step + (self.ops[step + 1] == "set_kv_len"), "kv_len")[self.at(step, "slots")]
        return np.asarray(after - self.manager.lengths(sequences))

    def run(self, step: int) -> Any:
        """One operation; what it moved."""
        op = self.ops[step]
        if op in ("init", "set_kv_len"):
            return None
        slots = self.at(step, "slots").tolist()
        if op == "allocate":
            names = [100 + step + i for i in range(len(slots))]
            moved = self.manager.prompt_allocate(dict(zip(names, self.at(step, "prompt_lens").tolist(), strict=True)))
            assert [self.manager.slot(name) for name in names] == slots
            self.names |= dict(zip(slots, names, strict=True))
            return moved
        sequences = [self.names[slot] for slot in slots]
        if op == "append":
            grown = self.grown(step, sequences)
            return self.manager.step_allocate(sequences, grown[..., 0], grown[..., 1])
        if op == "free":
            self.names = {slot: name for slot, name in self.names.items() if slot not in slots}
            return self.manager.finish(sequences)
        lengths = self.at(step, "kv_len")[slots]
        return self.manager.prompt_release(sequences, lengths[..., 0], lengths[..., 1])[0]

    def check(self, step: int, moved: Any) -> None:
        """Pointers, free pages, and the runs of every slot in use."""
        start, end, count = self.at(step, "ptrs").tolist()
        free = [self.at(step, "free_blocks")[(start + i) % self.manager.shape.pages] for i in range(count)]
        state = self.manager.snapshot()
        assert (state.list_start, state.list_end, state.free) == (start, end, count)
        assert self.manager.free_ids() == free
        refs = self.at(step, "block_refs")
        assert np.array_equal(refs == 0, np.isin(np.arange(len(refs)), free))
        for slot, name in self.names.items():
            used = self.manager.used([name])[0]
            assert np.array_equal(used, self.at(step, "block_num")[slot])
            cell = np.arange(self.manager.shape.length)
            runs = (cell < used[..., :1]) | (cell >= len(cell) - used[..., 1:])
            assert np.array_equal(
                np.where(runs, self.manager.cells([name])[0], -1),
                np.where(runs, self.at(step, "block_tables")[slot], -1),
            )
            waits = self.ops[step + 1 : step + 2] == ["free_prompt"]
            if self.ops[step] in ("free_prompt", "set_kv_len") and not waits:
                assert np.array_equal(self.manager.lengths([name])[0], self.at(step, "kv_len")[slot])
        if f"{step:03d}_plan" in self.data:  # the base of the sums comes before them
            assert np.array(moved.counts).tolist() == self.at(step, "plan").tolist()[1:]
            assert np.array(moved.prefix).tolist() == self.at(step, "prefix").tolist()[1:]


@makes
def test_trace(reference: Any, make: Any) -> None:
    """D-leankv-34 and D-leankv-35 as the published code has them; D-leankv-38: the order of all regions."""
    data = reference("leankv/memmgr_trace")
    replay = Replay(data, make, 40, 2)
    for step in range(len(replay.ops)):
        replay.check(step, replay.run(step))

    assert len(replay.ops) == 87 and replay.manager.free == 137
    state = replay.manager.snapshot()
    assert state.head == state.tail - 137 and state.head // 137 == 2  # two wraps
    assert state.step_pages == 2


@makes
def test_example_of_the_paper(reference: Any, make: Any) -> None:
    """[leankv Fig. 5]"""
    replay = Replay(reference("leankv/memmgr_fig5"), make, 12, 1)
    for step in range(4):
        replay.check(step, replay.run(step))

    assert replay.manager.used([101]).reshape(-1, 2).tolist() == [[1, 1], [2, 1]]
