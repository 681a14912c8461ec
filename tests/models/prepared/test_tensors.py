"""Tensors prepared together keep their order, with no more ahead than threads; errors pass through."""

import threading
import time
from pathlib import Path

import numpy as np
import pytest

from refemu.arith.threads import using_threads
from refemu.models.backend import NUMPY, Jit
from refemu.models.prepared import tensors
from refemu.models.prepared.prepared_cache import NOWHERE, PreparedCache


@pytest.mark.parametrize("threads", [1, 3])
def test_results_come_in_order(threads: int) -> None:
    def slow(number: int) -> int:
        time.sleep(0.01 * (number % 3 == 0))
        return number

    with using_threads(threads):
        assert list(tensors.together(NOWHERE, slow, range(20))) == list(range(20))


def test_no_more_tensors_are_prefetched_than_threads(tmp_path: Path) -> None:
    made: list[int] = []
    lock = threading.Lock()

    def make(number: int) -> int:
        with lock:
            made.append(number)
        return number

    ahead = []
    for number in tensors.together(PreparedCache(tmp_path), make, range(30)):
        time.sleep(0.01)
        ahead.append(len(made) - number - 1)
    assert 0 < max(ahead) <= 3  # two threads, and one that is taken


def test_an_error_is_raised_and_nothing_more_begun(tmp_path: Path) -> None:
    begun: list[int] = []

    def make(number: int) -> None:
        begun.append(number)
        if number == 1:
            raise ValueError("at 1")

    with pytest.raises(ValueError, match="at 1"):
        list(tensors.together(PreparedCache(tmp_path), make, range(30)))
    assert max(begun) <= 4


def test_context_of_caller_holds_in_every_thread(tmp_path: Path) -> None:
    with np.errstate(over="raise"):
        states = list(tensors.together(PreparedCache(tmp_path), lambda _: np.geterr()["over"], range(5)))
    assert states == ["raise"] * 5


def test_cached_matrix_equals_that_of_the_backend(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).standard_normal((70, 33)).astype(np.float16)
    for kind in (np.float16, np.float32):
        want = Jit().weights(rows.astype(kind))
        for _ in range(2):
            kept = tensors.matrix(
                PreparedCache(tmp_path), Jit(), f"a{np.dtype(kind)}", lambda kind=kind: rows.astype(kind)
            )
            assert (kept.shape, kept.holds_fp16, kept.peak) == (want.shape, want.holds_fp16, want.peak)
            assert kept.values.tobytes() == want.values.tobytes()
    assert np.array_equal(tensors.matrix(NOWHERE, NUMPY, "a", lambda: rows), rows.astype(np.float32).T)
