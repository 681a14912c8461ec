"""Wheels and source archives from the package index, through pip, with a required sha256.

Nothing that is downloaded runs. pip asks setuptools for the name and version of a source archive, which would run the
archive's `setup.py`; pip finds `build_backend` under that name instead, and fetches no build tools.
"""

import contextlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from refemu.arith.checks import Refused
from refemu.models import build_backend
from refemu.models.fetch.catalog import Package

_LAST_LINES = 6
_HASHES = re.compile(r"Expected sha256 ([0-9a-f]{64})\s+Got\s+([0-9a-f]{64})")
_POLL = 0.1  # seconds between two reads of the downloaded size


def archive(package: Package, folder: Path, progress: Callable[[str, int, int], None]) -> Path:
    """Download the wheel or source archive of `package` into `folder`.

    folder: nothing is written outside it, not even pip's temporary files. progress: called as progress(what, done,
    total) in bytes. Raises Refused, with a next step, for no pip, no index, no space, or another sha256. An interrupt
    ends pip first.
    """
    if not sys.executable or importlib.util.find_spec("pip") is None:
        raise Refused(
            f"this Python has no pip to fetch {package.name} with; run: python -m ensurepip, {_by_hand(package)}"
        )
    _run(package, folder, progress)
    archives = sorted((folder / "archive").glob(f"*{package.suffix}"))
    if len(archives) != 1:
        raise Refused(
            f"pip must leave one {package.form} of {package.name}, got {len(archives)}; see pip's "
            f"settings, {_by_hand(package)}"
        )
    return archives[0]


def _run(package: Package, folder: Path, progress: Callable[[str, int, int], None]) -> None:
    (folder / "tmp").mkdir()
    requirements = folder / "requirements.txt"
    requirements.write_text(f"{package.name}=={package.version} --hash=sha256:{package.sha256}\n", "ascii")
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--no-deps",
        _only(package),
        "--require-hashes",
        "--no-build-isolation",
        "--no-cache-dir",
        "--no-input",
        "--disable-pip-version-check",
        "--progress-bar=off",
        "--no-color",
        "-r",
        str(requirements),
        "-d",
        str(folder / "archive"),
    ]
    code, said = _wait(command, folder, package, progress)
    if code != 0:
        raise Refused(*_why(package, folder, code, said))


def _only(package: Package) -> str:
    """The pip option that allows only this kind of file."""
    return "--only-binary=:all:" if package.suffix == ".whl" else f"--no-binary={package.name}"


def _wait(
    command: list[str], folder: Path, package: Package, progress: Callable[[str, int, int], None]
) -> tuple[int, str]:
    """Exit code and output of pip; reports how much has arrived. pip never outlives this call.

    The output goes through a pipe, because a log file would be cut short on the full disk that it reports.
    """
    environment = {
        **os.environ,
        **_backend(package, folder / "backend"),
        "TMPDIR": str(folder / "tmp"),
        "PYTHONIOENCODING": "utf-8",
        "PYTHONUNBUFFERED": "1",  # both streams in one order
    }
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment,
        encoding="utf-8",
        errors="replace",
    ) as pip:
        try:
            while True:
                progress(f"download {package.name}", min(_arrived(folder, package), package.size), package.size)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    said, _ = pip.communicate(timeout=_POLL)
                    return pip.returncode, said
        finally:
            pip.kill()


def _backend(package: Package, folder: Path) -> dict[str, str]:
    """Write `build_backend` as a package `setuptools`. Returns the environment in which pip finds it.

    That environment imports nothing from the current folder, as `python -m pip` would.
    """
    tools = folder / "setuptools"
    answer = tools / f"{package.name.replace('-', '_')}-{package.version}.dist-info"
    answer.mkdir(parents=True)
    (answer / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package.name}\nVersion: {package.version}\n")
    (tools / "__init__.py").touch()
    shutil.copyfile(build_backend.__file__, tools / "build_meta.py")
    path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    return {"PYTHONPATH": path, "PYTHONSAFEPATH": "1", "PIP_USE_PEP517": "1"}


def _arrived(folder: Path, package: Package) -> int:
    """Size of the largest file that pip is writing."""
    largest = 0
    with contextlib.suppress(OSError):  # pip deletes folders meanwhile
        for file in folder.rglob(f"*{package.suffix}"):
            largest = max(largest, file.stat().st_size)
    return largest


def _why(package: Package, folder: Path, code: int, said: str) -> tuple[str, ...]:
    """Description of a failure with a next step, and details."""
    hashes = _HASHES.search(said)
    if hashes:
        return (
            f"{package.name}=={package.version}: the {package.form} must have sha256 {hashes[1]}, got {hashes[2]} from "
            f"the index; nothing was saved. Try another index, {_by_hand(package)}",
        )
    if "No space left on device" in said:
        return (
            f"no space left in {folder.parent} for the {package.form} of {package.name} "
            f"({package.size // 1_000_000} MB); free some, or set REFEMU_HOME to another folder. "
            "No incomplete file remains",
        )
    return (
        f"pip could not download {package.name}=={package.version} (exit code {code}); check the network and "
        f"pip's index settings, {_by_hand(package)}. pip's last lines:",
        *said.strip().splitlines()[-_LAST_LINES:],
    )


def _by_hand(package: Package) -> str:
    return f"or give --from FILE, the {package.form} of {package.name} {package.version} or the model file in it"
