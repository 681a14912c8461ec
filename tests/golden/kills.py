"""Kills a process before and after every file-system call of a command, then reruns the command.

    python -m tests.golden.kills COMMAND FOLDER [twice SEED | random SEED]

twice: sampled pairs of kills, the second during the rerun after the first. random: fifty kills at random times in one
folder. Each run is a fork, so that nothing is imported twice. Prints JSON: the calls seen, the expected files, and
errors. It is a separate script, since forks need a process of one thread.
"""

import contextlib
import io
import json
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from refemu.cli import main
from refemu.golden.files import sets
from refemu.models.fetch import catalog
from tests.models.toy_package import ENTRY, write_wheel

UNIT = ["--unit", "flint_decoder", "--kinds"]
#: what is there before, and the command; {} is the folder
COMMANDS: dict[str, tuple[list[str] | None, list[str]]] = {
    "generate": (None, ["generate", "-o", "{}", *UNIT, "paper", "--hex"]),
    "replace": (["generate", "-o", "{}", *UNIT, "edge", "--hex"], ["generate", "-o", "{}", *UNIT, "paper"]),
    "export": (
        ["generate", "-o", "{}", *UNIT, "paper"],
        ["export", "csv", "{}/flint_decoder-flint4", "-o", "{}/answers.csv"],
    ),
    "export-rtl": (None, ["export", "rtl", "flint_decoder", "-o", "{}"]),
    "campaign": (None, ["generate", "-o", "{}", "--unit", "prefix_sum", "--cases", "2"]),
    "fetch": (None, ["models", "fetch", "toy", "--from", "{}.whl"]),
}
KILLS, PAIRS = 50, 60  # of each command
PATCHED = {os: ("rename", "replace", "unlink", "remove", "rmdir", "mkdir", "chmod", "open"), io: ("open",)}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class Calls:
    """Counts calls that change files below `folder`, and kills the process before (even) or after (odd) one."""

    def __init__(self, folder: Path, moment: int = -1) -> None:
        self.folder, self.moment, self.names = os.fspath(folder), moment, list[str]()

    def __enter__(self) -> "Calls":
        self._real = [(module, name, getattr(module, name)) for module, names in PATCHED.items() for name in names]
        for module, name, real in self._real:
            setattr(module, name, self._counted(name, real))
        return self

    def __exit__(self, *_: object) -> None:
        for module, name, real in self._real:
            setattr(module, name, real)

    def _counted(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            if not self._changes(name, arguments, options):
                return real(*arguments, **options)
            self._kill_at(2 * len(self.names))
            answer = real(*arguments, **options)
            self._kill_at(2 * len(self.names) + 1)
            self.names.append(name)
            return answer

        return call

    def _changes(self, name: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> bool:
        if name == "open":
            mode = arguments[1] if len(arguments) > 1 else options.get("mode", options.get("flags", "r"))
            if not (mode & WRITING if isinstance(mode, int) else set(mode) & set("wax+")):
                return False
        place = arguments[0]
        inside = isinstance(place, str | os.PathLike) and os.fspath(place).startswith(self.folder)
        return inside or options.get("dir_fd") is not None  # rmtree works relative to open folders

    def _kill_at(self, moment: int) -> None:
        if moment == self.moment:
            os.kill(os.getpid(), signal.SIGKILL)


def run(words: list[str], folder: Path) -> int:
    """Run the command in this process, silently; its exit code."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return main([word.format(folder) for word in words])


def started(action: Callable[[], int]) -> int:
    """Process number of a child that does `action`."""
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            os._exit(action())
        os._exit(99)
    return child


def ended(child: int) -> int:
    """Exit code of a child, -9 if it was killed."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def forked(action: Callable[[], int]) -> int:
    """Exit code of `action` in a child process."""
    return ended(started(action))


def content(folder: Path) -> dict[str, bytes | None]:
    """Every file and folder below `folder`."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


def prepared(folder: Path) -> None:
    """Restore `folder` to its state before the command."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(beginning(folder), folder)


def beginning(folder: Path) -> Path:
    """Copy of the folder before the command."""
    return folder.with_name("beginning")


def standing(folder: Path, want: dict[str, bytes | None]) -> list[str]:
    """Errors in files and sets after a kill: each must be the old or the new one."""
    wrong, old = [], content(beginning(folder))
    for name, data in content(folder).items():
        if any(part.startswith(".") for part in Path(name).parts):
            continue
        if data not in (old.get(name), want.get(name)):
            wrong.append(f"neither old nor new: {name}")
        if name.endswith("/manifest.json"):
            try:
                sets.load((folder / name).parent)
            except ValueError as error:
                wrong.append(f"not whole: {error}")
    return wrong


def killed(words: list[str], folder: Path, moment: int) -> int:
    """Exit code of the command that is killed at `moment`, if it gets there."""

    def counted() -> int:
        with Calls(folder, moment):
            return run(words, folder)

    return forked(counted)


def mended(words: list[str], folder: Path, want: dict[str, bytes | None]) -> str:
    """Errors in the sets after a kill, and after a rerun of the command."""
    wrong = standing(folder, want)
    if wrong:
        return wrong[0]
    code = forked(lambda: run(words, folder))
    if code:
        return f"exit code {code} of the last run"
    left = content(folder)
    return "" if left == want else f"other files: {sorted(set(left) ^ set(want)) or 'same names, other bytes'}"


def every_moment(words: list[str], folder: Path, calls: list[str], want: dict[str, bytes | None]) -> dict[str, str]:
    """Kill the command at each moment."""
    wrong = {}
    for moment in range(2 * len(calls)):
        prepared(folder)
        code = killed(words, folder, moment)
        said = mended(words, folder, want) if code == -signal.SIGKILL else f"exit code {code} where a kill was due"
        if said:
            wrong[f"{'after' if moment % 2 else 'before'} {calls[moment // 2]} {moment // 2}"] = said
    return wrong


def twice(words: list[str], folder: Path, calls: list[str], want: dict[str, bytes | None], seed: int) -> dict[str, str]:
    """Kill the command and its rerun at moments drawn from `seed`."""
    draw, wrong = random.Random(seed), {}
    for _ in range(PAIRS):
        first, second = draw.randrange(2 * len(calls)), draw.randrange(2 * len(calls) + 8)
        prepared(folder)
        killed(words, folder, first)
        killed(words, folder, second)
        said = mended(words, folder, want)
        if said:
            wrong[f"{first} and {second}"] = said
    return wrong


def at_random(
    words: list[str], folder: Path, calls: list[str], want: dict[str, bytes | None], seed: int
) -> dict[str, str]:
    """Kill the command at random times in one folder, then run it to its end."""
    draw, start = random.Random(seed), time.monotonic()
    prepared(folder)
    assert forked(lambda: run(words, folder)) == 0
    duration = time.monotonic() - start
    prepared(folder)
    wrong, kills = {}, 0
    while kills < KILLS:
        child = started(lambda: run(words, folder))
        time.sleep(draw.random() * duration)
        os.kill(child, signal.SIGKILL)
        kills += ended(child) == -signal.SIGKILL
        for said in standing(folder, want):
            wrong[f"kill {kills}"] = said
        if draw.random() < 0.2:
            said = mended(words, folder, want)
            if said:
                wrong[f"after kill {kills}"] = said
            prepared(folder)
    said = mended(words, folder, want)
    return wrong | ({"at the end": said} if said else {})


def console() -> None:
    """Test one command in a new folder."""
    name, folder, how = sys.argv[1], Path(sys.argv[2]), sys.argv[3:]
    catalog.MODELS["toy"] = ENTRY
    write_wheel(Path(f"{folder}.whl"))
    os.environ["REFEMU_HOME"] = str(folder) if name == "fetch" else str(folder.with_name("home"))
    before, words = COMMANDS[name]
    beginning(folder).mkdir()
    if before is not None:
        assert run(before, beginning(folder)) == 0
    prepared(folder)
    with Calls(folder) as calls:
        assert run(words, folder) == 0
    want = content(folder)
    if how:
        wrong = {"twice": twice, "random": at_random}[how[0]](words, folder, calls.names, want, int(how[1]))
    else:
        wrong = every_moment(words, folder, calls.names, want)
    print(json.dumps({"calls": calls.names, "files": sorted(want), "wrong": wrong}))


if __name__ == "__main__":
    console()
