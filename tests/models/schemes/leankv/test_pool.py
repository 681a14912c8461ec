"""The pages of one worker: what is admitted, compressed and stepped is stored, and can be undone bit by bit."""

from functools import cache
from typing import Any

import numpy as np
import pytest

from refemu import models
from refemu.models import schemes
from refemu.models.schemes.leankv.pool import Journal, Pool, Prompt
from refemu.units.leankv.page_manager import OutOfPages
from tests.models.schemes.leankv.plain import CHANGES, small

SCHEME = f"leankv:{CHANGES},align=4+4,page_bytes=112,window=4,t_low=0.05,t_high=0.12"
TOKENS, LAYERS, HEADS, SIZE = 12, 2, 2, 16


@cache
def parts(scheme: str = SCHEME) -> Any:
    config: Any = schemes.parse(scheme)
    return models.prepare(small(), config)


def pool(scheme: str = SCHEME) -> Pool:
    worker: Pool = parts(scheme).pools(2).pools[0]
    return worker


def prompt(seed: int = 0) -> Prompt:
    """Random keys and values, shares that fall from token to token."""
    draw = np.random.default_rng(seed)
    keys, values = (
        [draw.normal(size=(TOKENS, HEADS, SIZE)).astype(np.float16).astype(np.float32) for _ in range(LAYERS)]
        for _ in range(2)
    )
    share = np.linspace(0.3, 0.02, TOKENS, dtype=np.float32)[None].repeat(HEADS, axis=0)
    patterns = [(share * (1 + layer)).view(np.uint32) for layer in range(LAYERS)]
    return Prompt(keys, values, patterns, patterns)


def filled() -> Pool:
    """A pool that holds one compressed prompt, sequence 7."""
    worker = pool()
    worker.admit({7: TOKENS})
    worker.compress({7: prompt()})
    return worker


def state(worker: Pool) -> tuple[bytes, Any]:
    return worker.images.tobytes(), worker.manager.snapshot()


def stepped(worker: Pool) -> np.ndarray:
    """One step of sequence 7 in both layers."""
    plan, _ = worker.plan([7])
    draw = np.random.default_rng(9)
    key, value, query = (
        draw.normal(size=(1, HEADS, *rest)).astype(np.float16).astype(np.float32)
        for rest in ((SIZE,), (SIZE,), (2, SIZE))
    )
    for layer in range(LAYERS):
        worker.write(plan, layer, key, value)
    return np.stack([worker.attend(plan, layer, query) for layer in range(LAYERS)])


def test_a_prompt_is_stored_in_classes() -> None:
    """The window stays, older tokens below T_l go; scores and positions are those of the rest."""
    worker = filled()
    stored = worker.stored([7])
    lengths = stored.lengths[0]
    kept = [
        sorted(stored.position[0, layer, head, : sum(lengths[layer, head])].tolist())
        for layer in range(LAYERS)
        for head in range(HEADS)
    ]

    assert (lengths.sum(axis=-1) <= TOKENS).all() and (lengths[..., 0] >= 4).all()
    assert all(set(range(TOKENS - 4, TOKENS)) <= set(positions) for positions in kept)
    scores = prompt().sums[1].view(np.float32)
    count = int(lengths[1, 0].sum())
    order = stored.position[0, 1, 0, :count]
    assert stored.score[0, 1, 0, :count].view(np.float32).tolist() == scores[0, order].tolist()


def test_a_step_stores_the_new_token() -> None:
    worker = filled()
    before = worker.manager.lengths([7]).sum()
    stepped(worker)

    assert (worker.stored([7]).position == TOKENS).any(axis=-1).all()
    assert 0 <= worker.manager.lengths([7]).sum() - before <= LAYERS * HEADS
    plan, _ = worker.plan([7])
    assert plan.positions.tolist() == [TOKENS + 1] and plan.prompts.tolist() == [TOKENS]
    assert (plan.lengths.sum(axis=-1) - plan.before.lengths.sum(axis=-1) == plan.grown).all()


def test_an_admission_is_undone() -> None:
    """With all that was written into its pages since."""
    worker = filled()
    before = state(worker)
    undo = worker.admit({8: TOKENS})
    worker.compress({8: prompt(1)})
    assert worker.images.tobytes() != before[0]
    undo()

    assert state(worker) == before


def test_a_step_is_undone_and_repeats_itself() -> None:
    worker = filled()
    before = state(worker)
    _, undo = worker.plan([7])
    assert undo is not None and state(worker) != before
    undo()
    first = stepped(worker)

    assert state(filled()) == before
    again = filled()
    assert stepped(again).tobytes() == first.tobytes()


def test_a_journal_goes_back_over_several_steps() -> None:
    worker = filled()
    before = state(worker)
    journal = Journal(worker, [7])
    for _ in range(6):
        plan, undo = worker.plan([7], journal)
        assert undo is None
        for layer in range(LAYERS):
            worker.write(plan, layer, *(np.ones((1, HEADS, SIZE), np.float32) for _ in range(2)))
            worker.attend(plan, layer, np.ones((1, HEADS, 2, SIZE), np.float32))
    assert state(worker) != before
    journal.undo()

    assert state(worker) == before


def test_too_few_pages_change_nothing() -> None:
    worker = pool(f"{SCHEME},num_pages=9")
    before = state(worker)
    with pytest.raises(OutOfPages):
        worker.admit({1: 30, 2: 30})

    assert state(worker) == before


def test_finished_sequences_leave_their_pages() -> None:
    worker = filled()
    free = pool().manager.free
    assert worker.manager.free < free
    worker.finish([7])

    assert worker.manager.free == free
