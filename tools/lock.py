"""Write tools/locked.txt: the packages of the tested environment with the sha256 of every archive that pip may take.

    python tools/lock.py [UV]

Takes the newest versions that setup.cfg allows, for all supported Pythons and systems, by `uv pip compile`.
The file names no index. `make test` and the like install from it; LATEST=1 installs the newest versions instead.
"""

import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bootstrap import CONTAINS, LOCK, NEWEST, OLDEST, ROOT, UNLOCKED

EXTRAS = sorted(set().union(*CONTAINS.values()) - UNLOCKED)
PYTHONS = {"py3", *(f"cp3{minor}" for minor in range(OLDEST[1], NEWEST[1] + 1))}
OLD = {f"cp3{minor}" for minor in range(2, OLDEST[1])}  #: whose stable interface later Pythons have
SYSTEMS = re.compile(r"any|(many|musl)linux.*_(x86_64|aarch64)|macosx_.*|win_(amd64|arm64)")
SUPPORTED = rf"python_full_version >= '{OLDEST[0]}\.{OLDEST[1]}'"  #: of every Python that refemu supports
HEAD = """\
# Packages of the tested environment, written by `make lock`. Before each: the extras of setup.cfg that need it.
"""


def main() -> None:
    uv = sys.argv[1] if len(sys.argv) > 1 else "uv"
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "build.txt").write_text("\n".join(build) + "\n")
        everything = compiled(uv, folder, EXTRAS, "pylock.all.toml")
        packages = tomllib.loads(everything.read_text())["packages"]
        packages = [each for each in packages if each["name"] != "refemu"]
        (folder / "all.txt").write_text("".join(f"{line(each)}\n" for each in packages))
        needs = {extra: names(compiled(uv, folder, [extra], f"{extra}.txt", "all.txt")) for extra in EXTRAS}
    LOCK.write_text("\n".join([HEAD, *(block(each, needs) for each in packages)]))
    print(f"{LOCK.relative_to(ROOT)}: {len(packages)} packages, {LOCK.stat().st_size} bytes")


def compiled(uv: str, folder: Path, extras: list[str], name: str, constraints: str = "") -> Path:
    """A file of `folder` with everything that refemu with some extras, and its build, need."""
    words = [uv, "pip", "compile", "-q", "--universal", f"--python-version={OLDEST[0]}.{OLDEST[1]}", "--no-header"]
    words += ["--no-annotate", *(f"--extra={extra}" for extra in extras), str(ROOT / "setup.cfg"), "build.txt"]
    words += [f"--constraints={constraints}"] if constraints else []
    subprocess.run([*words, "-o", name], cwd=folder, check=True)
    return folder / name


def names(path: Path) -> set[str]:
    """Packages of a file of requirements."""
    return {re.split(r"[=\s;\[]", text)[0] for text in path.read_text().splitlines()}


def line(package: dict[str, Any]) -> str:
    """A package as a requirement."""
    marker = re.sub(rf"^{SUPPORTED}( and |$)", "", package.get("marker", ""))
    return f"{package['name']}=={package['version']}" + (f" ; {marker}" if marker else "")


def block(package: dict[str, Any], needs: dict[str, set[str]]) -> str:
    """A package with the extras that need it and its hashes."""
    extras = [extra for extra in EXTRAS if package["name"] in needs[extra]]
    hashes = sorted(set(digests(package)))
    return (
        " \\\n".join([f"# {' '.join(extras)}\n{line(package)}", *(f"--hash=sha256:{each}" for each in hashes)]) + "\n"
    )


def digests(package: dict[str, Any]) -> Iterator[str]:
    """The sha256 of every wheel that a supported Python and system takes; without a wheel, of the source archive."""
    wheels = [each for each in package.get("wheels", []) if fits(each["url"].rpartition("/")[2])]
    for each in wheels or [package["sdist"]]:
        yield each["hashes"]["sha256"]


def fits(wheel: str) -> bool:
    """Whether a supported Python and system can take a wheel of this name."""
    python, abi, system = wheel.removesuffix(".whl").split("-")[-3:]
    right = PYTHONS | OLD if "abi3" in abi.split(".") else PYTHONS
    return bool(right & set(python.split("."))) and any(SYSTEMS.fullmatch(each) for each in system.split("."))


if __name__ == "__main__":
    main()
