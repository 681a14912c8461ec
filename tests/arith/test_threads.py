"""Parts cover the units once, threads do not multiply, errors and numbers come through."""

import itertools
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from refemu.arith import dot_compiled, threads
from refemu.arith.checks import Refused, RefusedType
from refemu.arith.orders import Exact, Sequential, Tree
from refemu.arith.threads import from_environment, get_threads, set_threads, share_out, using_threads, workers
from tests.arith.interpreted import needs_compiled
from tests.arith.strategies import same


def parts(units, count=None, least=1):
    """The parts that `run` was called with, in order."""
    calls = []
    share_out(lambda first, last: calls.append((first, last)), units, count, least)
    return sorted(calls)


@pytest.mark.parametrize("units", [0, 1, 2, 7, 64])
@pytest.mark.parametrize("count", [1, 2, 3, 16])
def test_parts_cover_the_units_once(units, count):
    covered = [unit for first, last in parts(units, count) for unit in range(first, last)]

    assert covered == list(range(units))
    assert len(parts(units, count)) == max(min(units, count), 1)


def test_a_part_has_at_least_so_many_units():
    assert parts(10, 4, least=4) == [(0, 5), (5, 10)]
    assert parts(10, 4, least=6) == [(0, 10)]


def test_number_of_process_counts_where_call_states_none():
    assert get_threads() == 1 and parts(6) == [(0, 6)]
    with using_threads(2):
        assert parts(6) == [(0, 3), (3, 6)]
        assert parts(6, 1) == [(0, 6)]
        with using_threads(3):
            assert get_threads() == 3
        assert get_threads() == 2
    assert get_threads() == 1


def test_the_number_is_put_back_after_an_error():
    with pytest.raises(KeyError), using_threads(5):
        raise KeyError
    assert get_threads() == 1


def test_set_threads_lasts():
    try:
        set_threads(4)
        assert get_threads() == 4
    finally:
        set_threads(1)


def test_parts_run_at_the_same_time():
    """Each waits for the others, so a part run after another would break the barrier."""
    barrier = threading.Barrier(3, timeout=20)
    share_out(lambda first, last: barrier.wait(), 3, 3)

    assert not barrier.broken


def test_share_out_does_not_wait_for_a_thread_that_is_busy(monkeypatch):
    """The pool's only thread has other work until the caller has done both parts."""
    pool, done = ThreadPoolExecutor(1), threading.Event()
    monkeypatch.setattr(threads, "_pool", lambda size, process: pool)
    busy = pool.submit(done.wait, 20)
    try:
        assert parts(6, 2) == [(0, 3), (3, 6)] and not busy.done()
    finally:
        done.set()
        pool.shutdown()


def test_a_part_that_shares_out_runs_alone():
    inner = []
    share_out(lambda first, last: inner.append(parts(8, 4)), 2, 2)

    assert inner == [[(0, 8)], [(0, 8)]]
    assert len(parts(8, 4)) == 4  # and afterwards as before


def test_a_part_has_one_worker():
    inner = []
    share_out(lambda first, last: inner.append(workers(4)), 2, 2)

    assert inner == [1, 1]
    assert (workers(4), workers()) == (4, get_threads())


def test_a_part_sees_the_context_of_the_caller():
    """Overflow is an error here only because errstate says so, in the thread of the pool too."""

    def run(first, last):
        if first:
            np.float32(1e38) * np.float32(10)

    with np.errstate(over="raise"), pytest.raises(FloatingPointError):
        share_out(run, 2, 2)


@pytest.mark.parametrize("bad", [0, 1, 2])
def test_error_is_raised_after_every_part_has_ended(bad):
    done = []

    def run(first, last):
        if first == bad:
            raise ZeroDivisionError(first)
        done.append(first)

    with pytest.raises(ZeroDivisionError, match=str(bad)):
        share_out(run, 3, 3)
    assert sorted(done) == [part for part in range(3) if part != bad]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_has_threads_of_its_own():
    parts(2, 2)  # the pool of this process exists
    child = os.fork()
    if not child:
        os._exit(0 if len(parts(2, 2)) == 2 else 1)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize(("text", "number"), [(None, 1), ("", 1), ("1", 1), (" 6 ", 6), ("1024", 1024)])
def test_the_environment_names_a_number(monkeypatch, text, number):
    monkeypatch.delenv("REFEMU_THREADS", raising=False)
    if text is not None:
        monkeypatch.setenv("REFEMU_THREADS", text)

    assert from_environment() == number


@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5", "1025"])
def test_invalid_environment_value_is_rejected(monkeypatch, text):
    monkeypatch.setenv("REFEMU_THREADS", text)
    with pytest.raises(Refused, match=rf"REFEMU_THREADS: an integer in \[1, 1024\] is needed, got '{text}'"):
        from_environment()


@pytest.mark.parametrize(
    ("number", "error"), [(0, Refused), (-3, Refused), (1025, Refused), (1.5, RefusedType), (True, RefusedType)]
)
def test_invalid_thread_counts_are_rejected(number, error):
    with pytest.raises(error, match="threads: number must be"):
        share_out(lambda first, last: None, 1, number)
    with pytest.raises(error, match="threads: number must be"):
        set_threads(number)
    assert threads.get_threads() == 1


def bell(shape, seed):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float16).astype(np.float32)


def matmul(rows, acc, tenth=False, **options):
    """A sum of 1,200 columns: several panels' worth of units for one row, several tiles for more."""
    a, w = bell((rows, 70), 1), bell((1200, 70), 2)
    a = a * np.float32(0.1) if tenth else a  # no fp16 values: fused or not differs
    return lambda: dot_compiled.matmul(a, dot_compiled.panels(w), **{"order": Sequential(), "acc": acc, **options})


def grouped(rows=70):
    rng = np.random.default_rng(3)
    a, b = rng.integers(-7, 8, (rows, 64)), rng.integers(-7, 8, (64, 600))
    packed = dot_compiled.group_panels(b, group=32, b_scale=bell((2, 600), 4))
    return lambda: dot_compiled.grouped_matmul(
        a,
        packed,
        group=32,
        a_exp=np.zeros((rows, 2), int),
        partial="fp16",
        product="fp32",
        order=Sequential(),
        acc="fp32",
    )


def attention(queries):
    q, k, v = bell((queries, 6, 16), 5), bell((queries + 3, 3, 16), 6), bell((queries + 3, 3, 16), 7)
    return lambda: dot_compiled.attention(q, k, v, scale=np.float32(0.25), start=3)


WORK = {
    "one row": matmul(1, "fp32"),
    "one fused row": matmul(1, "fp32_fma", tenth=True),
    "rows": matmul(130, "fp32", tenth=True),
    "fused rows": matmul(130, "fp32_fma", tenth=True),
    "fp16 rows": matmul(3, "fp16"),
    "fused fp16 rows": matmul(3, "fp16_fma"),
    "rows in a tree": matmul(5, "fp32", order=Tree(8)),
    "exact rows": matmul(5, "exact", order=Exact(), out="fp32"),
    "groups": grouped(),
    "heads": attention(9),
    "blocks of queries": attention(130),
    "one row of groups": grouped(1),
}


@needs_compiled
@pytest.mark.parametrize("name", WORK)
def test_no_bit_depends_on_the_number_of_threads(name, monkeypatch):
    one = WORK[name]()
    monkeypatch.setattr(threads, "BREAK_EVEN", 1)
    counts = []
    for count in (2, 3, 7):
        with using_threads(count), monkeypatch.context() as patch:
            patch.setattr(
                dot_compiled,
                "share_out",
                lambda run, units, *rest: share_out(
                    lambda first, last: (counts.append((first, last)), run(first, last)), units, *rest
                ),
            )
            assert same(one, WORK[name]())

    assert len(counts) >= 2 + 2 + 2  # the work was really shared out


@pytest.mark.parametrize(("queries", "start", "blocks"), [(512, 0, 2), (300, 37, 5), (64, 1000, 4)])
def test_blocks_of_queries_see_equally_many_keys(queries, start, blocks):
    edges = dot_compiled._even_edges(queries, start, blocks)
    keys = [sum(range(start + low + 1, start + high + 1)) for low, high in itertools.pairwise(edges)]

    assert (edges[0], edges[-1], len(keys)) == (0, queries, blocks)
    assert max(keys) - min(keys) <= 2 * (start + queries)  # an edge is a whole query


def test_few_queries_are_one_block():
    assert dot_compiled._even_edges(31, 0, 2) == [0, 31] and dot_compiled._even_edges(32, 0, 2) == [0, 22, 32]


@needs_compiled
def test_little_work_is_not_shared_out(monkeypatch):
    monkeypatch.setattr(threads, "_pool", None)  # calling it would be an error
    with using_threads(4):
        WORK["one row"]()
        WORK["heads"]()


def test_thread_settings_of_blocks_are_independent() -> None:
    seen, before = set(), get_threads()
    barrier = threading.Barrier(3)

    def work(count: int) -> None:
        for _ in range(50):
            with using_threads(count):
                barrier.wait()
                seen.add((count, get_threads()))

    workers = [threading.Thread(target=work, args=(count,)) for count in (1, 2, 3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert seen == {(1, 1), (2, 2), (3, 3)} and get_threads() == before
