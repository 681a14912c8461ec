"""The units of one KV head, and the wires between them and the pool of pages. [leankv §6.1, Fig. 8]"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from refemu.units.leankv.generation_compressor import GenerationCompressor
from refemu.units.leankv.kv_compressor import APPEND_HIGH, DROP, REPLACE, KvCompressor
from refemu.units.leankv.paged_attention import CONSTANTS, Arithmetic, PagedAttention, Pages

Run = Sequence[int]  #: ids of the pages of a section, in their order
ATTENDING = tuple(field.name for field in fields(Arithmetic))  #: options of attention that layer_step takes


@dataclass(frozen=True)
class HeadState:
    """States of the units of one KV head."""

    compressor: Any
    writer: Any
    attention: Any


class Head:
    """One KV head: the compressor that decides, the compressor that writes, and attention.

    Pages are reached through the runs of its table entry, high ids and low ids.
    """

    def __init__(self, parameters: Mapping[str, Any], cells: int, slots: int) -> None:
        """Take the parameters of layer_step, the cells of a table entry and their capacity in tokens."""
        deciding = ("policy", "score_rule", "keep_percent", "score_queries", "include_self", "epoch")
        paging = ("head_size", "high", "low", "preset", *CONSTANTS)
        pages = {name: parameters[name] for name in paging}
        self.attention: PagedAttention = PagedAttention(
            **pages,
            **{name: parameters[name] for name in ("heads", *ATTENDING)},
            page_bytes=parameters["page_bytes"],
            cells=cells,
        )
        self.layouts: Pages = self.attention.layouts
        self.compressor: GenerationCompressor = GenerationCompressor(
            slots, **{name: parameters[name] for name in deciding}, low=parameters["low"] is not None
        )
        pages["low"] = pages["low"] or pages["high"]  # of a section that stays empty
        size = self.layouts.high.size
        self.writer: KvCompressor = KvCompressor(**pages, page_bytes=size, high_pages=cells, low_pages=cells)
        self.cells = cells

    @property
    def state(self) -> HeadState:
        """Registers of all units."""
        return HeadState(self.compressor.state, self.writer.state, self.attention.state)

    def restore(self, state: HeadState) -> None:
        """Restore the registers of all units."""
        self.compressor.restore(state.compressor)
        self.writer.restore(state.writer)
        self.attention.restore(state.attention)

    def decide(self, pool: np.ndarray, runs: tuple[Run, Run], stored: tuple[int, int], *others: Any) -> Any:
        """Decide by [leankv Algorithm 1] from the present pages; others: n, prompt, window, thresholds."""
        score, position = (self._padded(words) for words in self.scores(pool, runs, stored))
        state = self.compressor.step(score, position, *stored, *others)
        while self.compressor.busy:
            state = self.compressor.step()
        return state

    def scores(self, pool: np.ndarray, runs: tuple[Run, Run], stored: tuple[int, int]) -> tuple[list[int], list[int]]:
        """Scores and positions of the stored tokens, high slots, then low ones: float32 and int32 patterns."""
        scores, positions = list[int](), list[int]()
        for page, run, count in zip(self.layouts.sections, runs, stored, strict=True):
            for number, image in enumerate(run):
                used = max(min(page.tokens, count - number * page.tokens), 0)
                scores += page.score(pool[image])[:used].view(np.uint32).tolist()
                positions += page.position(pool[image])[:used].tolist()
        return scores, positions

    def _padded(self, words: Sequence[int]) -> Any:
        return (*words, *(0,) * (self.compressor.slots - len(words)))

    def write(self, pool: np.ndarray, runs: tuple[Run, Run], stored: tuple[int, int], op: int, **token: Any) -> Any:
        """Run the first event of kv_compressor's operation on the head's pages."""
        high, low = (self._section(pool, run) for run in runs)
        self.writer.state = replace(self.writer.state, high=high, low=low, n_high=stored[0], n_low=stored[1])
        return self.store(pool, runs, self.writer.step(op, **token))

    def write_on(self, pool: np.ndarray, runs: tuple[Run, Run]) -> Any:
        """Run the second event of the operation: write the new token after a move."""
        return self.store(pool, runs, self.writer.step())

    def _section(self, pool: np.ndarray, run: Run) -> tuple[int, ...]:
        """Words of the pages of a run, zero-padded."""
        words = pool[list(run)].ravel().tolist()
        return (*words, *(0,) * (self.cells * pool.shape[1] - len(words)))

    def store(self, pool: np.ndarray, runs: tuple[Run, Run], state: Any) -> Any:
        """Write the pages of the compressor back to the pool."""
        for run, words in zip(runs, (state.high, state.low), strict=True):
            images = np.array(words, np.uint16).reshape(self.cells, -1)
            pool[list(run)] = images[: len(run)]
        return state

    def attend(self, pool: np.ndarray, runs: tuple[Run, Run], stored: tuple[int, int], q: Any, newest: int) -> Any:
        """Run the first event of attention over the pages."""
        images = np.zeros((self.cells, pool.shape[1]), np.uint16)
        images[: len(runs[0])] = pool[list(runs[0])]
        images[self.cells - len(runs[1]) :] = pool[list(runs[1])][::-1]
        entry = tuple(range(self.cells))
        return self.attention.step(q, tuple(images.ravel().tolist()), entry, *stored, newest)

    def add_scores(self, pool: np.ndarray, runs: tuple[Run, Run], stored: tuple[int, int], state: Any) -> None:
        """Write the scores after attention to the pages."""
        scores, first = np.array(state.score, np.uint32).view(np.float32), 0
        for page, run, count in zip(self.layouts.sections, runs, stored, strict=True):
            for number, image in enumerate(run):
                used = max(min(page.tokens, count - number * page.tokens), 0)
                page.set_score(pool[image], np.arange(used), scores[first : first + used])
                first += used


def operation(decided: Any) -> int:
    """kv_compressor's operation for a decision."""
    if decided.delta_high:
        return APPEND_HIGH
    return REPLACE if decided.low_slot >= 0 else DROP
