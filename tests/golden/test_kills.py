"""A command killed at any moment leaves complete sets, and a rerun finishes the work."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def trials(tmp_path: Path, *words: str) -> Any:
    """Output of `kills.py`, run in a process of one thread, which may fork."""
    command = [sys.executable, "-m", "tests.golden.kills", words[0], str(tmp_path / "folder"), *words[1:]]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "REFEMU_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.long
@pytest.mark.parametrize(
    ("command", "met", "files"),
    [
        ("generate", {"mkdir", "open", "rename"}, "flint_decoder-flint4/manifest.json"),
        ("replace", {"mkdir", "open", "rename", "unlink", "rmdir"}, "flint_decoder-flint4/manifest.json"),
        ("export", {"open", "replace"}, "answers.csv"),
        pytest.param("export-rtl", {"open", "rename", "replace"}, "Makefile", marks=pytest.mark.slow),
        ("campaign", {"open", "rename", "replace", "unlink"}, "prefix_sum-odd/random-00000000/manifest.json"),
        ("fetch", {"open", "rename"}, "models/toy/toy.gguf"),
    ],
)
def test_command_recovers_from_kill_at_any_call(command: str, met: set[str], files: str, tmp_path: Path) -> None:
    seen = trials(tmp_path, command)

    assert met <= set(seen["calls"]) and files in seen["files"]
    assert seen["wrong"] == {}
    assert command != "campaign" or sum(name.endswith("/manifest.json") for name in seen["files"]) == 2  # shards


@pytest.mark.slow
@pytest.mark.parametrize("command", ["generate", "replace", "export", "export-rtl", "campaign", "fetch"])
@pytest.mark.parametrize("how", ["twice", "random"])
def test_command_recovers_from_repeated_kills(command: str, how: str, tmp_path: Path) -> None:
    assert trials(tmp_path, command, how, "1")["wrong"] == {}
