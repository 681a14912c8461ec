"""A limit on the time of a block that runs wrong programs."""

import gc
import signal
import time
from collections.abc import Iterator

import pytest

from refemu.arith.checks import Refused
from refemu.golden.grade.time_limit import StoppedAfter


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """The user's interrupt is heard behind every block; a process in the background of a shell begins without that."""
    started = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    signal.signal(signal.SIGINT, started)


def test_a_mutant_that_does_not_end_is_stopped() -> None:
    start = time.monotonic()
    with pytest.raises(Refused, match=r"took more than 0\.2 s"), StoppedAfter(0.2):
        while True:
            pass
    assert time.monotonic() - start < 10


def test_a_mutant_is_stopped_in_the_background_of_a_shell() -> None:
    """Where SIGINT is ignored, as after `command &` in a script."""
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


def test_a_program_that_catches_the_interrupt_is_stopped_by_the_next() -> None:
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


def test_an_interrupt_is_not_lost_in_a_callback_of_the_garbage_collector() -> None:
    """What a callback raises is printed as ignored: under pytest, a warning, and so a failure."""
    gc.callbacks.append(collected)
    try:
        with pytest.raises(Refused, match="took more than"), StoppedAfter(0.01):
            while True:
                gc.collect(0)
                wait(0.03)
    finally:
        gc.callbacks.remove(collected)


def test_a_block_that_ends_when_its_time_is_over_has_its_result() -> None:
    limit = StoppedAfter(60)
    with limit:
        limit.thread.join(0.0)
        limit.late.set()  # as where the thread runs between the last statement and the end of the block
        limit.ended.set()
        done = True
    assert done


def test_other_errors_of_a_late_block_are_its_own() -> None:
    with pytest.raises(ZeroDivisionError), StoppedAfter(60):
        raise ZeroDivisionError
