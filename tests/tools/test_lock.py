"""The lock of the tested environment: complete, with hashes, without an index, and what bootstrap installs from it."""

import configparser
import re
import runpy
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from tools import bootstrap

ROOT = Path(__file__).resolve().parents[2]
TEXT = bootstrap.LOCK.read_text("ascii")
BLOCKS = TEXT.split("\n\n")[1:]
EXTRAS = set().union(*bootstrap.CONTAINS.values()) - bootstrap.UNLOCKED
SETTINGS = configparser.ConfigParser()
SETTINGS.read(ROOT / "setup.cfg")


def locked(extras: set[str]) -> dict[str, list[Version]]:
    found: dict[str, list[Version]] = {}
    for block in bootstrap.locked(extras):
        name, version = re.split(r"==|\s", block.splitlines()[1])[:2]
        found.setdefault(name, []).append(Version(version))
    return found


def required(extra: str) -> list[Requirement]:
    """Requirements of refemu with an extra."""
    core, extras = SETTINGS["options"]["install_requires"], SETTINGS["options.extras_require"]
    lines = [line for line in f"{core}\n{extras[extra]}".splitlines() if line.strip() and not line.startswith("#")]
    direct = [Requirement(line) for line in lines]
    nested = [each for own in direct if own.name == "refemu" for more in own.extras for each in required(more)]
    return [each for each in direct if each.name != "refemu"] + nested


def test_every_package_has_hashes_and_no_address() -> None:
    for block in BLOCKS:
        extras, requirement, *hashes = block.strip().replace(" \\", "").splitlines()
        assert set(extras.split()[1:]) <= EXTRAS and re.match(r"[a-z0-9-]+==\S+( ; .+)?$", requirement), block
        assert hashes and all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", each) for each in hashes), block
    assert len(BLOCKS) > 100 and not re.search(r"://|index|www\.", TEXT)


@pytest.mark.parametrize("extra", sorted(EXTRAS))
def test_lock_meets_every_requirement(extra: str) -> None:
    """A change of setup.cfg needs `make lock`."""
    known = locked({extra})
    for each in required(extra):
        name = re.sub(r"[-_.]+", "-", each.name).lower()
        assert known.get(name) and all(each.specifier.contains(version, prereleases=True) for version in known[name])
    assert "setuptools" in known


@pytest.mark.parametrize(
    ("wheel", "fits"),
    [
        ("hf_xet-1.8.0-cp38-abi3-manylinux2014_x86_64.manylinux_2_17_x86_64.whl", True),
        ("numpy-2.4.6-cp314-cp314-macosx_14_0_arm64.whl", True),
        ("numpy-2.4.6-cp310-cp310-macosx_14_0_arm64.whl", False),
        ("numpy-2.4.6-cp312-cp312-win32.whl", False),
        ("numpy-2.4.6-cp312-cp312-win_amd64.whl", True),
        ("six-1-py2.py3-none-any.whl", True),
        ("numpy-2.4.6-pp311-pypy311_pp73-win_amd64.whl", False),
        ("a-1-cp312-cp312-musllinux_1_2_i686.whl", False),
    ],
)
def test_wheels_of_supported_pythons_are_locked(wheel: str, fits: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    assert runpy.run_path(str(ROOT / "tools/lock.py"), run_name="imported")["fits"](wheel) == fits


def test_environment_depends_on_lock_and_latest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LATEST", raising=False)
    usual = bootstrap.key()
    monkeypatch.setenv("LATEST", "1")
    assert bootstrap.latest() and bootstrap.key() != usual
    for word in ("", "0"):
        monkeypatch.setenv("LATEST", word)
        assert not bootstrap.latest()


def test_pip_installs_locked_packages_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    calls: list[tuple[str, ...]] = []
    monkeypatch.setattr(bootstrap, "pip", lambda venv, *words: calls.append(words))
    monkeypatch.delenv("LATEST", raising=False)
    bootstrap.install(tmp_path, {"models"})
    assert [words[0] for words in calls] == ["--require-hashes", "--no-deps"]
    wanted = (tmp_path / "refemu-locked.txt").read_text()
    assert "\ngguf==" in wanted and "\nnumpy==" in wanted and "\npytest==" not in wanted
    monkeypatch.setenv("LATEST", "1")
    bootstrap.install(tmp_path, {"models"})
    assert calls[2:] == [("-e", f"{ROOT}[models]")]


@pytest.mark.long
def test_archive_with_another_hash_is_rejected(tmp_path: Path) -> None:
    wheel, info = tmp_path / "toy-1-py3-none-any.whl", "toy-1.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: toy\nVersion: 1\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    (tmp_path / "locked.txt").write_text(f"# models\ntoy==1 \\\n    --hash=sha256:{'0' * 64}\n")
    words = ["--no-index", "--find-links", str(tmp_path), "--target", str(tmp_path / "new"), "--require-hashes"]
    command = [sys.executable, "-m", "pip", "install", *words, "-r", str(tmp_path / "locked.txt")]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode and "DO NOT MATCH THE HASHES" in ran.stderr and not (tmp_path / "new").exists()
