"""Several requests in one pool: order of steps, independence of neighbours, workers, accounting, errors."""

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refemu import models
from refemu.arith.checks import Refused
from refemu.models import schemes
from refemu.models.schemes.leankv.engine import Engine
from refemu.models.schemes.leankv.layers import LeanKv
from tests.models.schemes.leankv.plain import CHANGES, small

SMALL = f"leankv:{CHANGES},align=4+4,page_bytes=112,window=4,t_low=0.08,t_high=0.12"
TOKENS = [3, 7, 1, 10, 7, 0, 2, 5, 5, 9, 4, 8, 1, 1, 6, 3, 10, 2, 7, 4]


@cache
def base() -> Any:
    config: Any = schemes.parse(SMALL)
    return models.prepare(small(), config)


def parts(change: str = "") -> LeanKv:
    config: Any = schemes.parse(f"{SMALL}{change}")
    found: LeanKv = base().under(config)
    return found


def alone(prepared: Any, ids: list[int], count: int) -> list[int]:
    return models.greedy(prepared, ids, count)


def test_steps_are_finish_prompt_generation() -> None:
    """D-leankv-52: prompts first, in the order of arrival, as many as fit; ended requests are finished before."""
    engine = Engine(parts(), slots=2)
    for length, count in ((10, 3), (7, 2), (4, 1)):
        engine.submit(TOKENS[:length], count)
    found = [(step.kind, step.names, step.finished) for step in iter(engine.step, None)]

    assert found == [
        ("prompt", (0, 1), ()),
        ("generation", (0, 1), ()),
        ("prompt", (2,), (1,)),
        ("generation", (0,), (2,)),
        ("finish", (), (0,)),
    ]
    assert {name: request.chosen for name, request in engine.requests.items()} == {
        name: alone(parts(), TOKENS[:length], count) for name, (length, count) in enumerate(((10, 3), (7, 2), (4, 1)))
    }


@pytest.mark.parametrize(
    "change",
    ["", ",workers=2", ",preset=diffkv,alpha_prune=0.5,alpha_quant=0.9", ",low=none,policy=static,keep_percent=50"],
)
@settings(deadline=None, max_examples=8)
@given(data=st.data())
def test_a_request_does_not_depend_on_its_neighbours(change: str, data: st.DataObject) -> None:
    """Any lengths, any order of arrival: every request chooses the same tokens as alone; then all pages are free."""
    prepared = parts(change)
    engine = Engine(prepared, slots=data.draw(st.integers(1, 3)))
    wanted: dict[int, tuple[list[int], int]] = {}
    for _ in range(data.draw(st.integers(1, 4))):
        ids, count = TOKENS[: data.draw(st.integers(1, 12))], data.draw(st.integers(1, 6))
        wanted[engine.submit(ids, count)] = ids, count
        for _ in range(data.draw(st.integers(0, 3))):
            engine.step()
    chosen = engine.run()

    assert chosen == {name: alone(prepared, ids, count) for name, (ids, count) in wanted.items()}
    for pool in engine.pools.pools:
        assert pool.manager.held == 0


def test_given_tokens_are_scored_and_not_chosen() -> None:
    engine = Engine(parts())
    name = engine.submit(TOKENS[:8], following=TOKENS[8:])
    engine.run()
    session = models.session(parts())
    expected = [session.append(TOKENS[:8], last=True), *(session.append([token]) for token in TOKENS[8:-1])]

    assert engine.requests[name].logits.tobytes() == np.concatenate(expected).tobytes()
    assert engine.requests[name].chosen == []


def test_workers_share_out_the_heads() -> None:
    """[leankv §6.1]: equal logits, total pages and counters, each worker with its own pool."""
    sessions = [models.session(parts(change)) for change in ("", ",workers=2")]
    logits = [np.concatenate([session.append(TOKENS[:9]), session.append(TOKENS[9:])]) for session in sessions]
    one, two = ([pool.stored([0]) for pool in session.caches.pools.pools] for session in sessions)

    assert logits[0].tobytes() == logits[1].tobytes()
    assert sessions[0].counters == sessions[1].counters
    assert vars(sessions[0].caches.pools.memory())["pages"] == vars(sessions[1].caches.pools.memory())["pages"]
    for head in range(2):
        count = two[head].score.shape[-1]
        assert one[0].score[0, :, head, :count].tobytes() == two[head].score[0, :, 0].tobytes()
        assert one[0].position[0, :, head, :count].tobytes() == two[head].position[0, :, 0].tobytes()


def test_memory_counts_what_is_stored() -> None:
    """[leankv §7.2]: nothing pruned, K8V4 without a low precision: 37.5 % of fp16 on codes."""
    engine = Engine(parts(",low=none,t_low=0"), slots=2)
    engine.submit(TOKENS[:10], 4)
    engine.submit(TOKENS[:5], 4)
    *_, last = [step for step in iter(engine.step, None) if step.kind != "finish"]
    memory = last.memory

    assert memory.seen_tokens == 4 * (13 + 8) == memory.high_tokens
    assert memory.payload_ratio == (4 * 21 * 16 * 12, 8 * 4 * 21 * 16 * 4)
    assert memory.token_bytes == 4 * 21 * (16 * 12 // 8 + 16)
    assert memory.pages == 4 * (7 + 4)


def test_counters_add_up() -> None:
    engine = Engine(parts(), slots=2)
    engine.submit(TOKENS[:10], 6)
    engine.submit(TOKENS[:6], 9)
    read = 0
    for step in iter(engine.step, None):
        memory = step.memory
        read += memory.token_bytes if step.kind == "generation" else 0
    counters = engine.counters

    assert counters["bytes_read"] == read
    assert counters["bytes_read_fp16"] == 4 * 64 * (sum(range(11, 16)) + sum(range(7, 15)))
    assert counters["tokens_written"] + counters["tokens_pruned"] >= 4 * (15 + 14)
    assert counters["tokens_requantized"] > 0


def test_admission_leaves_page_per_head_for_low_precision() -> None:
    """D-leankv-35: ceil(N / TH) + 1 pages for each head must be free, though the prompt takes one less."""
    engine = Engine(parts(",num_pages=43"), slots=3)
    engine.submit(TOKENS[:10], 1)
    engine.submit(TOKENS[:10], 1)
    kinds = [(step.kind, step.names) for step in iter(engine.step, None)]

    assert kinds == [("prompt", (0,)), ("prompt", (1,)), ("finish", ())]


@pytest.mark.parametrize("preemption", ["recompute", "swap"])
def test_newest_request_yields_when_pages_run_out(preemption: Any) -> None:
    """D-leankv-68: it starts again after another has ended, and chooses the tokens that it chooses alone."""
    engine = Engine(parts(",num_pages=44,low=none,t_low=0"), slots=2, preemption=preemption)
    engine.submit(TOKENS[:10], 4)
    engine.submit(TOKENS[:12], 5)
    found = [(step.kind, step.names, step.preempted) for step in iter(engine.step, None)]

    again = [("prompt", (1,), ()), *[("generation", (1,), ())] * 4, ("finish", (), ())]
    assert found == [("prompt", (0, 1), ()), ("generation", (0,), (1,)), *[("generation", (0,), ())] * 2, *again]
    for name, (length, count) in enumerate(((10, 4), (12, 5))):
        assert engine.requests[name].chosen == alone(parts(",low=none,t_low=0"), TOKENS[:length], count)


def test_without_preemption_requests_wait_for_their_last_page() -> None:
    engine = Engine(parts(",num_pages=44,low=none,t_low=0"), slots=2, preemption="none")
    engine.submit(TOKENS[:10], 4)
    engine.submit(TOKENS[:12], 5)
    prompts = [step.names for step in iter(engine.step, None) if step.kind == "prompt"]

    assert prompts == [(0,), (1,)]
    with pytest.raises(Refused, match="must have 48 pages for 24 tokens, got 44"):
        engine.submit(TOKENS[:20], 5)


def test_without_preemption_the_whole_pool_may_be_used() -> None:
    """12 stored tokens need 24 pages: the last of the 13 tokens is never stored."""
    engine = Engine(parts(",num_pages=24,low=none,t_low=0"), preemption="none")
    name = engine.submit(TOKENS[:7], 2, TOKENS[7:11])

    assert engine.run() == {name: engine.requests[name].chosen} and len(engine.requests[name].chosen) == 2


def test_request_that_lacks_pages_alone_is_aborted() -> None:
    """The pool has 8 tokens for each head."""
    engine = Engine(parts(",num_pages=16,low=none,t_low=0"))
    long, after = engine.submit(TOKENS[:7], 8), engine.submit(TOKENS[:3], 2)
    aborted = [step.aborted for step in iter(engine.step, None)]

    assert (long,) in aborted and engine.requests[long].aborted
    assert engine.requests[after].chosen == alone(parts(",low=none,t_low=0"), TOKENS[:3], 2)
    assert engine.pools.pools[0].manager.held == 0


@pytest.mark.parametrize("change", ["", ",low=none,t_low=0", ",workers=2"])
@pytest.mark.parametrize("preemption", ["recompute", "swap", "none"])
@settings(deadline=None, max_examples=8)
@given(data=st.data())
def test_engine_serves_every_request_of_small_pool(change: str, preemption: Any, data: st.DataObject) -> None:
    """No deadlock: all requests finish with the tokens that they choose alone, or are aborted, and no page is lost."""
    pages = data.draw(st.integers(12, 40)) * (1 if "workers" in change else 2)
    engine = Engine(parts(f"{change},num_pages={pages}"), slots=data.draw(st.integers(1, 4)), preemption=preemption)
    wanted: dict[int, tuple[list[int], int]] = {}
    for _ in range(data.draw(st.integers(1, 5))):
        ids, count = TOKENS[: data.draw(st.integers(1, 10))], data.draw(st.integers(1, 8))
        try:
            wanted[engine.submit(ids, count)] = ids, count
        except Refused as error:
            assert "the pool must have" in str(error)
    for _ in range(1000):
        if engine.step() is None:
            break
    else:
        pytest.fail("the engine does not end")

    for name, (ids, count) in wanted.items():
        request = engine.requests[name]
        expected = alone(parts(change), ids, count)
        assert request.chosen == (expected[: len(request.chosen)] if request.aborted else expected)
    for pool in engine.pools.pools:
        assert sorted(pool.manager.free_ids()) == list(range(pages))


BAD: dict[str, tuple[list[int], dict[str, Any], str]] = {
    "empty prompt": ([], {"count": 1}, "a flat list with at least one"),
    "no token": ([1], {}, "a request must add a token, got count 0 and 0 given"),
    "negative": ([1], {"count": -1}, "a request must add a token, got count -1"),
    "too long": ([1] * 20, {"count": 30}, "a request must have at most 40 tokens, got 49"),
    "vocabulary": ([1], {"following": [11]}, "token id 11"),
    "pool": ([1] * 30, {"count": 1}, "the pool must have 64 pages for 30 tokens, got 50"),
}


@pytest.mark.parametrize(("ids", "more", "message"), BAD.values(), ids=list(BAD))
def test_invalid_requests_are_rejected(ids: list[int], more: dict[str, Any], message: str) -> None:
    engine = Engine(parts(",num_pages=50"))
    with pytest.raises(Refused, match=message):
        engine.submit(ids, **more)

    assert engine.step() is None
    assert repr(engine).endswith("0 waiting, 0 running)")


def test_other_schemes_are_rejected() -> None:
    with pytest.raises(Refused, match="engine: the scheme must be LeanKV's, got Fp16"):
        Engine(models.prepare("tiny", "fp16"))  # type: ignore[arg-type]
