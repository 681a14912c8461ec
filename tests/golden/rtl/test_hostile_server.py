"""The exported C client with a wrong, crashed or silent server: error messages, and no finding of a sanitizer."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from refemu.golden.rtl import dpi
from tests import sanitizers

COMPILER = shutil.which("gcc") or shutil.which("clang")
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(COMPILER is None, reason="no gcc or clang, whose sanitizers are used"),
]
SANITIZERS = sanitizers.flags(COMPILER)
DIGEST = "0" * 64
GOOD = f'{{"digest": "{DIGEST}", "words_in": 1, "words_out": 1}}'
SERVER = """
import os, signal, struct, sys, time
hello, reply = os.environ["HELLO"].encode(), bytes.fromhex(os.environ.get("REPLY", ""))
if hello == b"nothing":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(60)
claimed = int(os.environ.get("CLAIMED", len(hello)))
os.write(1, struct.pack("<III", 0x554D4652, 1, claimed) + hello)
os.read(0, 1 << 16)
os.write(1, reply)
if os.environ.get("THEN") == "nothing":
    time.sleep(60)
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    sources = [dpi.TEXTS / "refemu_dpi.c", Path(__file__).with_name("probe.c")]
    command = [str(COMPILER), *SANITIZERS, f"-I{dpi.TEXTS}", "-o", folder / "probe", *sources, "-pthread"]
    if not SANITIZERS:
        pytest.skip("this compiler has no sanitizers")
    subprocess.run(command, check=True)
    (folder / "server.py").write_text(SERVER)
    return folder / "probe"


def run(program: Path, *words: str, **settings: str) -> list[str]:
    """Output lines of `probe`, which a sanitizer would end."""
    command = f"{sys.executable} -S {program.with_name('server.py')}"
    environment = os.environ | {"REFEMU": command, "REFEMU_TIMEOUT": "1", **settings}
    ran = subprocess.run([program, *words], capture_output=True, text=True, timeout=60, env=environment, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout.splitlines()


@pytest.mark.parametrize(
    ("hello", "sentence"),
    [
        ('{"words_in": 1, "words_out": 1, "digest": ', "no digest of 64 digits"),
        (GOOD.replace(DIGEST, "0" * 63), "no digest of 64 digits"),
        (GOOD.replace('"words_in": 1', '"words_in": -1'), "no words_in or words_out that fit into a frame"),
        (GOOD.replace('"words_in": 1', '"words_in": 0'), "no words_in or words_out that fit into a frame"),
        (GOOD.replace('"words_out": 1', f'"words_out": {1 << 62}'), "no words_in or words_out that fit into a frame"),
        (GOOD.replace('"words_out": 1', '"words_out": "1"'), "no words_in or words_out that fit into a frame"),
        ('{"a": "\\', "no words_in or words_out that fit into a frame"),
        ("", "no words_in or words_out that fit into a frame"),
    ],
)
def test_wrong_hello_is_rejected(hello: str, sentence: str, program: Path) -> None:
    lines = run(program, "open", "unit", "step", HELLO=hello)

    assert lines[0].startswith("open 1 unit: the hello has ") and sentence in lines[0]


@pytest.mark.parametrize(
    "before",
    ['"parameters": {"words_in": 7}, ', '"ports": [{"words_in": 7}], ', r'"meaning": "{\"words_in\": 7", '],
    ids=["object", "list", "text"],
)
def test_nested_keys_of_hello_are_ignored(before: str, program: Path) -> None:
    hello = GOOD.replace('"words_in"', f'{before}"words_in"')

    assert run(program, "open", "unit", "words", HELLO=hello)[:2] == ["open 0 ", "words 1 1"]


@pytest.mark.parametrize("claimed", [1 << 26, 0xFFFFFFFF])
def test_short_hello_is_an_error(claimed: int, program: Path) -> None:
    sentence = run(program, "open", "unit", HELLO=GOOD, CLAIMED=str(claimed), THEN="nothing")[0]

    assert "the hello is incomplete" in sentence or "the hello is too long" in sentence


@pytest.mark.parametrize(
    ("reply", "line"),
    [
        ("0100000000000000", "step 1 unit: rejected without a reason"),
        ("0100000003000000616263", "step 1 abc"),
        ("070000000400000000000000", "step 2 unit: the reply does not have"),
        ("00000000080000000000000000000000", "step 2 unit: the reply does not have"),
        ("01000000ffffffff61", "step 2 unit: "),
        ("000000000400000000", "step 2 unit: the reply is incomplete"),
        ("0000", "step 2 unit: no reply"),
    ],
)
def test_invalid_reply_is_an_error(reply: str, line: str, program: Path) -> None:
    assert run(program, "open", "unit", "step", HELLO=GOOD, REPLY=reply)[1].startswith(line)


@pytest.mark.parametrize("words", [("open", "unit"), ("open", "unit", "step"), ("wrong", "unit")])
def test_silent_server_is_ended(words: tuple[str, ...], program: Path) -> None:
    """A server that ignores SIGTERM ends one second after $REFEMU_TIMEOUT."""
    start = time.monotonic()
    hello = "nothing" if words == ("open", "unit") else GOOD
    line = run(program, *words, HELLO=hello, THEN="nothing")[-2 if len(words) == 2 else 1]

    assert (
        "no hello" in line or "no reply" in line or "made for another unit" in line
    ) and time.monotonic() - start < 40
