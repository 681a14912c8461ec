"""docs/your-paper.md, run from the first to the last command."""

import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.plugin_distribution import write

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "your-paper.md").read_text()
PACKAGE = "refemu-mx-scale"
FILE = re.compile(r"`((?:src|tests)/[\w/]+\.(?:py|md)|wrong\.py)`")


def blocks() -> Iterator[tuple[str, str, str]]:
    """Path, language and text of every block: a file named in the text before it, a part of one, or commands."""
    fences = PAGE.split("```")
    for text, block in zip(fences[::2], fences[1::2], strict=False):
        language, _, body = block.partition("\n")
        paths = FILE.findall(text)
        yield paths[-1] if paths and language else "", language, body


def put(folder: Path, path: str, body: str) -> None:
    place = folder / path if path == "wrong.py" else folder / PACKAGE / path
    assert path == "wrong.py" or place.exists(), f"new-unit wrote no {path}"
    place.write_text(body)


def installed(folder: Path, package: Path) -> None:
    """Write the metadata of a package next to its sources, as pip does."""
    project = tomllib.loads((package / "pyproject.toml").read_text())["project"]
    points = {
        f"{group.removeprefix('refemu.')} {name}": place
        for group, entries in project["entry-points"].items()
        for name, place in entries.items()
    }
    write(folder / "site", project["name"], points, {}, project["version"])


def ran(folder: Path, line: str) -> str:
    """Output of a command of the page, run in its own process; its exit code must be that of the page."""
    command, _, remark = line.partition("  #")
    words = shlex.split(command)
    if words[0] == "refemu":
        words = [sys.executable, "-m", "refemu", *words[1:]]
    elif words[0] == "pytest":
        words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words[1:]]
    elif words[0] == "python":
        words[0] = sys.executable
    places = [folder / "site", folder / PACKAGE / "src", ROOT / "examples" / "refemu-mx" / "src", ROOT]
    environ = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, places))}
    done = subprocess.run(words, cwd=folder, env=environ, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == (1 if "exit code 1" in remark else 0), f"{line}\n{done.stdout}"
    return done.stdout


@pytest.mark.long
def test_page_runs_from_first_command_to_last(tmp_path: Path) -> None:
    told: dict[str, str] = {}
    installed(tmp_path, ROOT / "examples" / "refemu-mx")
    cases = Path(PACKAGE, "src", "refemu_mx_scale", "cases.py")
    for path, language, body in blocks():
        if path:
            put(tmp_path, path, body)
        elif language == "py":
            before = (tmp_path / cases).read_text()
            (tmp_path / cases).write_text(before.replace("\ndef random", f"{body}\ndef random"))
        else:
            for line in filter(None, body.splitlines()):
                if line.startswith("pip install"):
                    installed(tmp_path, tmp_path / PACKAGE)
                else:
                    told[line] = ran(tmp_path, line)

    first, second = (text for line, text in told.items() if line.startswith("refemu grade"))
    assert re.search(r"missed +decisions +F-mxscale-2: the last lane is left out", first)
    assert "F-mxscale-2" in second and "missed  " not in second.split("flag")[-1]
    (outcome,) = (text for line, text in told.items() if line.startswith("refemu diff"))
    assert "right if D-mxscale-2, a largest value between two powers of two: rule is 'ceil'" in outcome
    (decision,) = (text for line, text in told.items() if line.startswith("refemu explain"))
    assert "A largest value between two powers of two" in decision and "MxScale.scale" in decision
    (tests,) = (text for line, text in told.items() if line.startswith("pytest"))
    assert " passed" in tests and "skipped" not in tests
    assert len(told) == 14


def test_files_of_the_page_exist_in_new_unit() -> None:
    kinds = [(path, language) for path, language, _ in blocks()]

    assert [path for path, _ in kinds if path.startswith(("src", "tests"))] == [
        "src/refemu_mx_scale/mx_scale.py",
        "src/refemu_mx_scale/decisions.md",
        "tests/oracle_mx_scale.py",
        "src/refemu_mx_scale/cases.py",
        "src/refemu_mx_scale/variants.py",
        "tests/test_mx_scale.py",
    ]
    assert len(kinds) == PAGE.count("```") / 2
