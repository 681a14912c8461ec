"""Rows measured around whole processes, or inside fresh ones, by the clock on the wall."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

from benchmarks.pairs import First, Row, row

REFEMU = (sys.executable, "-m", "refemu")  #: the command line
COUNT = 5  #: processes of a row


def process_row(
    id: str, what: str, allowed: float, command: Sequence[str], good: Callable[[str], bool], count: int = COUNT
) -> Row:
    """A command from its start to its end, once it has left its bytecode; good(output) says whether it did its work."""
    timed(command)
    return _row(id, what, allowed, [timed(command) for _ in range(count)], good)


def inside_row(
    id: str,
    what: str,
    allowed: float,
    code: str,
    good: Callable[[str], bool] = bool,
    count: int = COUNT,
    cache: str = "0",
    goal: float = 1.0,
) -> Row:
    """Python `code` in a fresh process: it prints seconds first, on a line of their own. cache: its REFEMU_CACHE."""
    return _row(id, what, allowed, [inside(code, cache) for _ in range(count)], good, goal)


def timed(command: Sequence[str]) -> tuple[float, str]:
    """Seconds of a command and its output, which is empty if it failed."""
    begin = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=_environment())
    return time.perf_counter() - begin, "" if done.returncode else done.stdout + " "


def inside(code: str, cache: str = "0") -> tuple[float, str]:
    """The seconds that `code` printed, and what follows them; nothing if it failed."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=_environment(REFEMU_CACHE=cache)
    )
    first, _, rest = done.stdout.partition("\n")
    if done.returncode:
        sys.stderr.write(done.stderr)
    return (0.0, "") if done.returncode else (float(first), rest + " ")


def _environment(**changes: str) -> dict[str, str]:
    """Ours with `changes`; bytecode is kept, as it is where refemu is installed."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, **changes}


def _row(
    id: str,
    what: str,
    allowed: float,
    found: Sequence[tuple[float, str]],
    good: Callable[[str], bool],
    goal: float = 1.0,
) -> Row:
    seconds = [max(taken, 1e-9) for taken, _ in found]
    right = all(output and good(output) for _, output in found)
    text = f"allowed: {allowed * 1e3:g} ms" if allowed < 1 else f"allowed: {allowed:g} s"
    return row(id, what, text, [(allowed, taken) for taken in seconds], First(0.0, 0.0, None), goal, right)
