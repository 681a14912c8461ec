"""Rows measured around whole processes, or inside fresh ones, by the clock on the wall."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

from benchmarks.pairs import First, Row, row, size, smallest

REFEMU = (sys.executable, "-m", "refemu")  #: the command line
COUNT = 5  #: processes of a row


class CommandFailed(Exception):
    """A process that did not start, or ended with an exit code that stands for an error; the text has its last line."""


def process_row(
    id: str,
    what: str,
    allowed: float,
    command: Sequence[str],
    good: Callable[[str], bool] = bool,
    count: int = COUNT,
) -> Row:
    """A command from its start to its end, once it has left its bytecode; good(output) says whether it did its work."""
    if not smallest():
        timed(command)
    return _row(id, what, allowed, [timed(command) for _ in range(size(count, 1))], good)


def inside_row(
    id: str,
    what: str,
    allowed: float,
    code: str,
    good: Callable[[str], bool] = lambda output: True,
    count: int = COUNT,
    cache: str = "0",
    goal: float = 1.0,
) -> Row:
    """Python `code` in a fresh process: it prints seconds first, on a separate line. cache: its REFEMU_CACHE."""
    return _row(id, what, allowed, [inside(code, cache) for _ in range(size(count, 1))], good, goal)


def timed(command: Sequence[str]) -> tuple[float, str]:
    """Seconds of a command and its output."""
    begin = time.perf_counter()
    text = output(command)
    return time.perf_counter() - begin, text


def inside(code: str, cache: str = "0") -> tuple[float, str]:
    """The seconds that `code` printed, and what follows them."""
    first, _, rest = output([sys.executable, "-c", code], REFEMU_CACHE=cache).partition("\n")
    return float(first), rest


def output(command: Sequence[str], codes: Sequence[int] = (0,), **changes: str) -> str:
    """The output of a command, with `changes` of the environment; raises CommandFailed.

    codes: exit codes of a command that did its work; one that prints nothing and does not end with 0 did not.
    """
    # bytecode is written, as it is where refemu is installed
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**kept, **changes})
    if done.returncode and (done.returncode not in codes or not done.stdout):
        lines = (done.stderr.strip() or done.stdout.strip() or "nothing was printed").splitlines()
        raise CommandFailed(f"exit code {done.returncode}: {lines[-1]}")
    return done.stdout


def _row(
    id: str,
    what: str,
    allowed: float,
    found: Sequence[tuple[float, str]],
    good: Callable[[str], bool],
    goal: float = 1.0,
) -> Row:
    seconds = [max(taken, 1e-9) for taken, _ in found]
    right = all(good(text) for _, text in found)
    limit = f"allowed: {allowed * 1e3:g} ms" if allowed < 1 else f"allowed: {allowed:g} s"
    return row(id, what, limit, [(allowed, taken) for taken in seconds], First(0.0, 0.0, None), goal, right)
