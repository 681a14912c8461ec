"""Run one command once for each call that changes files or allocates much memory, and let that call fail.

    LD_PRELOAD=faults.so python -m tests.golden.injection.driver FOLDER KIND COMMAND ...

FOLDER/files has the files before the command. Prints a line of JSON: calls, injected faults, and what is wrong.
"""

import contextlib
import ctypes
import errno
import io
import json
import os
import re
import shutil
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refemu.cli import main

MOST = 400  #: calls into which a fault is injected: all, or as many at equal distances
LIMIT = 60  #: seconds of a run
TEMPORARY = re.compile(r"(^|/)\.[^/]*(\.new|\.old|\.lock|\.refemu\.lock|\.(new|gone)-[a-z0-9_]+|\.tmp[^/]*)")


@dataclass(frozen=True)
class Kind:
    """What happens at a call. memory: at a large allocation instead of a call that changes files."""

    action: int
    memory: int = 0
    dies: bool = False


KINDS = {
    "full": Kind(errno.ENOSPC),
    "failed": Kind(errno.EIO),
    "memory": Kind(errno.ENOMEM, memory=1),
    "interrupted": Kind(-signal.SIGINT),
    "killed": Kind(-signal.SIGKILL, dies=True),
}
Tree = dict[str, bytes]


class Injected:
    """A command with its files."""

    def __init__(self, folder: Path, words: list[str]) -> None:
        self.words, self.files, self.place = words, folder / "files", folder / "place"
        self.faults: Any = ctypes.CDLL(None)
        self.faults.arm.argtypes, self.faults.disarm.restype = [ctypes.c_long] * 3, ctypes.c_long
        os.environ["REFEMU_HOME"] = str(folder / "home")
        self.reset()
        self.code = self.run(Kind(0), 0)[0]  # loads kernels, which all runs then share
        self.before, self.after = tree(self.files), tree(self.place)

    def reset(self) -> None:
        """The files before the command."""
        shutil.rmtree(self.place, ignore_errors=True)
        shutil.copytree(self.files, self.place)
        os.chdir(self.place)

    def forked(self, kind: Kind, at: int) -> tuple[int, str, int]:
        """Exit code or minus a signal, output and number of calls of a run in a new process."""
        self.reset()
        source, sink = os.pipe()
        child = os.fork()
        if child == 0:
            signal.alarm(LIMIT)
            code, said = self.run(kind, at)
            os.write(sink, said.encode()[-60_000:])
            os._exit(code)
        os.close(sink)
        with open(source, "rb") as stream:
            said = stream.read().decode()
        status = os.waitpid(child, 0)[1]
        return os.waitstatus_to_exitcode(status), said, self.faults.disarm()

    def run(self, kind: Kind, at: int) -> tuple[int, str]:
        """Exit code and messages of a run in this process, with a fault at call `at`."""
        said = io.StringIO()
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
            self.faults.arm(kind.memory, at, kind.action)
            try:
                code = main(self.words)
            except BaseException as error:
                code, said = 99, io.StringIO(f"{type(error).__name__}: {error}")
            self.faults.disarm()
        return code, said.getvalue()

    def wrong(self, kind: Kind, at: int) -> str:
        """What is wrong after a fault at call `at`; "" if the files are as before or as after the command."""
        code, said, _ = self.forked(kind, at)
        allowed = {-kind.action, 130} if kind.dies or kind.action < 0 else {2}
        allowed = {-signal.SIGKILL} if kind.dies else allowed
        if code not in {self.code, *allowed}:
            return f"exit {code}: {said[-2000:]}"
        if code == 2 and len(said.strip().splitlines()) != 1:
            return f"not one line: {said[-2000:]}"
        found = tree(self.place)
        left = {name for name in found if TEMPORARY.search(name)}
        if left and not kind.dies and code != self.code:  # a run that succeeds may leave deletions to the next
            return f"exit {code}: left {sorted(left)}"
        for name in {*self.before, *self.after, *found} - left:
            if found.get(name) not in (self.before.get(name), self.after.get(name)):
                return f"exit {code}: {name} is neither the old nor the new file"
        whole = {name: data for name, data in found.items() if name not in left}
        if code == self.code and not kind.dies and whole != self.after:
            return f"exit {code}, and the files are not those of a run without a fault"
        again, said = self.run(Kind(0), 0)
        if again != self.code or tree(self.place) != self.after:
            lost = sorted(set(tree(self.place).items()) ^ set(self.after.items()))[:2]
            return f"the next run ends with {again}: {said[-500:]}, other files {[name for name, _ in lost]}"
        return ""


def tree(folder: Path) -> Tree:
    """Content of every file by name; a folder has none."""
    found = {}
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        found[name] = path.read_bytes() if path.is_file() else b"folder" if path.is_dir() else b"other"
    return {name: data for name, data in found.items() if data != b"folder" or TEMPORARY.search(name)}


def injected(folder: Path, name: str, words: list[str]) -> dict[str, Any]:
    """Number of calls, of injections, and everything wrong."""
    one, kind = Injected(folder, words), KINDS[name]
    calls = one.forked(Kind(0, kind.memory), 0)[2]
    places = range(1, calls + 1, -(-calls // MOST) or 1)
    wrong = [f"call {at} of {calls}: {what}" for at in places if (what := one.wrong(kind, at))]
    return {"calls": calls, "injected": len(places), "code": one.code, "wrong": wrong}


if __name__ == "__main__":
    print(json.dumps(injected(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])))
