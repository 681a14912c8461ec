"""`refemu --version`, as text and as JSON."""

import json
import os
import platform
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import refemu
from refemu.cli import main
from refemu.cli.version import LIBRARIES


@pytest.mark.parametrize("words", [["--version"], ["-V"], ["-V", "list"]])
def test_version_is_printed(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 0
    assert capsys.readouterr().out == f"refemu {refemu.__version__}\n"


@pytest.mark.parametrize("words", [["--version", "--json"], ["--json", "-V"]])
def test_json_has_versions_of_libraries(
    words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REFEMU_THREADS", "2")
    assert main(words) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["refemu"] == refemu.__version__ and document["python"] == platform.python_version()
    assert document["libraries"]["numpy"] == np.__version__ and set(document["libraries"]) == set(LIBRARIES)
    assert document["environment"]["REFEMU_THREADS"] == "2"


@pytest.mark.parametrize(
    ("variables", "path"),
    [
        ({"REFEMU_ROUND16": "portable", "NUMBA_CPU_NAME": "x86-64"}, ("portable", False, None, 1)),
        ({"REFEMU_THREADS": "64"}, None),
    ],
    ids=["no AVX2, no F16C", "more threads than processors"],
)
def test_json_names_the_path_of_kernels(variables: dict[str, str], path: tuple[Any, ...] | None) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "refemu", "--version", "--json"],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)["arithmetic"]
    if path is None:
        assert found["threads"] == 64 and 1 <= found["processors"] <= (os.cpu_count() or 1)
    else:
        assert tuple(found[name] for name in ("rounding", "fused", "vectors", "threads")) == path
