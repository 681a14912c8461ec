"""A wheel holds all that commands read: benches, schemas, golden_set.h, the pages of decisions."""

import configparser
import fnmatch
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from refemu import units

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "refemu"
#: pages that commands read
TEXTS = [
    "diagnosis.md",
    "glossary.md",
    *(f"decisions-{paper}.md" for paper in ("arith", "harmonia", "kllm", "leankv", "mix", "olive")),
    *(f"variants-{paper}.md" for paper in ("harmonia", "kllm", "leankv", "olive")),
]
#: files of the package that are elsewhere in the repository, each once
LINKS = {
    "refemu/golden/c/texts/golden_set.h": "examples/kernels/golden_set.h",
    **{f"refemu/golden/pages/texts/{name}": f"docs/{name}" for name in TEXTS},
}


def data() -> list[Path]:
    """Files of the package that are not modules."""
    files = [path for path in PACKAGE.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    return [path for path in files if path.suffix not in (".py", ".nbi", ".nbc")]


def is_packaged(path: Path, patterns: dict[str, list[str]]) -> bool:
    """Whether package data of setup.cfg names a file. patterns: by package."""
    for folder in path.parents:
        package = ".".join(folder.relative_to(ROOT).parts)
        inside = path.relative_to(folder).as_posix()
        if (folder / "__init__.py").is_file():
            return any(
                fnmatch.fnmatch(inside, each) and inside.count("/") == each.count("/")
                for each in [*patterns["*"], *patterns.get(package, [])]
            )
    return False


def patterns() -> dict[str, list[str]]:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    section = config["options.package_data"]
    return {package: [each.strip() for each in section[package].replace("\n", ",").split(",")] for package in section}


def test_every_file_of_the_package_is_package_data() -> None:
    assert [path for path in data() if not is_packaged(path, patterns())] == []


def test_a_file_that_is_left_out_is_seen() -> None:
    less = {package: names for package, names in patterns().items() if package != "refemu.golden.pages"}
    lost = {path.name for path in data() if not is_packaged(path, less)}
    assert lost == {*TEXTS}


def test_links_of_the_package_are_these() -> None:
    """Relative, so that every copy of the repository has them; in an sdist they are files of the same contents."""
    if (ROOT / "PKG-INFO").exists():
        assert all((ROOT / name).read_bytes() == (ROOT / origin).read_bytes() for name, origin in LINKS.items())
        return
    links = {path.relative_to(ROOT).as_posix(): path for path in PACKAGE.rglob("*") if path.is_symlink()}
    assert {name: path.resolve().relative_to(ROOT).as_posix() for name, path in links.items()} == LINKS
    assert not any(path.readlink().is_absolute() for path in links.values())


@pytest.mark.long
def test_a_wheel_that_is_built_has_every_file(tmp_path: Path) -> None:
    """With contents in place of links."""
    source = source_of_wheel(tmp_path / "source")
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(tmp_path), str(source)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if ran.returncode and "setuptools" in ran.stderr and "No matching distribution" in ran.stderr:
        pytest.skip("setuptools cannot be fetched here")
    assert ran.returncode == 0, ran.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        packed = {name: archive.read(name) for name in archive.namelist()}
    files = [*data(), *(path for path in PACKAGE.rglob("*.py"))]
    assert len(files) > 700
    for path in files:
        assert packed.get(path.relative_to(ROOT).as_posix()) == path.read_bytes(), path


def source_of_wheel(folder: Path) -> Path:
    """What a wheel is built of, copied into a folder."""
    (folder / "tools").mkdir(parents=True)
    for name in ("refemu", "docs", "examples/kernels"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=ignored)
    for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE", "tools/backend.py", "tools/archives.py"):
        shutil.copy(ROOT / name, folder / name)
    return folder


@pytest.mark.long
def test_modes_and_dates_do_not_change_wheels(tmp_path: Path) -> None:
    """As with another umask, on another day."""
    sources = [source_of_wheel(tmp_path / name) for name in ("one", "other")]
    for path in sources[1].rglob("*"):
        if not path.is_symlink():
            path.chmod(0o700 if path.is_dir() else 0o600)
            os.utime(path, (1e9, 1e9))
    for source in sources:
        run([sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", source / "built", source])
    one, other = (next((source / "built").glob("*.whl")).read_bytes() for source in sources)
    assert one == other


@pytest.mark.long
def test_complete_sdist_builds_a_working_wheel(tmp_path: Path) -> None:
    """With the dependencies that the metadata name, and no others."""
    source, built = tmp_path / "source", tmp_path / "built"
    files = tracked()
    for name in files:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, source / name, follow_symlinks=False)
    run([sys.executable, "-m", "build", "-q", "--sdist", "-o", built, source])
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
        packed.extractall(tmp_path, filter="data")
    assert set(files) - names == set()
    (unpacked,) = (path for path in tmp_path.glob("refemu-*") if path.is_dir())

    run([sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", built, unpacked])
    (wheel,) = built.glob("*.whl")
    stubs = {f"refemu/units/{paper}/{name}/__init__.pyi" for name, paper in units.PAPERS.items()}
    assert {"refemu/units/__init__.pyi", *stubs} <= set(zipfile.ZipFile(wheel).namelist())  # made at the build
    run([sys.executable, "-m", "venv", tmp_path / "fresh"])
    command = tmp_path / "fresh" / "bin"
    run([command / "python", "-m", "pip", "install", "-q", wheel])
    listed = run([command / "refemu", "list", "units"])
    assert "orizuru" in listed and "paged_attention" in listed
    assert "schema" in run([command / "refemu", "schema", "list"])
    assert "reserved code" in run([command / "refemu", "explain", "D-olive-19"])


def tracked() -> list[str]:
    """Files of the repository; outside a checkout there is nothing to compare an sdist with."""
    ran = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if ran.returncode or not (ROOT / ".git").exists():
        pytest.skip("no git checkout")
    return [name for name in ran.stdout.splitlines() if (ROOT / name).exists() or (ROOT / name).is_symlink()]


def run(words: Sequence[str | Path]) -> str:
    """Output of a command, run outside the repository; skips where the package index is out of reach."""
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [str(word) for word in words]
    ran = subprocess.run(
        command,
        cwd=Path(sys.executable).anchor,
        env=variables,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    said = ran.stderr + ran.stdout
    if ran.returncode and "No matching distribution" in said:
        pytest.skip("packages cannot be fetched here")
    assert ran.returncode == 0, said
    return ran.stdout
