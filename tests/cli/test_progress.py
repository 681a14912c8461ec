"""Progress without a terminal: a line every ten seconds, with rate and remaining time; bars on one."""

import io

import pytest

from refemu.cli import progress as module
from refemu.cli.progress import Lines, duration, progress, remaining


class Clock:
    """A clock that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_line_every_period_has_rate_and_rest() -> None:
    clock, stream = Clock(), io.StringIO()
    lines = Lines(stream, clock)
    for second in range(0, 41, 4):
        clock.now = float(second)
        lines("weights", second, 100)

    assert stream.getvalue().splitlines() == [
        "refemu: 12 s, weights 12 of 100, 1 a second, about 88 s left",
        "refemu: 24 s, weights 24 of 100, 1 a second, about 76 s left",
        "refemu: 36 s, weights 36 of 100, 1 a second, about 64 s left",
    ]


def test_restarted_task_restarts_its_rate() -> None:
    clock, stream = Clock(), io.StringIO()
    lines = Lines(stream, clock)
    for second, done in ((0, 0), (5, 90), (6, 10), (7, 11), (16, 20)):
        clock.now = float(second)
        lines("steps", done, 100)

    assert stream.getvalue() == "refemu: 16 s, steps 20 of 100, 1 a second, about 80 s left\n"


def test_first_items_have_no_estimate() -> None:
    """The first of 120 items takes 30 s, for it compiles a kernel; the others take 3 s each."""
    clock, stream = Clock(), io.StringIO()
    lines = Lines(stream, clock)
    for item in range(10):
        clock.now = 27.0 + 3 * item if item else 0.0
        lines("inputs", item, 120)

    assert stream.getvalue().splitlines() == [
        "refemu: 30 s, inputs 1 of 120",
        "refemu: 42 s, inputs 5 of 120",
        "refemu: 54 s, inputs 9 of 120, 0.333 a second, about 6 minutes left",
    ]


def test_short_run_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress() as report:
        report("weights", 0, 2)
        report("weights", 2, 2)

    assert capsys.readouterr().err == ""


def test_closed_standard_error_gets_no_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.sys, "stderr", None)
    with progress() as report:
        report("weights", 1, 2)


def test_terminal_has_bars_with_rate_and_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(screen, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(module.sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with progress() as report:
        report("weights", 0, 8)
        report("weights", 4, 8)
        report("weights", 2, 8)  # begins again

    assert all(word in screen.getvalue() for word in ("weights", "2/8", "left"))


@pytest.mark.parametrize(("seconds", "done", "left"), [(1.0, 0, 5), (1.0, 5, 0), (0.0, 5, 5)])
def test_rate_is_empty_at_start_and_end(seconds: float, done: int, left: int) -> None:
    assert remaining(seconds, done, left) == ""


def test_duration_in_seconds_or_minutes() -> None:
    assert [duration(seconds) for seconds in (0.2, 89, 91, 600)] == ["1 s", "89 s", "2 minutes", "10 minutes"]
