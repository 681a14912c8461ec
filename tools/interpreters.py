"""Python interpreters to test refemu with: those of this machine, or Debian packages, unpacked and not installed.

Libraries are installed as wheels into a separate folder, with this interpreter's pip. Standard library only.
"""

import configparser
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import debian

ROOT = Path(__file__).resolve().parent.parent
LOADERS = {"amd64": "lib64/ld-linux-x86-64.so.2", "arm64": "lib/ld-linux-aarch64.so.1"}
WHEELS = {"amd64": "x86_64", "arm64": "aarch64"}
TESTING = ["pytest>=8", "hypothesis>=6.100"]
LIMIT = 3600  # seconds for one run on a busy machine


@dataclass(frozen=True)
class Interpreter:
    """A program that runs Python, and its origin."""

    program: Path
    origin: str
    libraries: Path | None = None  #: folder of its libraries; None: its own

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run Python with refemu and its libraries on the path, in the repository."""
        path = [str(ROOT), *([str(self.libraries)] if self.libraries else [])]
        others = ("PYTHON", "REFEMU_", "NUMBA_")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(others)}
        environment = {**kept, "PYTHONPATH": os.pathsep.join(path), "PYTHONNOUSERSITE": "1"}
        return subprocess.run(
            [str(self.program), *arguments],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT,
            env=environment,
        )


def native(version: str, folder: Path) -> Interpreter:
    """Python `version`, such as 3.12, for this machine: this one, another that it has, or unpacked. Missing if none."""
    if version == f"{sys.version_info[0]}.{sys.version_info[1]}":
        return Interpreter(Path(sys.executable), "this environment")
    if sys.platform != "linux":
        raise debian.Missing("other versions are tested on Linux only")
    program = _installed(version)
    if program is not None:
        return Interpreter(program, str(program), wheels(version, debian.native(), folder))
    architecture = debian.native()
    if architecture not in LOADERS:
        raise debian.Missing(f"python{version} is not installed, and no package of it is available for {architecture}")
    offered, package = debian.first_with(folder / "apt", architecture, [f"python{version}"])
    root = unpacked(offered, [package, "libstdc++6"], folder / f"{package}-{architecture}")
    program = root / f"usr/bin/{package}"
    libraries = [str(path) for path in (root / "usr/lib").glob("*-linux-gnu")]
    start = [root / LOADERS[architecture], "--library-path", ":".join(libraries), "--argv0", '"$0"', program]
    return Interpreter(wrapped(program, start), f"{offered.root.name} packages", wheels(version, architecture, folder))


def wrapped(program: Path, start: list[object]) -> Path:
    """A script next to `program` that runs it by the command `start`; Python uses the script as its executable."""
    script = program.with_name("refemu-python")
    script.write_text(f'#!/bin/sh\nexec {" ".join(map(str, start))} "$@"\n')
    script.chmod(0o755)
    return script


def unpacked(offered: debian.Packages, packages: list[str], into: Path) -> Path:
    """The folder with the packages in it."""
    return _whole(into, lambda folder: offered.unpack(packages, folder))


def wheels(version: str, architecture: str, folder: Path) -> Path:
    """The folder with the libraries of refemu and its tests for that Python; Missing without such wheels."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    wanted = [*config["options"]["install_requires"].split(), *TESTING]
    machine = WHEELS[architecture]
    tags = [f"manylinux2014_{machine}", *(f"manylinux_2_{glibc}_{machine}" for glibc in range(17, 29))]
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--disable-pip-version-check",
        "--no-compile",
        "--only-binary=:all:",
        "--implementation=cp",
        f"--python-version={version}",
        *(f"--platform={tag}" for tag in tags),
    ]

    def install(into: Path) -> None:
        done = subprocess.run([*command, "--target", str(into), *wanted], check=False, capture_output=True, text=True)
        if done.returncode:
            last = next((line for line in reversed(done.stderr.splitlines()) if line.startswith("ERROR")), "")
            raise debian.Missing(f"no wheels for Python {version} on {machine}: {last}")

    return _whole(folder / f"wheels-{version}-{architecture}", install)


def _installed(version: str) -> Path | None:
    """python3.x of the PATH or of pyenv that starts and is that version."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    candidates = [shutil.which(f"python{version}"), *sorted(pyenv.glob(f"{version}.*/bin/python"))]
    for program in filter(None, candidates):
        shown = subprocess.run(
            [program, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"],
            check=False,
            capture_output=True,
            text=True,
        )
        if shown.returncode == 0 and shown.stdout.strip() == version:
            return Path(program)
    return None


def _whole(folder: Path, fill: Callable[[Path], None]) -> Path:
    """`folder`, filled under another name if missing, so that it is complete or absent."""
    if not folder.exists():
        part = folder.with_name(f"{folder.name}.part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        fill(part)
        part.rename(folder)
    return folder
