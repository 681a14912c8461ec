"""The package of `refemu new-unit`: its tests pass, detect changes, and use public names only."""

import ast
import errno
import importlib
import os
import re
import runpy
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from refemu.arith.checks import Refused
from refemu.golden.start import package
from tests.plugin_distribution import write

ROOT = Path(__file__).resolve().parent.parent.parent.parent
PUBLIC = ROOT / "examples" / "refemu-mx" / "tests" / "test_public_names.py"


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A package with its metadata, as installed by pip."""
    folder = tmp_path / "made"
    package.write("my_block2", folder)
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    points = {
        f"{group.removeprefix('refemu.')} {name}": place
        for group, entries in project["entry-points"].items()
        for name, place in entries.items()
    }
    write(folder / "src", project["name"], points, {}, project["version"])
    return folder


def outcome(folder: Path, *words: str, places: Sequence[str] = ()) -> tuple[int, str]:
    """Exit code and output of the package's tests in their own process. places: sources, by default its own."""
    environ = os.environ | {"PYTHONPATH": os.pathsep.join([*(places or [str(folder / "src")]), str(ROOT)])}
    environ.pop("CI", None)  # in CI pytest prints complete differences, for minutes if a row is wide
    line = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words]
    ran = subprocess.run(line, cwd=folder, env=environ, capture_output=True, text=True)
    return ran.returncode, ran.stdout + ran.stderr


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))


def test_tests_of_the_scaffold_pass(made: Path) -> None:
    code, told = outcome(made)

    assert code == 0 and " passed" in told and "skipped" not in told, told


@pytest.mark.long
def test_changed_tie_is_detected_by_oracle(made: Path) -> None:
    change(made / "src/refemu_my_block2/my_block2.py", "else whole & 1)", "else 1 - whole & 1)")
    code, told = outcome(made, "-k", "protocol or oracles")

    assert code == 1
    assert "FAILED tests/test_my_block2.py::test_every_case_is_the_oracles[b8_even]" in told


def test_lost_cases_are_detected_by_coverage(made: Path) -> None:
    cases = made / "src/refemu_my_block2/cases.py"
    change(cases, "def edge", "def none")
    change(cases, 'words("my_block2/random", seed, 256)', 'words("my_block2/random", seed, 4)')
    code, told = outcome(made, "-k", "coverage")

    assert code == 1 and "FAILED tests/test_my_block2.py::test_sets_reach_required_coverage[b8_even]" in told


def test_scaffold_uses_public_names_only(made: Path) -> None:
    private = runpy.run_path(str(PUBLIC))["private"]
    sources = [path for path in made.rglob("*.py") if path.stat().st_size]

    assert len(sources) == 6
    assert [name for path in sources for name in private(path.read_text()) if name] == []


def test_scaffold_is_formatted_and_linted(made: Path) -> None:
    ruff = Path(sys.executable).with_name("ruff")
    if not ruff.is_file():
        pytest.skip("the extra `dev` is not installed")
    for words in (["format", "--check"], ["check"]):
        line = [ruff, *words, "--config", ROOT / "pyproject.toml", "--no-cache", made]
        ran = subprocess.run(line, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("Block", "a name must be a lower-case word"),
        ("2block", "a name must be a lower-case word"),
        ("a__b", "a name must be a lower-case word"),
        ("a" * 41, "a name must be a lower-case word"),
        ("../x", "a name must be a lower-case word"),
        ("class", "must not be a keyword of Python, SystemVerilog or C"),
        ("reg", "must not be a keyword"),
        ("refemu", "differ from refemu and the names of its units, got 'refemu'"),
        ("orizuru", "differ from refemu and the names of its units, got 'orizuru'"),
        ("cases", "must not be that of another module of the package, got 'cases'"),
        ("variants", "must not be that of another module"),
        ("combinational", "class must not hide a name of its module, got Combinational for 'combinational'"),
        ("any_unit", "class must not hide a name"),
        ("one_short", "class must not hide a name"),
        ("none", "class must not hide a name"),
    ],
)
def test_invalid_names_are_rejected(name: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(Refused, match=why):
        package.write(name, tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


def words_of(made: Path) -> set[str]:
    """Every lower-case name in the written Python files and their paths."""
    text = "\n".join(f"{path.relative_to(made)}\n{path.read_text()}" for path in made.rglob("*.py"))
    parts = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", text)
    return {word.lower() for word in re.findall(r"[A-Za-z]+(?:_?[A-Za-z0-9]+)*", parts)}


def bound(body: Sequence[ast.stmt]) -> Iterator[str]:
    """Names that the statements of a module bind."""
    for node in body:
        if isinstance(node, ast.ImportFrom | ast.Import):
            yield from (alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (target.id for target in targets if isinstance(target, ast.Name))


def test_name_in_the_files_works_or_is_rejected(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = set()
    for name in sorted(words_of(made)):
        try:
            package.write(name, tmp_path / name)
        except Refused:
            refused.add(name)
            continue
        monkeypatch.syspath_prepend(tmp_path / name / "src")
        module = importlib.import_module(f"refemu_{name}.{name}")
        assert module.run([5], [1], bits=4).code.tolist() == [2], name
        for module_name in ("cases", "variants"):
            importlib.import_module(f"refemu_{name}.{module_name}")
        for path in (tmp_path / name).rglob("*.py"):
            names = list(bound(ast.parse(path.read_text()).body))
            assert len(names) == len(set(names)), (name, path)
    assert {"cases", "changes", "port", "unit", "flag", "ports"} <= refused


@pytest.mark.long
def test_two_packages_are_tested_in_one_run(tmp_path: Path) -> None:
    """Each package is tested by its own oracle."""
    for name in ("first_block", "second_block"):
        package.write(name, tmp_path / name)
        points = {f"units {name}": f"refemu_{name}.{name}:UNIT"}
        write(tmp_path / name / "src", f"refemu-{name.replace('_', '-')}", points, {}, "0.1.0")
    change(tmp_path / "second_block/tests/oracle_second_block.py", "return code, code != rounded", "return code, True")
    places = [str(tmp_path / name / "src") for name in ("first_block", "second_block")]
    code, told = outcome(tmp_path, "first_block", "second_block", "-k", "oracles", places=places)

    assert code == 1 and "2 failed, 2 passed" in told, told
    assert "second_block.py::test_every_case_is_the_oracles[b8_even]" in told


def test_nonempty_folder_is_unchanged(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(Refused, match="must be a new or an empty folder"):
        package.write("my_block2", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is full at the third file."""
    count, write_bytes = iter(range(99)), Path.write_bytes

    def fills(path: Path, data: bytes) -> int:
        if next(count) == 2:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        return write_bytes(path, data)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", fills)
        with pytest.raises(Refused, match="No space left on device; nothing was written"):
            package.write("my_block", tmp_path / "new")
    assert list(tmp_path.iterdir()) == []
    assert all(path.is_file() for path in package.write("my_block", tmp_path / "new"))
