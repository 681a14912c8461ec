"""DiffKV's kernels, interpreted on a CPU: prompts and steps of the cache give refemu's page images, word for word.

Their attention is not run here: its probabilities are taken from the reference as they are.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from refemu.formats import HeteroKV, UnifiedPage
from refemu.units.leankv import generation_compressor, kv_compressor, prompt_compressor, significance
from refemu.units.leankv.generation_compressor import compiled as generation_compressor_compiled
from refemu.units.leankv.kv_compressor import compiled as kv_compressor_compiled
from refemu.units.leankv.prompt_compressor import LOW, PRUNED
from refemu.units.leankv.prompt_compressor import compiled as prompt_compressor_compiled

RUNS = [f"kernels_cfg{i}" for i in range(6)]
QUIRKS = ("score_by_rank", "position_epoch")
READABLE = (prompt_compressor.run, generation_compressor.run, kv_compressor)
COMPILED = (prompt_compressor_compiled.run, generation_compressor_compiled.run, kv_compressor_compiled)
WAYS = [pytest.param(READABLE, id="unit"), pytest.param(COMPILED, id="compiled")]


class Replay:
    """One run of the reference: its pool of pages, the pages of every head, and the tokens that they hold."""

    def __init__(self, data: Mapping[str, np.ndarray], ways: Any) -> None:
        self.data = data
        self.classify, self.decide, self.writer = ways
        bits = data["cfg"].tolist()
        self.high, self.low = (UnifiedPage(128, HeteroKV(*bits[i : i + 2], *bits[i + 4 : i + 6])) for i in (0, 2))
        assert [self.high.tokens, self.low.tokens] == bits[8:]
        self.heads, queries, _, self.window, words, _ = data["meta"].tolist()
        self.group, self.images = queries // self.heads, np.zeros((64, words), np.uint16)
        self.starts = data["seq_start_loc"].tolist()
        self.lengths = np.diff(self.starts)
        self.kept = np.zeros((len(self.lengths), self.heads, 2), int)
        self.thresholds = np.ascontiguousarray(data["compress_config"]).view(np.uint32)

    def prompt(self, sequence: int, head: int) -> None:
        """Classify and write the prompt of one head; the low pages come right after the high ones."""
        n, first = int(self.lengths[sequence]), self.starts[sequence]
        sums = self.data["score"][sequence, head * self.group : (head + 1) * self.group, :n]
        score = significance.join_heads(sums)
        count = significance.counts(n, 64, True).astype(np.float32)
        made = self.classify(
            (score / count).view(np.uint32),
            self.window,
            self.thresholds[sequence],
            tokens=n,
            rule="per_token",
            order="bitonic",
        )
        plan = kv_compressor.plan_prompt(made.cls, made.order.astype(int), score, QUIRKS)
        ids = self.data["bt_prompt"][sequence, 0, head]
        pages = -(-len(plan.high) // self.high.tokens)
        self.writer.write_prompt(
            self.high,
            self.low,
            "diffkv",
            self.images,
            (ids[:pages], ids[pages:]),
            plan,
            self.data["key"][first : first + n, head],
            self.data["value"][first : first + n, head],
        )
        self.kept[sequence, head] = len(plan.high), len(plan.low)
        assert made.n_pruned == np.count_nonzero(made.cls == PRUNED) and made.n_low == np.count_nonzero(made.cls == LOW)

    def sections(self, step: int, sequence: int, head: int) -> list[tuple[UnifiedPage, np.ndarray, np.ndarray]]:
        """Page format, page and slot of every stored token of both sections."""
        table = self.data["d_block_tables"][step, sequence, 0, head]
        ids = table, table[::-1]
        return [
            (page, *kv_compressor.places(page, section, np.arange(count)))
            for page, section, count in zip((self.high, self.low), ids, self.kept[sequence, head], strict=True)
        ]

    def step(self, step: int, sequence: int, head: int) -> tuple[int, int]:
        """Decide, move and write one token of one head; returns by how much both sections grow."""
        n = int(self.data["d_pos"][step, sequence])
        stored = self.sections(step, sequence, head)
        score, position = (
            np.concatenate([read(page)[pages, slots] for page, pages, slots in stored])
            for read in (self._scores, self._positions)
        )
        high, low = self.kept[sequence, head].tolist()
        made = self.decide(
            score.view(np.uint32),
            position,
            high,
            low,
            n,
            int(self.lengths[sequence]),
            self.window,
            self.thresholds[sequence],
            slots=score.size,
            policy="diffkv",
            score_queries=64,
            include_self=True,
            epoch=True,
        )
        table = self.data["d_block_tables"][step, sequence, 0, head]
        page, slot = (int(value) for value in kv_compressor.places(self.high, table, int(made.victim)))
        if made.low_slot >= 0:
            target = tuple(int(v) for v in kv_compressor.places(self.low, table[::-1], int(made.low_slot)))
            self.writer.requantize(self.high, self.low, "diffkv", self.images, [(page, slot)], [target])
        key, value = (self.data[name][step, sequence, head][None] for name in ("d_key", "d_value"))
        self.writer.write(self.high, "diffkv", self.images, [page], [slot], key, value, np.zeros(1, np.float32), [n])
        grown = int(made.delta_high), int(made.delta_low)
        self.kept[sequence, head] += grown
        return grown

    def _scores(self, page: UnifiedPage) -> np.ndarray:
        return np.stack([page.score(image) for image in self.images])

    def _positions(self, page: UnifiedPage) -> np.ndarray:
        return np.stack([page.position(image) for image in self.images])

    def attended(self, step: int, sequence: int, head: int) -> None:
        """Add the reference's probabilities to the scores of every stored token, the new one included."""
        p = self.data["d_scores"][step, sequence, head * self.group : (head + 1) * self.group]
        first = 0
        for page, pages, slots in self.sections(step, sequence, head):
            for image, slot in zip(pages, slots, strict=True):
                score = page.score(self.images[image])[slot]
                page.set_score(self.images[image], slot, significance.update(score[None], p[:, first, None])[0])
                first += 1

    def all_heads(self) -> list[tuple[int, int]]:
        return [(sequence, head) for sequence in range(len(self.lengths)) for head in range(self.heads)]


@pytest.mark.parametrize("ways", WAYS)
@pytest.mark.parametrize("name", RUNS)
def test_prompt_images_are_those_of_the_kernels(reference: Any, name: str, ways: Any) -> None:
    """D-leankv-47 and D-leankv-48: with both defects switched on, every word of every page."""
    data = reference(f"leankv/{name}")
    replay = Replay(data, ways)
    for head in replay.all_heads():
        replay.prompt(*head)

    assert np.array_equal(data["kv_len_prompt"][:, 0], replay.kept)
    assert np.array_equal(data["kv_after_prompt"], replay.images)


@pytest.mark.parametrize("ways", WAYS)
@pytest.mark.parametrize("name", RUNS)
def test_decode_images_and_decisions_are_those_of_kernels(reference: Any, name: str, ways: Any) -> None:
    """D-leankv-26 (the published policy), D-leankv-28 (its ties): all steps, decisions and images."""
    data = reference(f"leankv/{name}")
    replay = Replay(data, ways)
    for head in replay.all_heads():
        replay.prompt(*head)
    steps = len(data["d_pos"])
    for step in range(steps):
        grown = [replay.step(step, *head) for head in replay.all_heads()]
        assert np.array_equal(data["d_kv_len_delta"][step].reshape(-1, 2), grown), step
        if step in (0, steps - 1):
            assert np.array_equal(data[f"kv_{'step0' if step == 0 else 'last'}_after_decode"], replay.images), step
        for head in replay.all_heads():
            replay.attended(step, *head)
        assert np.array_equal(data["d_kv_len"][step][:, 0], replay.kept)
        if step in (0, steps - 1):
            assert np.array_equal(data[f"kv_{'step0' if step == 0 else 'last'}_after_attn"], replay.images), step
