"""A time limit for a block that runs mutants."""

import gc
import signal
import time
from collections.abc import Iterator

import pytest

from refemu.arith.checks import Refused
from refemu.golden.grade.time_limit import StoppedAfter


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """The user's interrupt works after every block, although a shell's background process starts without it."""
    started = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    signal.signal(signal.SIGINT, started)


def test_endless_mutant_is_stopped() -> None:
    start = time.monotonic()
    with pytest.raises(Refused, match=r"took more than 0\.2 s"), StoppedAfter(0.2):
        while True:
            pass
    assert time.monotonic() - start < 10


def test_endless_mutant_is_stopped_in_the_background() -> None:
    """SIGINT is ignored, as after `command &` in a script."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with pytest.raises(Refused, match="took more than"), StoppedAfter(0.2):
            while True:
                signal.raise_signal(signal.SIGINT)  # still ignored
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_interrupt_of_the_user_passes() -> None:
    with pytest.raises(KeyboardInterrupt), StoppedAfter(60):
        raise KeyboardInterrupt


def test_second_interrupt_stops_a_catching_mutant() -> None:
    def stubborn() -> None:
        for _ in range(3):
            try:
                while True:
                    pass
            except KeyboardInterrupt:
                pass
        while True:
            pass

    with pytest.raises(Refused, match="took more than"), StoppedAfter(0.1):
        stubborn()


def wait(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def collected(phase: str, info: object) -> None:
    wait(0.03)


def test_interrupt_survives_garbage_collection() -> None:
    """An exception in a callback is printed as ignored: a warning, which fails the test under pytest."""
    gc.callbacks.append(collected)
    try:
        with pytest.raises(Refused, match="took more than"), StoppedAfter(0.01):
            while True:
                gc.collect(0)
                wait(0.03)
    finally:
        gc.callbacks.remove(collected)


def test_block_ending_at_limit_has_its_result() -> None:
    limit = StoppedAfter(60)
    with limit:
        limit.thread.join(0.0)
        limit.late.set()  # as if the thread ran between the last statement and the end of the block
        limit.ended.set()
        done = True
    assert done


def test_other_errors_of_late_block_are_raised() -> None:
    with pytest.raises(ZeroDivisionError), StoppedAfter(60):
        raise ZeroDivisionError
