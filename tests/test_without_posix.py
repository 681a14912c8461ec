"""What docs/other-systems.md says runs elsewhere gives the same output here without POSIX's modules and functions."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from refemu import golden
from refemu.cli import main
from refemu.golden.files import exchange

ROOT = Path(__file__).resolve().parents[1]
MODULES = ("fcntl", "resource", "pwd", "grp", "termios", "pty", "tty", "syslog", "readline")
FUNCTIONS = (
    "fork",
    "forkpty",
    "geteuid",
    "getuid",
    "getgid",
    "mkfifo",
    "chown",
    "sched_getaffinity",
    "killpg",
    "sysconf",
)
WITHOUT = f"""
import os, select, signal, sys, warnings
warnings.filterwarnings("ignore", "only soft file lock")  # filelock on a system with neither kind of lock
for name in {MODULES!r}:
    sys.modules[name] = None
for name in {FUNCTIONS!r}:
    if hasattr(os, name):
        delattr(os, name)
for name in ("SIGKILL", "SIGALRM", "SIGPIPE", "SIGHUP", "setitimer", "alarm"):
    delattr(signal, name)
del select.poll, select.epoll, os.O_NOFOLLOW
"""
RUN = """
import sys
import refemu, refemu.arith, refemu.formats, refemu.golden, refemu.models, refemu.studies, refemu.testing, refemu.units
from refemu.cli import main
for line in sys.argv[1:]:
    print(line, main(line.split()), flush=True)
"""
LINES = (
    "generate -o vec --unit concat:a4 --kinds paper,edge --hex",
    "check vec",
    "diff vec/concat-a4 vec/concat-a4",
    "diff vec/concat-a4 wrong.npz --explain",
    "explain D-olive-18",
    "explain concat",
    "models list",
    "list units",
    "show INT4 7",
    "step concat --input a=1 --input b=2",
    "export csv vec/concat-a4 -o answers.csv",
    "grade vec/concat-a4 --class bits",
)


def run(prelude: str, folder: Path) -> tuple[str, dict[str, bytes]]:
    """Output of all commands in a process of its own, and the files that they wrote."""
    one = golden.load(golden.generate(folder / "before", units=["concat:a4"], kinds=["paper", "edge"])[0].path)
    arrays = {name: array.copy() for name, array in one.arrays.items() if name.startswith("out.")}
    arrays["out.q"].reshape(-1)[3] ^= 1
    np.savez(folder / "wrong.npz", **arrays)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "REFEMU_HOME": str(folder / "home"), "COLUMNS": "120"}
    command = [sys.executable, "-c", prelude + RUN, *LINES]
    ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*.*") if path.is_file()}
    return ran.stdout, {name: data for name, data in files.items() if name.startswith(("vec", "answers"))}


@pytest.mark.long
def test_commands_need_no_posix(tmp_path: Path) -> None:
    for name in ("with", "without"):
        (tmp_path / name).mkdir()
    usual, files = run("", tmp_path / "with")
    answer = run(WITHOUT, tmp_path / "without")

    assert answer == (usual, files) and len(files) > 4
    assert [line.split()[-1] for line in usual.splitlines() if line.startswith(LINES)] == list("000100000001")


def test_answers_with_crlf_are_equal(tmp_path: Path) -> None:
    made = Path(golden.generate(tmp_path, units=["concat:a4"], kinds=["paper"], hex=True)[0].path)
    answers = {f"answer.{form}": "".join(exchange.export(golden.load(made), form)) for form in exchange.FORMS}
    answers["gold.mem"] = (made / "hex" / "gold.mem").read_text()
    for name, text in answers.items():
        (tmp_path / name).write_bytes(text.replace("\n", "\r\n").encode())
        assert main(["diff", str(made), str(tmp_path / name)]) == 0
