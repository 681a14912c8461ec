"""Every command has examples, and each of them runs."""

import contextlib
import io
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from refemu.cli import main
from refemu.cli.arguments import parser
from refemu.cli.help.examples import EXAMPLES, Example, text
from refemu.models.fetch import store
from tests.cli.help import standins
from tests.cli.help.parsers import parsers

LINES = [
    pytest.param(example, id=example.line, marks=[pytest.mark.long] if example.long else [])
    for examples in EXAMPLES.values()
    for example in examples
]


def test_every_help_ends_with_its_examples() -> None:
    helps = {each.prog: each.format_help() for each in parsers(parser())}

    assert set(helps) == set(EXAMPLES)
    for prog, shown in helps.items():
        assert shown.endswith(text(prog)) and EXAMPLES[prog]
        assert all(example.line.startswith(prog) for example in EXAMPLES[prog] if prog != "refemu")


def test_commands_have_two_to_four_examples() -> None:
    assert {prog for prog, examples in EXAMPLES.items() if not 2 <= len(examples) <= 4} == set()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("files")
    standins.write(folder)
    return folder


@pytest.mark.parametrize("example", LINES)
def test_example_exits_as_stated(
    example: Example, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in example.needs.split():
        if store.path(name) is None:
            pytest.skip(f"the weights of {name} are not here; run: refemu models fetch {name}")
    if example.solver:
        pytest.importorskip("bitwuzla", reason="no solver here: the extra `formal`")
    if example.program and shutil.which(example.program) is None:
        pytest.skip(f"{example.program} is not installed; run: make programs")
    if not example.needs:
        monkeypatch.setenv("REFEMU_HOME", str(tmp_path / "home"))  # so that no measurement of another day is found
    shutil.copytree(files, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    before = set(tmp_path.rglob("*"))
    code, said = run(example.line, monkeypatch)

    assert code == example.code, said
    assert said.strip() or set(tmp_path.rglob("*")) > before or example.line.startswith("refemu serve")


def run(line: str, monkeypatch: pytest.MonkeyPatch) -> tuple[int, str]:
    """Run a line like a shell, with `<` and `>`; return exit code and output."""
    words, files = shlex.split(line)[1:], {}
    for sign in ("<", ">"):
        if sign in words:
            at = words.index(sign)
            files[sign] = words[at + 1]
            del words[at : at + 2]
    said = io.StringIO()
    with contextlib.ExitStack() as stack:
        if words[0] == "serve":
            return serve(words), ""
        stream: Any = stack.enter_context(open(files.get("<", os.devnull)))
        monkeypatch.setattr(sys, "stdin", stream)
        stack.enter_context(contextlib.redirect_stdout(said))
        stack.enter_context(contextlib.redirect_stderr(said))
        code = main(words)
    if ">" in files:
        Path(files[">"]).write_text(said.getvalue())
    return code, said.getvalue()


def serve(words: list[str]) -> int:
    """Run `refemu serve` in a new process without input, since it takes over file descriptors; return its exit code."""
    ended = subprocess.run(
        [sys.executable, "-m", "refemu", *words], input=b"", capture_output=True, timeout=60, check=False
    )
    assert ended.stdout, ended.stderr
    return ended.returncode
