"""The exported C client when any one of its calls of the system fails: an error with a reason, and nothing unsafe."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from refemu.golden.rtl import dpi
from tests.golden.rtl.test_hostile_server import COMPILER, GOOD, SANITIZERS

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(COMPILER is None or sys.platform != "linux", reason="needs gcc or clang on Linux"),
]
SERVER = """
import os, struct
hello = os.environ["HELLO"].encode()
os.write(1, struct.pack("<III", 0x554D4652, 1, len(hello)) + hello)
while data := os.read(0, 1 << 16):
    os.write(1, struct.pack("<III", 0, 4, 7) if data[0] == 1 else struct.pack("<II", 0, 0))
"""
WORDS = ("open", "unit", "step", "close")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, here = tmp_path_factory.mktemp("faults"), Path(__file__).parent
    client = ["-include", here / "client_faults.h", "-c", dpi.TEXTS / "refemu_dpi.c", "-o", folder / "client.o"]
    linked = [folder / "client.o", here / "probe.c", "-o", folder / "probe", "-pthread"]
    for words in (client, linked):
        subprocess.run([str(COMPILER), *SANITIZERS, f"-I{dpi.TEXTS}", *words], check=True)
    (folder / "server.py").write_text(SERVER)
    return folder / "probe"


def run(program: Path, at: int, number: int) -> tuple[list[str], int]:
    """Lines of the probe, and how often it called."""
    count = program.with_name("count")
    count.unlink(missing_ok=True)
    faults = {"FAULT_AT": str(at), "FAULT_ERRNO": str(number), "FAULT_COUNT": str(count)}
    server = {"REFEMU": f"{sys.executable} -S {program.with_name('server.py')}", "HELLO": GOOD}
    environment = os.environ | {"REFEMU_TIMEOUT": "2"} | faults | server
    ran = subprocess.run([program, *WORDS], capture_output=True, text=True, timeout=20, env=environment, check=False)
    assert (ran.returncode, ran.stderr) == (0, ""), (at, ran)
    return ran.stdout.splitlines(), int(count.read_text())


@pytest.mark.parametrize("number", [errno.EIO, errno.EINTR, errno.ENOMEM], ids=["EIO", "EINTR", "ENOMEM"])
def test_every_failing_call_gives_a_reason(number: int, program: Path) -> None:
    good, calls = run(program, 0, number)
    assert good == ["open 0 ", "step 0 ", "out 00000007 00000000", "close 0 ", "end"] and 10 < calls < 50
    wrong = []
    for at in range(1, calls + 1):
        lines, _ = run(program, at, number)
        results = [line.split(" ", 2) for line in lines if line.split()[0] in WORDS]
        if lines[-1] != "end" or any(result[1] != "0" and not result[2].strip() for result in results):
            wrong.append((at, lines))
        if any(result[:2] == ["step", "0"] for result in results) and good[2] not in lines:
            wrong.append((at, lines))
    assert wrong == []
