"""`refemu --version`, as text and as JSON."""

import json
import platform

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
