"""Order of requests, by names alone."""

import pytest

from refemu.arith.checks import Refused
from refemu.models.schemes.leankv.scheduler import Scheduler


def started(scheduler: Scheduler, pages: int) -> list[int]:
    """Admit what fits, one page each."""
    names = scheduler.admissible(lambda name: [1], [pages - len(scheduler.running)])
    scheduler.admit(names)
    return names


def test_first_requests_start_as_slots_and_pages_allow() -> None:
    """D-leankv-52."""
    scheduler = Scheduler(3)
    for name in range(5):
        scheduler.arrive(name)

    assert started(scheduler, 2) == [0, 1]
    assert started(scheduler, 9) == [2]
    scheduler.finish([1])
    assert started(scheduler, 9) == [3]


def test_newest_yields_and_waits_for_an_end() -> None:
    """D-leankv-68: nobody overtakes it."""
    scheduler = Scheduler(9)
    for name in range(4):
        scheduler.arrive(name)

    assert started(scheduler, 3) == [0, 1, 2]
    assert (scheduler.preempt(), scheduler.preempt(), scheduler.preempt()) == (2, 1, None)
    assert list(scheduler.waiting) == [1, 2, 3]
    assert started(scheduler, 9) == []
    scheduler.finish([0])
    assert started(scheduler, 9) == [1, 2, 3]


def test_only_waiting_request_is_hopeless_while_nothing_runs() -> None:
    scheduler = Scheduler(2)
    scheduler.arrive(0)
    scheduler.arrive(1)

    assert scheduler.hopeless() == 0
    scheduler.drop(0)
    scheduler.admit([1])
    assert scheduler.hopeless() is None


def test_all_workers_need_pages() -> None:
    scheduler = Scheduler(2)
    scheduler.arrive(0)

    assert scheduler.admissible(lambda name: [1, 2], [5, 1]) == []
    assert scheduler.admissible(lambda name: [1, 2], [5, 2]) == [0]


def test_unknown_preemption_is_rejected() -> None:
    with pytest.raises(Refused, match="preemption"):
        Scheduler(1, "drop")  # type: ignore[arg-type]
