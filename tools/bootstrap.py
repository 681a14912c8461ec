"""Make a virtual environment and install refemu with the named extras; standard library only.

    python tools/bootstrap.py VENV EXTRA

Packages are those of tools/locked.txt, with their hashes; with LATEST=1 in the environment, the newest that setup.cfg
allows. Names each package that the machine lacks. A stamp in the environment makes repeated calls fast.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "tools" / "locked.txt"
UNLOCKED = {"hf", "conformance-hf"}  #: extras with torch, which has builds by the kind of processor
OLDEST, NEWEST = (3, 11), (3, 14)
CONTAINS = {
    "models": {"models"},
    "test": {"models", "test"},
    "conformance": {"models", "test", "conformance"},
    "conformance-hf": {"models", "test", "hf", "conformance-hf"},
    "dev": {"models", "test", "dev"},
    "bench": {"models", "bench"},
    "fuzz": {"models", "test", "fuzz"},
    "release": {"models", "test", "release"},
    "rtl": {"rtl"},
    "formal": {"models", "test", "formal"},
    "browser": {"models", "test", "browser"},
    "docs": {"models", "test", "docs"},
}


def main() -> None:
    venv, extra = ROOT / sys.argv[1], sys.argv[2]
    require_python()
    stamp = venv / "refemu-installed"
    done = stamp.read_text().split() if stamp.exists() else []
    if done[:1] == [key()] and CONTAINS[extra] <= set(done[1:]):
        return
    if extra in ("test", "conformance", "conformance-hf", "dev"):
        require_compiler()
    if not (venv / "bin" / "python").exists():
        make_environment(venv)
    wanted = CONTAINS[extra] | (set(done[1:]) if done[:1] == [key()] else set())
    install(venv, wanted)
    if "test" in wanted:
        subprocess.run([str(venv / "bin" / "python"), "-m", "tools.stubs"], cwd=ROOT, check=True)  # for editors
    stamp.write_text(" ".join([key(), *sorted(wanted)]) + "\n")


def key() -> str:
    """Digest of everything that decides what is installed."""
    files = ("setup.cfg", "pyproject.toml", "tools/locked.txt")
    parts = [sys.version.encode(), str(latest()).encode(), *(ROOT.joinpath(name).read_bytes() for name in files)]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def latest() -> bool:
    """Whether the newest packages are wanted."""
    return os.environ.get("LATEST", "") not in ("", "0")


def require_python() -> None:
    if not OLDEST <= sys.version_info[:2] <= NEWEST:
        stop(
            f"Python {OLDEST[0]}.{OLDEST[1]} to {NEWEST[0]}.{NEWEST[1]} is needed, got {sys.version.split()[0]}",
            "choose another: make PYTHON=python3.12 ...   (Debian, Ubuntu: apt-get install python3.12)",
        )


def require_compiler() -> None:
    if not any(shutil.which(name) for name in ("cc", "gcc", "clang")):
        stop(
            "no C compiler found (the tests compile the exported C headers)",
            "Debian, Ubuntu: apt-get install gcc libc6-dev",
        )


def make_environment(venv: Path) -> None:
    where, version = os.path.relpath(venv, ROOT), sys.version.split()[0]
    print(f"making the virtual environment {where} with Python {version}", flush=True)
    package = f"python3.{sys.version_info[1]}-venv"
    advice = f"Debian, Ubuntu: apt-get install {package}   (or python3-venv)"
    try:
        import ensurepip  # noqa: F401
        import venv as module
    except ImportError:
        stop("this Python cannot make virtual environments (module venv or ensurepip is missing)", advice)
    try:
        module.create(venv, with_pip=True, symlinks=os.name != "nt")
    except (OSError, subprocess.CalledProcessError) as error:
        shutil.rmtree(venv, ignore_errors=True)
        stop(f"the virtual environment could not be made: {error}", advice)


def install(venv: Path, extras: set[str]) -> None:
    which = "newest" if latest() else "locked"
    print(
        f"installing refemu[{','.join(sorted(extras))}], {which} packages (a minute or two the first time)", flush=True
    )
    if latest() or extras & UNLOCKED:
        pip(venv, "-e", f"{ROOT}[{','.join(sorted(extras))}]")
        return
    wanted = venv / "refemu-locked.txt"
    wanted.write_text("\n".join(locked(extras)))
    pip(venv, "--require-hashes", "-r", str(wanted))
    pip(venv, "--no-deps", "--no-build-isolation", "-e", str(ROOT))


def locked(extras: set[str]) -> list[str]:
    """Packages of the lock that refemu with some extras needs, with their hashes."""
    _, *blocks = LOCK.read_text("ascii").split("\n\n")
    return [block for block in blocks if extras & set(block.partition("\n")[0].split()[1:])]


def pip(venv: Path, *words: str) -> None:
    # most modules are never imported: Python compiles the others when they are
    options = ["--disable-pip-version-check", "--no-compile", "-q"]
    if subprocess.run([str(venv / "bin" / "python"), "-m", "pip", "install", *options, *words], check=False).returncode:
        stop(
            "pip could not install refemu (its own message is above)",
            "check that the package index is reachable (pip config list) or set PIP_INDEX_URL, then run it again; "
            "LATEST=1 installs the newest packages instead of those of tools/locked.txt",
        )


def stop(problem: str, advice: str) -> None:
    sys.exit(f"refemu: {problem}\n        {advice}")


if __name__ == "__main__":
    main()
